"""Where spans go: a provider of the OpenTelemetry SDK with the sampler, the queue and the exporter of an instance (spec: tracing §5, §6).

The SDK's `BatchSpanProcessor` exports on a thread of its own and holds a bounded number of spans: no request waits for a collector. What the settings do
not say, the standard's environment variables do (`OTEL_*`), which the SDK reads itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from weakref import WeakSet

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased

from svc import __version__
from svc.clock import Clock
from svc.config import Config
from svc.errors import ConfigError
from svc.http.dispatch import Dispatcher
from svc.seldom import Seldom
from svc.tracing.dispatcher import TracedDispatcher

CLOSE_SECONDS = 5.0  # for what is still to be exported when the instance ends
LONGEST_VALUE = 4096  # characters of an attribute, unless the environment says otherwise: paths and texts of errors come from clients
PATH = "/v1/traces"
NAME = "svc"
UNNAMED = "unknown_service"  # what the SDK calls a service that has no name, with the program behind it

_LIMITS = ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT")
_EXPORTER = "OTEL_TRACES_EXPORTER"
_LIBRARY = "opentelemetry"
_REPORTING = ("opentelemetry.exporter", "opentelemetry.sdk")  # loggers that report what could not be exported; others, what cannot be read
_ours: WeakSet[TracerProvider] = WeakSet()


class Tracing:
    """What records the spans of one instance."""

    def __init__(self, provider: TracerProvider, *, is_own: bool = True) -> None:
        """`is_own`: the provider ends with the instance."""
        self.tracer = provider.get_tracer(NAME, __version__)
        self._provider = provider
        self._is_own = is_own

    @classmethod
    def from_config(cls, config: Config, clock: Clock, make_exporter: Callable[[str | None], SpanExporter] | None = None) -> Tracing:
        """Uses the provider that the surrounding program has set, if there is one; else makes one and sets it, so that what instruments libraries in
        applications finds it. `make_exporter(endpoint)`: instead of OTLP over HTTP. Raises ConfigError."""
        current = trace.get_tracer_provider()
        if isinstance(current, TracerProvider) and current not in _ours:
            return cls(current, is_own=False)
        settings = config.tracing
        limits = None if any(os.environ.get(name) for name in _LIMITS) else SpanLimits(max_attribute_length=LONGEST_VALUE)
        try:
            provider = TracerProvider(
                sampler=sampler_of(settings.sample),
                resource=resource_of(settings.service_name),
                shutdown_on_exit=False,
                span_limits=limits,
            )
            if os.environ.get(_EXPORTER, "").strip().lower() != "none":
                endpoint = endpoint_of(settings.endpoint)
                provider.add_span_processor(BatchSpanProcessor((make_exporter or _otlp)(endpoint)))
        except ValueError as error:
            raise ConfigError(f"tracing cannot be started: {error}") from error
        _ours.add(provider)
        report_seldom(clock)
        if not isinstance(current, TracerProvider):
            trace.set_tracer_provider(provider)
        return cls(provider)

    @property
    def dispatcher(self) -> Callable[..., Dispatcher]:
        """Makes a dispatcher whose requests are traced, from the arguments of one that does not."""
        return partial(TracedDispatcher, self.tracer)

    async def close(self) -> None:
        """Export what is queued. Returns when that is done, and after CLOSE_SECONDS at the latest; never raises."""
        if not self._is_own:
            return
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def shut_down() -> None:
            try:
                self._provider.shutdown()
            finally:
                try:
                    loop.call_soon_threadsafe(done.set)
                except RuntimeError:  # the loop has closed: it came too late
                    pass

        threading.Thread(target=shut_down, name="tracing-end", daemon=True).start()
        try:
            await asyncio.wait_for(done.wait(), CLOSE_SECONDS)
        except TimeoutError:
            logging.getLogger("svc.tracing").warning("the collector of traces did not take the last spans within %g s", CLOSE_SECONDS)


def _otlp(endpoint: str | None) -> SpanExporter:
    return OTLPSpanExporter(endpoint=endpoint)


def endpoint_of(setting: str | None) -> str | None:
    """The address of the collector's path for traces; None: as the environment says. Raises ConfigError.

    >>> endpoint_of("http://127.0.0.1:4318"), endpoint_of("https://c.example/in/v1/traces")
    ('http://127.0.0.1:4318/v1/traces', 'https://c.example/in/v1/traces')
    """
    if not setting:
        return None
    if not setting.startswith(("http://", "https://")):
        raise ConfigError(f"'tracing.endpoint' must be an address such as http://127.0.0.1:4318, not {setting!r}")
    return setting if setting.endswith(PATH) else setting.rstrip("/") + PATH


def sampler_of(sample: float | None) -> Sampler | None:
    """A share of the traces that begin here; what callers have begun is recorded as they say. None: as the environment says."""
    return None if sample is None else ParentBased(TraceIdRatioBased(sample))


def resource_of(service_name: str | None) -> Resource:
    """What all spans say of their origin. The environment (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`) counts where the settings are silent."""
    resource = Resource.create()
    if not service_name:
        found = str(resource.attributes.get(SERVICE_NAME, UNNAMED))
        service_name = NAME if found.startswith(UNNAMED) else found
    return resource.merge(Resource({SERVICE_NAME: service_name}))


class _Seldom(logging.Filter):
    """Lets a warning through once a minute: an unreachable collector is reported for every batch, every attempt and every span that is dropped, and header
    fields of clients for every member that is invalid. The one does not hide the other."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._seldom = Seldom(clock.monotonic)

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno < logging.WARNING or self._seldom.count(record.name.startswith(_REPORTING)) is not None


def report_seldom(clock: Clock) -> None:
    """From now on one warning a minute comes from the SDK and its exporters, and one from what reads header fields."""
    only = _Seldom(clock)
    for name in list(logging.root.manager.loggerDict):
        if name.startswith(_LIBRARY):
            logger = logging.getLogger(name)
            for former in [each for each in logger.filters if isinstance(each, _Seldom)]:
                logger.removeFilter(former)
            logger.addFilter(only)
