"""kill -9 of the real process under load: what was acknowledged is there, what was not is whole or absent, `svc check` agrees."""

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
ENOUGH = 200  # acknowledged writes before the kill


class Writer(Client):
    """Puts records, and deletes now and then."""

    def request(self, number: int) -> tuple[str, Any, str, str, bytes | Iterable[bytes] | None, Mapping[str, str]]:
        key = f"{self.name}-{self.random.randrange(40)}"
        if self.random.random() >= 0.8:
            return key, None, "DELETE", f"/Product/{key}", None, {}
        state = {"name": f"s{number}", "price": number, "tags": [f"t{number % 5}", f"u{number % 3}"], "id": key}
        return key, state, "PUT", f"/Product/{key}", json.dumps(state).encode(), {"Content-Type": "application/json"}


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    server = Process(tmp_path / "root").start()
    expected = Expected()
    for round_number in range(ROUNDS):
        writers = [Writer(server.port, f"w{number}", round_number * 100 + number) for number in range(WRITERS)]
        expected.kill(server.kill, writers, answers=ENOUGH, delay=random.Random(round_number).random() * 0.2)
        check(server.root)
        server.start()
        with server.client() as client:
            for key in expected.all_keys():
                response = client.get(f"/Product/{key}")
                expected.found(key, response.json() if response.status_code == 200 else None)
            indexed = {r["id"] for n in range(5) for r in client.get(f"/Product/?tags=t{n}").json()}
            assert indexed == {key for key, state in expected.acknowledged.items() if state is not None}
    assert server.stop() == 0
