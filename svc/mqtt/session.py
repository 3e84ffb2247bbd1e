"""What lasts longer than a connection: subscriptions, exchanges, the will (spec: mqtt §7, §8)."""

from __future__ import annotations

from secrets import token_bytes
from typing import Any, Protocol

from svc.content.content_type import ContentType
from svc.errors import Problem
from svc.messages import Request
from svc.mqtt.notes import SESSION_BYTES
from svc.mqtt.publishing import Sender
from svc.protocol.mqtt_connection import MqttConnection
from svc.protocol.mqtt_exchanges import WINDOW, ReceivedExchanges, SentExchanges
from svc.protocol.mqtt_packets import Subscription, Will
from svc.protocol.mqtt_states import Action


class SessionLink(Protocol):
    """The connection of a session: `link.Link`. `kind`: the content type that its client takes. `certificate`: of the client. `handshake`: of a WebSocket.
    `pending`: bytes that it has not taken yet.
    """

    connection: MqttConnection
    kind: ContentType
    is_closed: bool
    certificate: Any
    handshake: Request | None

    @property
    def peer(self) -> str: ...
    @property
    def pending(self) -> int: ...
    def flush(self) -> None: ...
    def release(self, packet_id: int) -> None: ...
    def taken_over(self) -> None: ...
    def report(self, error: BaseException) -> None: ...
    def login_ended(self) -> None: ...


class SessionDelivery(Protocol):
    """A subscription: `delivery.Delivery`."""

    subscription: Subscription

    def open(self) -> None: ...
    def close(self) -> None: ...
    def run(self) -> None: ...


class SentMessage(Protocol):
    """A message that is not acknowledged: `delivery.Sent`."""

    def send_again(self, link: SessionLink, packet_id: int) -> None: ...


class Session:
    """`expiry`: seconds that it lasts after its connection; `ends_at`: when it ends, by the monotonic clock, None while it is connected or for good.

    `deliveries`: by filter. `flying`: what was sent at QoS 1 and 2 and is not acknowledged, by packet identifier.
    `waiting`: deliveries that wait for room, in the window of exchanges or on the way to the client.
    """

    __slots__ = (
        "client_id",
        "deliveries",
        "ends_at",
        "expiry",
        "flying",
        "link",
        "number",
        "received",
        "sender",
        "sent",
        "waiting",
        "will",
    )

    def __init__(self, client_id: str, sender: Sender, expiry: float) -> None:
        self.client_id = client_id
        self.number = token_bytes(SESSION_BYTES)
        self.sender = sender
        self.expiry = expiry
        self.ends_at: float | None = None
        self.link: SessionLink | None = None
        self.will: Will | None = None
        self.deliveries: dict[str, SessionDelivery] = {}
        self.received = ReceivedExchanges()
        self.sent = SentExchanges()
        self.flying: dict[int, SentMessage] = {}
        self.waiting: dict[SessionDelivery, None] = {}

    @property
    def subscriptions(self) -> list[Subscription]:
        return [delivery.subscription for delivery in self.deliveries.values()]

    def attach(self, link: SessionLink, sender: Sender, expiry: float, receive_maximum: int) -> None:
        """It has a connection."""
        self.link = link
        self.sender = sender
        sender.session = self.number
        self.expiry = expiry
        self.ends_at = None
        self.sent.window = min(receive_maximum, WINDOW)
        self.received.resume()

    def send_again(self) -> None:
        """What the client has not acknowledged, in the order of the first time; then what has happened meanwhile."""
        link = self.link
        assert link is not None
        for packet_id, action in self.sent.resume():
            if action is Action.PUBREL:
                link.release(packet_id)
            else:
                self.flying[packet_id].send_again(link, packet_id)
        for text, delivery in list(self.deliveries.items()):
            try:
                delivery.open()
            except Problem:  # the user may not read it any more, or it is gone
                del self.deliveries[text]

    def detach(self) -> None:
        """It has none any more. Nothing is followed for it from now on."""
        self.link = None
        self.waiting.clear()
        for delivery in self.deliveries.values():
            delivery.close()

    def make_room(self) -> None:
        """An exchange has ended, or the client has taken what was sent: deliveries that have waited for that go on."""
        for delivery in list(self.waiting):
            delivery.run()
