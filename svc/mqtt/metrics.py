"""What is recorded about the broker (spec: analytics §4). WebSockets record their own connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from svc.analytics import Recorder
from svc.protocol.mqtt_properties import CONNACK, DISCONNECT, PINGRESP, PUBACK, PUBCOMP, PUBREC, PUBREL, SUBACK, UNSUBACK

Record = Callable[[float], None]


ANSWERS = {
    CONNACK: "connack",
    PUBACK: "puback",
    PUBREC: "pubrec",
    PUBREL: "pubrel",
    PUBCOMP: "pubcomp",
    SUBACK: "suback",
    UNSUBACK: "unsuback",
    PINGRESP: "pingresp",
    DISCONNECT: "disconnect",
}


class MqttMetrics:
    """`open`: direct connections whose CONNECT was accepted."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.open = 0
        self._connected = recorder.yes_no("connection", None, "connect", "mqtt")
        self._ended = recorder.yes_no("connection", None, "disconnect", "mqtt")
        self._sent: dict[tuple[str, int], Record] = {}
        self._answers = {kind: recorder.bucket("bytes-sent", None, name, "mqtt") for kind, name in ANSWERS.items()}
        self.answered = self._answer  # one object for all connections
        recorder.gauge(self._measure, "mqtt-connections")

    def connected(self, is_accepted: bool) -> None:
        """A direct connection: CONNECT is answered."""
        self.open += is_accepted
        self._connected(is_accepted)

    def ended(self, is_orderly: bool) -> None:
        """A direct connection that was accepted; `is_orderly`: with DISCONNECT."""
        self.open -= 1
        self._ended(is_orderly)

    def sent(self, path: str, qos: int) -> Record:
        """What records the size of each message to a client, of the resource at `path`."""
        found = self._sent.get((path, qos))
        if found is None:
            method = f"publish,qos={qos}" if qos else "publish"
            found = self._sent[path, qos] = self._recorder.bucket("bytes-sent", path or None, method, "mqtt")
        return found

    def _answer(self, data: bytes) -> None:
        """A packet that is no message was sent to a client."""
        self._answers[data[0] >> 4](len(data))

    def _measure(self) -> Mapping[str, int] | None:
        return {"connections": self.open} if self.open else None
