"""Lists and responders of an authority on this machine: what they tell, what is remembered, what happens when they tell nothing."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp

from svc.clock import FakeClock
from svc.errors import Problem
from svc.tls.mtls import ClientCertificates, Mtls
from svc.tls.peer import PeerCertificate
from svc.tls.revocation import LIST_PAUSE, MAX_ADDRESSES, Revocations
from svc.tls.revocation_answers import read_answer, read_list
from svc.tls.revocation_settings import CrlSettings, NoAnswer, OcspSettings, RevocationSettings
from tests.support.certificates import Authority, Pair, authority
from tests.support.revocation import HOUR, Responder, make_answer, make_list

DAY = datetime.timedelta(days=1)
GOOD, REVOKED, UNKNOWN = ocsp.OCSPCertStatus.GOOD, ocsp.OCSPCertStatus.REVOKED, ocsp.OCSPCertStatus.UNKNOWN
LIMIT = 30.0


class FakeLog:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def warn(self, *messages: object) -> None:
        self.lines.append(" ".join(map(str, messages)))


class World:
    """A loop that runs until a check is done, a clock that stands still."""

    def __init__(self, **settings: Any) -> None:
        self.responder = Responder()
        self.clock = FakeClock(wall=time.time())
        self.log = FakeLog()
        self.loop = asyncio.new_event_loop()
        self.authorities: list[bytes] = []
        self.use(**settings)

    def use(self, **settings: Any) -> None:
        chosen = RevocationSettings.from_setting(settings or True)
        assert chosen is not None
        self.revocations = Revocations(chosen, lambda: self.authorities, loop=self.loop, clock=self.clock, log=self.log)

    def certificate(self, pair: Pair, *, crl: int = 0, ocsp: int = 0, with_chain: bool = True) -> PeerCertificate:
        """As it comes with a connection. `crl`, `ocsp`: how many addresses it names."""
        fields: dict[str, Any] = {
            "subject": ((("commonName", "ann"),),),
            "serialNumber": f"{pair.certificate.serial_number:X}",
            "crlDistributionPoints": (f"{self.responder.url}/list",) * crl,
            "OCSP": (f"{self.responder.url}/ask",) * ocsp,
        }
        der = pair.certificate.public_bytes(Encoding.DER)
        issuer = authority().pair.certificate.public_bytes(Encoding.DER)
        return PeerCertificate(fields, der, (issuer,) if with_chain else ())

    def check(self, certificate: PeerCertificate) -> bool:
        """Whether it is good; a check that takes a while is waited for."""

        async def wait() -> None:
            done = self.loop.create_future()
            if not self.revocations.check(certificate, lambda: done.set_result(None)):
                await asyncio.wait_for(done, LIMIT)

        self.loop.run_until_complete(wait())
        return self.revocations.is_good(certificate)

    def settle(self) -> None:
        """What goes on in the background comes to its end."""

        async def wait() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            if tasks:
                await asyncio.wait(tasks, timeout=LIMIT)

        self.loop.run_until_complete(wait())

    def close(self) -> None:
        self.settle()
        self.responder.close()
        self.revocations._executor.shutdown()
        self.loop.close()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


@pytest.fixture(scope="module")
def pair() -> Pair:
    return authority().make("ann")


# --- decisions -------------------------------------------------------------------------------------------------------------------------


def test_a_certificate_that_names_nobody_passes(world: World, pair: Pair) -> None:
    certificate = world.certificate(pair)
    assert world.revocations.check(certificate, lambda: None), "at once"
    assert world.revocations.is_good(certificate)


@pytest.mark.parametrize("pem", [False, True])
def test_lists(world: World, pair: Pair, pem: bool) -> None:
    other = authority().make("bob")
    world.responder.list = make_list(authority(), (other,), pem=pem)
    assert world.check(world.certificate(pair, crl=1))
    assert not world.check(world.certificate(other, crl=1))
    assert world.responder.asked == ["/list"], "once for both"
    assert [line for line in world.log.lines if "is revoked" in line and f"{other.certificate.serial_number:X}" in line]


@pytest.mark.parametrize(("status", "good"), [(GOOD, True), (REVOKED, False), (UNKNOWN, False)])
@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("algorithm", [hashes.SHA1(), hashes.SHA256()])
def test_answers(world: World, pair: Pair, status: ocsp.OCSPCertStatus, good: bool, delegated: bool, algorithm: Any) -> None:
    signer = authority().make("responder", signs_ocsp=True) if delegated else None
    world.responder.answer = lambda question: make_answer(authority(), pair, status, signer=signer, algorithm=algorithm)
    assert world.check(world.certificate(pair, ocsp=1)) is good


def test_the_question_is_about_the_certificate(world: World, pair: Pair) -> None:
    questions = []

    def answer(question: bytes) -> bytes:
        questions.append(ocsp.load_der_ocsp_request(question))
        return make_answer(authority(), pair)

    world.responder.answer = answer
    assert world.check(world.certificate(pair, ocsp=1))
    assert questions[0].serial_number == pair.certificate.serial_number


def test_lists_come_first(world: World, pair: Pair) -> None:
    world.responder.list = make_list(authority(), (pair,))
    world.responder.answer = lambda question: make_answer(authority(), pair)
    assert not world.check(world.certificate(pair, crl=1, ocsp=1))
    assert world.responder.asked == ["/list"]


def test_responders_tell_where_lists_do_not(world: World, pair: Pair) -> None:
    world.responder.answer = lambda question: make_answer(authority(), pair)
    assert world.check(world.certificate(pair, crl=1, ocsp=1))
    assert world.responder.asked == ["/list", "/ask"]


@pytest.mark.parametrize(
    ("crl", "ocsp_", "settings", "good"),
    [
        (1, 0, {}, False),
        (0, 1, {}, False),
        (1, 1, {}, False),
        (1, 0, {"failureMode": "fail-open"}, True),
        (0, 1, {"failureMode": "fail-open"}, True),
        (1, 1, {"failureMode": "fail-open"}, True),
        (1, 0, {"crl.failureMode": "fail-open"}, True),
        (1, 1, {"crl.failureMode": "fail-open"}, False),
        (1, 1, {"ocsp.failureMode": "fail-open"}, False),
        (1, 1, {"failureMode": "fail-open", "crl.failureMode": "fail-closed"}, False),
        (0, 1, {"failureMode": "fail-open", "ocsp.failureMode": "fail-closed"}, False),
        (1, 1, {"crl.enabled": False, "ocsp.failureMode": "fail-open"}, True),
        (1, 0, {"crl.enabled": False}, True),
        (0, 1, {"ocsp.enabled": False}, True),
        (1, 1, {"crl.enabled": False, "ocsp.enabled": False}, True),
    ],
)
def test_when_nobody_tells(world: World, pair: Pair, crl: int, ocsp_: int, settings: dict[str, Any], good: bool) -> None:
    world.use(**settings)
    assert world.check(world.certificate(pair, crl=crl, ocsp=ocsp_)) is good
    off = {"/list": settings.get("crl.enabled") is False, "/ask": settings.get("ocsp.enabled") is False}
    assert not any(off[path] for path in world.responder.asked), "what is switched off is not asked"
    for line in world.log.lines:
        assert ("so it is accepted" if good else "so it is refused") in line


@pytest.mark.parametrize("fails_open", [False, True])
def test_addresses_that_lead_nowhere(world: World, pair: Pair, fails_open: bool) -> None:
    world.use(failureMode="fail-open" if fails_open else "fail-closed")
    certificate = world.certificate(pair)
    certificate.crl_urls = ("ldap://directory.example/list", "file:///etc/passwd", "http://127.0.0.1:1/list", "what?", "http://[")
    certificate.ocsp_urls = ("ftp://127.0.0.1/ask", "http://", "")
    assert world.check(certificate) is fails_open
    assert len(world.log.lines) == 1


def test_few_addresses_are_asked(world: World, pair: Pair) -> None:
    assert not world.check(world.certificate(pair, ocsp=50))
    assert len(world.responder.asked) == MAX_ADDRESSES


def test_who_takes_too_long_tells_nothing(world: World, pair: Pair) -> None:
    world.use(**{"crl.timeout": 0.2, "ocsp.timeout": 0.2})
    world.responder.list = make_list(authority())
    world.responder.hold.clear()
    assert not world.check(world.certificate(pair, crl=1, ocsp=1))
    world.responder.hold.set()


# --- what does not count ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Of the same name, with another key."""
    return Authority(tmp_path_factory.mktemp("stranger"), "Test Authority")


