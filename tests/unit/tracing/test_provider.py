"""Where spans go: settings, environment, a collector that cannot be reached, the end (spec: tracing §5, §6)."""

from __future__ import annotations

import asyncio
import builtins
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from svc.clock import FakeClock
from svc.config import Config
from svc.errors import ConfigError
from svc.http.dispatch import Dispatcher
from svc.messages import HeaderBlock
from svc.tracing import open_tracing, provider
from svc.tracing.provider import Tracing, endpoint_of, resource_of, sampler_of
from svc.tracing.spans import FIELDS

pytestmark = pytest.mark.programs

NAMES = ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of the environment counts, and nothing becomes the provider of the whole process."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(trace, "set_tracer_provider", lambda provider: None)
    yield


def config_of(**settings: Any) -> Config:
    return Config.from_document({"tracing": {"enabled": True, **settings}}, Path("/srv/svc"))


class Collector(SpanExporter):
    """Takes batches when `is_open`; raises if `error` is set."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.is_asked = threading.Event()
        self.error: Exception | None = None
        self.taken: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.is_asked.set()
        if self.error is not None:
            raise self.error
        self.is_open.wait(60)
        self.taken.extend(spans)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.is_open.set()


def opened(collector: SpanExporter, **settings: Any) -> Tracing:
    return Tracing.from_config(config_of(**settings), FakeClock(), lambda endpoint: collector)


def test_nothing_is_imported_unless_it_is_enabled() -> None:
    program = "import sys, svc.server, svc.cli.serving; print([name for name in sys.modules if name.startswith('opentelemetry')])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
    assert open_tracing(Config.from_document({}, Path("/srv/svc")), FakeClock()) is None
    assert open_tracing(Config.from_document({"tracing": False}, Path("/srv/svc")), FakeClock()) is None


def test_the_standards_switch_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "TRUE")
    assert open_tracing(config_of(), FakeClock()) is None


def test_without_the_extra_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "svc.tracing.provider")
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigError, match=r"pip install 'svc\[otel\]'"):
        open_tracing(config_of(), FakeClock())


def test_endpoints() -> None:
    assert endpoint_of(None) is None and endpoint_of("") is None
    assert (
        endpoint_of("http://c:4318/") == endpoint_of("http://c:4318") == endpoint_of("http://c:4318/v1/traces") == "http://c:4318/v1/traces"
    )
    for wrong in ("collector:4318", "ftp://c", "//c"):
        with pytest.raises(ConfigError, match=r"tracing\.endpoint"):
            endpoint_of(wrong)


def test_the_settings_go_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resource_of(None).attributes["service.name"] == "svc"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop,deployment.environment.name=test")
    assert resource_of(None).attributes["service.name"] == "shop"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "till")
    assert resource_of(None).attributes["service.name"] == "till"
    assert resource_of("desk").attributes["service.name"] == "desk"
    assert resource_of("desk").attributes["deployment.environment.name"] == "test"


@pytest.mark.parametrize(
    ("sample", "environment", "recorded"), [(0.0, "", 0), (1.0, "always_off", 20), (None, "", 20), (None, "always_off", 0)]
)
def test_sampling(sample: float | None, environment: str, recorded: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", environment or "parentbased_always_on")
    tracer = TracerProvider(sampler=sampler_of(sample), shutdown_on_exit=False).get_tracer("test")
    assert sum(tracer.start_span("GET").is_recording() for _ in range(20)) == recorded


def test_a_share_is_a_number_from_0_to_1() -> None:
    for sample in (2, -1, "many"):
        with pytest.raises(ConfigError, match=r"tracing\.sample"):
            config_of(sample=sample)


def test_the_provider_of_the_surrounding_program_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    surrounding = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: surrounding)
    tracing = Tracing.from_config(config_of(), FakeClock(), lambda endpoint: pytest.fail("it has an exporter of its own"))
    asyncio.run(tracing.close())
    assert surrounding.get_tracer("after").start_span("it lives on").is_recording()


def test_no_exporter_is_made_where_the_environment_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    tracing = Tracing.from_config(config_of(), FakeClock(), lambda endpoint: pytest.fail("there is an exporter"))
    tracing.tracer.start_span("GET").end()
    asyncio.run(tracing.close())


def test_it_makes_dispatchers_that_trace() -> None:
    tracing = opened(InMemorySpanExporter())
    assert issubclass(tracing.dispatcher.func, Dispatcher)  # type: ignore[attr-defined]
    asyncio.run(tracing.close())


def test_what_is_queued_is_exported_at_the_end() -> None:
    exporter = InMemorySpanExporter()
    tracing = opened(exporter)
    for _ in range(100):
        tracing.tracer.start_span("GET").end()
    asyncio.run(tracing.close())
    assert len(exporter.get_finished_spans()) == 100


def test_a_collector_that_takes_nothing_holds_up_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    collector = Collector()
    monkeypatch.setattr(provider, "CLOSE_SECONDS", 0.05)
    tracing = opened(collector)
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            tracing.tracer.start_span("GET").end()
        assert collector.is_asked.wait(60)
        for _ in range(2500):
            tracing.tracer.start_span("GET").end()
        asyncio.run(tracing.close())
    collector.is_open.set()
    assert len([record for record in caplog.records if "Queue full" in record.getMessage()]) == 1
    assert any("did not take the last spans" in record.getMessage() for record in caplog.records)
    processors = tracing._provider._active_span_processor._span_processors
    assert len(processors[0]._batch_processor._queue) <= 2048  # type: ignore[attr-defined]


def test_a_failing_exporter_is_reported_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    collector = Collector()
    collector.error = OSError("no route to the collector")
    clock = FakeClock()
    tracing = Tracing.from_config(config_of(), clock, lambda endpoint: collector)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            tracing.tracer.start_span("GET").end()
            tracing._provider.force_flush()
        assert [record.name for record in caplog.records] == ["opentelemetry.sdk._shared_internal"]
        for _ in range(3):
            clock.advance(61)
            for attempt in range(10):
                logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter").warning("attempt %d", attempt)
                logging.getLogger("opentelemetry.sdk.trace").error("attempt %d", attempt)
    assert [record.getMessage() for record in caplog.records[1:]] == ["attempt 0"] * 3
    asyncio.run(tracing.close())


def test_fields_of_clients_fill_no_log_and_hide_nothing(caplog: pytest.LogCaptureFixture) -> None:
    tracing = opened(InMemorySpanExporter())
    block = HeaderBlock([("traceparent", f"00-{'1' * 32}-{'2' * 16}-01"), ("tracestate", "???"), ("baggage", ",".join(["junk"] * 50))])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            propagate.extract(block, Context(), FIELDS)
        assert len(caplog.records) == 1
        logging.getLogger("opentelemetry.sdk._shared_internal").warning("the collector is away")
    assert caplog.records[1].getMessage() == "the collector is away"
    asyncio.run(tracing.close())


def test_long_values_are_cut() -> None:
    exporter = InMemorySpanExporter()
    tracing = opened(exporter)
    span = tracing.tracer.start_span("GET", attributes={"url.path": "/" + "a" * 100_000})
    span.record_exception(ValueError("b" * 100_000))
    span.end()
    asyncio.run(tracing.close())
    [found] = exporter.get_finished_spans()
    assert found.attributes is not None and len(str(found.attributes["url.path"])) == 4096
    event = found.events[0].attributes
    assert event is not None and len(str(event["exception.message"])) == 4096
