"""kill -9 of the real process while clients write in SQL: what was acknowledged is there, a statement that was not is there as a whole or not at all."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Process
from tests.support.crash import Client, Expected, check, rounds

pytestmark = pytest.mark.programs

ROUNDS = rounds(2)
WRITERS = 4
ENOUGH = 150  # acknowledged statements before the kill
PARTS = 60  # records of one long statement: more than a turn writes

UPSERT = "INSERT INTO data.Product (id, name, stock) VALUES (:id, :name, :stock) ON CONFLICT (id) DO UPDATE SET name = excluded.name, stock = excluded.stock"
INSERT = "INSERT INTO data.Product (id, name, stock) VALUES (:id, :name, :stock)"
UPDATE = "UPDATE data.Product SET name = :name, stock = :stock WHERE id = :id"
DELETE = "DELETE FROM data.Product WHERE id = :id"
PUT_ALL = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :parts)"
    " INSERT INTO data.Product (id, stock) SELECT :id || '/' || i, :stock FROM n WHERE true ON CONFLICT DO UPDATE SET stock = excluded.stock"
)


class Writer(Client):
    """Inserts records, changes, and deletes them; now and then many by one statement, all of which have one number."""

    def request(self, number: int) -> tuple[str, Any, str, str, bytes | Iterable[bytes] | None, Mapping[str, str]]:
        if self.random.random() < 0.1:
            key, state = f"many-{self.name}", {"stock": number}
            return self._statement(key, state, PUT_ALL, {"id": key, "parts": PARTS, "stock": number})
        key = f"{self.name}-{self.random.randrange(20)}"
        state = {"name": f"s{number}", "stock": number}
        values = {"id": key, **state}
        if self.random.random() < 0.25:
            return self._statement(key, None, DELETE, {"id": key})
        if key not in self.acknowledged:  # not yet in this round: a kill may have left it there
            return self._statement(key, state, UPSERT, values)
        if self.acknowledged[key] is None:
            return self._statement(key, state, INSERT, values)
        return self._statement(key, state, self.random.choice((UPDATE, UPSERT)), values)

    @staticmethod
    def _statement(key: str, state: Any, sql: str, parameters: dict[str, Any]) -> tuple[str, Any, str, str, bytes, Mapping[str, str]]:
        body = json.dumps({"sql": sql, "parameters": parameters}).encode()
        return key, state, "POST", "/sql", body, {"Content-Type": "application/json"}


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    server = Process(tmp_path / "root").start()
    expected = Expected()
    for round_number in range(ROUNDS):
        writers = [Writer(server.port, f"w{number}", round_number * 100 + number) for number in range(WRITERS)]
        expected.kill(server.kill, writers, answers=ENOUGH, delay=random.Random(round_number).random() * 0.2)
        check(server.root)
        server.start()
        with server.client() as client:
            found = {record["id"]: record for record in client.get("/Product/?id=ge=w").json()}
            for key in expected.all_keys():
                if key.startswith("many-"):
                    parts = client.get(f"/Product/{key}/?select(stock)").json()
                    assert len(parts) in (0, PARTS) and len(set(parts)) <= 1, "a statement is written as a whole"
                    expected.found(key, {"stock": parts[0]} if parts else None)
                else:
                    record = found.get(key)
                    expected.found(key, record and {"name": record["name"], "stock": record["stock"]})
    assert any(key.startswith("many-") for key in expected.acknowledged)
    assert server.stop() == 0
