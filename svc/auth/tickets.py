"""Tickets: what a browser's script that may not send header fields shows instead of a login (spec: security §3).

`new WebSocket(...)` and `new EventSource(...)` take an address and nothing else, and from a page of another site the cookie does not count. So the page
asks for a ticket with its token and puts it into the address: `?ticket=...`. It is good for one handshake or one event stream within 30 seconds.

They are kept in `svc_ticket`, for all processes of the node: made by one, a ticket is used at any, and once, for its use is a write that removes it. Of a
ticket only a digest is kept, and of the account its name and what a new password changes: whose rights count is asked when it is used.

    id      when it expires, ms since the epoch, in 13 digits, and the digest: so those of an account are in the order of their age
    user    its name; `__login__` as in `svc_session`
"""

from __future__ import annotations

import re
import secrets
from hashlib import blake2b
from itertools import islice

from svc.auth.users import User, UserDirectory, check_no_key
from svc.auth.writes import MUST_EXIST, write
from svc.clock import Clock
from svc.errors import Overloaded, PreconditionFailed, Problem
from svc.messages import Request
from svc.store import Table
from svc.store.system import SESSION_LOGIN, SYSTEM, TICKET_TABLE
from svc.store.values.keys import index_key
from svc.store.values.records import decode

LIFE = 30.0  # seconds
MOST = 10_000  # outstanding; more are refused
MOST_PER_ACCOUNT = 100  # the oldest ends
PARAMETER = "ticket"

_BYTES = 32
_FORM = re.compile(r"(\d{13})[\w-]{43}", re.ASCII)  # when it expires, and a secret of _BYTES
_IN_QUERY = re.compile(r"(?:^|&)ticket=([^&]*)")


class Tickets:
    """Those of one node."""

    def __init__(self, directory: UserDirectory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock

    @property
    def table(self) -> Table:
        return self._directory.store.databases[SYSTEM].tables[TICKET_TABLE]

    async def issue(self, user: User) -> tuple[str, float]:
        """A ticket, and when it expires, ms since the epoch. It is on the disk. Raises Overloaded when too many are outstanding, 403 if an API
        key asks, and the Problem that prevents the write."""
        check_no_key(user, "tickets")
        table, store = self.table, self._directory.store
        snapshot = table.database.snapshot()
        expires = int((self._clock.wall() + LIFE) * 1000)
        ticket = f"{expires:013d}{secrets.token_urlsafe(_BYTES)}"
        transaction = store.begin(user.username)
        outstanding = table.indexes["user"].scan(snapshot, index_key(user.username), index_key(user.username) + b"\0")
        own = [stored for _, stored in islice(outstanding, MOST_PER_ACCOUNT)]
        if len(own) == MOST_PER_ACCOUNT:
            transaction.delete_stored(table, own[0], table.get_by(own[0], snapshot) or b"")
        elif table.entry_count(snapshot) >= MOST:
            raise Overloaded("Too many tickets are outstanding")
        record = {"id": _key(ticket), "user": user.username, SESSION_LOGIN: user.login_id}
        transaction.put(table, record["id"], record, expires_at=expires)
        await write(transaction)
        return ticket, expires

    async def take(self, ticket: str) -> User:
        """The user that a ticket was made for, as it is now. The ticket has ended, whatever comes. Raises Problem: 401, or what prevents the write."""
        form = _FORM.fullmatch(ticket)
        raw = None if form is None else self.table.get_raw(_key(ticket))
        if form is None or raw is None or int(form[1]) <= self._clock.wall() * 1000:
            raise invalid_ticket()
        transaction = self._directory.store.begin()
        transaction.may_use_reserve = True
        transaction.delete(self.table, _key(ticket), MUST_EXIST)
        try:
            await write(transaction)
        except PreconditionFailed:  # used meanwhile, perhaps at another process
            raise invalid_ticket() from None
        record = decode(raw)
        user = self._directory.get_user(record["user"])
        if user is None or not user.active or user.login_id != record[SESSION_LOGIN]:
            raise invalid_ticket()
        return user


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


def _key(ticket: str) -> str:
    return ticket[:13] + blake2b(ticket.encode(), digest_size=16).hexdigest()
