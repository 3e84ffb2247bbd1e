"""Sessions: properties kept for the bearer of a cookie, the user among them (spec: http §11.3, security §3).

    Set-Cookie: svc-session=<uuid4>; Path=/; Expires=...; HttpOnly; SameSite=Lax
    Set-Cookie: __Host-svc-session=<uuid4>; Path=/; Expires=...; HttpOnly; SameSite=Lax; Secure         over HTTPS

Over HTTPS it is `SameSite=None` where the access list has origins of other sites, and `svc-session` with a `Domain` where one is configured (a
`__Host-` cookie has none, RFC 6265bis §4.1.3.2). What a page of a foreign origin sends has no session at all: `ForeignSessions`.

Nothing of a session is kept in memory. A request with a cookie costs one look-up in `svc_session` and one in the directory of users: what another
request, operation or process did to session or user shows with the next request. A session is made by its first `update` or by a login,
never by reading; both are on the disk when they return.

`__login__` of a session with a user is the `User.login_id` that the user had at the login. As soon as the user has another one (dropped and added
again, password changed, deactivated) the session has ended. A session lives for 30 days, and for 30 more from the first use of each day; with
`authentication.cookie.expires` for that time and no longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from email.utils import formatdate
from typing import Any, NoReturn
from uuid import uuid4

from svc.auth.session_cookie import COOKIE, HOST_COOKIE, SHOWN_ID, cookie_id
from svc.auth.users import User, UserDirectory, check_no_key
from svc.auth.verifier import Verifier
from svc.auth.writes import MUST_EXIST, write
from svc.clock import AHEAD, Clock
from svc.config import Config
from svc.errors import ClientError, PreconditionFailed, Problem
from svc.messages import Request
from svc.store import Store, Table, WriterBusy
from svc.store.system import SESSION_LOGIN, SESSION_SINCE, SESSION_TABLE, SYSTEM
from svc.store.values.records import decode, expiry_of

DAY = 86_400.0  # seconds
DEFAULT_LIFE = 30 * DAY
LONGEST_LIFE = 100 * 365 * DAY
_OWN = (SESSION_LOGIN, SESSION_SINCE)  # attributes that are no properties of the session


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
        """`life` in seconds, None: 30 days, renewed by use. `domains`: that cookies are set for, where the host is below one. `executor`: for what
        blocks."""
        self.enabled = enabled
        self.verifier = verifier or Verifier(directory, clock=clock)
        self._directory = directory
        self._store = store
        self._wall = clock.wall
        self._is_renewed = life is None
        self._life = DEFAULT_LIFE if life is None else min(life, LONGEST_LIFE)
        self._domains = tuple(domain.lstrip(".").lower() for domain in domains if domain and domain.lstrip("."))
        self._executor = executor
        self.has_other_sites: Callable[[str], bool] = lambda host: False
        """Whether pages of other sites than that of this host name use the sessions (`OriginPolicy`)."""
        self._renewing: set[str] = set()  # ids whose renewal is being committed

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
            enabled=config.authentication.enable_sessions,
            life=config.authentication.cookie.expires,
            domains=tuple(domain for domain in config.authentication.cookie.domains or () if domain is not None),
            executor=executor,
        )

    # --- what a request has ----------------------------------------------------------------------------------------------------------

    def of(self, request: Request) -> Session | None:
        """`request.session`."""
        if not self.enabled:
            return None
        session_id = self._cookie_id(request)
        return Session(self, request, session_id if session_id is not None and self.record(session_id) is not None else None)

    def user(self, request: Request) -> User | None:
        """The user of the session that the request names; None without one, and for a user that was dropped or is inactive. Use renews the session."""
        session_id = self._cookie_id(request)
        raw = None if session_id is None else self.table.get_raw(session_id)
        if raw is None:
            return None
        record = decode(raw)
        user = self.owner(record)
        if user is None and record.get(SESSION_LOGIN) is not None:
            return None  # it has ended
        expiry = expiry_of(raw)
        left = 0.0 if expiry is None else expiry / 1000 - self._wall()
        if left > self._life + AHEAD or (self._is_renewed and left < self._life - DAY):  # the former: the clock was ahead when it was made
            self._renew(request, record["id"])
        return user if user is not None and user.active else None

    def record(self, session_id: str | None) -> dict[str, Any] | None:
        """The stored session; None if there is none, or it has ended."""
        raw = None if session_id is None else self.table.get_raw(session_id)
        record = None if raw is None else decode(raw)
        return None if record is None or (record.get(SESSION_LOGIN) is not None and self.owner(record) is None) else record

    def id_with_user(self, request: Request, username: str) -> str | None:
        """The id of the session that the request brings, if this user is logged in to it."""
        session_id = self._cookie_id(request)
        return session_id if session_id is not None and self.has_user(session_id, username) else None

    def has_user(self, session_id: str, username: str) -> bool:
        """Whether this user is still logged in to a session. It is not renewed."""
        raw = self.table.get_raw(session_id)
        user = None if raw is None else self.owner(decode(raw))
        return user is not None and user.active and user.username == username

    def owner(self, record: Mapping[str, Any]) -> User | None:
        """The user who logged in to a session, if that login still counts. `record`: of the session."""
        username, login_id = record.get("user"), record.get(SESSION_LOGIN)
        user = self._directory.get_user(username) if isinstance(username, str) and login_id is not None else None
        return user if user is not None and user.login_id == login_id else None

    def renewed(self, expires: float | None) -> float | None:
        """When a session was renewed by use, or begun; both in ms since the epoch. None: use renews none. `expires`: of the session."""
        return expires - self._life * 1000 if self._is_renewed and expires is not None else None

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
        """Begin a session of this user with the properties of the one before, under a new id, so that it cannot have been planted (session fixation)."""
        check_no_key(user, "sessions")
        session = request.session
        if not isinstance(session, Session):
            raise ClientError("No session for login")
        await self._begin(session, user)

    async def begin_proven(self, request: Request, user: User) -> None:
        """The same for a request that shows by itself that this browser has begun the login, though a page of another site has sent it here: what would be
        refused to `ForeignSessions` is not."""
        session = self.of(request)
        if session is None:
            raise ClientError("No session for login")
        request.sessions = self
        await self._begin(session, user)
        request.user = user

    async def _begin(self, session: Session, user: User) -> None:
        old = self.record(session.id)
        properties = {**(old or {}), "user": user.username, SESSION_LOGIN: user.login_id}
        await self._make(session, properties, None if old is None else old["id"])

    async def update(self, session: Session, changes: Mapping[str, Any]) -> None:
        if "id" in changes and changes["id"] != session.id:
            raise ClientError("The id of a session cannot be changed")
        for name in _OWN:
            if name in changes:
                raise ClientError(f"{name} of a session cannot be changed")
        properties = {name: value for name, value in changes.items() if name != "id"}
        if "user" in properties:
            user = properties["user"]
            if not isinstance(user, User):
                user = self._directory.get_user(user) if isinstance(user, str) else None
            check_no_key(user, "sessions")
            if user is not None:
                properties["user"] = user.username
            properties[SESSION_LOGIN] = None if user is None else user.login_id
        if session.id is not None and self.record(session.id) is not None:
            transaction = self._store.begin(session.username)
            transaction.patch(self.table, session.id, self.table.validator.changes(properties, source="native"), MUST_EXIST)
            try:
                await write(transaction)
            except PreconditionFailed:  # has just ended: by another request, or by time
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
        record = self.table.validator.record({**properties, "id": session_id, SESSION_SINCE: wall * 1000}, source="native")
        transaction = self._store.begin(session.username)
        transaction.put(self.table, session_id, record, expires_at=(wall + self._life) * 1000)
        if replaced is not None:
            transaction.delete(self.table, replaced)
        await write(transaction)
        session.id = session_id
        self._set_cookie(session.request, session_id, wall)
        self._tell_written(session)

    def _renew(self, request: Request, session_id: str) -> None:
        """Let the session and its cookie live for another term. The request does not wait for it: what fails is tried again at the next use."""
        if session_id in self._renewing:
            return
        wall = self._wall()
        transaction = self._store.begin()
        transaction.update(self.table, session_id, {}, expires_at=(wall + self._life) * 1000)
        try:
            transaction.apply(wait=False)
        except (WriterBusy, Problem):
            return

        def committed(problem: Problem | None) -> None:
            self._renewing.discard(session_id)

        self._renewing.add(session_id)
        transaction.on_done = committed
        self._set_cookie(request, session_id, wall)

    def _tell_written(self, session: Session) -> None:
        if session.request.scheme == "https":
            session.request.response_headers.set("X-Svc-Session", "Secure")

    # --- the cookie ----------------------------------------------------------------------------------------------------------------

    def _cookie_id(self, request: Request) -> str | None:
        """The session id that the request brings, whether or not there is such a session."""
        block = request.block
        return cookie_id(block, self._name(request)) if "cookie" in block.fields else None

    def _name(self, request: Request) -> str:
        return HOST_COOKIE if request.scheme == "https" and self._domain(request.host) is None else COOKIE

    def _set_cookie(self, request: Request, value: str, wall: float) -> None:
        request.response_headers.append("Set-Cookie", self._cookie(request, value, formatdate(wall + self._life, usegmt=True)))

    def _cookie(self, request: Request, value: str, expires: str) -> str:
        parts = [f"{self._name(request)}={value}", "Path=/", f"Expires={expires}"]
        domain = self._domain(request.host)
        if domain is not None:
            parts.append(f"Domain={domain}")
        parts.append("HttpOnly")
        if request.scheme == "https":
            parts += ["SameSite=None" if self.has_other_sites(_name_of(request.host)) else "SameSite=Lax", "Secure"]
        else:
            parts.append("SameSite=Lax")
        return "; ".join(parts)

    def _domain(self, host: str) -> str | None:
        if not self._domains:
            return None
        name = _name_of(host)
        return next((domain for domain in self._domains if name == domain or name.endswith("." + domain)), None)


class ForeignSessions:
    """`request.sessions` of a foreign page's request: no session, whatever cookie came, and none can be begun. `reason`: why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def of(self, request: Request) -> Session:
        return Session(self, request, None)

    def record(self, session_id: str | None) -> None:
        return None

    async def login(self, request: Request, username: str, password: str) -> User:
        self._refuse()

    async def update(self, session: Session, changes: Mapping[str, Any]) -> None:
        self._refuse()

    async def end(self, session: Session, session_id: str) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        # Else a page could log its visitor in as another user, or end a session whose id it knows.
        raise Problem(f"A page of a foreign origin can neither begin nor change a session: {self._reason}", 403)


class Session:
    """`request.session`: an updatable record, bound to the caller's cookie. `id` None: there is none yet; the first `update` makes it."""

    __slots__ = ("_sessions", "id", "request")

    def __init__(self, sessions: Sessions | ForeignSessions, request: Request, session_id: str | None) -> None:
        """`session_id`: of a session that exists."""
        self._sessions = sessions
        self.request = request
        self.id = session_id

    async def get(self) -> dict[str, Any]:
        """The stored properties, `id` and `user` among them; empty if there is no session."""
        record = self._sessions.record(self.id) or {}
        return {name: value for name, value in record.items() if name not in _OWN}

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
        """The user in the log entry of the write."""
        return None if self.request.user is None else self.request.user.username

    def __repr__(self) -> str:
        return f"<Session {self.id[:SHOWN_ID] if self.id else None}>"


def _name_of(host: str) -> str:
    """The name or address in a `Host`, in lower case, an IPv6 address in brackets."""
    name = host.lower()
    return name.partition("]")[0] + "]" if name.startswith("[") else name.partition(":")[0]
