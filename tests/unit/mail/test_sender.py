"""What becomes of mails: sent, tried again, given up; by one process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.errors import NoSpace
from svc.mail import sender as module
from svc.mail.outbox import GIVEN_UP, SENT, WAITING, OutgoingMail
from svc.mail.smtp import Envelope, MailRefused, ServerUnavailable
from svc.store.values.records import decode
from tests.support.mails import FakeServer, MailWorld

DAY = 86_400.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MailWorld]:
    world = MailWorld(tmp_path)
    yield world
    world.close()


def raise_(error: Exception) -> Any:
    def answer(envelope: Envelope) -> None:
        raise error

    return answer


def test_a_mail_is_sent_and_its_texts_are_gone(world: MailWorld) -> None:
    world.instance()
    row = world.add()
    world.settle()
    (envelope,) = world.server.taken
    assert (envelope.sender, envelope.recipient) == ("shop@example.org", "ann@example.org")
    assert f"Message-ID: <{row}@example.org>".encode() in envelope.content
    found = world.row(row)
    assert (found["status"], found["body"], found["due"], found["attempts"]) == (SENT, None, None, 1)
    world.later(3601)
    assert world.outbox.record(row) is None


def test_what_waited_before_is_sent_at_the_start(world: MailWorld) -> None:
    rows = [world.add() for _ in range(3)]
    world.instance()
    world.settle()
    assert [world.row(row)["status"] for row in rows] == [SENT] * 3
    assert len(world.server.taken) == 3 and world.server.closed == 1


def test_a_mail_that_is_refused_for_now_is_tried_again_later(world: MailWorld) -> None:
    world.server.answer = raise_(MailRefused("451 greylisted", is_final=False))
    world.instance()
    row, tries = world.add(), []
    for _ in range(9):
        world.settle()
        found = world.row(row)
        assert (found["status"], found["error"]) == (WAITING, "451 greylisted")
        tries.append((found["due"] - world.outbox.now_ms()) / 1000)
        world.later(tries[-1] - 1)
        assert world.row(row)["attempts"] == len(tries)
        world.later(1)
    assert tries == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    world.server.answer = lambda envelope: None
    world.later(3600)
    found = world.row(row)
    assert (found["status"], found["error"]) == (SENT, None)
    assert len({bytes(line) for each in world.server.tried for line in each.content.split(b"\r\n") if line.startswith(b"Message-ID")}) == 1


def test_others_are_sent_meanwhile(world: MailWorld) -> None:
    def answer(envelope: Envelope) -> None:
        if envelope.recipient == "bob@example.org":
            raise MailRefused("451 later", is_final=False)

    world.server.answer = answer
    bob = world.add(OutgoingMail("bob@example.org", "x", "y"))
    ann = world.add()
    world.instance()
    world.settle()
    assert (world.row(bob)["status"], world.row(ann)["status"]) == (WAITING, SENT)


def test_a_mail_is_given_up_when_it_is_refused_for_good(world: MailWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.server.answer = raise_(MailRefused("550 no such user", is_final=True))
    world.instance()
    row = world.add()
    world.settle()
    found = world.row(row)
    assert (found["status"], found["error"], found["due"], found["attempts"]) == (GIVEN_UP, "550 no such user", None, 1)
    assert [record.getMessage() for record in caplog.records] == [f"the mail {row} (welcome) is given up: 550 no such user"]
    world.later(30 * DAY - 60)
    assert world.outbox.record(row) is not None
    world.later(120)
    assert world.outbox.record(row) is None


def test_a_mail_is_given_up_after_a_day(world: MailWorld) -> None:
    world.server.answer = raise_(MailRefused("451 later", is_final=False))
    world.instance()
    row = world.add()
    world.settle()
    world.later(DAY - 1)
    assert world.row(row)["status"] == WAITING
    world.later(3601)
    assert world.row(row)["status"] == GIVEN_UP


def test_one_that_was_given_up_can_be_tried_again_for_a_day(world: MailWorld) -> None:
    world.server.answer = raise_(MailRefused("550 no", is_final=True))
    world.instance()
    row = world.add()
    world.settle()
    world.later(2 * DAY)
    world.server.answer = raise_(MailRefused("451 later", is_final=False))
    assert world.run(world.outbox.retry(row))
    world.settle()
    assert world.row(row)["status"] == WAITING
    world.server.answer = lambda envelope: None
    world.later(3600)
    assert world.row(row)["status"] == SENT
    assert not world.run(world.outbox.retry(row)) and not world.run(world.outbox.retry("other"))


def test_while_the_server_is_away_nothing_is_tried_in_vain(world: MailWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.server.answer = raise_(ServerUnavailable("connection refused"))
    rows = [world.add() for _ in range(3)]
    world.instance()
    world.settle()
    assert len(world.server.tried) == 1
    tried = []
    for pause in (5, 10, 20, 40, 80, 160, 300, 300):
        world.later(pause - 0.5)
        assert len(world.server.tried) == len(tried) + 1
        world.later(0.5)
        tried.append(world.server.tried[-1])
        assert len(world.server.tried) == len(tried) + 1
    assert [world.row(row)["status"] for row in rows] == [WAITING] * 3
    assert world.row(rows[0])["error"] == "connection refused"
    world.server.answer = lambda envelope: None
    world.later(300)
    assert [world.row(row)["status"] for row in rows] == [SENT] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "the server does not take mails: connection refused",
        "the server takes mails again",
    ]


def test_mails_are_given_up_though_the_server_is_away(world: MailWorld) -> None:
    world.server.answer = raise_(ServerUnavailable("connection refused"))
    rows = [world.add() for _ in range(3)]
    world.instance()
    world.settle()
    world.later(DAY + 1)
    assert [world.row(row)["status"] for row in rows] == [GIVEN_UP] * 3


def test_a_mail_at_which_the_server_hangs_up_does_not_hold_back_the_others(world: MailWorld) -> None:
    def answer(envelope: Envelope) -> None:
        if envelope.recipient == "bob@example.org":
            raise ServerUnavailable("Connection lost", is_about_mail=True)

    world.server.answer = answer
    bob = world.add(OutgoingMail("bob@example.org", "x", "y"))
    ann = world.add()
    world.instance()
    world.settle()
    world.later(5)
    assert (world.row(bob)["status"], world.row(ann)["status"]) == (WAITING, SENT)


def test_one_of_several_processes_sends(world: MailWorld) -> None:
    first, second = FakeServer(), FakeServer()
    sender = world.instance(first)
    world.instance(second)
    for _ in range(5):
        world.add()
    world.settle()
    assert (len(first.taken), len(second.taken)) == (5, 0)
    world.run(sender.end())
    world.siblings[0].release()
    world.siblings[1].sweep(0.0)
    world.add()
    world.settle()
    assert (len(first.taken), len(second.taken)) == (5, 1)


def test_the_next_leader_waits_for_the_mail_under_way(world: MailWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_PAUSE", 0.0)
    lock = world.run(_locked(world))
    row = world.add()
    world.instance()
    world.settle_for(20)
    assert world.server.tried == []
    lock.release()
    world.later(1)
    assert world.row(row)["status"] == SENT


async def _locked(world: MailWorld) -> Any:
    from svc.siblings import Siblings

    world.siblings.append(Siblings(world.path, world.loop))
    return world.siblings[-1].maybe_lock(module.LOCK)


def test_a_mail_whose_row_cannot_be_changed_is_not_sent_again(world: MailWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    row = world.add()
    right = world.outbox.mark_sent

    async def wrong(row: str) -> None:
        raise NoSpace

    monkeypatch.setattr(world.outbox, "mark_sent", wrong)
    world.instance()
    world.settle()
    world.later(10)
    assert len(world.server.taken) == 1 and world.row(row)["status"] == WAITING
    monkeypatch.setattr(world.outbox, "mark_sent", right)
    world.later(300)
    assert len(world.server.taken) == 1 and world.row(row)["status"] == SENT


def test_texts_that_cannot_be_read_are_given_up(world: MailWorld) -> None:
    row = world.add()
    transaction = world.store.begin()
    transaction.update(world.outbox.table, row, {"body": b"x" * 40})
    world.store.commit_now(transaction)
    world.instance()
    world.settle()
    assert (world.row(row)["status"], world.row(row)["error"]) == (GIVEN_UP, module._UNREADABLE)


def test_a_row_of_a_clock_that_was_ahead_is_sent(world: MailWorld) -> None:
    world.clock.step(10 * DAY)
    row = world.add()
    world.clock.step(-10 * DAY)
    world.instance()
    world.settle()
    assert world.row(row)["status"] == SENT


def test_a_stop_ends_what_takes_long(world: MailWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Event

    monkeypatch.setattr(module, "END_SECONDS", 0.05)
    released, began = Event(), Event()

    class Slow(FakeServer):
        def abort(self) -> None:
            released.set()

    def answer(envelope: Envelope) -> None:
        began.set()
        released.wait()
        raise ServerUnavailable("svc is about to stop")

    server = Slow()
    server.answer = answer
    row = world.add()
    sender = world.instance(server)
    world.run(world.loop.run_in_executor(None, began.wait))
    world.run(sender.end())
    assert released.is_set() and (world.row(row)["status"], world.row(row)["attempts"]) == (WAITING, 0)


def test_a_defect_is_logged_and_not_the_end(world: MailWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.server.answer = raise_(RuntimeError("a defect"))
    row = world.add()
    world.instance()
    world.settle()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    world.server.answer = lambda envelope: None
    world.later(300)
    assert world.row(row)["status"] == SENT


def test_the_log_of_the_database_does_not_have_the_texts(world: MailWorld) -> None:
    world.instance()
    world.add()
    world.settle()
    database = world.outbox.table.database
    values = [decode(entry.value) for entry in database.log.read(database.snapshot(), 1) if entry.table == "svc_mail" and entry.value]
    assert values and not any(b"1234" in str(value).encode() for value in values)
