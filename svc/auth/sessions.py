"""Sessions: properties kept for whoever shows the cookie, the user among them (contract: http §11.3, security §3).

    Set-Cookie: <host>-svc-session=<uuid4>; Path=/; Expires=...; HttpOnly; SameSite=Lax          over HTTPS: SameSite=None; Secure

`<host>` is that of `Origin`, else `Host`: a page of another origin asks under another cookie name, so what it sends is anonymous.

Nothing of a session is kept in memory. A request with a cookie costs one look-up in `svc_session` and one in the directory of users: what another
request, operation or process did to session or user shows with the next request. A session is made by its first `update` or by a login,
never by reading; both are on the disk when they return.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from email.utils import formatdate
from typing import Any
from uuid import uuid4

from svc.auth.system import SESSION_TABLE, SYSTEM
from svc.auth.users import User, UserDirectory
from svc.auth.verifier import Verifier
from svc.auth.writes import MUST_EXIST, write
from svc.clock import Clock
from svc.config import Config
from svc.errors import ClientError, PreconditionFailed
from svc.messages import HeaderBlock, Request
from svc.store import Store, Table
from svc.store.records import decode

FOR_EVER = "Tue, 01 Oct 8307 19:33:20 GMT"
LONGEST_LIFE = 1000 * 365 * 86_400  # seconds; more is for ever, and may be beyond what a date can say
SHOWN_ID = 8  # characters of an id that a log may show: the whole is a credential

_SUFFIX = "-svc-session"
_MEMO = "auth.session"
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_]")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Sessions:
    """The sessions of this node."""

    def __init__(
        self,
        store: Store,
        directory: UserDirectory,
        clock: Clock,
        *,
        verifier: Verifier | None = None,
        enabled: bool = True,
        life: float | None = None,
        domains: Sequence[str] = (),
        executor: Executor | None = None,
    ) -> None:
        """`life` in seconds, None: for ever. `domains`: that cookies are set for, where the host is below one. `executor`: for what blocks."""
        self.enabled = enabled
        self.verifier = verifier or Verifier(directory, clock=clock)
        self._directory = directory
        self._store = store
        self._wall = clock.wall
        self._life = life if life is not None and life < LONGEST_LIFE else None
        self._domains = tuple(domain.lstrip(".").lower() for domain in domains if domain and domain.lstrip("."))
        self._executor = executor

    @classmethod
    def from_config(
        cls,
        config: Config,
        store: Store,
        directory: UserDirectory,
        clock: Clock,
        *,
        verifier: Verifier | None = None,
        executor: Executor | None = None,
    ) -> Sessions:
        return cls(
            store,
            directory,
            clock,
            verifier=verifier,
            enabled=config["authentication.enableSessions"],
            life=config["authentication.cookie.expires"],
            domains=config["authentication.cookie.domains"] or (),
            executor=executor,
        )

    # --- what a request has ----------------------------------------------------------------------------------------------------------

    def of(self, request: Request) -> Session | None:
        """`request.session`."""
        return Session(self, request) if self.enabled else None

    def user(self, block: HeaderBlock) -> User | None:
        """The user of the session that these fields name; None without one, and for a user who is gone or inactive."""
        record = self.record(cookie_id(block))
        username = None if record is None else record.get("user")
        user = self._directory.get_user(username) if isinstance(username, str) else None
        return user if user is not None and user.active else None

    def record(self, session_id: str | None) -> dict[str, Any] | None:
        """The stored session; None if there is none, or it has expired."""
        raw = None if session_id is None else self.table.get_raw(session_id)
        return None if raw is None else decode(raw)

    @property
    def table(self) -> Table:
        return self._store.databases[SYSTEM].tables[SESSION_TABLE]

    # --- changing ------------------------------------------------------------------------------------------------------------------

    async def login(self, request: Request, username: str, password: str) -> User:
        """Verify the password and begin a session of that user. Raises Problem: 401 `Login failed` and so on; then all is as it was."""
        if not self.enabled:
            raise ClientError("No session for login")
        user = await self.verifier.verify(username, password, request, self._executor)
        await self.begin(request, user)
        request.user = user
        return user

    async def begin(self, request: Request, user: User) -> None:
        """Begin a session of this user: under a new id, so that nobody can have planted it, with the properties of the one before."""
        session = request.session
        if not isinstance(session, Session):
            raise ClientError("No session for login")
        old = self.record(session.id)
        await self._make(session, {**(old or {}), "user": user.username}, None if old is None else old["id"])

    async def update(self, session: Session, changes: Mapping[str, Any]) -> None:
        if "id" in changes and changes["id"] != session.id:
            raise ClientError("The id of a session cannot be changed")
        properties = {name: value for name, value in changes.items() if name != "id"}
        if isinstance(properties.get("user"), User):
            properties["user"] = properties["user"].username
        if session.id is not None and self.record(session.id) is not None:
            transaction = self._store.begin(session.username)
            transaction.patch(self.table, session.id, self.table.validator.changes(properties, source="native"), MUST_EXIST)
            try:
                await write(transaction)
            except PreconditionFailed:  # ended at this moment: by another request, or by time
                pass
            else:
                self._tell_written(session)
                return
        await self._make(session, {"user": None, **properties}, None)

    async def end(self, session: Session, session_id: str) -> None:
        """Remove a session; if it is the caller's own, its cookie too."""
        own = session_id == session.id
        transaction = self._store.begin(session.username)
        transaction.delete(self.table, session_id)
        await write(transaction)
        if own:
            session.id = None
            session.request.response_headers.append("Set-Cookie", self._cookie(session.request, "", formatdate(0, usegmt=True)))

    async def _make(self, session: Session, properties: dict[str, Any], replaced: str | None) -> None:
        """Store a session under a new id and set its cookie."""
        session_id = str(uuid4())
        wall = self._wall()
        expires_at = None if self._life is None else (wall + self._life) * 1000
        record = self.table.validator.record({**properties, "id": session_id}, source="native")
        transaction = self._store.begin(session.username)
        transaction.put(self.table, session_id, record, expires_at=expires_at)
        if replaced is not None:
            transaction.delete(self.table, replaced)
        await write(transaction)
        session.id = session_id
        expires = FOR_EVER if self._life is None else formatdate(wall + self._life, usegmt=True)
        session.request.response_headers.append("Set-Cookie", self._cookie(session.request, session_id, expires))
        self._tell_written(session)

    def _tell_written(self, session: Session) -> None:
        if session.request.scheme == "https":
            session.request.response_headers.set("X-Svc-Session", "Secure")

    def _cookie(self, request: Request, value: str, expires: str) -> str:
        host = cookie_host(request.block)
        parts = [f"{cookie_name(host)}={value}", "Path=/", f"Expires={expires}"]
        domain = self._domain(host)
        if domain is not None:
            parts.append(f"Domain={domain}")
        parts += ["HttpOnly", "SameSite=None", "Secure"] if request.scheme == "https" else ["HttpOnly", "SameSite=Lax"]
        return "; ".join(parts)

    def _domain(self, host: str) -> str | None:
        name = host.lower()
        if not name.startswith("["):
            name = name.partition(":")[0]
        return next((domain for domain in self._domains if name == domain or name.endswith("." + domain)), None)


