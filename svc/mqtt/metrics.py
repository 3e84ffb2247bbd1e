"""What is recorded about the broker (spec: analytics §4). WebSockets record their own connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from svc.analytics import Recorder

Record = Callable[[float], None]


class MqttMetrics:
    """`open`: direct connections whose CONNECT was accepted."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.open = 0
        self._connected = recorder.yes_no("connection", None, "connect", "mqtt")
        self._ended = recorder.yes_no("connection", None, "disconnect", "mqtt")
        self._sent: dict[tuple[str, int], Record] = {}
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

    def _measure(self) -> Mapping[str, int] | None:
        return {"connections": self.open} if self.open else None
