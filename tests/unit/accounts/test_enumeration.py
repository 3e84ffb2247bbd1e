"""Nothing but a mail tells whether an address is known (spec: rows §2.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.accounts.directory import Accounts
from svc.accounts.endpoint import STEP
from svc.mail import outbox
from svc.store import Transaction
from svc.testing.answer import Answer
from tests.support.accounts import ADDRESS, PASSWORD, Site, counted_hashes, open_site

UNKNOWN = "eve@example.org"
BROWSER = {"Accept": "text/html,application/xhtml+xml", "Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path / "site", "{role: member, identity: email, url: 'https://shop.example', limits: {mails: 50}}") as found:
        found.sign_up(email=ADDRESS)
        found.post("/confirm", {"code": found.code()})
        yield found
        found.check()


class Observer:
    """What the one who asks sees, and what the server does for it."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch, hashes: Callable[[], int]) -> None:
        self._site = site
        self._hashes = hashes
        self._commits: list[int] = []
        apply = Transaction.apply

        def counting(transaction: Transaction, **options: Any) -> None:
            if transaction.size:
                self._commits.append(transaction.size)
            apply(transaction, **options)

        monkeypatch.setattr(Transaction, "apply", counting)

    def see(self, send: Callable[[], Answer]) -> tuple[Any, ...]:
        self._hashes()
        self._commits.clear()
        before = self._site.application.clock.seconds
        answer = send()
        seconds = round(self._site.application.clock.seconds - before, 3)
        fields = [pair for pair in answer.headers.pairs if pair[0].lower() != "date"]
        return answer.status, fields, answer.content, self._hashes(), list(self._commits), seconds


@pytest.fixture
def observer(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Observer]:
    with counted_hashes(monkeypatch) as hashes:
        yield Observer(site, monkeypatch, hashes)


def test_signing_up(site: Site, observer: Observer) -> None:
    known = observer.see(lambda: site.sign_up(email=ADDRESS, password="another horse"))
    unknown = observer.see(lambda: site.sign_up(email=UNKNOWN, password="another horse"))
    assert known == unknown
    assert known[0] == 202 and known[3] == 1
    assert [mail.subject for mail in site.mails[-2:]] == ["You have an account already", "Confirm your address"]
    assert site.can_log_in(ADDRESS) and not site.can_log_in(ADDRESS, "another horse")


def test_a_password_that_is_refused(site: Site, observer: Observer) -> None:
    known = observer.see(lambda: site.sign_up(email=ADDRESS, password="short"))
    assert known == observer.see(lambda: site.sign_up(email=UNKNOWN, password="short"))
    assert known[0] == 400


def test_a_forgotten_password(site: Site, observer: Observer) -> None:
    count = len(site.mails)
    known = observer.see(lambda: site.post("/forgot", {"email": ADDRESS}))
    unknown = observer.see(lambda: site.post("/forgot", {"email": UNKNOWN}))
    assert known == unknown
    assert known[0] == 202 and known[3] == 0
    assert [mail.to for mail in site.mails[count:]] == [ADDRESS]


def test_logging_in(site: Site, observer: Observer) -> None:
    def log_in(address: str) -> Callable[[], Answer]:
        return lambda: site.application.post("/login", {"username": address, "password": "wrong horse"}, user=None)

    site.sign_up(email="waiting@example.org")
    known, unknown, waiting = (observer.see(log_in(address)) for address in (ADDRESS, UNKNOWN, "waiting@example.org"))
    assert known == unknown == waiting
    assert known[0] == 401 and known[3] == 1
    right = site.application.post("/login", {"username": "waiting@example.org", "password": PASSWORD}, user=None)
    assert (right.status, right.content) == (known[0], known[2])


def test_failed_logins_count_together_however_the_address_is_written(site: Site, observer: Observer) -> None:
    def waits(address: str) -> list[float]:
        forms = [address, address.upper(), f" {address}", address.title()] * 3
        return [
            observer.see(lambda form=form: site.application.post("/login", {"username": form, "password": "wrong horse"}, user=None))[-1]
            for form in forms
        ]

    known = waits(ADDRESS)
    assert known == waits(UNKNOWN)
    assert known[0] == 0.0 < known[5]