class Session:
    """`request.session`: an updatable record, bound to the caller's cookie. `id` None: there is none yet; the first `update` makes it."""

    __slots__ = ("_sessions", "id", "request")

    def __init__(self, sessions: Sessions, request: Request) -> None:
        self._sessions = sessions
        self.request = request
        self.id: str | None = cookie_id(request.block)
        if self.id is not None and sessions.record(self.id) is None:
            self.id = None

    async def get(self) -> dict[str, Any]:
        """The stored properties, `id` and `user` among them; empty if there is no session."""
        return self._sessions.record(self.id) or {}

    async def update(self, properties: Mapping[str, Any]) -> None:
        """Set these properties and keep the others. `{"user": None}` logs out."""
        await self._sessions.update(self, properties)

    async def delete(self, session_id: str | None = None) -> None:
        """End a session, default: this one."""
        session_id = self.id if session_id is None else session_id
        if session_id is not None:
            await self._sessions.end(self, session_id)

    @property
    def user(self) -> str | None:
        """Name of the user who is logged in."""
        record = self._sessions.record(self.id)
        return None if record is None else record.get("user")

    @property
    def username(self) -> str | None:
        """Whom the log of the store names."""
        return None if self.request.user is None else self.request.user.username

    def __repr__(self) -> str:
        return f"<Session {self.id[:SHOWN_ID] if self.id else None}>"


def cookie_host(block: HeaderBlock) -> str:
    """The host that a request's cookie is named after: of the page that sends it, else the one it is sent to."""
    origin = block.fields.get("origin")
    return block.fields.get("host", "") if origin is None else origin.partition("://")[2] or origin


def cookie_name(host: str) -> str:
    """
    >>> cookie_name("localhost:9926")
    'localhost_9926-svc-session'
    """
    return _NOT_IN_NAME.sub("_", host) + _SUFFIX


def cookie_id(block: HeaderBlock) -> str | None:
    """The session id that the header fields bring, whether or not there is such a session. Header blocks repeat, so it is looked for once."""
    if "cookie" not in block.fields:
        return None
    memo = block.memo
    if _MEMO not in memo:
        memo[_MEMO] = _find_id(block.fields["cookie"], cookie_name(cookie_host(block)))
    found: str | None = memo[_MEMO]
    return found


def _find_id(cookies: str, name: str) -> str | None:
    for pair in cookies.split(";"):
        key, _, value = pair.partition("=")
        if key.strip() == name and _ID.fullmatch(value.strip()):
            return value.strip()
    return None
