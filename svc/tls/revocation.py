"""Whether a client's certificate has been revoked: by the lists it names (CRL), then by asking (OCSP) (spec: security §4; RFC 5280, RFC 6960).

    names neither a list nor a responder, or only what is switched off     passes
    a valid list covers it                                                 that is the answer
    none does, a responder answers                                         that is the answer
    no method answers                                                      passes if every method that was tried fails open, else it does not

A list is used for `crl.ttl`, and no longer than it says itself; if no newer one can be had, `crl.grace` beyond that. Answers are remembered for each
certificate. A connection that outlives the answer is checked again in the background.

Everything is kept on the loop's thread. Only fetching and reading run on threads, which are of their own: a list that does not come must not hold up
logins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from svc.clock import Clock
from svc.logs import Logger
from svc.tls.peer import PeerCertificate
from svc.tls.revocation_settings import NoAnswer, RevocationSettings

THREADS = 4
MAX_VERDICTS = 10_000  # certificates whose answer is remembered; the oldest is forgotten first
LEAST_LIFE = 10.0  # seconds that any answer is remembered, even one that ends just now: else each request would ask again
MAX_LISTS = 100  # a list may be large
MAX_ADDRESSES = 3  # of each method that a certificate names; more are not asked
LIST_PAUSE = 60.0  # seconds after a list could not be fetched until that is tried again


@dataclass(slots=True)
class Verdict:
    good: bool
    expires: float  # clock.monotonic()


@dataclass(frozen=True, slots=True)
class RevocationList:
    """The relevant content of a list. Times: seconds since the epoch."""

    serials: frozenset[int]
    ends: float


@dataclass(slots=True)
class _KeptAnswer:
    found: RevocationList | None
    next_poll: float  # clock.monotonic()
    reason: str = ""


class Revocations:
    """Checks the client certificates of one port."""

    def __init__(
        self,
        settings: RevocationSettings,
        authorities: Callable[[], Sequence[bytes]],
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        log: Logger,
    ) -> None:
        """`authorities`: PEM of those that are trusted, for certificates that come without their issuer, as those of resumed sessions do."""
        self._settings = settings
        self._authorities = authorities
        self._loop = loop
        self._now = clock.monotonic
        self._wall = clock.wall
        self._log = log
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="revocation")
        self._verdicts: dict[str, Verdict] = {}  # by fingerprint
        self._checks: dict[str, asyncio.Task[Verdict]] = {}
        self._lists: dict[str, _KeptAnswer] = {}  # by address
        self._fetches: dict[str, asyncio.Task[_KeptAnswer]] = {}

    @property
    def longest(self) -> float:
        """Seconds that a check may take: each address is asked once, and time limits are not exact."""
        return MAX_ADDRESSES * (self._settings.crl.timeout + self._settings.ocsp.timeout) + 5

    def check(self, certificate: PeerCertificate, done: Callable[[], None]) -> bool:
        """Set `certificate.verdict`. True: it is set; False: that takes a while, then `done` is called."""
        verdict = self._known(certificate)
        if verdict is not None:
            certificate.verdict = verdict
            return True
        self._begin(certificate, done)
        return False

    def is_good(self, certificate: PeerCertificate) -> bool:
        """The known answer; an old one is refreshed in the background."""
        verdict: Verdict | None = certificate.verdict
        if verdict is None:
            return False
        if verdict.expires <= self._now():
            known = self._known(certificate)
            if known is None:
                certificate.verdict = Verdict(verdict.good, self._now() + LEAST_LIFE)  # until then it is under way
                self._begin(certificate, _nothing)
            else:
                certificate.verdict = verdict = known
        return verdict.good

    def _known(self, certificate: PeerCertificate) -> Verdict | None:
        if not certificate.crl_urls and not certificate.ocsp_urls:
            return Verdict(True, inf)
        verdict = self._verdicts.get(certificate.fingerprint)
        return verdict if verdict is not None and verdict.expires > self._now() else None

    def _begin(self, certificate: PeerCertificate, done: Callable[[], None]) -> None:
        key = certificate.fingerprint
        task = self._checks.get(key)
        if task is None:
            task = self._checks[key] = self._loop.create_task(self._check(certificate))

        def finished(task: asyncio.Task[Verdict]) -> None:
            if not task.cancelled():
                certificate.verdict = task.result()
                done()

        task.add_done_callback(finished)

    async def _check(self, certificate: PeerCertificate) -> Verdict:
        try:
            verdict = await self._find_out(certificate)
            verdict.expires = max(verdict.expires, self._now() + LEAST_LIFE)
            self._verdicts.pop(certificate.fingerprint, None)
            if len(self._verdicts) >= MAX_VERDICTS:
                del self._verdicts[next(iter(self._verdicts))]
            self._verdicts[certificate.fingerprint] = verdict
            return verdict
        finally:
            del self._checks[certificate.fingerprint]

    async def _find_out(self, certificate: PeerCertificate) -> Verdict:
        crl, ocsp = self._settings.crl, self._settings.ocsp
        name = f"the certificate {certificate.serial} of {certificate.subject}"
        lists = certificate.crl_urls[:MAX_ADDRESSES] if crl.enabled else ()
        responders = certificate.ocsp_urls[:MAX_ADDRESSES] if ocsp.enabled else ()
        reasons = []
        try:
            issuer = await self._issuer(certificate) if lists or responders else b""
            for address in lists:
                try:
                    kept = await self._list(address, issuer)
                    assert kept.found is not None
                    return self._decided(int(certificate.serial, 16) not in kept.found.serials, name, kept.next_poll)
                except NoAnswer as error:
                    reasons.append(f"{address}: {error}")
            for address in responders:
                try:
                    good, valid = await self._on_thread(_ask, address, certificate.der, issuer, ocsp.timeout, self._now, self._wall)
                    return self._decided(good, name, self._now() + min(ocsp.ttl, valid))
                except NoAnswer as error:
                    reasons.append(f"{address}: {error}")
        except NoAnswer as error:
            reasons.append(str(error))
        passes = (not lists or crl.fails_open) and (not responders or ocsp.fails_open)
        if not reasons:
            return Verdict(passes, inf)  # there was no address to query
        verdict = "accepted" if passes else "refused"
        self._log.warn(f"whether {name} is revoked is unknown, so it is {verdict}: {'; '.join(reasons)}")
        return Verdict(passes, self._now() + (ocsp.error_ttl if responders else LIST_PAUSE))

    async def _issuer(self, certificate: PeerCertificate) -> bytes:
        if certificate.chain:
            return certificate.chain[0]
        found: bytes = await self._on_thread(_find_issuer, certificate.der, self._authorities())
        return found

    def _decided(self, good: bool, name: str, expires: float) -> Verdict:
        if not good:
            self._log.warn(f"{name} is revoked")
        return Verdict(good, expires)

    async def _list(self, address: str, issuer: bytes) -> _KeptAnswer:
        """The list of this address, of which the issuer is that of the certificate. Raises NoAnswer."""
        key = f"{address} {hash(issuer)}"
        kept = self._lists.get(key)
        if kept is None or kept.next_poll <= self._now():
            task = self._fetches.get(key)
            if task is None:
                task = self._fetches[key] = self._loop.create_task(self._fetch_list(key, address, issuer, kept))
            kept = await asyncio.shield(task)
        if kept.found is None:
            raise NoAnswer(kept.reason)
        if kept.found.ends + self._settings.crl.grace < self._wall():
            raise NoAnswer(kept.reason or "the list has run out")
        return kept

    async def _fetch_list(self, key: str, address: str, issuer: bytes, before: _KeptAnswer | None) -> _KeptAnswer:
        crl = self._settings.crl
        try:
            try:
                found = await self._on_thread(_fetch_list, address, issuer, crl.timeout, self._now, self._wall)
                lasts = min(crl.ttl, found.ends - self._wall())
                kept = _KeptAnswer(found, self._now() + max(lasts, min(LIST_PAUSE, crl.ttl)), "the list has run out")
            except NoAnswer as error:
                kept = _KeptAnswer(None if before is None else before.found, self._now() + LIST_PAUSE, str(error))
            self._lists.pop(key, None)
            if len(self._lists) >= MAX_LISTS:
                del self._lists[next(iter(self._lists))]
            self._lists[key] = kept
            return kept
        finally:
            del self._fetches[key]

    async def _on_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await self._loop.run_in_executor(self._executor, work, *arguments)


def _nothing() -> None:
    pass


# Run on threads; `cryptography` and `urllib.request` are loaded there, by the first check.


def _find_issuer(der: bytes, authorities: Sequence[bytes]) -> bytes:
    from svc.tls.revocation_answers import find_issuer

    return find_issuer(der, authorities)


def _fetch_list(address: str, issuer: bytes, timeout: float, now: Callable[[], float], wall: Callable[[], float]) -> RevocationList:
    from svc.tls.revocation_answers import read_list
    from svc.tls.revocation_fetch import fetch

    serials, ends = read_list(fetch(address, timeout, now), issuer, wall())
    return RevocationList(serials, ends)


def _ask(
    address: str, der: bytes, issuer: bytes, timeout: float, now: Callable[[], float], wall: Callable[[], float]
) -> tuple[bool, float]:
    """Whether it is good, and for how many seconds that holds."""
    from svc.tls.revocation_answers import make_question, read_answer
    from svc.tls.revocation_fetch import fetch

    question = make_question(der, issuer)
    return read_answer(fetch(address, timeout, now, question, "application/ocsp-request"), der, issuer, wall())


def read_authorities(files: Sequence[Path]) -> list[bytes]:
    """The contents of these files; unreadable ones are left out."""
    found = []
    for file in files:
        try:
            found.append(file.read_bytes())
        except OSError:
            continue
    return found
