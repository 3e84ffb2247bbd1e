"""API keys: who asks with one, and when it was used last (spec: rows §2.7; the text of a key: `api_key_format`).

    svc_key        name -> prefix, hash of the whole key, role or user, when it expires
    svc_key_use    prefix -> time of the last use

A key has a role of its own, and then is a user of its own, `key:NAME`; or it has the rights of a user, and ends with it. Either way `User.key` says that it
was a key that let the caller in. Records of `svc_key` are read through the directory, which forgets what it has kept when one of them changes, here or at
another process: a key that is revoked counts for nothing from the next request on, and its streams end (`logins`).

The time of the last use is written when a key is looked up, and no more often than every `USE_STEP` seconds: the header block and the verifier remember a key
for less than that, so the requests in between cost nothing. A server loads this module with the first key that it is shown.
"""

from __future__ import annotations

from functools import partial
from hmac import compare_digest

from svc.auth.api_key_format import hash_of, is_whole, prefix_of
from svc.auth.users import User, UserDirectory
from svc.auth.writes import MUST_EXIST
from svc.clock import Clock
from svc.errors import Problem
from svc.store import Table, WriterBusy
from svc.store.system import KEY_USE_TABLE, SYSTEM
from svc.store.values.records import decode

USE_STEP = 60.0  # seconds
KNOWN_USES = 10_000  # keys


class ApiKeys:
    """Those of one node."""

    def __init__(self, directory: UserDirectory, clock: Clock) -> None:
        self._directory = directory
        self._now = clock.monotonic
        self._wall = clock.wall
        self._uses: dict[str, float] = {}  # prefix -> monotonic time before which its use is not written again; oldest first

    @property
    def uses(self) -> Table:
        return self._directory.store.databases[SYSTEM].tables[KEY_USE_TABLE]

    def verify(self, text: str) -> User:
        """Who asks with this key. Raises Problem 401 for any other text, for a key that was revoked or has expired, and for
        one whose user is gone or inactive."""
        if not is_whole(text):
            raise Problem("The API key is incomplete or mistyped", 401)
        record = self._directory.key_record_by_prefix(prefix_of(text))
        if record is None or not compare_digest(record["secret_hash"].encode(), hash_of(text).encode()):
            raise _invalid()
        user = self._directory.user_of_key(record["name"])
        if user is None or user.key is None or user.key.prefix != record["prefix"]:
            raise _invalid()
        if user.key.expires <= self._wall():
            raise Problem("The API key has expired", 401)
        if not user.active:
            raise Problem("Cannot complete request: User is inactive", 401)
        self._note_use(record["prefix"])
        return user

    def life(self, user: User) -> float:
        """Seconds for which a key that was verified may be remembered."""
        assert user.key is not None
        return min(user.key.expires - self._wall(), USE_STEP)

    def last_use(self, prefix: str) -> float | None:
        """Milliseconds since the epoch; None: it was not used yet."""
        raw = self.uses.get_raw(prefix)
        return None if raw is None else decode(raw).get("time")

    def _note_use(self, prefix: str) -> None:
        """The request does not wait for it: what fails is tried again at the next use."""
        now = self._now()
        if self._uses.get(prefix, now) > now:
            return
        wall_ms = self._wall() * 1000
        last = self.last_use(prefix)  # perhaps by another process
        if last is not None and 0 <= wall_ms - last < USE_STEP * 1000:
            self._remember(prefix, now + USE_STEP - (wall_ms - last) / 1000)
            return
        transaction = self._directory.store.begin()
        transaction.patch(self.uses, prefix, {"time": wall_ms}, MUST_EXIST)  # else a key that was just revoked would leave it behind
        try:
            transaction.apply(wait=False)
        except (WriterBusy, Problem):
            return
        transaction.on_done = partial(self._noted, prefix)
        self._remember(prefix, now + USE_STEP)

    def _noted(self, prefix: str, problem: Problem | None) -> None:
        if problem is not None:
            self._uses.pop(prefix, None)

    def _remember(self, prefix: str, until: float) -> None:
        self._uses.pop(prefix, None)
        while len(self._uses) >= KNOWN_USES:
            del self._uses[next(iter(self._uses))]
        self._uses[prefix] = until


def _invalid() -> Problem:
    return Problem("invalid API key", 401)
