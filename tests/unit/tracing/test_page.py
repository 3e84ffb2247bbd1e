"""The section on traces of docs/observing.md: its settings, and its application on a traced node."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from svc.config import Config
from tests.support.traced import Traced

PAGE = (Path(__file__).parents[3] / "docs" / "observing.md").read_text("utf-8")
SECTION = PAGE[PAGE.index("\n## Traces\n") :]


def block(language: str) -> str:
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)
    return str(found)


def test_the_settings_are_understood() -> None:
    config = Config.from_document(yaml.safe_load(block("yaml")), Path("/srv/svc"))
    tracing = config.tracing
    assert (tracing.enabled, tracing.endpoint, tracing.sample, tracing.service_name) == (True, "http://127.0.0.1:4318", 0.1, "shop")
    assert not config.notes


def test_the_application_passes_the_trace_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"name": "Lamp"})

    real = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", lambda: real(transport=httpx.MockTransport(answer)))
    app = tmp_path / "shop"
    app.mkdir()
    (app / "schema.graphql").write_text("type Product @table @export { id: ID @primaryKey  name: String }")
    (app / "resources.py").write_text(block("python"))
    traced = Traced(tmp_path / "store", app)
    try:
        status, body = traced.ask("GET", "/Product/7")
        assert (status, body["name"]) == (200, "Lamp")
        child: Any = traced.child("Catalogue.get")
        assert asked[0].headers["traceparent"].startswith(f"00-{child.context.trace_id:032x}-{child.context.span_id:016x}-")
    finally:
        traced.node.close()
