"""The broker of one server: its sessions by client id, who may open one, and when one ends (spec: mqtt §2, §7, §8)."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator
from math import inf
from secrets import token_hex
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

from svc.auth.identify import Identifier, PendingVerification
from svc.auth.users import KEY_START, User, UserDirectory, user_of
from svc.auth.writes import write
from svc.errors import AccessViolation, PreconditionFailed, Problem
from svc.loop import contained
from svc.messages import HeaderBlock, HeaderPairs, Request
from svc.mqtt.addresses import Addresses
from svc.mqtt.client_log import ClientLog
from svc.mqtt.clients import MqttSession
from svc.mqtt.delivery import Delivery
from svc.mqtt.listeners import ClientListeners, ClientRefused
from svc.mqtt.metrics import MqttMetrics
from svc.mqtt.payloads import Payloads
from svc.mqtt.publishing import Publishing, Sender
from svc.mqtt.session import Session, SessionLink
from svc.mqtt.shared import SharedGroup, SharedMember, delivery_of
from svc.mqtt.stored_sessions import StoredSessions
from svc.mqtt.taking_over import SECONDS, Claim, Claims
from svc.mqtt.wills import Wills
from svc.protocol.mqtt_packets import V5, Connect, Subscription
from svc.protocol.mqtt_properties import NEVER, SESSION_EXPIRY, USER_PROPERTY
from svc.protocol.mqtt_topics import SHARE
from svc.protocol.mqtt_values import (
    BAD_CREDENTIALS,
    CLIENT_ID_INVALID,
    FILTER_INVALID,
    NOT_AUTHORIZED,
    QUOTA_EXCEEDED,
    SUCCESS,
    UNAVAILABLE,
    UNSPECIFIED,
)
from svc.reactor import Reactor
from svc.resources import Resources
from svc.siblings import Siblings
from svc.store import Transaction, WriterBusy
from svc.store.slices import SLICE
from svc.store.writing.commit import wait_committed

logger = logging.getLogger("svc.mqtt")

FILTERS = 1000  # of a session
USER_FILTERS = 100_000  # of the sessions of a user that are in memory
SESSIONS = 100_000  # beyond, none is taken that lasts longer than its connection
NO_SUBSCRIPTION = 0x11
OPENING = 5.0  # seconds that code of an application has to say whether a client that comes back may go on to read a table
LONGEST_ID = 1024  # characters of a client id

ANOTHER_USERS = "the session of this client id is another user's"

OnAdmitted = Callable[[Session, bool, str], None]
OnRefused = Callable[[int, str], None]


class ConnectRefused(Exception):
    """CONNECT is refused with this reason code."""

    def __init__(self, reason: int, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Options(Protocol):
    """Section `mqtt` of the configuration."""

    @property
    def require_authentication(self) -> bool: ...
    @property
    def max_packet_size(self) -> int: ...
    @property
    def max_catch_up(self) -> int | None: ...


class Identifiers(NamedTuple):
    """`direct`: of the clients of the ports of MQTT. `pages`: of those over WebSocket, whose certificates are asked for on ports of HTTP. `directory`: their
    users."""

    direct: Identifier
    pages: Identifier
    directory: UserDirectory


class Sweepable(Protocol):
    def sweep(self, now: float) -> float | None: ...


class Broker:
    """`sessions`: by client id; those that are connected, and those that wait for their client. `swept`: links whose connections do not sweep them.
    `log`: set before it serves.
    """

    log: ClientLog

    def __init__(
        self,
        options: Options,
        resources: Resources,
        payloads: Payloads,
        identifiers: Identifiers,
        reactor: Reactor,
        metrics: MqttMetrics,
        listeners: ClientListeners,
        siblings: Siblings,
    ) -> None:
        self._options = options
        self._identifiers = identifiers
        self._directory = directory = identifiers.directory
        self.loop = reactor.loop
        self.now = reactor.clock.monotonic
        self.wall = reactor.clock.wall
        self._log_error = reactor.log_error
        self.metrics = metrics
        self.listeners = listeners
        self.payloads = payloads
        self.addresses = Addresses(resources)
        self.is_alive: Callable[[str], bool] = siblings.is_alive
        self.stored = StoredSessions(directory.store, self.wall, self.spawn, siblings.identity, lambda owner: self.is_alive(owner))
        self.siblings = siblings
        self.claims = Claims(siblings)
        self.publishing = Publishing(self.addresses, payloads, reactor.loop, self.report, self.stored.rows_of, self.stored.system)
        self.largest = options.max_packet_size
        self.max_catch_up = inf if options.max_catch_up is None else options.max_catch_up
        self._drop_settled = self._drop  # one object for all sessions
        self.sessions: dict[str, Session] = {}
        self._filters: Counter[str | None] = Counter()  # those of `sessions`, by user name
        self.groups: dict[str, SharedGroup] = {}
        self.stored.live_groups = self.groups
        self.rows_of = self.stored.rows_of
        self.is_session = self.stored.is_session
        self.swept: set[Sweepable] = set()
        self.wills = Wills(self.publishing, self.stored, directory, reactor.loop, self.write)
        self._tasks: set[asyncio.Task[None]] = set()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._to_note: deque[Callable[[], None]] = deque()
        self._slice_end = 0.0

    def report(self, error: BaseException) -> None:
        """Log a defect, or what code of an application has raised."""
        self._log_error("a message of MQTT", error)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def take_up(self) -> None:
        """Go on with what processes have left that have ended."""
        self.wills.publish_left(self.is_alive)
        self.spawn(self._set_ends())

    async def _run(self, what: str, steps: Iterator[None]) -> None:
        try:
            await self.stored.store.slices.exhaust(steps)
        except Problem as problem:
            logger.error("%s failed: %s", what, problem.message)

    async def _set_ends(self) -> None:
        """Sessions whose clients were connected when their process ended: their time begins now. Then remove what is left of others."""
        left: list[str] = []

        def find() -> Iterator[None]:
            for record in self.stored.each():
                if record is not None and self._is_left(record):
                    left.append(record["id"])
                yield

        await self._run("looking for sessions", find())
        for client_id in left:
            async with self._lock(client_id):
                record = None if client_id in self.sessions else self.stored.find(client_id)
                if record is not None and self._is_left(record):
                    transaction = self.stored.store.begin()
                    self.stored.set_end(transaction, record)
                    self.write(transaction, _ignore)
            await self._pause()
        await self._run("cleaning up sessions", self.stored.remove_unknown_rows())

    def _is_left(self, record: dict[str, Any]) -> bool:
        return record["ends"] is None and record["expiry"] is not None and not self.is_alive(record.get("owner") or "")

    def _lock(self, client_id: str) -> asyncio.Lock:
        """Held by what opens the session of a client: of several connections each sees what the one before it has done."""
        found = self._opening.get(client_id)
        if found is None:
            found = self._opening[client_id] = asyncio.Lock()
        return found

    def _is_opening(self, client_id: str) -> bool:
        """Whether the client is coming back: a session of it that is in memory goes on, unless another process has it by then (`_find`)."""
        lock = self._opening.get(client_id)
        return lock is not None and lock.locked()

    def write(self, transaction: Transaction, on_done: Callable[[Problem | None], None]) -> None:
        """Write to the system database; `on_done` is called when it is on the disk, with None, or with why it is not."""
        try:
            transaction.apply(wait=False)
        except WriterBusy:
            self.spawn(self._write_later(transaction, on_done))
        except Problem as problem:
            on_done(problem)
        else:
            transaction.on_done = on_done

    @staticmethod
    async def _write_later(transaction: Transaction, on_done: Callable[[Problem | None], None]) -> None:
        try:
            await transaction.apply_in_turn()
            await wait_committed(transaction)
        except Problem as problem:
            on_done(problem)
        else:
            on_done(None)

    # --- CONNECT -------------------------------------------------------------------------------------------------------------------------

    def admit(self, link: SessionLink, packet: Connect, on_admitted: OnAdmitted, on_refused: OnRefused) -> None:
        """Identify the user and open the session; one of the callbacks is called, now or later."""
        self.spawn(self._admit(link, packet, on_admitted, on_refused))

    async def _admit(self, link: SessionLink, packet: Connect, on_admitted: OnAdmitted, on_refused: OnRefused) -> None:
        try:
            request = _request_of(packet, link)
            user = await self._identify(request, packet, link)
            if user is None and self._options.require_authentication:
                self.listeners.tell("auth-failed", packet, link.socket, None)
                raise ConnectRefused(NOT_AUTHORIZED, "a user name and a password are needed")
            await self.listeners.authorize(packet, user)
            link.kind = self.payloads.writer(_accept_of(packet, link))
            client_id, assigned = packet.client_id, ""
            if not client_id:
                if not packet.clean and packet.version != V5:
                    raise ConnectRefused(CLIENT_ID_INVALID, "a session that is to last needs a client id")
                client_id = assigned = f"auto-{token_hex(8)}"
            elif len(client_id) > LONGEST_ID:
                raise ConnectRefused(CLIENT_ID_INVALID, f"a client id has at most {LONGEST_ID} characters")
            sender = Sender(user, self._directory, link.peer, None if link.handshake is None else link.handshake.block)
            sender.content_type = None if link.handshake is None else link.handshake.block.get("content-type")
            opened = await self._open_alone(link, packet, client_id, sender)
            if opened is None:
                return
            on_admitted(*opened, assigned)
            self._identifier_of(link).watch_login(request, link)
        except ConnectRefused as refused:
            on_refused(refused.reason, str(refused))
        except ClientRefused as refused:
            self.listeners.tell("auth-failed", packet, link.socket, refused.error)
            on_refused(refused.reason, str(refused))
        except Problem as problem:
            if problem.status_code == 401:
                self.listeners.tell("auth-failed", packet, link.socket, problem)
            on_refused(BAD_CREDENTIALS if problem.status_code == 401 else UNAVAILABLE, problem.message)
        except BaseException as error:
            self.report(contained(error))
            on_refused(UNSPECIFIED, "")

    async def _open_alone(self, link: SessionLink, packet: Connect, client_id: str, sender: Sender) -> tuple[Session, bool] | None:
        """`_open`, after those before it for the same client. None: the client has gone."""
        try:
            async with self._lock(client_id):
                if link.is_closed:
                    return None
                with self.claims.claim(client_id) as claim:
                    session, is_present = await self._open(link, packet, client_id, sender, claim)
                if link.is_closed:
                    self.lost(session, link)
                    return None
                return session, is_present
        finally:
            left = self.sessions.get(client_id)
            if left is not None and left.link is None and (left.is_settled or left.is_broken):
                self._drop(left)

    def _identifier_of(self, link: SessionLink) -> Identifier:
        return self._identifiers.direct if link.handshake is None else self._identifiers.pages

    async def _identify(self, request: Request, packet: Connect, link: SessionLink) -> User | None:
        """The user of CONNECT, or of the handshake of its WebSocket, which is one of a page perhaps: that is not identified by where it comes from."""
        if link.handshake is not None and "authorization" not in request.block.fields:
            user = user_of(link.handshake)
        else:
            found = self._identifier_of(link).identify(request)
            user = await found.wait(self.loop, None) if isinstance(found, PendingVerification) else found
            if user is not None and user.key is not None and packet.username not in (None, "", user.username, user.key.name):
                raise ConnectRefused(BAD_CREDENTIALS, "the API key is not that of this user")
        request.user = user
        return user

    async def _open(self, link: SessionLink, packet: Connect, client_id: str, sender: Sender, claim: Claim) -> tuple[Session, bool]:
        """(the session, whether it was there). Raises ConnectRefused, Problem."""
        if not await claim.enter(sender.username, ends=packet.clean):
            raise ConnectRefused(CLIENT_ID_INVALID, ANOTHER_USERS)
        await self.wills.settle(client_id)
        session, record = self._find(client_id, sender.username)
        ends = packet.clean or (session is not None and not session.expiry)  # its connection ends now
        if session is not None:
            self._take_over(session, ends=ends)
        self.wills.find_left(client_id)
        self.wills.client_is_back(client_id, ends_session=packet.clean)
        number = None  # of a session that ends now
        if ends and session is not None:
            number = None if session.rows is None else session.number
            self._forget(session)
            session = None
        elif packet.clean and record is not None:
            number, record = bytes.fromhex(record["number"]), None
        expiry = self._expiry_of(packet)
        is_present = session is not None or record is not None
        is_changed = expiry > 0
        if session is None and record is not None:
            steps = self.stored.restore(record, sender, self)
            session = next(steps)
            for _ in steps:
                await self._pause()
            kept = (record["ends"], record["expiry"], record.get("owner"))
            is_changed = kept != (None, None if expiry == inf else expiry, self.stored.identity)
        elif session is None:
            if expiry and self.stored.count >= SESSIONS:
                raise ConnectRefused(QUOTA_EXCEEDED, "there are too many sessions")
            session = Session(client_id, sender, expiry)
        assert session is not None
        session.on_settled = self._drop_settled
        session.belong_to(sender, expiry)
        if expiry and session.rows is None:
            session.rows = self.stored.session_rows(session)
        session.will = packet.will
        await self._store(session, is_changed=is_changed, replaces=number is not None)
        if number is not None:
            self.spawn(self._run("removing a session", self.stored.remove_rows(number)))
        for opening in session.open_deliveries():
            if opening is not None:
                await asyncio.wait((opening,), timeout=OPENING)
            await self._pause()
        if self.sessions.get(client_id) is not session:
            self._remove(client_id)
            self.sessions[client_id] = session
            self._count(session, len(session.deliveries))
        session.attach(link)
        return session, is_present

    def _find(self, client_id: str, username: str | None) -> tuple[Session | None, dict[str, Any] | None]:
        """The session of a client that comes as this user, or else its record. Raises ConnectRefused."""
        session = self.sessions.get(client_id)
        if session is not None and not session.is_broken and not self.stored.is_ours(session):
            self._give_away(session)
            session = None
        if session is not None and session.is_broken and session.link is None:
            session = None
        record = None if session is not None else self._record(client_id)
        if session is not None or record is not None:
            lasts, owner = (session.expiry > 0, session.sender.username) if session is not None else (True, (record or {})["user"])
            if lasts and owner != username:
                raise ConnectRefused(CLIENT_ID_INVALID, ANOTHER_USERS)
        return session, record

    async def _pause(self) -> None:
        """Give way, if the turn has gone on for long."""
        if self.now() >= self._slice_end:
            await asyncio.sleep(0)
            self._slice_end = self.now() + SLICE

    def _record(self, client_id: str) -> dict[str, Any] | None:
        try:
            return self.stored.find(client_id)
        except Problem as problem:
            raise ConnectRefused(CLIENT_ID_INVALID, problem.message) from None

    async def _store(self, session: Session, *, is_changed: bool, replaces: bool) -> None:
        """Write what CONNECT has changed of a session and its will. `replaces`: another session of the client has ended. Raises ConnectRefused."""
        transaction = self.stored.store.begin()
        try:
            if session.rows is not None and is_changed:
                self.stored.put(transaction, session)
            elif replaces:
                self.stored.delete(transaction, session.client_id)
            self.wills.collect(transaction, session)
            if transaction.has_writes:
                await write(transaction)
        except Problem as problem:
            refused = CLIENT_ID_INVALID if problem.status_code < 500 else UNAVAILABLE
            raise ConnectRefused(refused, problem.message) from None

    def _expiry_of(self, packet: Connect) -> float:
        """Seconds that the session lasts after its connection."""
        if packet.version == V5:
            return self.seconds_of(packet.properties.get(SESSION_EXPIRY, 0))
        return 0.0 if packet.clean else inf

    @staticmethod
    def seconds_of(expiry: int) -> float:
        return inf if expiry == NEVER else float(expiry)

    # --- the ends ------------------------------------------------------------------------------------------------------------------------

    def _take_over(self, session: Session, *, ends: bool) -> None:
        link = session.link
        if link is not None:
            session.detach()
            link.taken_over()
            self.wills.taken_over(session, ends=ends or not session.expiry)

    async def give_up(self, value: dict[str, Any]) -> bool:
        """Another process asks for a client (`Claim.enter`): when this returns, all that goes on there is on the disk. False: it is another user's."""
        client_id, ends = value["client_id"], value["ends"]
        await self.claims.wait_for_turn(client_id, (value["turn"], value["owner"]))
        try:
            session, _ = self._find(client_id, value["user"])
        except ConnectRefused:
            return False
        if session is not None:
            settled = asyncio.Event()
            session.on_settled = lambda _: settled.set()
            self._take_over(session, ends=ends)
            if not (session.is_settled or session.is_broken):
                await asyncio.wait_for(settled.wait(), SECONDS)
        self.wills.client_is_back(client_id, ends_session=ends)
        if session is not None and session.link is None and not self._is_opening(client_id):
            if ends or not session.expiry:
                self._forget(session)
            elif self.sessions.get(client_id) is session:
                self._remove(client_id)
        await self.wills.remove(client_id)
        return True

    def _give_away(self, session: Session) -> None:
        """Another process has the session now, and has not waited for this one: nothing is written that is meant for the one that was here."""
        session.is_broken, session.will = True, None
        self.wills.forget(session.client_id)
        link = session.link
        session.detach()
        if link is not None:
            link.taken_over()
        if self.sessions.get(session.client_id) is session:
            self._remove(session.client_id)

    def lost(self, session: Session, link: SessionLink) -> None:
        """A connection has ended. Without DISCONNECT the will is published, now or after its delay."""
        if session.link is not link:
            return
        if not session.is_broken and not self.stored.is_ours(session):
            self._give_away(session)
            return
        session.detach()
        self.wills.lost(session)
        if not session.expiry:
            self._end(session)
            return
        if session.expiry != inf and not session.is_broken:
            transaction = self.stored.store.begin()
            self.stored.put(transaction, session, is_connected=False)
            self.write(transaction, _ignore)
        if session.is_settled or session.is_broken:
            self._drop(session)

    def _drop(self, session: Session) -> None:
        """All of a session without a connection is on the disk: it need not be in memory."""
        if self._is_opening(session.client_id):
            return
        if session.link is None and self.sessions.get(session.client_id) is session:
            self._remove(session.client_id)

    def _remove(self, client_id: str) -> None:
        session = self.sessions.get(client_id)
        if session is not None:
            self._count(session, -len(session.deliveries))
            del self.sessions[client_id]
            session.clear()

    def _count(self, session: Session, change: int) -> None:
        """Of the filters of a session, while it is one of `sessions`."""
        if self.sessions.get(session.client_id) is session:
            name = session.sender.username
            self._filters[name] += change
            if not self._filters[name]:
                del self._filters[name]

    def _is_full(self, session: Session) -> bool:
        """Whether it may have no more filters."""
        return len(session.deliveries) >= FILTERS or self._filters[session.sender.username] >= USER_FILTERS

    def _forget(self, session: Session) -> None:
        session.is_broken = True  # what it still waits for is of no interest
        for delivery in session.deliveries.values():
            if isinstance(delivery, SharedMember):
                delivery.keep(None)
        session.detach()
        if self.sessions.get(session.client_id) is session:
            self._remove(session.client_id)
        session.clear()

    def _end(self, session: Session) -> None:
        self._forget(session)
        if session.rows is not None:
            transaction = self.stored.store.begin()
            self.stored.delete(transaction, session.client_id)
            self.write(transaction, _ignore)
            self.spawn(self._run("removing a session", self.stored.remove_rows(session.number)))

    def sweep(self, now: float) -> None:
        """About once a second."""
        for link in list(self.swept):
            link.sweep(now)
        self.log.sweep(now)
        if not self._to_note:
            self._to_note.extend(
                session.write_positions for session in self.sessions.values() if session.changed and session.link is not None
            )
            self._to_note.extend(group.sweep for group in self.groups.values())
            self._note_some()

    def clean(self) -> None:
        """Remove what is left of sessions that have ended. One of the processes does that."""
        self.spawn(self._run("cleaning up sessions", self.stored.remove_unknown_rows()))

    def _note_some(self) -> None:
        """Write how far clients have got, for a slice; the rest in the next turn."""
        end = self.now() + SLICE
        while self._to_note:
            self._to_note.popleft()()
            if self._to_note and self.now() >= end:
                self.loop.call_soon_threadsafe(self._note_some)
                return

    # --- subscriptions -------------------------------------------------------------------------------------------------------------------

    def subscribe(self, session: Session, subscription: Subscription, identifier: int) -> tuple[int, Delivery | None]:
        """(QoS that is granted, the delivery), which is held until that is said; or why not, and None. One with an `opening` is not granted yet: `opened`."""
        before = session.deliveries.get(subscription.filter)
        if before is None and self._is_full(session):
            return QUOTA_EXCEEDED, None
        try:
            handling = subscription.retain_handling
            with_records = handling == 0 or (handling == 1 and before is None)
            if subscription.filter.startswith(SHARE) and session.link is not None and session.link.connection.version != V5:
                return FILTER_INVALID, None
            delivery = delivery_of(session, subscription, self, identifier, with_records=with_records)
            delivery.is_held = True
            delivery.open(before)
        except Problem as problem:
            return _reason_of(problem), None
        if delivery.opening is None:
            self._grant(session, delivery)
        return subscription.qos, delivery

    async def opened(self, session: Session, delivery: Delivery) -> int:
        """Wait until code of an application has answered: the QoS that is granted, or why not."""
        opening = delivery.opening
        assert opening is not None
        await asyncio.wait((opening,))
        problem = None if opening.cancelled() else opening.result()
        if opening.cancelled() or problem is not None:
            return UNSPECIFIED if problem is None else _reason_of(problem)
        if session.deliveries.get(delivery.subscription.filter) is None and self._is_full(session):
            delivery.close()
            return QUOTA_EXCEEDED
        self._grant(session, delivery)
        return delivery.subscription.qos

    def _grant(self, session: Session, delivery: Delivery) -> None:
        before = session.deliveries.get(delivery.subscription.filter)
        session.last_number += 1
        delivery.number, delivery.started = session.last_number, int(self.wall() * 1000)
        if before is not None:
            before.close()
            session.former.append(before)
        else:
            self._count(session, 1)
        if isinstance(delivery, SharedMember):
            delivery.keep(None if session.rows is None else session.number)
        session.deliveries[delivery.subscription.filter] = delivery
        session.changed[delivery.database] = None

    def unsubscribe(self, session: Session, text: str) -> int:
        delivery = session.deliveries.pop(text, None)
        if delivery is None:
            return NO_SUBSCRIPTION
        self._count(session, -1)
        if isinstance(delivery, SharedMember):
            delivery.keep(None)
        delivery.close()
        session.former.append(delivery)
        return SUCCESS

    def keep_subscriptions(self, session: Session, on_done: Callable[[Problem | None], None]) -> None:
        """`on_done` is called when the subscriptions of a session that lasts are on the disk."""
        if session.rows is None:
            session.former.clear()
            on_done(None)
            return
        if not self.stored.is_ours(session):
            self._give_away(session)
            return
        transaction = self.stored.store.begin()
        self.stored.put(transaction, session)
        self.write(transaction, on_done)

    # --- shared subscriptions of several processes ---------------------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        return self.stored.identity

    async def share(self, name: str) -> bool:
        """Another process is about to have members of a shared subscription (`shared.ENTER`)."""
        group = self.groups.get(name)
        return group is None or await group.claim()

    def freed(self, name: str) -> None:
        """Another process has left messages of a shared subscription to others (`shared.FREE`)."""
        group = self.groups.get(name)
        if group is not None:
            group.give()

    def sibling_left(self) -> None:
        for group in list(self.groups.values()):
            group.someone_left()

    # --- for code of applications --------------------------------------------------------------------------------------------------------

    @property
    def clients(self) -> list[MqttSession]:
        """Those that are connected."""
        links = [session.link for session in self.sessions.values()]
        return [link.client for link in links if link is not None and link.client is not None]


