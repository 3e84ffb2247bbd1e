"""A client of MQTT that publishes retained messages at QoS 1, and never sends one again."""

from __future__ import annotations

import threading

import paho.mqtt.client as paho

from fuzz.consistency.history import NoOutcome, NotDone
from fuzz.consistency.transport import SECONDS
from tests.integration.conftest import PASSWORD


class Publisher:
    """One connection of paho-mqtt, until it is lost. Raises NotDone if it cannot connect."""

    def __init__(self, port: int) -> None:
        self._changed = threading.Condition()
        self._reasons: dict[int, int] = {}
        self._is_connected = False
        self.is_lost = False
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5, reconnect_on_failure=False)
        self._client.username_pw_set("admin", PASSWORD)
        self._client.on_connect = lambda client, data, flags, reason, found: self._note(connected=reason.value == 0)
        self._client.on_disconnect = lambda client, data, flags, reason, found: self._note(connected=False)
        self._client.on_publish = lambda client, data, mid, reason, found: self._note(mid=mid, reason=reason.value)
        try:
            self._client.connect("127.0.0.1", port, 60)
        except (OSError, ValueError) as error:
            raise NotDone from error
        self._client.loop_start()
        with self._changed:
            self._changed.wait_for(lambda: self._is_connected or self.is_lost, SECONDS)
            if not self._is_connected:
                self.is_lost = True
        if self.is_lost:
            self.close()
            raise NotDone

    def _note(self, *, connected: bool | None = None, mid: int = 0, reason: int = 0) -> None:
        with self._changed:
            if connected is None:
                self._reasons[mid] = reason
            else:
                self._is_connected = connected
                self.is_lost = not connected
            self._changed.notify_all()

    def publish(self, topic: str, payload: bytes) -> int:
        """The reason code. Raises NoOutcome."""
        info = self._client.publish(topic, payload, 1, retain=True)
        with self._changed:
            self._changed.wait_for(lambda: info.mid in self._reasons or self.is_lost, SECONDS)
            if info.mid not in self._reasons:
                self.is_lost = True
                raise NoOutcome
            return self._reasons[info.mid]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
