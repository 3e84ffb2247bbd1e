"""EXPOSED: as which families the recorded metrics are exposed (spec: analytics §10). What has no row here comes from applications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc.analytics.exposition import COUNTER, GAUGE, HISTOGRAM, SUMMARY
from svc.analytics.recorder import SHED

_MS: Final = 0.001
_REQUEST: Final = ("path", "method", "type")

CUSTOM_PREFIX: Final = "svc_custom_"


@dataclass(frozen=True, slots=True)
class ExposedMetric:
    """`labels`: the names that path, method and type of the recorded metric have here; "" leaves one out. `scale`: from the recorded unit to that of the
    family. `yes`: of yes/no metrics the label that is `true` or `false`."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ("", "", "")
    unit: str = ""
    scale: float = 1
    yes: str = ""


NUMBERS: Final = {
    "duration": ExposedMetric(
        "svc_request_duration_seconds",
        HISTOGRAM,
        "Time from the head of a request until the head of its answer.",
        _REQUEST,
        "seconds",
        _MS,
    ),
    "transfer": ExposedMetric(
        "svc_response_transfer_seconds",
        SUMMARY,
        "Time from the head of an answer until its last byte was given to the socket.",
        ("path", "method", ""),
        "seconds",
        _MS,
    ),
    "bytes-sent": ExposedMetric("svc_sent_bytes", COUNTER, "Bytes of bodies and messages sent, as compressed.", _REQUEST, "bytes"),
    "bytes-received": ExposedMetric("svc_received_bytes", COUNTER, "Bytes of messages received.", _REQUEST, "bytes"),
    "cache-resolution": ExposedMetric(
        "svc_cache_resolution_seconds", HISTOGRAM, "Time of calls of the sources of caching tables.", ("table", "", ""), "seconds", _MS
    ),
    "tls-handshake": ExposedMetric(
        "svc_tls_handshake_seconds",
        HISTOGRAM,
        "Time from accepting a connection until its TLS handshake was done.",
        unit="seconds",
        scale=_MS,
    ),
    SHED: ExposedMetric("svc_requests_shed", COUNTER, "Requests refused unread under overload.", ("", "", "class")),
    "socket-bytes": ExposedMetric("svc_socket_bytes", COUNTER, "Bytes on all sockets, heads included.", ("", "", "direction"), "bytes"),
    "held-loop": ExposedMetric(
        "svc_held_loop_seconds",
        SUMMARY,
        "Turns of the event loop of more than 50 ms that one piece of code is to blame for.",
        ("application", "function", "owner"),
        "seconds",
        _MS,
    ),
}
"""By the name of the recorded metric, where the values are numbers."""

YES_NO: Final = {
    "success": ExposedMetric("svc_requests", COUNTER, "Requests answered; success: a status below 400.", _REQUEST, yes="success"),
    "cache-hit": ExposedMetric("svc_cache_lookups", COUNTER, "Records of caching tables looked up by key.", ("table", "", ""), yes="hit"),
    "tls-reused": ExposedMetric("svc_tls_sessions", COUNTER, "TLS handshakes done.", yes="resumed"),
    "socket-routed": ExposedMetric(
        "svc_connections_accepted", COUNTER, "Connections accepted; at_once: without a wait in the queue.", yes="at_once"
    ),
    "connection": ExposedMetric(
        "svc_connection_events",
        COUNTER,
        "Connections opened and closed; ok: the handshake was accepted, the end was orderly.",
        ("", "event", "protocol"),
        yes="ok",
    ),
}
"""The same where the values are yes or no."""

OPEN_CONNECTIONS: Final = {
    "ws-connections": ExposedMetric("svc_websocket_connections", GAUGE, "Open WebSockets."),
    "mqtt-connections": ExposedMetric("svc_mqtt_connections", GAUGE, "Open connections of MQTT, without those over WebSocket."),
}
"""Gauges of the field `connections`. No entry means that there are none."""

LAG: Final = "replication-lag"
"""Is exposed by what replicates, as it is when it is asked for."""

RESPONSES: Final = {
    "response": ExposedMetric("svc_responses", COUNTER, "Answers by status.", (*_REQUEST, "status")),
}
"""The yes/no metrics `response_<status>` together: their status is the last label."""
