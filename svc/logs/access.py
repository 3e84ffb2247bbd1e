"""The HTTP access log (spec: configuration §5.5): one line per request, when `http.logging` is present."""

from collections.abc import Iterable
from itertools import count

from svc.config import Config
from svc.logs.core import ERROR, INFO, WARN, Logs
from svc.logs.redact import without_credentials

HIDDEN_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})


class AccessLog:
    """Writes `GET /plant/7 HTTP/1.1 200 3.42ms client: 10.0.0.7 id: 1042`: all requests at level `info`, status >= 400 at `warn`, >= 500 at `error`."""

    __slots__ = ("_headers", "_ids", "_log", "_timing")

    def __init__(self, logs: Logs, *, timing: bool = True, headers: bool = False, ids: bool = True) -> None:
        self._log = logs.log("http")
        self._timing = timing
        self._headers = headers
        self._ids = count(1) if ids else None

    @classmethod
    def from_config(cls, config: Config, logs: Logs) -> "AccessLog | None":
        """The access log the configuration asks for, None for none."""
        section = config.http.logging
        if section is None:
            return None
        return cls(logs, timing=section.get("timing", True), headers=section.get("headers", False), ids=section.get("id", True))

    def write(
        self,
        method: str,
        url: str,
        protocol: str,
        status: int,
        seconds: float,
        headers: Iterable[tuple[str, str]] = (),
        trace_id: bytes | None = None,
        client: str = "",
    ) -> None:
        """`url` as it was sent, `protocol` as `HTTP/1.1` or `HTTPS/1.1`. `trace_id`: see `Request.trace_id`.
        `client`: its address, that of the one behind trusted proxies."""
        number = next(self._ids) if self._ids is not None else 0
        level = INFO if status < 400 else WARN if status < 500 else ERROR
        if level < self._log.threshold:
            return
        text = f"{method} {without_credentials(url) if '?' in url else url} {protocol}"
        if self._headers:
            text += " " + ", ".join([f"{name}: {value}" for name, value in headers if name.lower() not in HIDDEN_HEADERS])
        text += f" {status}"
        if self._timing:
            text += f" {seconds * 1000:.2f}ms"
        if client:
            text += f" client: {client}"
        if number:
            text += f" id: {number}"
        if trace_id is not None:
            text += f" trace: {trace_id.hex()}"
        self._log.write(level, "http", ("http",), (text,))
