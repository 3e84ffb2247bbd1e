"""A store with users, and passwords that cost nothing."""

import functools
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import pytest

from svc.auth.passwords import Verification
from svc.auth.token_keys import TokenKeys
from svc.auth.users import UserDirectory, new_user_record
from svc.clock import FakeClock
from svc.loop import new_loop
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition
from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE, ensure_system
from tests.support.prepared import place_token_keys

GARDENER = {
    "data": {
        "tables": {
            "plant": {"read": True, "insert": True, "update": True, "delete": False, "attribute_permissions": []},
        }
    }
}


class World:
    """`admin` is a super user, `ann` a gardener; every password is the user's name."""

    def __init__(self, path: Path) -> None:
        self.clock = FakeClock()
        self.store = Store(path, clock=self.clock)
        if "data" not in self.store.databases:
            self._fill()
        self.directory = UserDirectory(self.store)

    def _fill(self) -> None:
        ensure_system(self.store)
        self.store.open_database("data").define_table(
            TableDefinition(
                "plant",
                attributes=(
                    Attribute("id", "ID", primary_key=True),
                    Attribute("name", "String"),
                    Attribute("price", "Float"),
                    Attribute("madeAt", "Date", created_time=True),
                ),
            )
        )
        self.role("super_user", {"super_user": True})
        self.role("gardener", GARDENER)
        self.user("admin", "super_user")
        self.user("ann", "gardener")

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """The result of what is awaited, on a loop that commits at the end of each turn."""
        loop, selector = new_loop(self.clock)

        def end_turn() -> bool:
            if self.store.has_pending:
                self.store.commit_turn()
            self.store.end_turn()
            return self.store.has_pending

        async def awaited() -> Any:
            return await work()

        selector.end_turn = end_turn
        try:
            return loop.run_until_complete(awaited())
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    def put(self, table: str, key: str, record: dict[str, Any]) -> None:
        transaction = self.store.begin()
        transaction.put(self.store.databases[SYSTEM].tables[table], key, record)
        transaction.apply()
        self.store.commit_turn()

    def role(self, name: str, permission: object, **more: Any) -> None:
        self.put(ROLE_TABLE, name, {"id": name, "role": name, "permission": permission, **more})

    def user(self, name: str, role: str | None, *, password: str | None = None, active: object = True) -> None:
        self.put(USER_TABLE, name, {**new_user_record(name, password or name, role or ""), "active": active})

    def alter(self, name: str, **attributes: Any) -> None:
        """Change attributes of a user, as `alter_user` does."""
        transaction = self.store.begin()
        transaction.patch(self.store.databases[SYSTEM].tables[USER_TABLE], name, attributes)
        transaction.apply()
        self.store.commit_turn()

    def drop(self, table: str, key: str) -> None:
        transaction = self.store.begin()
        transaction.delete(self.store.databases[SYSTEM].tables[table], key)
        transaction.apply()
        self.store.commit_turn()


def plain_verify(password: str, stored: str | None, function: str | None = None, preferred: str = "argon2id") -> Verification:
    if stored == "old:" + password:
        return Verification(True, "hash:" + password)
    return Verification(stored == "hash:" + password)


@pytest.fixture(autouse=True)
def plain_passwords(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if request.module.__name__.endswith("test_passwords"):
        return
    monkeypatch.setattr("svc.auth.users.hash_password", lambda password, function="argon2id": "hash:" + password)
    monkeypatch.setattr("svc.auth.verifier.verify_password", plain_verify)


@functools.cache
def prepared_world() -> Path:
    """The store of a world, made once and copied."""
    path = Path(tempfile.mkdtemp(prefix="world-")) / "store"
    World(path).store.close()
    return path


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    copytree(prepared_world(), tmp_path / "store", ignore=ignore_patterns("lock.mdb"))
    found = World(tmp_path / "store")
    yield found
    found.store.close()


@pytest.fixture(scope="session")
def made_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with keys for tokens: short ones, made once."""
    root = tmp_path_factory.mktemp("made")
    place_token_keys(root)
    return root / "keys"


@pytest.fixture
def keys(made_keys: Path, tmp_path: Path) -> TokenKeys:
    """Keys that have been read."""
    copytree(made_keys, tmp_path / "keys")
    found = TokenKeys(tmp_path / "keys", bits=2048)
    found.prepare()
    return found
