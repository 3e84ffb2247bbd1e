"""The rows of mails: what is written, what is refused, what can be read of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.clock import FakeClock
from svc.errors import ClientError, Overloaded, Problem
from svc.mail import outbox as module
from svc.mail.outbox import GIVEN_UP, KEPT, MAX_BODY, WAITING, Outbox, OutgoingMail
from svc.mail.sealing import Seal, SealBroken
from svc.store import Store
from svc.store.system import ensure_system

MAIL = OutgoingMail("ann@example.org", "Welcome", "Your code is 1234", "<p>Your code is 1234</p>")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    store = Store(tmp_path / "database", clock=clock)
    ensure_system(store)
    yield store
    store.close()


@pytest.fixture
def outbox(store: Store, clock: FakeClock) -> Outbox:
    return Outbox(store, Seal(bytes(32)), clock, domain="example.org")


def add(store: Store, outbox: Outbox, mail: OutgoingMail = MAIL) -> str:
    transaction = store.begin()
    message_id = outbox.add(mail, transaction, application="shop", template="welcome")
    store.commit_now(transaction)
    return message_id


def test_a_row_is_part_of_the_transaction(store: Store, outbox: Outbox) -> None:
    transaction = store.begin()
    outbox.add(MAIL, transaction)
    transaction.abort()
    assert list(outbox.iter_with(WAITING)) == []
    message_id = add(store, outbox)
    (row,) = outbox.iter_with(WAITING)
    assert message_id == row["message_id"] == f"<{row['id']}@example.org>"
    assert (row["to"], row["application"], row["template"], row["attempts"]) == (
        "ann@example.org",
        "shop",
        "welcome",
        0,
    )
    assert row["due"] == row["created"] == outbox.now_ms()
    assert "body" not in row
    record = outbox.record(row["id"])
    assert record is not None and record.items() >= {name: value for name, value in row.items() if value is not None}.items()
    assert outbox.mail_of(record) == MAIL and outbox.record("other") is None


def test_nothing_on_the_disk_has_the_texts(store: Store, outbox: Outbox, tmp_path: Path) -> None:
    add(store, outbox)
    assert not any(b"Your code" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_texts_are_bound_to_their_row_and_key(store: Store, outbox: Outbox, clock: FakeClock) -> None:
    add(store, outbox)
    (shown,) = outbox.iter_with(WAITING)
    row = outbox.record(shown["id"])
    assert row is not None
    for broken in (row | {"id": "other"}, row | {"body": None}, row | {"body": b"short"}):
        with pytest.raises(SealBroken):
            outbox.mail_of(broken)
    with pytest.raises(SealBroken):
        Outbox(store, Seal(bytes([1] * 32)), clock, domain="example.org").mail_of(row)


@pytest.mark.parametrize(
    "to",
    [
        "ann",
        "ann@example.org\r\nBcc: eve@example.org",
        "ann@example.org, eve@example.org",
        "Ann <ann@example.org>",
        None,
        "ann@" + "b" * 260,
    ],
)
def test_what_is_no_address_is_refused(store: Store, outbox: Outbox, to: str) -> None:
    with pytest.raises(ClientError) as raised:
        outbox.add(OutgoingMail(to, "Welcome", ""), store.begin())
    assert raised.value.code == "BAD_ADDRESS"


@pytest.mark.parametrize("subject", ["a\nBcc: eve@example.org", "a\r", "a\0", "a\u2028b", "x" * 501])
def test_what_is_no_subject_is_refused(store: Store, outbox: Outbox, subject: str) -> None:
    with pytest.raises(ClientError) as raised:
        outbox.add(OutgoingMail("ann@example.org", subject, ""), store.begin())
    assert raised.value.code == "BAD_SUBJECT"


def test_what_cannot_be_sent_is_refused(store: Store, outbox: Outbox) -> None:
    with pytest.raises(ClientError) as raised:
        outbox.add(OutgoingMail("ann@example.org", "", "\ud800"), store.begin())
    assert (raised.value.status_code, raised.value.code) == (400, "BAD_MAIL")


def test_a_large_mail_is_refused(store: Store, outbox: Outbox) -> None:
    with pytest.raises(ClientError) as raised:
        outbox.add(OutgoingMail("ann@example.org", "", "x" * (MAX_BODY // 2), "y" * (MAX_BODY // 2)), store.begin())
    assert raised.value.status_code == 413


def test_a_full_outbox_refuses(store: Store, outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 2)
    add(store, outbox)
    add(store, outbox)
    with pytest.raises(Overloaded):
        outbox.add(MAIL, store.begin())
    monkeypatch.setattr(module, "MAX_ROWS", 3)
    outbox.add(MAIL, store.begin())
    monkeypatch.setattr(module, "MAX_BYTES", 4096)
    with pytest.raises(Overloaded):
        outbox.add(MAIL, store.begin())


def test_mails_to_one_address_are_counted(store: Store, outbox: Outbox, clock: FakeClock) -> None:
    for _ in range(3):
        outbox.check_rate("ann@example.org", 3, store.begin())
        add(store, outbox)
    with pytest.raises(Problem) as raised:
        outbox.check_rate("Ann@EXAMPLE.org", 3, store.begin())
    assert (raised.value.status_code, raised.value.code) == (429, "TOO_MANY_MAILS")
    outbox.check_rate("bob@example.org", 1, store.begin())
    clock.advance(3601)
    outbox.check_rate("ann@example.org", 3, store.begin())


def test_mails_of_the_same_transaction_are_counted(store: Store, outbox: Outbox) -> None:
    transaction = store.begin()
    for _ in range(2):
        outbox.check_rate("ann@example.org", 2, transaction)
        outbox.add(MAIL, transaction)
    with pytest.raises(Problem):
        outbox.check_rate("ann@example.org", 2, transaction)


def test_mails_that_are_added_at_the_same_time_are_counted(store: Store, outbox: Outbox) -> None:
    transactions = [store.begin() for _ in range(4)]
    for transaction in transactions:
        outbox.check_rate("ann@example.org", 2, transaction)
        outbox.add(MAIL, transaction)
    for transaction in transactions[:2]:
        transaction.apply()
    for transaction in transactions[2:]:
        with pytest.raises(Problem) as raised:
            transaction.apply()
        assert raised.value.code == "TOO_MANY_MAILS"
    store.commit_turn()
    assert len(list(outbox.iter_with(WAITING))) == 2


def test_few_recipients_are_remembered(store: Store, outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RECENT", 3)
    for number in range(10):
        outbox.check_rate(f"{number}@example.org", 2, store.begin())
    assert list(outbox._recent) == ["7@example.org", "8@example.org", "9@example.org"]


def test_what_a_transaction_says_of_other_records_does_not_expire_a_mail(store: Store, outbox: Outbox, clock: FakeClock) -> None:
    transaction = store.begin()
    transaction.expires_at = clock.wall() * 1000 + 1
    outbox.add(MAIL, transaction)
    assert transaction.expires_at is not None
    store.commit_now(transaction)
    clock.advance(60)
    assert len(list(outbox.iter_with(WAITING))) == 1


def test_of_development_mails_are_kept_for_a_day(store: Store, clock: FakeClock) -> None:
    outbox = Outbox(store, Seal(bytes(32)), clock, domain="localhost", is_sent=False)
    add(store, outbox)
    (row,) = outbox.iter_with(KEPT)
    assert row.get("due") is None
    assert list(outbox.iter_with(WAITING)) == list(outbox.iter_with(GIVEN_UP)) == []
    clock.advance(86_401)
    assert list(outbox.iter_with(KEPT)) == []
