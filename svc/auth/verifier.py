"""User name and password -> User, without a password hash on the loop's thread and with as few as possible at all.

    known already          the credential was verified less than `cache_ttl` ago: one hash of the header, one dict look-up
    being verified         join the verification under way: one run for all that wait
    else                   a `PendingVerification`, to be run on a helper thread, when it is the turn of the network it came from

Networks take turns (`fair_slots`), so a flood of logins from one makes the others wait for no more than the runs under way. No more than MAX_OUTSTANDING
are kept: a further one is refused if its network has most of them, else it replaces the newest of the network that has.

A verified credential is remembered with the stored hash it matched. When any user or role changes, it is not forgotten but compared with the store
again: the same hash means the same password, and only the rights are read again. Thus a change takes effect with the next request, and one changed
user among thousands does not make all others pay for a password hash. Tokens are remembered here too: for them the user has to be there and active,
and still the account that they were made for; and API keys, which have to be there still.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol, final

from svc.auth.fair_slots import FairSlots, network_of
from svc.auth.passwords import DEFAULT_HASH_FUNCTION, Verification, hash_password, verify_password
from svc.auth.throttle import FailureDelays
from svc.auth.users import User, UserDirectory
from svc.clock import SYSTEM_CLOCK, Clock
from svc.errors import Overloaded, Problem
from svc.messages import Request
from svc.store.values.conversion import is_encodable

if TYPE_CHECKING:
    from svc.auth.events import AuthEvents

LOGIN = "Login"  # strategy of a password that is not in a header
CACHE_ENTRIES = 10_000
MAX_OUTSTANDING = 256  # verifications under way or waiting: some seconds of work for the helper threads
MAX_HASHES = 64  # new passwords that wait to be hashed
MAX_HASHES_PER_NETWORK = 16
MAX_OUTSTANDING_PER_NAME = 8  # ... for one user name from one network; identical ones count once
AT_ONCE = 2  # that run at a time: as many as the server has helper threads

_log = logging.getLogger("svc.auth")


def login_failed() -> Problem:
    return Problem("Login failed", 401)


def _overloaded() -> Overloaded:
    return Overloaded("Too many logins at the same time")


class VerifiedCredential:
    """A credential that was right. `user` is as of `generation`; `stored` is the password hash it matched, None for a token; `token`: that token's account
    and id, see `User.admits_token`."""

    __slots__ = ("expires", "generation", "stored", "token", "user", "username")

    def __init__(
        self, username: str, stored: str | None, user: User, generation: int, expires: float, token: tuple[str, str | None] | None = None
    ) -> None:
        self.username = username
        self.stored = stored
        self.user = user
        self.generation = generation
        self.expires = expires  # clock.monotonic()
        self.token = token


class Owner(Protocol):
    """The creator of a `PendingVerification`, which handles its result."""

    def finish(self, pending: PendingVerification, result: Any) -> User | None: ...

    def release(self, pending: PendingVerification) -> None: ...


@final
class PendingVerification:
    """A verification to be run elsewhere. All requests with the same credential get the same object.

    Either `await wait(...)`, which does it all; or, after `delay` seconds, run `work()` on any thread and hand its result to `finish()` on the
    loop's thread, once; if there will be no result, call `abandon()`. `on_loop`: `work()` belongs to the loop's thread, and what it returns is to be
    awaited. `report` is called with the outcome once, before the waiting callers. `slots`: what is waited for before the work runs, None: nothing.
    `has_begun`: it can not be refused any more.
    """

    __slots__ = (
        "_owner", "_refusal", "_slots", "_task", "_waiters", "attempt", "delay", "digest", "has_begun", "network", "on_loop", "report", "stored",
        "username", "work",
    )  # fmt: skip

    def __init__(
        self,
        owner: Owner,
        digest: bytes,
        work: Callable[[], Any],
        *,
        attempt: bytes = b"",
        username: str = "",
        stored: str | None = None,
        network: str = "",
        slots: FairSlots | None = None,
    ) -> None:
        self._owner = owner
        self._task: asyncio.Task[User | Problem | None] | None = None
        self._waiters = 0
        self._refusal: Problem | None = None
        self._slots = slots
        self.network = network
        self.has_begun = False
        self.digest = digest
        self.work = work
        self.on_loop = False
        self.delay = 0.0
        self.attempt = attempt  # user name and address, as `FailureDelays` counts them
        self.username = username
        self.stored = stored
        self.report: Callable[[User | Problem | None], None] | None = None

    def finish(self, result: Any) -> User | None:
        """The user, None for a credential that leaves the caller anonymous, or Problem: 401 for a wrong password or an inactive user, 503 if the
        stored password changed in the meantime."""
        try:
            user = self._owner.finish(self, result)
        except Problem as problem:
            self._tell(problem)
            raise
        self._tell(user)
        return user

    def abandon(self) -> None:
        self._owner.release(self)

    async def wait(self, loop: asyncio.AbstractEventLoop, executor: Executor | None) -> User | None:
        """Run it, or wait for the run under way. A waiter that is cancelled leaves the others alone; the last one takes a run along that has not
        begun."""
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        if self._task is None:
            self._task = loop.create_task(self._run(loop, executor))
        task = self._task
        self._waiters += 1
        try:
            outcome = await asyncio.shield(task)
        finally:
            self._waiters -= 1
            if not self._waiters and not self.has_begun and not task.done():
                self._task = None
                self.abandon()
                task.cancel()
        if isinstance(outcome, Problem):
            raise outcome.with_traceback(None)
        return outcome

    def refuse(self, problem: Problem) -> None:
        """Answer all waiting callers with this. Only before it `has_begun`."""
        self._refusal = problem
        self.abandon()
        if self._task is not None:
            self._task.cancel()

    async def _run(self, loop: asyncio.AbstractEventLoop, executor: Executor | None) -> User | Problem | None:
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
            if self._slots is None:
                return await self._work(loop, executor)
            await self._slots.acquire(self.network)
            try:
                return await self._work(loop, executor)
            finally:
                self._slots.release()
        except Problem as problem:
            return problem
        except asyncio.CancelledError:
            if self._refusal is None:
                raise
            return self._refusal
        finally:
            self.abandon()

    async def _work(self, loop: asyncio.AbstractEventLoop, executor: Executor | None) -> User | None:
        self.has_begun = True
        return self.finish(await (self.work() if self.on_loop else loop.run_in_executor(executor, self.work)))

    def _tell(self, outcome: User | Problem | None) -> None:
        report, self.report = self.report, None
        if report is not None:
            report(outcome)


class Verifier:
    """The verified credentials of one directory. Several `Identifier`s may share one."""

    def __init__(
        self,
        directory: UserDirectory,
        *,
        cache_ttl: float = 30.0,
        clock: Clock = SYSTEM_CLOCK,
        hash_function: str = DEFAULT_HASH_FUNCTION,
        failure_delay: bool = True,
    ) -> None:
        """`cache_ttl` in seconds, 0 = every request is verified. `hash_function`: what better hashes and dummies are made with."""
        self.directory = directory
        self.events: AuthEvents | None = None  # gets the outcomes of passwords outside of headers
        self.on_outcome: Callable[[str, str, bool], None] = lambda username, network, succeeded: None
        """Called after each failure, and after a success that ends failures."""
        self._cache_ttl = cache_ttl
        self._now = clock.monotonic
        self._hash_function = hash_function
        self._delays = FailureDelays(clock) if failure_delay else None
        self._key = secrets.token_bytes(32)
        self._verified: dict[bytes, VerifiedCredential] = {}  # by digest; oldest first
        self._pending: dict[bytes, PendingVerification] = {}  # by digest
        self._attempts: dict[bytes, int] = {}  # outstanding per user name and network
        self._networks: dict[str, dict[PendingVerification, None]] = {}  # outstanding by network; oldest first
        self._slots = FairSlots(AT_ONCE)
        self._hashes: dict[str, int] = {}  # new passwords that are being hashed, by network

    def digest(self, credential: str) -> bytes:
        """A keyed hash that identifies a credential: no clear text is kept longer than a verification takes."""
        return blake2b(credential.encode(), key=self._key, digest_size=32).digest()

    def known(self, digest: bytes) -> VerifiedCredential | None:
        """The verified credential, its user up to date; None if it has to be verified (again)."""
        verified = self._verified.get(digest)
        if verified is None:
            return None
        if verified.expires > self._now() and (verified.generation == self.directory.generation or self._refresh(verified)):
            return verified
        del self._verified[digest]
        return None

    def begin(self, digest: bytes, username: str, password: str, address: str) -> PendingVerification:
        """Start a verification or join the one under way. Raises Overloaded when too many are outstanding."""
        pending = self._pending.get(digest)
        if pending is not None:
            return pending
        username = self.directory.login_name(username)  # else each form of a name had attempts of its own
        network = network_of(address)
        attempt = self._attempt(username, network)
        outstanding = self._attempts.get(attempt, 0)
        if outstanding >= MAX_OUTSTANDING_PER_NAME or (len(self._pending) >= MAX_OUTSTANDING and not self._make_room(network)):
            raise _overloaded()
        credentials = self.directory.credentials(username)
        stored = None if credentials is None else credentials.password
        work = partial(verify_password, password, stored, None if credentials is None else credentials.hash_function, self._hash_function)
        pending = PendingVerification(
            self, digest, work, attempt=attempt, username=username, stored=stored, network=network, slots=self._slots
        )
        if self._delays is not None:
            pending.delay = self._delays.delay(attempt)
        self._pending[digest] = pending
        self._attempts[attempt] = outstanding + 1
        self._networks.setdefault(network, {})[pending] = None
        return pending

    def _make_room(self, network: str) -> bool:
        """Refuse the newest verification of the network that has most of them, for one of a network that has fewer. False: there is none."""
        most = max(self._networks.values(), key=len, default=None)
        if most is None or len(most) <= len(self._networks.get(network, ())) + 1:
            return False
        for pending in reversed(most):
            if not pending.has_begun:
                pending.refuse(_overloaded())
                return True
        return False

    async def verify(self, username: str, password: str, request: Request | None, executor: Executor | None = None) -> User:
        """The user, for a password that comes otherwise than in a header. Raises as `PendingVerification.finish` does.

        `request`: that brings it; its caller has to wait for failures of the same network.
        """
        credential = f"{username}\0{password}"
        if not is_encodable(credential):  # JSON can write halves of characters
            raise login_failed()
        digest = self.digest(credential)
        verified = self.known(digest)
        if verified is not None:
            return verified.user
        pending = self.begin(digest, username, password, "" if request is None else request.peer)
        if self.events is not None and pending.report is None:
            pending.report = self.events.outcome(request, LOGIN, username)
        user = await pending.wait(asyncio.get_running_loop(), executor)
        assert user is not None
        return user

    async def hash_new(self, password: str, address: str, executor: Executor | None = None) -> str:
        """The stored form of a new password, made on a helper thread when it is the turn of the network of `address`: as logins take turns. Raises Overloaded
        when too many wait."""
        network = network_of(address)
        own = self._hashes.get(network, 0)
        if own >= MAX_HASHES_PER_NETWORK or sum(self._hashes.values()) >= MAX_HASHES:
            raise Overloaded("Too many new passwords at the same time")
        self._hashes[network] = own + 1
        try:
            await self._slots.acquire(network)
            try:
                return await asyncio.get_running_loop().run_in_executor(executor, hash_password, password, self._hash_function)
            finally:
                self._slots.release()
        finally:
            left = self._hashes[network] - 1
            if left:
                self._hashes[network] = left
            else:
                del self._hashes[network]

    def remember(
        self, digest: bytes, user: User, stored: str | None, seconds: float, *, token: tuple[str, str | None] | None = None
    ) -> VerifiedCredential | None:
        """Keep a verified credential for at most `seconds`; None if nothing is kept. `stored`, `token`: see `VerifiedCredential`."""
        life = min(seconds, self._cache_ttl)
        if life <= 0:
            return None
        while len(self._verified) >= CACHE_ENTRIES:
            del self._verified[next(iter(self._verified))]
        verified = VerifiedCredential(user.username, stored, user, self.directory.generation, self._now() + life, token)
        self._verified[digest] = verified
        return verified

    def finish(self, pending: PendingVerification, result: Verification) -> User:
        self.release(pending)
        directory = self.directory
        credentials = directory.credentials(pending.username)
        user = directory.get_user(pending.username)
        if not result.matches or credentials is None or user is None:
            self._failed(pending)
            raise login_failed()
        if credentials.password != pending.stored:
            raise Overloaded("The password was changed at the same time")
        if not user.active:
            self._failed(pending)
            raise Problem("Cannot complete request: User is inactive", 401)
        if self._delays is not None and self._delays.succeeded(pending.attempt):
            self.on_outcome(pending.username, pending.network, True)
        stored = credentials.password
        if result.replacement is not None and self._keep(pending.username, result.replacement, stored):
            stored = result.replacement
        self.remember(pending.digest, user, stored, self._cache_ttl)
        return user

    def release(self, pending: PendingVerification) -> None:
        """The verification is over, one way or the other. Idempotent."""
        if self._pending.get(pending.digest) is not pending:
            return
        del self._pending[pending.digest]
        of_network = self._networks[pending.network]
        del of_network[pending]
        if not of_network:
            del self._networks[pending.network]
        left = self._attempts[pending.attempt] - 1
        if left:
            self._attempts[pending.attempt] = left
        else:
            del self._attempts[pending.attempt]

    def _attempt(self, username: str, network: str) -> bytes:
        return self.digest(f"{username}\0{network}") if self._delays is None else self._delays.key(username, network)

    def _failed(self, pending: PendingVerification) -> None:
        if self._delays is not None:
            self._delays.failed(pending.attempt)
            self.on_outcome(pending.username, pending.network, False)

    def hear(self, username: str, network: str, succeeded: bool) -> None:
        """An outcome at another process: it counts as one here, or each would have failures of its own that cost no delay."""
        if self._delays is not None:
            attempt = self._delays.key(username, network)
            if succeeded:
                self._delays.succeeded(attempt)
            else:
                self._delays.failed(attempt)

    def _refresh(self, verified: VerifiedCredential) -> bool:
        is_key = verified.user.key is not None
        user = self.directory.current(verified.user) if is_key else self.directory.get_user(verified.username)
        if user is None or not user.active:
            return False
        if verified.token is not None and not user.admits_token(*verified.token):
            return False
        if verified.stored is not None:
            credentials = self.directory.credentials(verified.username)
            if credentials is None or credentials.password != verified.stored:
                return False
        claims = verified.user.claims
        verified.user = user if claims is None else replace(user, claims=claims)
        verified.generation = self.directory.generation
        return True

    def _keep(self, username: str, stored: str, verified: str) -> bool:
        """Store a better hash. If the store cannot take it now, the login succeeds nevertheless."""
        try:
            self.directory.store_hash(username, stored, verified)
        except Problem as problem:
            _log.warning("the stronger password hash of a user could not be stored: %s", problem.message)
            return False
        return True
