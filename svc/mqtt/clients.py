"""Clients as code of applications sees them: `server.mqtt` (spec: mqtt §10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple

from svc.errors import AccessViolation

if TYPE_CHECKING:
    from svc.auth.users import User
    from svc.messages import Request
    from svc.mqtt.session import Session

SECURE = ("mqtts", "https")


class MqttSocket:
    """The connection of a client, before and after it is let in."""

    __slots__ = ("_close", "_subject", "ip", "secure")

    def __init__(self, ip: str, secure: bool, subject: str | None, close: Callable[[], None]) -> None:
        self.ip = ip
        self.secure = secure
        self._subject = subject
        self._close = close

    @property
    def subject(self) -> str | None:
        """That of the certificate that the client has shown, `O=Example, CN=ann`; None without one."""
        return self._subject

    def close(self) -> None:
        """End the connection. Version 5 is told 0x98; the will of the client is published."""
        self._close()

    def __repr__(self) -> str:
        return f"<MqttSocket {self.ip}{' secure' if self.secure else ''}>"


class MqttSubscription(NamedTuple):
    """What a client has subscribed to: a filter, and the QoS that was granted."""

    topic: str
    qos: int


class MqttSession:
    """A client that is connected. `request`: the handshake of its WebSocket, None without one. It is there for as long as the connection is, and another one
    for the next connection of the same client."""

    __slots__ = ("_last_user", "_session", "_subscriptions", "client_id", "request", "socket")

    def __init__(self, session: Session, socket: MqttSocket, request: Request | None) -> None:
        self.client_id = session.client_id
        self.socket = socket
        self.request = request
        self._session: Session | None = session
        self._last_user: User | None = None
        self._subscriptions: tuple[MqttSubscription, ...] = ()

    @property
    def session_id(self) -> str:
        """The same as `client_id`."""
        return self.client_id

    @property
    def user(self) -> User | None:
        """With the rights of now; None: anonymous. When the account is gone, or the connection has ended, as it was last."""
        if self._session is not None:
            try:
                self._last_user = self._session.sender.user
            except AccessViolation:
                pass
        return self._last_user

    @property
    def subscriptions(self) -> tuple[MqttSubscription, ...]:
        """What the client has subscribed to, as (`topic`, `qos`); when the connection has ended, as it was last."""
        session = self._session
        if session is None:
            return self._subscriptions
        return tuple(MqttSubscription(each.filter, each.qos) for each in session.subscriptions)

    def ended(self) -> None:
        """The connection has ended."""
        if self._session is not None:
            self._last_user, self._subscriptions = self.user, self.subscriptions
            self._session = None

    def __repr__(self) -> str:
        return f"<MqttSession {self.client_id}>"


class MqttSessions(AbstractSet[MqttSession]):
    """The clients that are connected to this instance, as they are at each moment."""

    def __init__(self, find: Callable[[], list[MqttSession]]) -> None:
        self._find = find

    @classmethod
    def _from_iterable(cls, sessions: Any) -> Any:
        return set(sessions)

    def __contains__(self, session: object) -> bool:
        return any(each is session for each in self._find())

    def __iter__(self) -> Iterator[MqttSession]:
        return iter(self._find())

    def __len__(self) -> int:
        return len(self._find())

    def __repr__(self) -> str:
        return f"<{len(self)} sessions of MQTT>"
