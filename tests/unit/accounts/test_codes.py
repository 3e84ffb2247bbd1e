"""The codes of mails: at rest, in time, once (spec: rows §2.4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.accounts import codes as module
from svc.accounts.codes import CONFIRM, RESET, AccountCode, Codes
from svc.clock import FakeClock
from svc.errors import ClientError, Overloaded
from svc.store import Store
from svc.store.system import SYSTEM, ensure_account_tables, ensure_system
from svc.store.values.records import decode

SIGN_UP = AccountCode(CONFIRM, content={"record": {"username": "ann", "born": 0}, "password": "$argon2id$x"})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path, clock=FakeClock())
    ensure_system(found)
    ensure_account_tables(found)
    ensure_account_tables(found)
    yield found
    found.close()


def add(store: Store, code: AccountCode, life: float = 60.0) -> str:
    transaction = store.begin()
    text = Codes(store).add(transaction, code, life)
    transaction.apply()
    store.commit_turn()
    store.end_turn()
    return text


def take(store: Store, text: str) -> AccountCode:
    database = store.databases[SYSTEM]
    store.open_writers((database,))
    transaction = store.begin()
    found = Codes(store).take(text, transaction, database.env.writer())
    transaction.apply()
    store.commit_turn()
    store.end_turn()
    return found


def test_what_a_code_is_for_comes_back_once(store: Store) -> None:
    text = add(store, SIGN_UP)
    assert Codes(store).maybe_read(text) == SIGN_UP
    assert take(store, text) == SIGN_UP
    assert Codes(store).maybe_read(text) is None
    with pytest.raises(ClientError, match="not valid"):
        take(store, text)


def test_two_in_one_turn(store: Store) -> None:
    """The second sees what the first has done, before the commit."""
    text, database = add(store, SIGN_UP), store.databases[SYSTEM]
    store.open_writers((database,))
    transaction = store.begin()
    Codes(store).take(text, transaction, database.env.writer())
    transaction.apply()
    with pytest.raises(ClientError, match="not valid"):
        Codes(store).take(text, store.begin(), database.env.writer())
    store.commit_turn()


def test_codes_end(store: Store) -> None:
    text = add(store, SIGN_UP)
    clock = store.clock
    assert isinstance(clock, FakeClock)
    clock.advance(59.9)
    assert Codes(store).maybe_read(text) is not None
    clock.advance(0.2)
    assert Codes(store).maybe_read(text) is None
    with pytest.raises(ClientError, match="not valid"):
        take(store, text)


def test_rows_tell_nothing(store: Store) -> None:
    texts = [add(store, code) for code in (SIGN_UP, AccountCode(RESET), AccountCode(RESET, "ann", "17/x"))]
    table = Codes(store).table
    rows = [decode(raw) for _, raw in table.scan(table.database.snapshot())]
    assert len({len(row["sealed"]) for row in rows}) == 1
    for row in rows:
        stored = repr(row)
        assert not any(text in stored for text in texts) and "ann" not in stored and "argon2" not in stored
    assert len(set(texts)) == 3 and all(len(text) == 22 for text in texts)


def test_a_row_that_was_exchanged_is_of_no_code(store: Store) -> None:
    first, second = add(store, SIGN_UP), add(store, AccountCode(RESET, "ann", "17/x"))
    table = Codes(store).table
    rows = {decode(raw)["id"]: decode(raw) for _, raw in table.scan(table.database.snapshot())}
    transaction = store.begin()
    for (key, _), (_, other) in zip(rows.items(), reversed(rows.items()), strict=True):
        transaction.put(table, key, {"id": key, "sealed": other["sealed"]})
    store.commit_now(transaction)
    assert Codes(store).maybe_read(first) is None and Codes(store).maybe_read(second) is None


def test_they_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 2)
    add(store, SIGN_UP)
    add(store, SIGN_UP)
    with pytest.raises(Overloaded):
        add(store, SIGN_UP)