def issuer() -> bytes:
    return authority().pair.certificate.public_bytes(Encoding.DER)


def test_lists_that_do_not_count(stranger: Authority, pair: Pair, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", "Another")
    good = make_list(authority())
    assert read_list(good, issuer(), time.time())[0] == frozenset()
    for data in (
        b"",
        b"<html>",
        good[:-1],
        good[:50],
        good[:-20] + bytes(20),
        make_list(stranger),
        make_list(other),
        b"-----BEGIN X509 CRL-----",
    ):
        with pytest.raises(NoAnswer):
            read_list(data, issuer(), time.time())
    with pytest.raises(NoAnswer, match="future"):
        read_list(make_list(authority(), began=HOUR, ends=2 * HOUR), issuer(), time.time())


def test_answers_that_do_not_count(stranger: Authority, pair: Pair) -> None:
    der = pair.certificate.public_bytes(Encoding.DER)
    other = authority().make("bob")
    no_signer = authority().make("not for answers")
    old_signer = authority().make("old", signs_ocsp=True, end=datetime.datetime.now(datetime.UTC) - DAY)
    their_signer = stranger.make("theirs", signs_ocsp=True)
    good = make_answer(authority(), pair)
    assert read_answer(good, der, issuer(), time.time())[0] is True
    failure = ocsp.OCSPResponseBuilder.build_unsuccessful(ocsp.OCSPResponseStatus.TRY_LATER).public_bytes(Encoding.DER)
    for data in (
        b"",
        b"<html>",
        good[:-1],
        good[:-20] + bytes(20),
        failure,
        make_answer(authority(), other),
        make_answer(stranger, pair),
        make_answer(authority(), pair, signer=no_signer),
        make_answer(authority(), pair, signer=old_signer),
        make_answer(authority(), pair, signer=their_signer),
        make_answer(authority(), pair, began=HOUR, ends=2 * HOUR),
        make_answer(authority(), pair, began=-3 * DAY, ends=-DAY),
        make_answer(authority(), pair, began=-3 * DAY, ends=None),
    ):
        with pytest.raises(NoAnswer):
            read_answer(data, der, issuer(), time.time())


# --- what is remembered ----------------------------------------------------------------------------------------------------------------


def test_answers_are_remembered(world: World, pair: Pair) -> None:
    world.use(**{"ocsp.cacheTtl": 600})
    world.responder.answer = lambda question: make_answer(authority(), pair)
    certificate = world.certificate(pair, ocsp=1)
    for _ in range(3):
        assert world.check(certificate)
    assert len(world.responder.asked) == 1
    world.clock.advance(601)
    assert world.check(world.certificate(pair, ocsp=1))
    assert len(world.responder.asked) == 2


def test_an_answer_is_not_remembered_beyond_its_end(world: World, pair: Pair) -> None:
    world.responder.answer = lambda question: make_answer(authority(), pair, ends=datetime.timedelta(seconds=100))
    assert world.check(world.certificate(pair, ocsp=1))
    world.clock.advance(101)
    world.responder.answer = lambda question: make_answer(authority(), pair, REVOKED)
    assert not world.check(world.certificate(pair, ocsp=1))


def test_that_there_was_no_answer_is_remembered_for_less(world: World, pair: Pair) -> None:
    certificate = world.certificate(pair, ocsp=1)
    assert not world.check(certificate)
    world.responder.answer = lambda question: make_answer(authority(), pair)
    world.clock.advance(OcspSettings().error_ttl - 1)
    assert not world.check(world.certificate(pair, ocsp=1))
    world.clock.advance(2)
    assert world.check(world.certificate(pair, ocsp=1))


def test_a_list_is_fetched_again_after_a_time(world: World, pair: Pair) -> None:
    world.use(**{"crl.cacheTtl": 600})
    world.responder.list = make_list(authority())
    assert world.check(world.certificate(pair, crl=1))
    world.responder.list = make_list(authority(), (pair,))
    world.clock.advance(599)
    assert world.check(world.certificate(pair, crl=1))
    world.clock.advance(2)
    assert not world.check(world.certificate(pair, crl=1))


def test_a_list_is_used_beyond_its_end_for_a_time(world: World, pair: Pair) -> None:
    world.responder.list = make_list(authority(), ends=HOUR)
    assert world.check(world.certificate(pair, crl=1))
    world.responder.list = None
    world.clock.advance(7200)
    assert world.check(world.certificate(pair, crl=1)), "in the time of grace"
    assert len(world.responder.asked) == 2
    world.clock.advance(LIST_PAUSE / 2)
    assert world.check(world.certificate(pair, crl=1))
    assert len(world.responder.asked) == 2, "who does not answer is not asked all the time"
    world.clock.advance(CrlSettings().grace)
    assert not world.check(world.certificate(pair, crl=1))
    world.responder.list = make_list(authority(), ends=3 * DAY)
    world.clock.advance(LIST_PAUSE + 1)
    assert world.check(world.certificate(pair, crl=1))


def test_many_who_come_at_once_ask_once(world: World, pair: Pair) -> None:
    world.responder.list = make_list(authority())
    certificates = [world.certificate(pair, crl=1) for _ in range(10)] + [world.certificate(authority().make("x"), crl=1) for _ in range(3)]
    done: list[int] = []

    async def wait() -> None:
        for number, certificate in enumerate(certificates):
            assert not world.revocations.check(certificate, lambda number=number: done.append(number))  # type: ignore[misc]
        deadline = time.monotonic() + LIMIT
        while len(done) < len(certificates):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)

    world.loop.run_until_complete(wait())
    assert world.responder.asked == ["/list"]
    assert all(world.revocations.is_good(certificate) for certificate in certificates)


