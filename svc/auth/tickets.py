"""Tickets: what a browser's script that may not send header fields shows instead of a login (spec: security §3).

`new WebSocket(...)` and `new EventSource(...)` take an address and nothing else, and from a page of another site the cookie does not count. So the page
asks for a ticket with its token and puts it into the address: `?ticket=...`. It is good for one handshake or one event stream within 30 seconds.

Kept in the memory of the process, which is the only one of its root directory that serves; a restart ends them. Of a ticket only a digest is kept, and
of the account its name and what a new password changes: whose rights count is asked when it is used.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b

from svc.auth.users import User, UserDirectory
from svc.clock import Clock
from svc.errors import Overloaded, Problem
from svc.messages import Request

LIFE = 30.0  # seconds
MOST = 10_000  # outstanding; more are refused
MOST_PER_ACCOUNT = 100  # the oldest ends
PARAMETER = "ticket"

_BYTES = 32
_IN_QUERY = re.compile(r"(?:^|&)ticket=([^&]*)")


@dataclass(frozen=True, slots=True)
class _Ticket:
    username: str
    login_id: str
    expires: float  # clock.monotonic()


class Tickets:
    """Those of one server."""

    def __init__(self, directory: UserDirectory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._issued: dict[bytes, _Ticket] = {}  # by digest, oldest first
        self._counts: Counter[str] = Counter()  # by account

    def __len__(self) -> int:
        return len(self._issued)

    def issue(self, user: User) -> tuple[str, float]:
        """A ticket, and when it expires, ms since the epoch. Raises Overloaded when too many are outstanding."""
        self._forget_expired()
        account = _account(user.username, user.login_id)
        if self._counts[account] >= MOST_PER_ACCOUNT:
            self._end(next(digest for digest, each in self._issued.items() if _account(each.username, each.login_id) == account))
        elif len(self._issued) >= MOST:
            raise Overloaded("Too many tickets are outstanding")
        ticket = secrets.token_urlsafe(_BYTES)
        self._issued[_digest(ticket)] = _Ticket(user.username, user.login_id, self._clock.monotonic() + LIFE)
        self._counts[account] += 1
        return ticket, (self._clock.wall() + LIFE) * 1000

    def take(self, ticket: str) -> User:
        """The user that a ticket was made for, as it is now. The ticket has ended, whatever comes. Raises Problem 401."""
        digest = _digest(ticket)
        found = self._end(digest) if digest in self._issued else None
        if found is None or found.expires <= self._clock.monotonic():
            raise invalid_ticket()
        user = self._directory.get_user(found.username)
        if user is None or not user.active or user.login_id != found.login_id:
            raise invalid_ticket()
        return user

    def _forget_expired(self) -> None:
        now = self._clock.monotonic()
        while self._issued:
            digest, oldest = next(iter(self._issued.items()))
            if oldest.expires > now:
                return
            self._end(digest)

    def _end(self, digest: bytes) -> _Ticket:
        ended = self._issued.pop(digest)
        account = _account(ended.username, ended.login_id)
        self._counts[account] -= 1
        if not self._counts[account]:
            del self._counts[account]
        return ended


def invalid_ticket() -> Problem:
    return Problem("invalid ticket", 401)


def takes_ticket(request: Request) -> bool:
    """Whether it is the handshake of a WebSocket, or asks for an event stream; for others `ticket` is a word like any other."""
    return request.is_websocket or (request.method == "GET" and "text/event-stream" in request.block.fields.get("accept", ""))


def cut_ticket(request: Request) -> str | None:
    """Take the ticket out of the address of a request, so that nothing else sees it; None if it has none. Raises Problem 401 for several."""
    path, _, query = request.target.partition("?")
    found: list[str] = []
    kept: list[str] = []
    depth = end = last = 0
    for match in _IN_QUERY.finditer(query):
        between = query[last : match.start()]
        depth += sum(map(between.count, "([")) - sum(map(between.count, ")]"))
        last = match.start()
        if not depth:
            found.append(match[1])
            kept.append(query[end:last])
            end = match.end()
    if not found:
        return None
    rest = "".join([*kept, query[end:]]).removeprefix("&")
    request.target = f"{path}?{rest}" if rest else path
    request.query = rest or None
    if len(found) > 1:
        raise invalid_ticket()
    return found[0]


def _digest(ticket: str) -> bytes:
    return blake2b(ticket.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _account(username: str, login_id: str) -> str:
    return f"{username}\0{login_id}"
