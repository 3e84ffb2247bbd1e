"""One connection of a client: CONNECT, keep-alive, packets in their order, answers in the order of what they answer (spec: mqtt §2; MQTT 5 §4.6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from svc.content.content_type import ContentType
from svc.loop import contained
from svc.mqtt.clients import SECURE, MqttSession, MqttSocket
from svc.mqtt.notes import make_note
from svc.protocol.mqtt import ack, encode
from svc.protocol.mqtt_connection import ALIASES, MqttConnection
from svc.protocol.mqtt_packets import V5, Ack, Auth, Connack, Connect, Disconnect, Ping, Publish, Suback, Subscribe, Unsuback, Unsubscribe
from svc.protocol.mqtt_properties import (
    ASSIGNED_CLIENT_ID,
    AUTHENTICATION_METHOD,
    MAXIMUM_PACKET_SIZE,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    REASON_STRING,
    SESSION_EXPIRY,
    SUBSCRIPTION_ID,
    TOPIC_ALIAS_MAXIMUM,
    Properties,
)
from svc.protocol.mqtt_states import Action, ConnectionState, Input, Sent
from svc.protocol.mqtt_values import (
    BAD_AUTHENTICATION_METHOD,
    BUSY,
    ID_NOT_FOUND,
    KEEP_ALIVE_TIMEOUT,
    NOT_AUTHORIZED,
    PROTOCOL_ERROR,
    SUCCESS,
    TAKEN_OVER,
    TOO_LARGE,
    UNSPECIFIED,
    PacketError,
)
from svc.store.writing.mqtt_message import MqttMessage

if TYPE_CHECKING:
    from svc.errors import Problem
    from svc.messages import Request, Tunnel
    from svc.mqtt.broker import Broker
    from svc.mqtt.delivery import Delivery
    from svc.mqtt.session import Session

QUEUED = 100  # packets about subscriptions that wait for one before them
CONNECT_SECONDS = 10.0  # until CONNECT must have come
SLICE = 0.002  # seconds of packets of one client in a turn
LOOK = 8  # packets between two looks at the clock
SHUTTING_DOWN = 0x8B
PUBACK_HEAD = bytes((PUBACK << 4, 2))
ASSIGNED_ID = "auto-" + "0" * 16  # as long as those that the broker makes
ADMINISTRATIVE = 0x98
UNSENT = 256 * 1024  # bytes of answers that a client has not read, at which nothing more of it is handled


class _Answer:
    """Of a packet of the client. Later ones wait for it."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data: bytes | None = None


