"""A user and its record after a process that was killed between the commits of their two databases, or whose second commit has failed (spec: rows §2.2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.accounts.pairs import AccountPairs
from svc.errors import NoSpace
from svc.store.env import Environment
from svc.store.system import SYSTEM
from tests.support.accounts import PASSWORD, Site, open_site

DATABASES = ("data", "zoo")
"""One whose commit comes before that of the system, and one behind it."""


@pytest.fixture(params=DATABASES)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    schema = f"""
    type Person @table(database: "{request.param}") @account {{ username: ID @primaryKey  name: String  joined: Float @createdTime }}
    type Note @table @export {{ id: ID @primaryKey }}
    """
    with open_site(tmp_path / "site", "{role: member}", schema=schema) as found:
        yield found


def agree(site: Site) -> list[str]:
    """The names of the accounts: users and records are the same, and no note is left."""
    table = site.accounts.table
    records = sorted(str(table.key_of(raw)) for _, raw in table.scan(table.database.snapshot()))
    assert site.users == records
    assert site.accounts.pairs.notes.record_count() == 0
    return records


def is_half(site: Site) -> bool:
    """Whether there is a record without its user, or a user without a record."""
    return (site.application.instance.server.accounts.directory.user_record("ann") is None) == site.accounts.has_record("ann")


class FullDisk:
    """Has the commits of these databases fail, beginning with the one that writes to both: that of the note before it is let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *databases: str) -> None:
        self.databases = databases
        self.is_full = True
        commit = Environment.commit

        def failing(environment: Environment) -> None:
            if self.is_full and environment.path.name in databases and self.seen(environment):
                raise NoSpace("there is no space left")
            commit(environment)

        self._has_note = False
        monkeypatch.setattr(Environment, "commit", failing)

    def seen(self, environment: Environment) -> bool:
        if environment.path.name == SYSTEM and not self._has_note:
            self._has_note = True
            return False
        return True


def die_with(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on a change that fails is left as it is."""

    async def nothing(pairs: AccountPairs, note: str) -> None:
        pass

    monkeypatch.setattr(AccountPairs, "give_up", nothing)


def start_again(site: Site, monkeypatch: pytest.MonkeyPatch, disk: FullDisk) -> None:
    """As another process does."""
    disk.is_full = False
    monkeypatch.undo()
    site.accounts.pairs = AccountPairs(site.accounts.parts)
    assert site.application.run(site.accounts.pairs.repair()) == 1
    assert site.application.run(site.accounts.pairs.repair()) == 0


@pytest.mark.parametrize("failing", [(SYSTEM,), DATABASES, (SYSTEM, *DATABASES)], ids=["system", "records", "both"])
def test_a_sign_up_that_is_killed(site: Site, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...]) -> None:
    site.sign_up(username="bob")
    disk = FullDisk(monkeypatch, *failing)
    die_with(site, monkeypatch)
    assert site.sign_up(username="ann", name="Ann").status == 507
    assert is_half(site) == (len(failing) < 3)
    start_again(site, monkeypatch, disk)
    assert agree(site) == ["bob"]
    assert site.sign_up(username="ann").status == 201, "the name is free"
    assert agree(site) == ["ann", "bob"]


@pytest.mark.parametrize("failing", [(SYSTEM,), DATABASES], ids=["system", "records"])
def test_a_removal_that_is_killed(site: Site, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...]) -> None:
    site.sign_up(username="ann")
    site.sign_up(username="bob")
    site.can_log_in("ann")
    disk = FullDisk(monkeypatch, *failing)
    die_with(site, monkeypatch)
    assert site.application.delete("/accounts/me", user=None).status == 507
    assert is_half(site)
    start_again(site, monkeypatch, disk)
    assert agree(site) == ["bob"]


def test_a_removal_that_was_not_begun(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.sign_up(username="ann")
    site.can_log_in("ann")
    disk = FullDisk(monkeypatch, SYSTEM, *DATABASES)
    die_with(site, monkeypatch)
    assert site.application.delete("/accounts/me", user=None).status == 507
    start_again(site, monkeypatch, disk)
    assert agree(site) == ["ann"]
    assert site.can_log_in("ann")


@pytest.mark.parametrize("failing", [(SYSTEM,), DATABASES], ids=["system", "records"])
def test_a_change_of_a_process_that_lives_is_undone_at_once(site: Site, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...]) -> None:
    disk = FullDisk(monkeypatch, *failing)
    give_up = AccountPairs.give_up

    async def with_space(pairs: AccountPairs, note: str) -> None:
        disk.is_full = False
        await give_up(pairs, note)

    monkeypatch.setattr(AccountPairs, "give_up", with_space)
    assert site.sign_up(username="ann").status == 507
    assert agree(site) == []
    assert not site.can_log_in("ann")


def test_what_others_have_made_meanwhile_is_left_alone(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch, SYSTEM, *DATABASES)
    die_with(site, monkeypatch)
    assert site.sign_up(username="ann", name="Ann").status == 507
    disk.is_full = False
    site.application.operation("add_user", username="ann", password=PASSWORD, role="member", active=True)
    site.application.operation(
        "insert", database=site.accounts.table.database.name, table="Person", records=[{"username": "ann", "name": "Another"}]
    )
    start_again(site, monkeypatch, disk)
    assert agree(site) == ["ann"]


def test_a_record_of_an_operator_that_is_not_that_of_the_sign_up_is_left_alone(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch, SYSTEM, *DATABASES)
    die_with(site, monkeypatch)
    assert site.sign_up(username="ann", name="Ann").status == 507
    disk.is_full = False
    database = site.accounts.table.database.name
    site.application.operation("insert", database=database, table="Person", records=[{"username": "ann", "name": "Ann", "more": 1}])
    start_again(site, monkeypatch, disk)
    assert site.users == [] and site.accounts.has_record("ann")


def test_notes_of_processes_that_live_are_left_alone(site: Site) -> None:
    pairs = site.accounts.pairs
    note = site.application.run(pairs.note_making(site.accounts.table, "ann", "x", {"username": "ann"}))
    assert site.application.run(pairs.repair()) == 0, "it is under way here"
    other = AccountPairs(site.accounts.parts)
    site.accounts.parts.identity, site.accounts.parts.is_alive = "another", lambda identity: True
    assert site.application.run(other.repair()) == 0, "it is under way there"
    site.accounts.parts.is_alive = lambda identity: False
    assert site.application.run(other.repair()) == 1
    pairs.settle(note)
    site.application.settle()
    agree(site)
