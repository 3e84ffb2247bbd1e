"""The broker of one server: its sessions by client id, who may open one, and when one ends (spec: mqtt §2, §7, §8)."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable
from math import inf
from secrets import token_hex
from typing import Protocol

from svc.auth.identify import Identifier, PendingVerification
from svc.auth.users import User, UserDirectory, user_of
from svc.errors import AccessViolation, Problem
from svc.loop import contained
from svc.messages import HeaderBlock, HeaderPairs, Request
from svc.mqtt.addresses import Addresses
from svc.mqtt.delivery import Delivery
from svc.mqtt.metrics import MqttMetrics
from svc.mqtt.payloads import Payloads
from svc.mqtt.publishing import Publishing, Sender
from svc.mqtt.session import Session, SessionLink
from svc.protocol.mqtt_packets import V5, Connect, Publish, Subscription, Will
from svc.protocol.mqtt_properties import NEVER, SESSION_EXPIRY, USER_PROPERTY, WILL_DELAY
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

logger = logging.getLogger("svc.mqtt")

FILTERS = 1000  # of a session
SESSIONS = 100_000  # beyond, none is taken that lasts longer than its connection
NO_SUBSCRIPTION = 0x11
LONGEST_ID = 1024  # characters of a client id

OnAdmitted = Callable[[Session, bool, str], None]
OnRefused = Callable[[int, str], None]


class Options(Protocol):
    """Section `mqtt` of the configuration."""

    @property
    def require_authentication(self) -> bool: ...
    @property
    def max_packet_size(self) -> int: ...


class Sweepable(Protocol):
    def sweep(self, now: float) -> None: ...


class Broker:
    """`sessions`: by client id; those that are connected, and those that wait for their client. `swept`: links whose connections do not sweep them."""

    def __init__(
        self,
        options: Options,
        resources: Resources,
        payloads: Payloads,
        identifier: Identifier,
        directory: UserDirectory,
        reactor: Reactor,
        metrics: MqttMetrics,
    ) -> None:
        self._options = options
        self._identifier = identifier
        self._directory = directory
        self.loop = reactor.loop
        self.now = reactor.clock.monotonic
        self.wall = reactor.clock.wall
        self._log_error = reactor.log_error
        self.metrics = metrics
        self.payloads = payloads
        self.addresses = Addresses(resources)
        self.publishing = Publishing(self.addresses, payloads, reactor.loop, self.report)
        self.largest = options.max_packet_size
        self.sessions: dict[str, Session] = {}
        self.swept: set[Sweepable] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def report(self, error: BaseException) -> None:
        """Log a defect, or what code of an application has raised."""
        self._log_error("a message of MQTT", error)

    # --- CONNECT -------------------------------------------------------------------------------------------------------------------------

    def admit(self, link: SessionLink, packet: Connect, on_admitted: OnAdmitted, on_refused: OnRefused) -> None:
        """Identify the user and open the session; one of the callbacks is called, now or later."""
        task = self.loop.create_task(self._admit(link, packet, on_admitted, on_refused))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _admit(self, link: SessionLink, packet: Connect, on_admitted: OnAdmitted, on_refused: OnRefused) -> None:
        try:
            request = _request_of(packet, link)
            user = await self._identify(request, packet, link)
            if user is None and self._options.require_authentication:
                on_refused(NOT_AUTHORIZED, "a user name and a password are needed")
                return
            link.kind = self.payloads.writer(_accept_of(packet, link))
            client_id, assigned = packet.client_id, ""
            if not client_id:
                if not packet.clean and packet.version != V5:
                    on_refused(CLIENT_ID_INVALID, "a session that is to last needs a client id")
                    return
                client_id = assigned = f"auto-{token_hex(8)}"
            elif len(client_id) > LONGEST_ID:
                on_refused(CLIENT_ID_INVALID, f"a client id has at most {LONGEST_ID} characters")
                return
            if link.is_closed:
                return
            sender = Sender(user, self._directory, link.peer, request.block)
            sender.content_type = None if link.handshake is None else link.handshake.block.get("content-type")
            self._open(link, packet, client_id, assigned, sender, on_admitted, on_refused)
            self._identifier.watch_login(request, link)
        except Problem as problem:
            on_refused(BAD_CREDENTIALS if problem.status_code == 401 else UNAVAILABLE, problem.message)
        except BaseException as error:
            self.report(contained(error))
            on_refused(UNSPECIFIED, "")

    async def _identify(self, request: Request, packet: Connect, link: SessionLink) -> User | None:
        """The user of CONNECT, or of the handshake of its WebSocket, which is one of a page perhaps: that is not identified by where it comes from."""
        if packet.username is None and link.handshake is not None:
            user = user_of(link.handshake)
        else:
            found = self._identifier.identify(request)
            user = await found.wait(self.loop, None) if isinstance(found, PendingVerification) else found
        request.user = user
        return user

    def _open(
        self,
        link: SessionLink,
        packet: Connect,
        client_id: str,
        assigned: str,
        sender: Sender,
        on_admitted: OnAdmitted,
        on_refused: OnRefused,
    ) -> None:
        session = self.sessions.get(client_id)
        if session is not None and session.ends_at is not None and session.ends_at <= self.now():
            self._end(session)
            session = None
        if session is not None and session.expiry and session.sender.username != sender.username:
            on_refused(CLIENT_ID_INVALID, "the session of this client id is another user's")
            return
        if session is not None:
            self._take_over(session, ends=packet.clean)
            if packet.clean:
                self._end(session)
                session = None
        expiry = self._expiry_of(packet)
        if session is None and expiry and len(self.sessions) >= SESSIONS:
            on_refused(QUOTA_EXCEEDED, "there are too many sessions")
            return
        is_present = session is not None
        if session is None:
            session = self.sessions[client_id] = Session(client_id, sender, expiry)
        session.attach(link, sender, expiry, link.connection.receive_maximum)
        session.will = packet.will
        on_admitted(session, is_present, assigned)

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
            will, session.will = session.will, None
            session.detach()
            link.taken_over()
            if will is not None and (ends or not session.expiry or not will.properties.get(WILL_DELAY)):
                self._publish_will(session, will)

    def lost(self, session: Session, link: SessionLink) -> None:
        """A connection has ended. Without DISCONNECT the will is published, now or after its delay."""
        if session.link is not link:
            return
        session.detach()
        session.ends_at = self.now() + session.expiry
        will, session.will = session.will, None
        if will is not None:
            delay = min(float(will.properties.get(WILL_DELAY, 0)), session.expiry)
            if delay:
                session.will = will
                self.loop.call_later(delay, self._publish_late_will, session, will)
            else:
                self._publish_will(session, will)
        if not session.expiry:
            self._end(session)

    def _publish_late_will(self, session: Session, will: Will) -> None:
        if session.will is will and session.link is None:
            session.will = None
            self._publish_will(session, will)

    def _publish_will(self, session: Session, will: Will) -> None:
        def done(reason: int, message: str) -> None:
            if reason:
                logger.warning("the will of %s was not published to %s: %s", session.client_id, will.topic, message)

        self.publishing.publish(session.sender, Publish(will.topic, will.payload, will.qos, will.retain, properties=will.properties), done)

    def _end(self, session: Session) -> None:
        session.detach()
        session.deliveries.clear()
        if self.sessions.get(session.client_id) is session:
            del self.sessions[session.client_id]

    def sweep(self, now: float) -> None:
        """About once a second: end the sessions whose time is over."""
        for link in list(self.swept):
            link.sweep(now)
        for session in [each for each in self.sessions.values() if each.ends_at is not None and each.ends_at <= now]:
            self._end(session)

    # --- subscriptions -------------------------------------------------------------------------------------------------------------------

    def subscribe(self, session: Session, subscription: Subscription, identifier: int) -> tuple[int, Delivery | None]:
        """(QoS that is granted, the delivery), which is to be run once that is said; or why not, and None."""
        before = session.deliveries.get(subscription.filter)
        if before is None and len(session.deliveries) >= FILTERS:
            return QUOTA_EXCEEDED, None
        try:
            handling = subscription.retain_handling
            without_records = handling == 2 or (handling == 1 and before is not None)
            delivery = Delivery(session, subscription, self, identifier, without_records=without_records)
            delivery.open()
        except AccessViolation:
            return NOT_AUTHORIZED, None
        except Problem as problem:
            return (FILTER_INVALID if problem.status_code < 500 else UNSPECIFIED), None
        if before is not None:
            before.close()
        session.deliveries[subscription.filter] = delivery
        return subscription.qos, delivery

    def unsubscribe(self, session: Session, text: str) -> int:
        delivery = session.deliveries.pop(text, None)
        if delivery is None:
            return NO_SUBSCRIPTION
        delivery.close()
        return SUCCESS

    # --- what is logged ------------------------------------------------------------------------------------------------------------------

    @staticmethod
    def note_refused(client_id: str, topic: str, reason: int, message: str) -> None:
        """A message that was not written. At QoS 0, and in 3.1.1, its client does not get to know."""
        logger.info("a message of %s to %s was refused with %#04x: %s", client_id, topic[:200], reason, message)


def _request_of(packet: Connect, link: SessionLink) -> Request:
    """What a request with the credentials of CONNECT would be."""
    pairs: HeaderPairs = []
    if packet.username is not None:
        credentials = packet.username.encode() + b":" + (packet.password or b"")
        pairs.append(("authorization", f"Basic {b64encode(credentials).decode()}"))
    request = Request("CONNECT", "/", HeaderBlock(pairs))
    request.scheme, request.peer, request.peer_certificate = "mqtt", link.peer, link.certificate
    return request


def _accept_of(packet: Connect, link: SessionLink) -> str | None:
    """The content type of the client's messages: the user property `accept`, or the field of the handshake (spec: mqtt §6)."""
    of_handshake = None if link.handshake is None else link.handshake.block.get("accept")
    return next((value for name, value in packet.properties.get(USER_PROPERTY, ()) if name.lower() == "accept"), of_handshake)