class Link:
    """The receiver of a tunnel. `kind`: the content type that the client takes."""

    __slots__ = (
        "__weakref__",
        "_answers",
        "_broker",
        "_client",
        "_deadline",
        "_has_client",
        "_heard",
        "_held_packets",
        "_is_counted",
        "_is_full",
        "_is_orderly",
        "_is_over",
        "_is_waiting",
        "_keep_alive",
        "_lasting",
        "_opening",
        "_socket",
        "_tunnel",
        "_why",
        "certificate",
        "connection",
        "handshake",
        "is_closed",
        "kind",
        "session",
    )

    def __init__(self, broker: Broker, certificate: Any = None, handshake: Request | None = None) -> None:
        """`certificate`: of the client, if it has shown one. `handshake`: of a WebSocket."""
        self.certificate = certificate
        self.handshake = handshake
        self._broker = broker
        self._tunnel: Tunnel | None = None
        self._answers: deque[_Answer] | None = None  # those that are still to come; None: there are none
        self._heard = self._deadline = broker.now()
        self._deadline += CONNECT_SECONDS
        self._keep_alive = 0.0
        self._opening: list[Delivery] | None = None  # of a SUBSCRIBE that waits for code of an application
        self._held_packets: list[Subscribe | Unsubscribe] = []  # those behind it
        self._lasting: Publish | None = None  # a message that takes longer than its turn: those behind it wait
        self._is_full = False  # it waits for the client to read
        self._is_waiting = False  # for a message that takes longer than the turn, for the user, or for the next turn
        self._is_counted = self._is_orderly = self._is_over = False
        self._why: tuple[str, bool] | None = None  # it ends; and whether that is a fault
        self._socket: MqttSocket | None = None
        self._client: MqttSession | None = None
        self._has_client = False  # CONNECT was accepted, and the connection has not ended
        self.is_closed = False
        self.connection = MqttConnection(broker.largest)
        self.connection.on_answer = broker.metrics.answered
        self.session: Session | None = None
        self.kind: ContentType = broker.payloads.writer(None)

    # --- receiver ------------------------------------------------------------------------------------------------------------------------

    def start(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel
        if self._broker.listeners.want("connection"):
            self._broker.listeners.tell("connection", self.socket)

    @property
    def client(self) -> MqttSession | None:
        """As code of applications sees it, while it is connected: made when it is asked for."""
        if self._client is None and self._has_client and self.session is not None:
            self._client = MqttSession(self.session, self.socket, self.handshake)
        return self._client

    @property
    def socket(self) -> MqttSocket:
        found = self._socket
        if found is None:
            subject = None if self.certificate is None else self.certificate.subject
            is_secure = self._tunnel is not None and self._tunnel.scheme in SECURE
            found = self._socket = MqttSocket(self.peer, is_secure, subject, self._close_for_application)
        return found

    @property
    def peer(self) -> str:
        return "" if self._tunnel is None else self._tunnel.peer

    @property
    def pending(self) -> int:
        return 0 if self._tunnel is None else self._tunnel.pending

    def on_data(self, data: bytes) -> None:
        self._heard = self._broker.now()
        if len(data) == 4 and data[:2] == PUBACK_HEAD and self._acknowledge(int.from_bytes(data[2:])):
            return
        self.connection.receive_data(data)
        if not self._is_waiting:
            self._process()

    def _acknowledge(self, packet_id: int) -> bool:
        """PUBACK has come, alone, as it does from every receiver of a message. False: it is not one that can be taken by itself."""
        session = self.session
        if self._is_waiting or session is None or not self.connection.is_between or session.sent.state(packet_id) is not Sent.UNCONFIRMED:
            return False
        session.sent.on(packet_id, Input.PUBACK)
        session.forget(packet_id)
        session.make_room()
        self.flush()
        return True

    def on_eof(self) -> None:
        self._ends_because("the client has closed it")
        self._close()

    def on_sent(self) -> None:
        if self._is_full:
            self._is_full = False
            self._broker.loop.call_soon_threadsafe(self._go_on)
        session = self.session
        if session is not None and session.link is self:
            session.make_room()

    def on_closed(self) -> None:
        self.is_closed = True
        self._tell_end()
        self.connection.closed()
        if self._is_counted:
            self._is_counted = False
            self._broker.metrics.ended(self._is_orderly)
        session, self.session = self.session, None
        if session is not None:
            self._broker.lost(session, self)
        self._tunnel = None  # which has this: nothing is left to the collector

    def sweep(self, now: float) -> float | None:
        if self.connection.state is not ConnectionState.OPEN:
            if now > self._deadline:
                self._ends_because("CONNECT has not come, or could not be answered, in time")
                self._close()
            return None
        if not self._keep_alive:
            return inf
        due = self._heard + self._keep_alive
        if due >= now:
            return due
        if not self._is_waiting:
            self.end(KEEP_ALIVE_TIMEOUT, "no packet within one and a half times the keep-alive")
        return None

    def drain(self, is_replaced: bool = False) -> None:
        # Also of a restart: 0x9C would send the client to another address, and 0x89 have it wait.
        self.end(SHUTTING_DOWN, "the server is restarting: connect again" if is_replaced else "the server is stopping")

    def login_ended(self) -> None:
        self.end(NOT_AUTHORIZED, "the login has ended")

    # --- the ends ------------------------------------------------------------------------------------------------------------------------

    def _ends_because(self, why: str, *, is_fault: bool = False) -> None:
        """For the log. What is said first counts."""
        if self._why is None:
            self._why = (why, is_fault)

    def _tell_end(self) -> None:
        """The connection is over, for others than its peer."""
        if self._is_over:
            return
        self._is_over = True
        self._give_up_opening()
        why, is_fault = self._why or ("it was lost", False)
        self._broker.log.ended(self._client_id, self.peer, why, is_fault=is_fault)
        if self._has_client and self._broker.listeners.want("disconnected"):
            self._broker.listeners.tell("disconnected", self.client, self.socket)
        client, self._client, self._has_client = self._client, None, False
        if client is not None:
            client.ended()

    def _close_for_application(self) -> None:
        self.end(ADMINISTRATIVE, "closed by an application")

    def end(self, reason: int, message: str) -> None:
        """Say why, if the version has words for that, and close."""
        self._ends_because(f"{reason:#04x} {message}", is_fault=reason in (UNSPECIFIED, BUSY))
        if not self.is_closed and self.connection.state is not ConnectionState.CLOSED:
            self.connection.disconnect(reason, message)
            self.flush()
            self._close()

    def taken_over(self) -> None:
        """Another connection has the session now."""
        self._ends_because(f"{TAKEN_OVER:#04x} another connection has come with this client id")
        self._tell_end()
        self.session = None
        self.end(TAKEN_OVER, "another connection has come with this client id")

    def broken(self, problem: Problem) -> None:
        """What the session needs on the disk could not be written."""
        self.end(UNSPECIFIED if problem.status_code < 500 else BUSY, problem.message)

    @property
    def _client_id(self) -> str:
        return "" if self.session is None else self.session.client_id

    def report(self, error: BaseException) -> None:
        self._broker.report(error)

    def _fail(self, error: PacketError, packet: Any) -> None:
        """`packet`: None, it could not be read."""
        self._ends_because(f"{error.reason:#04x} {error}", is_fault=True)
        self._tell_error(error, packet)
        self.connection.fail(error)
        self.flush()
        self._close()

    def _close(self) -> None:
        if not self.is_closed and self._tunnel is not None:
            self.is_closed = True
            self._tell_end()
            self._tunnel.close()

    def _tell_error(self, error: BaseException, packet: Any) -> None:
        if self._broker.listeners.want("error"):
            self._broker.listeners.tell("error", error, self.socket, packet, self.client)

    def flush(self) -> None:
        data = self.connection.data_to_send()
        if data and self._tunnel is not None:
            self._tunnel.write(data)

    # --- packets -------------------------------------------------------------------------------------------------------------------------

    def _process(self) -> None:
        """Handle what has come, for a slice; the rest in the next turn."""
        connection = self.connection
        end = self._heard + SLICE
        count = 0
        packet: Any = None
        try:
            while not self._is_waiting:
                packet = None
                packet = self._held_packets.pop(0) if self._held_packets and self._opening is None else connection.next_packet()
                if packet is None:
                    break
                HANDLERS[type(packet)](self, packet)
                count += 1
                if not count % LOOK and not self._is_waiting and self._broker.now() >= end:
                    self._wait()
                    self._broker.loop.call_soon_threadsafe(self._go_on)
        except PacketError as error:
            self._fail(error, packet)
            return
        except BaseException as error:
            defect = contained(error)
            self._broker.report(defect)
            self._tell_error(defect, packet)
            self.end(UNSPECIFIED, "")
            return
        self.flush()
        if not self._is_waiting and self.pending >= UNSENT:
            self._is_full = True
            self._wait()

    def _wait(self) -> None:
        self._is_waiting = True
        if self._tunnel is not None:
            self._tunnel.pause_reading()

    def _go_on(self) -> None:
        if self.is_closed:
            return
        self._is_waiting = False
        self._heard = self._broker.now()
        self._process()
        if not self._is_waiting and self._tunnel is not None and not self.is_closed:
            self._tunnel.resume_reading()

    # --- CONNECT -------------------------------------------------------------------------------------------------------------------------

    def _on_connect(self, packet: Connect) -> None:
        if self._tunnel is not None and self._tunnel.is_overdue:
            self._refuse(packet, BUSY, "the server is overloaded")
            return
        if AUTHENTICATION_METHOD in packet.properties:
            self._refuse(packet, BAD_AUTHENTICATION_METHOD, "there is no enhanced authentication")
            return
        longest = Connack(False, 0, self._announced(packet, "" if packet.client_id else ASSIGNED_ID))
        if len(encode(longest, packet.version)) > self.connection.largest_sent:
            self._refuse(packet, TOO_LARGE, "")
            return
        self._wait()
        self._broker.admit(self, packet, partial(self._admitted, packet), partial(self._refuse, packet))

    def _refuse(self, packet: Connect, reason: int, message: str) -> None:
        if not self.is_closed:
            self._is_over = True
            self._broker.log.refused(packet.client_id, packet.username, self.peer, reason, message)
            if self.handshake is None:
                self._broker.metrics.connected(False)
            self.connection.refuse(reason, message)
            self.flush()
            self._close()

    def _admitted(self, packet: Connect, session: Session, is_present: bool, assigned: str) -> None:
        """The broker has opened a session."""
        self.session = session
        self._has_client = True
        if self._broker.listeners.want("connected"):
            self._broker.listeners.tell("connected", self.client, self.socket)
        transport = "TCP" if self.handshake is None else "WebSocket"
        self._broker.log.connected(session.client_id, session.sender.username, self.peer, packet.version, transport)
        if self.handshake is None:
            self._is_counted = True
            self._broker.metrics.connected(True)
        self._keep_alive = 1.5 * packet.keep_alive
        self.connection.accept(session_present=is_present, properties=self._announced(packet, assigned))
        session.send_again()
        self.flush()
        session.begin()
        self._broker.loop.call_soon_threadsafe(self._go_on)

    def _announced(self, packet: Connect, assigned: str) -> Properties:
        """The properties of CONNACK. `assigned`: client id."""
        properties: dict[int, Any] = {}
        if packet.version == V5:
            properties = {MAXIMUM_PACKET_SIZE: self._broker.largest, TOPIC_ALIAS_MAXIMUM: ALIASES}
            if assigned:
                properties[ASSIGNED_CLIENT_ID] = assigned
        return properties

    def _say(self, packet: Suback | Unsuback) -> None:
        """The connection ends if the client cannot take it."""
        try:
            self.connection.send(packet)
        except PacketError as error:
            self._fail(error, None)

    # --- messages of the client ----------------------------------------------------------------------------------------------------------

    def _on_publish(self, packet: Publish) -> None:
        session = self.session
        assert session is not None
        qos, packet_id = packet.qos, packet.packet_id
        if qos == 2:
            action = session.received.on(packet_id, Input.PUBLISH)
            if action is Action.PUBREC:
                self._answer(ack(PUBREC, packet_id))
            if action is not Action.WRITE:
                return
        message = MqttMessage(make_note(packet, session.number), session.received_row(packet_id) if qos == 2 else None)
        if not qos:
            done = partial(self._published_once, packet.topic)
        else:
            answer = self._new_answer()
            done = partial(self._published, answer, session, packet, message)
        if not self._broker.publishing.publish(session.sender, packet, message, partial(self._done, packet, done)):
            self._lasting = packet
            self._wait()

    def _done(self, packet: Publish, done: Callable[[int, str], None], reason: int, message: str) -> None:
        done(reason, message)
        self.flush()
        if packet is self._lasting:
            self._lasting = None
            self._broker.loop.call_soon_threadsafe(self._go_on)

    def _published_once(self, topic: str, reason: int, message: str) -> None:
        if reason:
            self._broker.log.message_refused(self._client_id, topic, reason, message)

    def _published(self, answer: _Answer, session: Session, packet: Publish, written: MqttMessage, reason: int, message: str) -> None:
        version = self.connection.version
        if reason:
            self._broker.log.message_refused(session.client_id, packet.topic, reason, message)
        fails = reason != SUCCESS and (version == V5 or reason == UNSPECIFIED)
        packet_id = packet.packet_id
        kind = PUBACK
        if packet.qos == 2:
            kind = PUBREC
            database = None if reason or written.database is None else written.database.name
            if session.message_committed(packet_id, not fails, database) is Action.NOTHING:
                fails, answer.data = False, b""  # over a connection that is gone
        if fails and version != V5:
            self.end(UNSPECIFIED, message)
            return
        if answer.data is None:
            answer.data = ack(kind, packet_id) if not fails else self._refusal(kind, packet_id, reason, message)
        self._settle()

    def _refusal(self, kind: int, packet_id: int, reason: int, message: str) -> bytes:
        properties: Properties = {REASON_STRING: message[:1000]} if message else {}
        return self.connection.answer(Ack(kind, packet_id, reason, properties))

    def _answer(self, data: bytes) -> None:
        """Behind the answers that are still to come."""
        self._new_answer().data = data
        self._settle()

    def _new_answer(self) -> _Answer:
        answer = _Answer()
        if self._answers is None:
            self._answers = deque()
        self._answers.append(answer)
        return answer

    def _settle(self) -> None:
        answers = self._answers
        if answers is None:
            return
        while answers and answers[0].data is not None:
            data = answers.popleft().data
            if data:
                self.connection.say(data)
        if not answers:
            self._answers = None

    # --- acknowledgements ----------------------------------------------------------------------------------------------------------------

    def _on_ack(self, packet: Ack) -> None:
        session = self.session
        assert session is not None
        kind, packet_id = packet.kind, packet.packet_id
        if kind == PUBREL:
            action = session.received.on(packet_id, Input.PUBREL)
            if action is Action.REMOVE:
                answer = self._new_answer()
                session.remove_received(packet_id, partial(self._released, answer, packet_id))
            elif action is Action.NOT_FOUND:
                self._answer(encode(Ack(PUBCOMP, packet_id, ID_NOT_FOUND), self.connection.version))
            return
        what = Input.PUBACK if kind == PUBACK else Input.PUBCOMP if kind == PUBCOMP else Input.PUBREC
        if what is Input.PUBREC and packet.reason >= 0x80:
            what = Input.PUBREC_REFUSED
        action = session.sent.on(packet_id, what)
        if action is Action.NOTE:
            session.confirm(packet_id)
        elif action is Action.PUBREL:
            self.release(packet_id)
        elif action is Action.NOT_FOUND:
            self.connection.say(encode(Ack(PUBREL, packet_id, ID_NOT_FOUND), self.connection.version))
        elif action is Action.FORGET:
            session.forget(packet_id, is_refused=what is Input.PUBREC_REFUSED)
            session.make_room()

    def _released(self, answer: _Answer, packet_id: int, action: Action) -> None:
        answer.data = ack(PUBCOMP, packet_id) if action is Action.PUBCOMP else b""
        if action is Action.CLOSE:
            self.end(BUSY, "the end of an exchange could not be stored")
        self._settle()
        self.flush()

    def release(self, packet_id: int) -> None:
        self.connection.say(ack(PUBREL, packet_id))

    # --- subscriptions -------------------------------------------------------------------------------------------------------------------

    def _on_subscribe(self, packet: Subscribe) -> None:
        if not self._is_held(packet):
            self._subscribe(packet, [], {})

    def _is_held(self, packet: Subscribe | Unsubscribe) -> bool:
        """Whether it has to wait for a SUBSCRIBE before it, which code of an application has not answered yet. Other packets go on."""
        if self._opening is None:
            return False
        self._held_packets.append(packet)
        if len(self._held_packets) >= QUEUED:
            self._wait()
        return True

    def _subscribe(self, packet: Subscribe, reasons: list[int], begun: dict[int, Delivery]) -> None:
        """Subscribe to the filters behind those that `reasons` answers, for a slice; the rest in the next turn."""
        session = self.session
        if session is None or self.is_closed:
            for delivery in begun.values():
                delivery.close()
            return
        (identifier,) = packet.properties.get(SUBSCRIPTION_ID, (0,))
        end = self._broker.now() + SLICE
        for subscription in packet.subscriptions[len(reasons) :]:
            reason, found = self._broker.subscribe(session, subscription, identifier)
            if found is not None:
                begun[len(reasons)] = found
            reasons.append(self._suback_code(reason))
            if len(reasons) < len(packet.subscriptions) and self._broker.now() >= end:
                self._wait()
                self._broker.loop.call_soon_threadsafe(self._subscribe_on, packet, reasons, begun)
                return
        opening = [delivery for delivery in begun.values() if delivery.opening is not None]
        if opening:
            self._opening = opening
            self._broker.spawn(self._open(session, packet, reasons, begun))
            return
        if not begun:
            self._say(Suback(packet.packet_id, reasons))
            return
        self._wait()
        self._broker.keep_subscriptions(session, partial(self._subscribed, packet, reasons, list(begun.values())))

    def _suback_code(self, reason: int) -> int:
        return reason if self.connection.version == V5 or reason < 0x80 else UNSPECIFIED

    async def _open(self, session: Session, packet: Subscribe, reasons: list[int], begun: dict[int, Delivery]) -> None:
        """Wait for code of applications, and answer. Meanwhile the connection goes on."""
        for number, delivery in list(begun.items()):
            if delivery.opening is not None:
                reason = await self._broker.opened(session, delivery)
                if self.session is not session or self.is_closed:
                    self._give_up_opening()
                    return
                reasons[number] = self._suback_code(reason)
                if reason >= 0x80:
                    del begun[number]
        self._broker.keep_subscriptions(session, partial(self._subscribed, packet, reasons, list(begun.values())))

    def _give_up_opening(self) -> None:
        """The client has gone."""
        for delivery in self._opening or ():
            delivery.close()

    def _subscribed(self, packet: Subscribe, reasons: list[int], begun: list[Delivery], problem: Problem | None) -> None:
        """The subscriptions are on the disk. What follows SUBSCRIBE was not handled before, so that its answer comes first."""
        session = self.session
        if session is None or self.is_closed:
            return
        if problem is not None:
            self._say(Suback(packet.packet_id, [UNSPECIFIED for _ in reasons]))
            session.is_broken = True
            self.broken(problem)
            return
        self._say(Suback(packet.packet_id, reasons))
        if self.is_closed:
            return
        for delivery in begun:
            delivery.is_held = False
            delivery.run()
        self.flush()
        if self._opening is not None:
            self._opening = None
            if self._is_waiting and len(self._held_packets) < QUEUED:
                return  # for something else
        self._broker.loop.call_soon_threadsafe(self._go_on)

    def _subscribe_on(self, packet: Subscribe, reasons: list[int], begun: dict[int, Delivery]) -> None:
        self._is_waiting = False
        self._subscribe(packet, reasons, begun)
        if not self._is_waiting:
            self._go_on()

    def _on_unsubscribe(self, packet: Unsubscribe) -> None:
        session = self.session
        assert session is not None
        if self._is_held(packet):
            return
        reasons = [self._broker.unsubscribe(session, each) for each in packet.filters]
        if SUCCESS not in reasons:
            self._say(Unsuback(packet.packet_id, reasons))
            return
        self._wait()
        self._broker.keep_subscriptions(session, partial(self._unsubscribed, packet, session, reasons))

    def _unsubscribed(self, packet: Unsubscribe, session: Session, reasons: list[int], problem: Problem | None) -> None:
        if problem is not None:
            session.is_broken = True
            self.broken(problem)
        elif not self.is_closed:
            self._say(Unsuback(packet.packet_id, reasons))
            self.flush()
            self._broker.loop.call_soon_threadsafe(self._go_on)

    # --- others --------------------------------------------------------------------------------------------------------------------------

    def _on_ping(self, packet: Ping) -> None:
        self.connection.pong()

    def _on_disconnect(self, packet: Disconnect) -> None:
        session = self.session
        assert session is not None
        expiry = packet.properties.get(SESSION_EXPIRY)
        if expiry is not None:
            if expiry and not session.expiry:
                raise PacketError(PROTOCOL_ERROR, "DISCONNECT prolongs a session that was to end with its connection")
            session.expiry = self._broker.seconds_of(expiry)
        self._is_orderly = True
        self._ends_because(f"DISCONNECT with {packet.reason:#04x}" if packet.reason else "DISCONNECT")
        if packet.reason == SUCCESS:
            session.will = None
        self.connection.closed()
        self._close()

    def _on_auth(self, packet: Auth) -> None:
        raise PacketError(PROTOCOL_ERROR, "AUTH without a method in CONNECT")

    def __repr__(self) -> str:
        return f"<Link {self.peer} {self.connection.state.name}>"


HANDLERS: dict[type, Callable[[Link, Any], None]] = {
    Connect: Link._on_connect,
    Publish: Link._on_publish,
    Ack: Link._on_ack,
    Subscribe: Link._on_subscribe,
    Unsubscribe: Link._on_unsubscribe,
    Ping: Link._on_ping,
    Disconnect: Link._on_disconnect,
    Auth: Link._on_auth,
}
