"""Traces of a whole instance: both kinds of ports, GraphQL, the setting (spec: tracing §3, §5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import svc.testing
from svc.http.dispatch import Dispatcher
from svc.tracing.dispatcher import TracedDispatcher

TRACE = "0af7651916cd43dd8448eb211c80319c"
FIELDS = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """That of the provider which the surrounding program has set."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


@pytest.fixture
def app_path(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text("rest: true\ngraphql: true\ngraphqlSchema:\n  files: '*.graphql'\n")
    (tmp_path / "schema.graphql").write_text("type Note @table @export { id: ID @primaryKey  text: String }")
    return tmp_path


def test_requests_of_applications_operations_and_graphql(exporter: InMemorySpanExporter, app_path: Path) -> None:
    def names() -> Iterator[tuple[str, dict[str, Any]]]:
        for span in exporter.get_finished_spans():
            yield span.name, dict(span.attributes or {})
        exporter.clear()

    with svc.testing.app(app_path, tracing_enabled=True) as app:
        assert app.put("/Note/1", {"text": "a"}, headers=FIELDS).status == 204
        assert [name for name, _ in names()] == ["commit", "PUT /Note"]
        assert app.post("/graphql", {"query": "query Notes { Note(id: 1) { text } }"}).json == {"data": {"Note": [{"text": "a"}]}}
        [(name, attributes)] = names()
        assert name == "POST /graphql"
        assert (attributes["graphql.operation.type"], attributes["graphql.operation.name"]) == ("query", "Notes")
        [entry] = app.operation("read_transaction_log", table="Note")
        assert entry["trace_id"] == TRACE
        assert type(app.instance.server.operations_port.connections.application) is TracedDispatcher


def test_handlers_of_graphql_mutations_have_spans(exporter: InMemorySpanExporter, app_path: Path) -> None:
    (app_path / "config.yaml").write_text("graphql: {extended: true}\ngraphqlSchema:\n  files: '*.graphql'\njsResource:\n  files: '*.py'\n")
    (app_path / "schema.graphql").write_text("type Note @table { id: ID @primaryKey  text: String }")
    (app_path / "resources.py").write_text(
        "from svc import tables\nclass Note(tables.Note):\n    def put(self, data, target=None):\n        return super().put(data)\n"
    )
    with svc.testing.app(app_path, tracing_enabled=True) as app:
        mutation = 'mutation { put_Note(id: "1", input: {text: "a"}) { text } }'
        assert app.post("/graphql", {"query": mutation}).json == {"data": {"put_Note": {"text": "a"}}}
        spans = {span.name: span for span in exporter.get_finished_spans()}
        server = spans["POST /graphql"]
        parent = spans["Note.put"].parent
        assert parent is not None and parent.span_id == server.context.span_id
        assert "commit" in spans
        exporter.clear()
        events = {"accept": "text/event-stream"}
        assert app.post("/graphql", {"query": "query Notes { Note(id: 1) { text } }"}, headers=events).status == 200
        [attributes] = [dict(span.attributes or {}) for span in exporter.get_finished_spans() if span.name == "POST /graphql"]
        assert attributes["graphql.operation.name"] == "Notes"


def test_without_the_setting_dispatchers_are_the_plain_ones(exporter: InMemorySpanExporter, app_path: Path) -> None:
    with svc.testing.app(app_path) as app:
        assert app.put("/Note/1", {"text": "a"}, headers=FIELDS).status == 204
        assert type(app.instance.server.application_port.connections.application) is Dispatcher
        [entry] = app.operation("read_transaction_log", table="Note")
        assert entry["trace_id"] == TRACE
    assert exporter.get_finished_spans() == ()