def _reason_of(problem: Problem) -> int:
    """The code of SUBACK."""
    if isinstance(problem, AccessViolation) or problem.status_code in (401, 403):
        return NOT_AUTHORIZED
    return FILTER_INVALID if problem.status_code < 500 else UNSPECIFIED


def _ignore(problem: Problem | None) -> None:
    if problem is not None and not isinstance(problem, PreconditionFailed):
        logger.error("a session could not be stored: %s", problem.message)


def _request_of(packet: Connect, link: SessionLink) -> Request:
    """What a request with the credentials of CONNECT would be. A password that is an API key stands for itself, whatever the user name."""
    pairs: HeaderPairs = []
    password = packet.password or b""
    if _is_key(key := password.decode("latin-1")):
        pairs.append(("authorization", f"Bearer {key}"))
    elif packet.username is not None:
        credentials = packet.username.encode() + b":" + password
        pairs.append(("authorization", f"Basic {b64encode(credentials).decode()}"))
    request = Request("CONNECT", "/", HeaderBlock(pairs))
    request.scheme, request.peer, request.peer_certificate = "mqtt", link.peer, link.certificate
    return request


def _is_key(password: str) -> bool:
    """Whether it is an API key: a password may begin as keys do."""
    if not password.startswith(KEY_START):
        return False
    from svc.auth.api_key_format import is_whole

    return is_whole(password)


def _accept_of(packet: Connect, link: SessionLink) -> str | None:
    """The content type of the client's messages: the user property `accept`, or the field of the handshake (spec: mqtt §6)."""
    of_handshake = None if link.handshake is None else link.handshake.block.get("accept")
    return next((value for name, value in packet.properties.get(USER_PROPERTY, ()) if name.lower() == "accept"), of_handshake)
