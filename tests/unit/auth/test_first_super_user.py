"""The first super user (spec: configuration §4.1)."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.auth.first_super_user import ensure_first_super_user
from svc.auth.users import UserDirectory
from svc.errors import ConfigError, NoSpace, Problem
from svc.store import Database, Store
from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE, ensure_system
from svc.store.values.records import decode


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path / "store")
    ensure_system(found)
    yield found
    found.close()


def stored_password(store: Store, name: str) -> str:
    credentials = UserDirectory(store).credentials(name)
    assert credentials is not None and credentials.hash_function == "argon2id"
    return credentials.password


def test_made_up_password(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "initial-admin-password"
    created = ensure_first_super_user(store, password_file=file)
    assert created is not None and created.username == "admin" and created.password is not None and len(created.password) >= 22
    assert file.read_text() == created.password + "\n" and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stored_password(store, "admin") == "hash:" + created.password
    user = UserDirectory(store).get_user("admin")
    assert user is not None and user.super_user and user.role is not None and user.role.id == "super_user"
    assert created.password not in repr(created)


def test_configured(store: Store, tmp_path: Path) -> None:
    created = ensure_first_super_user(store, "root", "long enough", password_file=tmp_path / "file")
    assert created is not None and (created.username, created.password) == ("root", None)
    assert not (tmp_path / "file").exists() and stored_password(store, "root") == "hash:long enough"


@pytest.mark.parametrize(("name", "password", "expected"), [(None, "long enough", "admin"), ("root", None, "root")])
def test_half_configured(store: Store, name: str | None, password: str | None, expected: str) -> None:
    created = ensure_first_super_user(store, name, password)
    assert created is not None and created.username == expected and (created.password is None) == (password is not None)


def test_nothing_happens_with_a_super_user(store: Store, tmp_path: Path) -> None:
    ensure_first_super_user(store, "root", "long enough")
    raw = store.databases[SYSTEM].tables[USER_TABLE].get_raw("root")
    assert ensure_first_super_user(store, "root", "other", password_file=tmp_path / "file") is None
    assert ensure_first_super_user(store) is None
    assert store.databases[SYSTEM].tables[USER_TABLE].get_raw("root") == raw


def test_kept_over_a_restart(tmp_path: Path) -> None:
    for expected in (True, False):
        store = Store(tmp_path / "again")
        ensure_system(store)
        assert (ensure_first_super_user(store) is not None) is expected
        store.close()


def test_existing_role_is_kept_and_inactive_super_users_do_not_count(store: Store) -> None:
    ensure_first_super_user(store, "root", "long enough")
    users, roles = store.databases[SYSTEM].tables[USER_TABLE], store.databases[SYSTEM].tables[ROLE_TABLE]
    role = roles.get_raw("super_user")
    transaction = store.begin()
    transaction.patch(users, "root", {"active": False})
    transaction.apply()
    store.commit_turn()
    created = ensure_first_super_user(store)
    assert created is not None and created.username == "admin"
    assert roles.get_raw("super_user") == role
    record = users.get_raw("root")
    assert record is not None and decode(record)["active"] is False


def test_empty_password_is_a_configuration_fault(store: Store) -> None:
    with pytest.raises(ConfigError):
        ensure_first_super_user(store, "root", "  ")
    with pytest.raises(ConfigError, match="The first super user's password must have at least 8 characters"):
        ensure_first_super_user(store, "root", "1234567")
    assert ensure_first_super_user(store, "root", "123", min_length=3) is not None


def test_failed_commit_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Database) -> list[object]:
        self._undo()
        raise NoSpace

    monkeypatch.setattr(Database, "commit", fail)
    with pytest.raises(Problem):
        ensure_first_super_user(store, "root", "long enough")
