"""A node whose requests are traced, and whose spans are kept."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind

from svc.tracing.dispatcher import TracedDispatcher
from tests.support.node import Node


class Traced:
    def __init__(self, path: Path, app: Path) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(1.0)), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.provider = provider
        self.node = Node(path, app, make_dispatcher=partial(TracedDispatcher, provider.get_tracer("svc")))

    def ask(self, method: str, target: str, body: bytes = b"", **fields: str) -> tuple[int, Any]:
        """Status and decoded body. The spans are those of this request alone."""
        self.exporter.clear()
        status, _, raw = self.node.connect().ask(method, target, body, {"Content-Type": "application/json", **fields})
        return status, json.loads(raw) if raw.startswith((b"{", b"[")) else raw

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    @property
    def server(self) -> ReadableSpan:
        [span] = [span for span in self.spans if span.kind is SpanKind.SERVER]
        return span

    def child(self, name: str) -> ReadableSpan:
        [span] = [span for span in self.spans if span.name == name]
        return span
