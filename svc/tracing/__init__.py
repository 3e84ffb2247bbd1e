"""OpenTelemetry spans of requests, with the extra `otel` and `tracing.enabled` (spec: tracing §3-§6).

Nothing here imports OpenTelemetry until `open_tracing` finds that it is enabled, and nothing of it is on the path of a request then: an instance with
traces has other dispatchers (`dispatcher`), which put a `spans.RequestSpans` into the state of each request.

    provider     where spans go: sampling, the queue, the exporter, the end
    spans        the span of a request and those below it
    dispatcher   when they begin and end
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from svc.clock import Clock
from svc.config import Config
from svc.errors import ConfigError

if TYPE_CHECKING:
    from svc.tracing.provider import Tracing

__all__ = ["open_tracing"]

DISABLED = "OTEL_SDK_DISABLED"
MISSING = "tracing.enabled needs OpenTelemetry, which is not installed: pip install 'svc[otel]'"


def open_tracing(config: Config, clock: Clock) -> Tracing | None:
    """What records the spans of an instance; None if it is not enabled. Raises ConfigError for what is missing or cannot be used."""
    if not config.tracing.enabled or os.environ.get(DISABLED, "").strip().lower() == "true":
        return None
    try:
        from svc.tracing.provider import Tracing
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise ConfigError(MISSING) from None
    return Tracing.from_config(config, clock)