def test_changing_the_address(site: Site, observer: Observer) -> None:
    site.can_log_in(ADDRESS)
    site.sign_up(email="other@example.org")
    site.post("/confirm", {"code": site.code()})
    known = observer.see(lambda: site.post("/email", {"email": "other@example.org"}))
    unknown = observer.see(lambda: site.post("/email", {"email": UNKNOWN}))
    assert known == unknown and known[0] == 202
    assert [mail.subject for mail in site.mails[-2:]] == ["You have an account already", "Confirm your new address"]


@pytest.mark.parametrize(("path", "fields"), [("", {"password": PASSWORD}), ("/forgot", {})])
def test_pages(site: Site, observer: Observer, path: str, fields: dict[str, str]) -> None:
    def send(address: str) -> Callable[[], Answer]:
        return lambda: site.post(path, data={"email": address, **fields}, headers=BROWSER)

    assert send(ADDRESS)().status == 200  # the templates are loaded
    known = observer.see(send(ADDRESS))
    assert known == observer.see(send(UNKNOWN))
    assert known[0] == 200 and b"Look into your mail" in known[2]


def test_too_many_mails_to_one_address(tmp_path: Path) -> None:
    with open_site(tmp_path / "site", "{role: member, identity: email, url: 'https://shop.example', limits: {mails: 2}}") as site:
        site.sign_up(email=ADDRESS)
        site.post("/confirm", {"code": site.code()})
        for address in (ADDRESS, UNKNOWN):
            answers = [site.post("/forgot", {"email": address}) for _ in range(4)] + [site.sign_up(email=address)]
            assert {(answer.status, answer.content) for answer in answers} == {(202, answers[0].content)}
        assert [mail.to for mail in site.mails] == [ADDRESS] * 2, "one of the sign-up, one more of a reset"
        site.application.clock.advance(1800)
        site.post("/forgot", {"email": ADDRESS})
        assert len(site.mails) == 3


def test_who_asks_often_waits(site: Site, observer: Observer) -> None:
    def waits(address: str) -> list[float]:
        return [observer.see(lambda: site.post("/forgot", {"email": address}))[-1] for _ in range(9)]

    known = waits(ADDRESS)
    assert known == waits(UNKNOWN)
    assert known[0] == 0.0 < known[-1]


def test_who_asks_often_waits_however_the_address_is_written(site: Site, observer: Observer) -> None:
    spellings = [
        ADDRESS,
        ADDRESS.upper(),
        f" {ADDRESS}",
        f"{ADDRESS} ",
        ADDRESS.title(),
        f"  {ADDRESS}",
        f"{ADDRESS}  ",
        f" {ADDRESS} ",
        ADDRESS,
    ]
    waits = [observer.see(lambda address=address: site.post("/forgot", {"email": address}))[-1] for address in spellings]  # type: ignore[misc]
    assert waits[0] == 0.0 < waits[-1]


def test_no_more_mails_can_be_added(site: Site, observer: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_ROWS", 1)
    known, unknown = [observer.see(lambda address=address: site.post("/forgot", {"email": address}))[0] for address in (ADDRESS, UNKNOWN)]  # type: ignore[misc]
    assert known == unknown == 503


def test_a_mail_that_is_written_takes_no_longer(site: Site, observer: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    request_reset = Accounts.request_reset

    async def slow(accounts: Accounts, given: object) -> None:
        await request_reset(accounts, given)
        await asyncio.sleep(0.007 if given == ADDRESS else 0.005)

    monkeypatch.setattr(Accounts, "request_reset", slow)
    assert [observer.see(lambda address=address: site.post("/forgot", {"email": address}))[-1] for address in (ADDRESS, UNKNOWN)] == [
        STEP,
        STEP,
    ]  # type: ignore[misc]


def test_the_host_of_a_request_is_in_no_mail(site: Site) -> None:
    site.post("/forgot", {"email": ADDRESS}, headers={"Host": "evil.example", "X-Forwarded-Host": "evil.example"})
    assert "evil" not in site.mails[-1].text and "https://shop.example/accounts/reset?code=" in site.mails[-1].text


def test_other_processes_count_along(site: Site) -> None:
    told: list[tuple[str, object]] = []
    site.accounts.parts.tell = lambda topic, value: told.append((topic, value))
    site.post("/forgot", {"email": ADDRESS})
    assert [value for _, value in told] == [("networks", "forgot 127.0.0.1"), ("mails", ADDRESS)]
    count = len(site.mails)
    for _ in range(50):
        site.accounts.hear("mails", UNKNOWN)
    site.sign_up(email=UNKNOWN)
    assert len(site.mails) == count
