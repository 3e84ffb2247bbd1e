"""kill -9 in the middle of sign-ups and removals: a user and its record are both there, or neither is, whichever database commits first (rows §2.2)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Process, authorization
from tests.support.accounts import PASSWORD, write_site
from tests.support.crash import Client, Expected, check, rounds

pytestmark = pytest.mark.programs

ROUNDS = rounds(3)
CLIENTS = 4
ENOUGH = 24  # acknowledged sign-ups and removals before the kill
ENTRY = "{role: member, limits: {signUps: 1000000}}"


class Member(Client):
    """Signs up, and removes the account of the sign-up before now and then."""

    def request(self, number: int) -> tuple[str, Any, str, str, bytes | Iterable[bytes] | None, Mapping[str, str]]:
        there = [key for key, state in self.acknowledged.items() if state is not None]
        if there and self.random.random() < 0.4:
            key = self.random.choice(there)
            return key, None, "DELETE", "/accounts/me", None, {"Authorization": authorization(key, PASSWORD)}
        key = f"{self.name}-{number}"
        fields = {"username": key, "password": PASSWORD, "name": f"n{number}"}
        return key, fields["name"], "POST", "/accounts", json.dumps(fields).encode(), {"Content-Type": "application/json"}


@pytest.mark.parametrize("database", ["data", "zoo"])
@pytest.mark.parametrize("instances", [1, 2])
def test_users_and_records_agree(tmp_path: Path, database: str, instances: int) -> None:
    schema = f"""
    type Person @table(database: "{database}") @account {{ username: ID @primaryKey  name: String }}
    type Note @table @export {{ id: ID @primaryKey }}
    """
    site = write_site(tmp_path / "site", ENTRY, schema=schema)
    server = Process(tmp_path / "root", site, env={"INSTANCES": str(instances)}).start()
    expected = Expected()
    for number in range(ROUNDS):
        members = [Member(server.port, f"r{number}c{client}", number * 100 + client) for client in range(CLIENTS)]
        expected.kill(server.kill, members, answers=ENOUGH, delay=random.Random(number).random() * 0.2)
        check(server.root)
        server.start()
        records = server.operate("search_by_value", database=database, table="Person", search_attribute="username", search_value="*").json()
        found = {record["username"]: record["name"] for record in records}
        users = {user["username"] for user in server.operate("list_users").json()} - {"admin"}
        assert users == found.keys()
        for key in expected.all_keys():
            expected.found(key, found.get(key))
        notes = server.operate("search_by_value", database="system", table="svc_account_change", search_attribute="id", search_value="*")
        assert notes.json() == []
    assert server.stop() == 0
