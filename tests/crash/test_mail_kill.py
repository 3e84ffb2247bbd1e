"""kill -9 of a server that sends mails: none is lost, one that is sent again has the same Message-ID, and none is sent of what was undone."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.conftest import LIMIT, PASSWORD, Process
from tests.support.crash import SEED, check, rounds
from tests.support.mailing import settings, write_application
from tests.support.smtp_server import MailServer, TakenMail
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

ROUNDS = rounds(3)
WRITERS = 3
ENOUGH = 40  # acknowledged orders before a kill


@pytest.fixture
def mails() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


def start(path: Path, mails: MailServer) -> Process:
    app = path / "shop"
    return Process(path / "root", app if app.exists() else write_application(app), env=settings(mails.port)).start()


def order(process: Process, number: int) -> str:
    """Returns the Message-ID of its mail."""
    with process.client() as client:
        answer = client.post("/Orders/", json={"id": str(number), "to": f"{number}@example.org"})
    assert answer.status_code == 200, answer.text
    found: str = answer.json()["message_id"]
    return found


def ids(mails: MailServer) -> list[str]:
    return [mail.message["Message-ID"] for mail in mails.taken]


def killed_once(process: Process) -> tuple[threading.Event, Callable[..., None]]:
    """What kills the process when it is called first, and then does nothing."""
    done = threading.Event()

    def kill(*_: Any) -> None:
        if not done.is_set():
            process.kill()
            done.set()

    return done, kill


def test_killed_between_the_commit_and_the_mail(tmp_path: Path, mails: MailServer) -> None:
    process = start(tmp_path, mails)
    done, mails.on_mail = killed_once(process)
    sent = order(process, 1)
    assert done.wait(LIMIT) and mails.taken == []
    process.start()
    mails.wait_for(1)
    assert ids(mails) == [sent]
    assert process.stop() == 0
    check(process.root)


def test_killed_between_the_mail_and_its_end(tmp_path: Path, mails: MailServer) -> None:
    process = start(tmp_path, mails)
    done, mails.on_taken = killed_once(process)
    sent = order(process, 1)
    assert done.wait(LIMIT) and ids(mails) == [sent]
    process.start()
    mails.wait_for(2)
    assert ids(mails) == [sent, sent]
    first, second = mails.taken
    assert [(name, first.message[name]) for name in ("To", "Subject", "Date", "From")] == [
        (name, second.message[name]) for name in ("To", "Subject", "Date", "From")
    ]
    wait_until(lambda: [row["status"] for row in process.operate("list_mails").json()] == ["sent"])
    assert process.stop() == 0


class Customer(threading.Thread):
    """Orders until the server is gone. `answered`: numbers of its orders -> Message-IDs."""

    def __init__(self, process: Process, numbers: Iterator[int]) -> None:
        super().__init__()
        self.answered: dict[int, str] = {}
        self._process = process
        self._numbers = numbers

    def run(self) -> None:
        with httpx.Client(base_url=self._process.url, auth=("admin", PASSWORD), timeout=LIMIT) as client:
            for number in self._numbers:
                try:
                    answer = client.post("/Orders/", json={"id": str(number), "to": f"{number}@example.org", "fails": number % 5 == 0})
                except httpx.HTTPError:
                    return
                assert answer.status_code == (500 if number % 5 == 0 else 200), answer.text
                if number % 5:
                    self.answered[number] = answer.json()["message_id"]


def test_no_acknowledged_mail_is_lost(tmp_path: Path, mails: MailServer) -> None:
    process = start(tmp_path, mails)
    source = random.Random(SEED)
    answered: dict[int, str] = {}
    for round_number in range(ROUNDS):
        first = round_number * 1_000_000
        customers = [Customer(process, iter(range(first + number, first + 1_000_000, WRITERS))) for number in range(WRITERS)]
        enough = ENOUGH + source.randrange(ENOUGH)
        for customer in customers:
            customer.start()
        wait_until(lambda customers=customers, enough=enough: sum(len(each.answered) for each in customers) >= enough)
        process.kill()
        for customer in customers:
            customer.join()
            answered |= customer.answered
        process.start()
    wait_until(lambda: set(answered.values()) <= set(ids(mails)), lambda: f"lost: {set(answered.values()) - set(ids(mails))}")
    with process.client() as client:
        by_id: dict[str, TakenMail] = {}
        for mail in mails.taken:
            number = mail.recipients[0].partition("@")[0]
            assert int(number) % 5, "a mail of what was undone"
            assert client.get(f"/Order/{number}").status_code == 200
            before = by_id.setdefault(mail.message["Message-ID"], mail)
            assert before.recipients == mail.recipients
    assert len({mail.recipients[0] for mail in by_id.values()}) == len(by_id)  # an order has one Message-ID
    assert process.stop() == 0
    check(process.root)