def test_who_stays_connected_is_looked_up_again(world: World, pair: Pair) -> None:
    world.responder.answer = lambda question: make_answer(authority(), pair)
    certificate = world.certificate(pair, ocsp=1)
    assert world.check(certificate)
    world.responder.answer = lambda question: make_answer(authority(), pair, REVOKED)
    world.clock.advance(OcspSettings().ttl + 1)

    async def ask() -> bool:
        return world.revocations.is_good(certificate)

    world.responder.hold.clear()
    for _ in range(5):
        assert world.loop.run_until_complete(ask()), "the lookup is in the background"
    world.responder.hold.set()
    world.settle()
    assert len(world.responder.asked) == 2
    assert not world.loop.run_until_complete(ask())


def test_a_certificate_without_its_issuer(world: World, pair: Pair) -> None:
    """As a resumed session has it: the authorities know."""
    world.responder.list = make_list(authority())
    assert not world.check(world.certificate(pair, crl=1, with_chain=False))
    assert "its issuer is not known here" in world.log.lines[0]
    world.authorities = [b"what?", authority().pair.pem]
    world.clock.advance(LIST_PAUSE + OcspSettings().error_ttl)
    assert world.check(world.certificate(pair, crl=1, with_chain=False))


def test_what_callers_are_told(world: World, pair: Pair) -> None:
    clients = ClientCertificates(Mtls(), world.revocations)
    certificate = world.certificate(pair, ocsp=1)
    with pytest.raises(Problem) as caught:
        clients.username(certificate)  # nobody has looked yet
    assert (caught.value.status_code, caught.value.message) == (401, "Certificate revoked or verification failed")
    world.responder.answer = lambda question: make_answer(authority(), pair)
    world.check(certificate)
    assert clients.username(certificate) == "ann"
    for mtls in (Mtls(by_name=False), Mtls(user="bob", by_name=False)):
        revoked = world.certificate(pair, ocsp=1)
        with pytest.raises(Problem):
            ClientCertificates(mtls, world.revocations).username(revoked)
