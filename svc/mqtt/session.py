"""What lasts longer than a connection: subscriptions, exchanges, the will (spec: mqtt §7, §8).

A session that is to last has rows in `$mqtt` (`rows`). What must not be said before it is on the disk is said in the functions that are called when it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from secrets import token_bytes
from typing import Any, Protocol

from svc.content.content_type import ContentType
from svc.errors import Problem
from svc.messages import Request
from svc.mqtt.clients import MqttSession, MqttSocket
from svc.mqtt.publishing import Sender
from svc.mqtt.rows import NUMBER_BYTES, Position, SentRow, encode_position, position_key, received_key, sent_key
from svc.protocol.mqtt_connection import MqttConnection
from svc.protocol.mqtt_exchanges import WINDOW, ReceivedExchanges, SentExchanges
from svc.protocol.mqtt_packets import Subscription, Will
from svc.protocol.mqtt_states import Action, Input, Sent
from svc.store.side_rows import SideRows


class SessionLink(Protocol):
    """The connection of a session: `link.Link`. `kind`: the content type that its client takes. `certificate`: of the client. `handshake`: of a WebSocket.
    `pending`: bytes that it has not taken yet. `client`: as code of applications sees it, while it is connected.
    """

    connection: MqttConnection
    kind: ContentType
    is_closed: bool
    certificate: Any
    handshake: Request | None

    @property
    def client(self) -> MqttSession | None: ...
    @property
    def socket(self) -> MqttSocket: ...
    @property
    def peer(self) -> str: ...
    @property
    def pending(self) -> int: ...
    def flush(self) -> None: ...
    def release(self, packet_id: int) -> None: ...
    def taken_over(self) -> None: ...
    def broken(self, problem: Problem) -> None: ...
    def report(self, error: BaseException) -> None: ...
    def login_ended(self) -> None: ...


class SessionDelivery(Protocol):
    """A subscription: `delivery.Delivery`. `number`: within the session. `database`: name. `mark`: packet identifier of the newest message at QoS 2 that has a
    row, 0: there is none; `mark_lsn`: its LSN. `has_log`: what it sends can be read again. `opening`: a task that lets it begin, None without one."""

    subscription: Subscription
    is_shared: bool
    number: int
    database: str
    start: int
    mark: int
    mark_lsn: int
    is_held: bool

    @property
    def reached(self) -> int | None: ...
    @property
    def opening(self) -> Any: ...
    @property
    def has_log(self) -> bool: ...
    def open(self) -> None: ...
    def close(self) -> None: ...
    def run(self) -> None: ...
    def over(self, flight: Flight) -> None: ...
    def recall(self, lsn: int, key: bytes | None) -> Any: ...
    def write(self, link: SessionLink, event: Any, packet_id: int, *, dup: bool = False) -> None: ...


class Flight:
    """A message at QoS 1 or 2 that is not acknowledged. `event`: None, it is to be read again. `lsn`, `key`: as of `SentRow`."""

    __slots__ = ("delivery", "event", "key", "lsn", "qos", "sequence")

    def __init__(self, delivery: SessionDelivery, event: Any, qos: int, sequence: int, lsn: int, key: bytes | None) -> None:
        self.delivery = delivery
        self.event = event
        self.qos = qos
        self.sequence = sequence
        self.lsn = lsn
        self.key = key


def _nothing(session: Session) -> None: ...


class SessionRows:
    """The rows of one session. `find`: the rows of a database by its name, None if it is gone."""

    __slots__ = ("find", "number")

    def __init__(self, number: bytes, find: Callable[[str], SideRows | None]) -> None:
        self.number = number
        self.find = find


class Session:
    """`expiry`: seconds that it lasts after its connection. `rows`: None, it ends with its connection.

    `deliveries`: by filter. `former`: those that the client has ended, with messages under way. `flying`: what was sent at QoS 1 and 2 and is not acknowledged,
    by packet identifier. `waiting`: deliveries that wait for room, in the window of exchanges or on the way to the client. `noted`: the databases with a row
    for a received message, by packet identifier. `changed`: databases whose position is to be written. `is_broken`: what is stored of it is not what is in
    memory. `on_settled`: called when it waits for no commit any more while it has no connection.
    """

    __slots__ = (
        "_again",
        "_sequence",
        "_writing",
        "changed",
        "client_id",
        "deliveries",
        "expiry",
        "flying",
        "former",
        "is_broken",
        "last_number",
        "link",
        "noted",
        "number",
        "on_settled",
        "received",
        "rows",
        "sender",
        "sent",
        "waiting",
        "will",
    )

    def __init__(self, client_id: str, sender: Sender, expiry: float, number: bytes | None = None) -> None:
        self.client_id = client_id
        self.number = token_bytes(NUMBER_BYTES) if number is None else number
        self.sender = sender
        self.expiry = expiry
        self.link: SessionLink | None = None
        self.will: Will | None = None
        self.deliveries: dict[str, SessionDelivery] = {}
        self.former: list[SessionDelivery] = []
        self.last_number = 0
        self.received = ReceivedExchanges()
        self.sent = SentExchanges()
        self.flying: dict[int, Flight] = {}
        self.waiting: dict[SessionDelivery, None] = {}
        self.rows: SessionRows | None = None
        self.noted: dict[int, str] = {}
        self.changed: dict[str, None] = {}
        self.is_broken = False
        self.on_settled: Callable[[Session], None] = _nothing
        self._again: dict[int, None] = {}  # messages that are to be sent again, by packet identifier
        self._sequence = 0
        self._writing = 0  # positions that are not on the disk yet

    @property
    def subscriptions(self) -> list[Subscription]:
        return [delivery.subscription for delivery in self.deliveries.values()]

    # --- connections ---------------------------------------------------------------------------------------------------------------------

    def belong_to(self, sender: Sender, expiry: float) -> None:
        """It is about to have a connection, of this sender."""
        self.sender = sender
        sender.session = self.number
        self.expiry = expiry

    def attach(self, link: SessionLink) -> None:
        """It has a connection."""
        self.link = link
        self.sent.window = min(link.connection.receive_maximum, WINDOW)
        self.received.resume()

    def open_deliveries(self) -> Iterator[Any]:
        """Follow what it has subscribed to, and read what is to be sent again, in short steps. A subscription that its user may not have any more, or whose
        resource is gone, rests. A step may be a task of code, which is to be waited for."""
        for delivery in [*self.deliveries.values(), *(each for each in self.former if each.has_log)]:
            try:
                delivery.is_held = True
                delivery.open()
            except Problem:
                pass
            yield delivery.opening if delivery.has_log else None
        for packet_id, flight in self.flying.items():
            if flight.event is None and self.sent.state(packet_id) in (Sent.UNCONFIRMED, Sent.SENT):
                flight.event = flight.delivery.recall(flight.lsn, flight.key)
                yield
        for delivery in self.former:
            delivery.close()

    def send_again(self) -> None:
        """What the client has not acknowledged, in the order of the first time: messages no faster than it takes them now."""
        link = self.link
        assert link is not None
        for packet_id, action in self.sent.resume():
            if action is Action.PUBREL:
                link.release(packet_id)
            else:
                self._again[packet_id] = None
        self._send_again(link)

    def _send_again(self, link: SessionLink) -> None:
        while self._again and len(self.sent) - len(self._again) < self.sent.window:
            packet_id = next(iter(self._again))
            del self._again[packet_id]
            flight = self.flying.get(packet_id)
            if flight is not None and flight.event is not None:
                flight.delivery.write(link, flight.event, packet_id, dup=True)
            elif flight is None or flight.qos == 2:
                # The message is gone, or the right to it; but the client may have received it, and still know the identifier.
                self.sent.restore(packet_id, Sent.RELEASED)
                link.release(packet_id)
            else:
                self.sent.on(packet_id, Input.PUBACK)
                self.forget(packet_id)

    def begin(self) -> None:
        """Send what has happened meanwhile, and what happens from now on."""
        for delivery in list(self.deliveries.values()):
            delivery.is_held = False
            delivery.run()

    def detach(self) -> None:
        """It has no connection any more. Nothing is followed for it from now on."""
        self.link = None
        self.waiting.clear()
        self._again.clear()
        for delivery in [*self.deliveries.values(), *self.former]:
            delivery.close()
        for delivery in self.deliveries.values():
            if delivery.subscription.qos:
                self.changed[delivery.database] = None
        self.write_positions()

    def clear(self) -> None:
        """It is not in memory any more: nothing of it refers to it, so that it needs no collector."""
        self.deliveries.clear()
        self.former.clear()
        self.flying.clear()
        self.on_settled = _nothing

    @property
    def is_settled(self) -> bool:
        """Whether no commit is waited for."""
        return not self._writing and self.received.is_settled and self.sent.is_settled

    def _settle(self) -> None:
        if self.link is None and self.is_settled:
            self.on_settled(self)

    def _break(self, problem: Problem) -> None:
        """A row could not be written: the client has to come back, and begins with what is stored."""
        self.is_broken = True
        if self.link is not None:
            self.link.broken(problem)

    def make_room(self) -> None:
        """An exchange has ended, or the client has taken what was sent: deliveries that have waited for that go on."""
        if self._again and self.link is not None:
            self._send_again(self.link)
            self.link.flush()
        for delivery in list(self.waiting):
            if self.sent.has_room or not delivery.subscription.qos:  # else very many would only find that out
                delivery.run()

    # --- received messages ---------------------------------------------------------------------------------------------------------------

    def received_row(self, packet_id: int) -> bytes | None:
        """The key of the row that says that a message was received; None: the session has no rows."""
        return None if self.rows is None else received_key(self.number, packet_id)

    def remove_received(self, packet_id: int, on_done: Callable[[Action], None]) -> None:
        """PUBREL has come. `on_done`: called with what to do when the row is gone."""
        name = self.noted.pop(packet_id, None)
        rows = None if name is None or self.rows is None else self.rows.find(name)
        if rows is None or name is None:
            on_done(self.received.on(packet_id, Input.COMMITTED))
        else:
            rows.delete(received_key(self.number, packet_id), partial(self._received_removed, packet_id, name, on_done))

    def _received_removed(self, packet_id: int, name: str, on_done: Callable[[Action], None], problem: Problem | None) -> None:
        if problem is not None:
            self.noted[packet_id] = name
        on_done(self.received.on(packet_id, Input.COMMITTED if problem is None else Input.FAILED))
        self._settle()

    def message_committed(self, packet_id: int, is_written: bool, database: str | None) -> Action:
        """What a message at QoS 2 has asked for is on the disk, or could not be written. `database`: where its row is."""
        if is_written and database is not None:
            self.noted[packet_id] = database
        action = self.received.on(packet_id, Input.COMMITTED if is_written else Input.FAILED)
        self._settle()
        return action

    # --- sent messages -------------------------------------------------------------------------------------------------------------------

    def send(self, delivery: SessionDelivery, event: Any, qos: int, lsn: int, key: bytes | None) -> None:
        """Send a message at QoS 1, or at QoS 2 when its row is on the disk."""
        packet_id = self.sent.begin(qos)
        self._sequence += 1
        flight = self.flying[packet_id] = Flight(delivery, event, qos, self._sequence, lsn, key)
        link = self.link
        assert link is not None
        rows = None if self.rows is None else self.rows.find(delivery.database)
        if rows is None:
            if qos == 2:
                self.sent.on(packet_id, Input.COMMITTED)
            delivery.write(link, event, packet_id)
        elif qos == 1:
            self.changed[delivery.database] = None
            delivery.write(link, event, packet_id)
        else:
            rows.put(sent_key(self.number, packet_id), self._row(flight), partial(self._stored, packet_id, flight))

    @staticmethod
    def _row(flight: Flight, *, is_released: bool = False) -> bytes:
        return SentRow(flight.sequence, flight.delivery.number, flight.lsn, flight.key, is_released).encode()

    def _stored(self, packet_id: int, flight: Flight, problem: Problem | None) -> None:
        """The row of a message at QoS 2 is on the disk."""
        if self.sent.on(packet_id, Input.COMMITTED if problem is None else Input.FAILED) is Action.PUBLISH:
            self._mark(packet_id, flight)
            if self.link is not None:
                flight.delivery.write(self.link, flight.event, packet_id)
                self.link.flush()
        elif problem is not None:
            del self.flying[packet_id]
            self._break(problem)
        self._settle()

    def _mark(self, packet_id: int, flight: Flight) -> None:
        """The row of the newest message of a delivery stays when that is over, until there is a newer one, or a position: so it is known after a restart up to
        which all were sent."""
        delivery = flight.delivery
        if flight.key is None and not delivery.is_shared:
            self._drop_mark(delivery)
            delivery.mark, delivery.mark_lsn = packet_id, flight.lsn

    def _drop_mark(self, delivery: SessionDelivery) -> None:
        packet_id, delivery.mark = delivery.mark, 0
        if packet_id and packet_id not in self.flying:
            self.sent.unreserve(packet_id)
            rows = None if self.rows is None else self.rows.find(delivery.database)
            if rows is not None:
                rows.delete(sent_key(self.number, packet_id))

    def confirm(self, packet_id: int) -> None:
        """PUBREC has come: PUBREL follows when that is on the disk."""
        self._again.pop(packet_id, None)
        flight = self.flying.get(packet_id)
        rows = None if flight is None or self.rows is None else self.rows.find(flight.delivery.database)
        if rows is None or flight is None:
            self.sent.on(packet_id, Input.COMMITTED)
            if self.link is not None:
                self.link.release(packet_id)
        else:
            flight.event = None
            rows.put(sent_key(self.number, packet_id), self._row(flight, is_released=True), partial(self._confirmed, packet_id))

    def _confirmed(self, packet_id: int, problem: Problem | None) -> None:
        if self.sent.on(packet_id, Input.COMMITTED if problem is None else Input.FAILED) is Action.PUBREL:
            if self.link is not None:
                self.link.release(packet_id)
                self.link.flush()
        elif problem is not None:
            self._break(problem)
        self._settle()

    def forget(self, packet_id: int, *, is_refused: bool = False) -> None:
        """An exchange is over. `is_refused`: with a reason code of the client."""
        self._again.pop(packet_id, None)
        flight = self.flying.pop(packet_id, None)
        if flight is None:
            return
        delivery = flight.delivery
        delivery.over(flight)
        rows = None if self.rows is None else self.rows.find(delivery.database)
        if rows is None:
            return
        if flight.qos == 1:
            self.changed[delivery.database] = None
        elif delivery.mark == packet_id:
            self.sent.reserve(packet_id)
            self.changed[delivery.database] = None
            if is_refused:
                rows.put(sent_key(self.number, packet_id), self._row(flight, is_released=True))
        else:
            rows.delete(sent_key(self.number, packet_id))

    def take_back(self, delivery: SessionDelivery) -> list[Flight]:
        """What was sent at QoS 1 by a delivery and is not acknowledged, which others are to send now."""
        found = [packet_id for packet_id, flight in self.flying.items() if flight.delivery is delivery and flight.qos == 1]
        for packet_id in found:
            self._again.pop(packet_id, None)
            self.sent.on(packet_id, Input.PUBACK)
        return [self.flying.pop(packet_id) for packet_id in found]

    # --- positions -----------------------------------------------------------------------------------------------------------------------

    def write_positions(self) -> None:
        """Note how far the client has got in the databases where that has changed."""
        changed, self.changed = self.changed, {}
        if self.rows is None or self.is_broken:
            return
        for name in changed:
            rows = self.rows.find(name)
            if rows is not None:
                self._writing += 1
                rows.put(position_key(self.number), encode_position(self._position(name)), self._position_written)

    def _position(self, name: str) -> Position:
        deliveries = [each for each in self.deliveries.values() if each.subscription.qos and not each.is_shared and each.database == name]
        reached = {each.number: each.reached for each in deliveries}
        lsn = max((each for each in reached.values() if each is not None), default=0)
        for each in deliveries:
            here = reached[each.number]
            if each.mark and here is not None and here >= each.mark_lsn:
                self._drop_mark(each)
        flights = [
            (packet_id, flight.sequence, flight.delivery.number, flight.lsn, flight.key)
            for packet_id, flight in self.flying.items()
            if flight.qos == 1 and not flight.delivery.is_shared and flight.delivery.database == name
        ]
        return Position(self.last_number, lsn, {number: here for number, here in reached.items() if here != lsn}, flights)

    def _position_written(self, problem: Problem | None) -> None:
        self._writing -= 1
        if problem is not None:
            self._break(problem)
        self._settle()

    def restore(self, packet_id: int, flight: Flight, state: Sent) -> None:
        """A message that was under way when the server ended. In the order in which they were sent."""
        self.flying[packet_id] = flight
        self._sequence = max(self._sequence, flight.sequence)
        self.sent.restore(packet_id, state)
        if flight.qos == 2 and flight.key is None and not flight.delivery.is_shared and flight.lsn >= flight.delivery.mark_lsn:
            flight.delivery.mark, flight.delivery.mark_lsn = packet_id, flight.lsn
