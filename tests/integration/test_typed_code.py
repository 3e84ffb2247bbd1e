"""What the stubs say is so: the code that is right to the checkers runs, and its values are of the types that they have there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import svc.testing
from svc import Blob

TYPED = Path(__file__).parent / "typed"
CONFIG = "rest: true\ngraphqlSchema: {files: schema.graphql}\nresources: {files: right.py}\n"
PEN: dict[str, Any] = {
    "name": "Pen", "price": 2.5, "stock": 3, "tags": ["new", None], "sizes": [1, 2], "since": datetime(2026, 1, 1, tzinfo=UTC), "code": b"\0", "photo": b"...",
    "weight": 2**70, "place": {"hall": "A"}, "brandName": "b", "class": "c", "_private": "p", "get": "g", "str": 4, "not declared": [1],
}  # fmt: skip


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[svc.testing.Application]:
    directory = tmp_path_factory.mktemp("typed")
    (directory / "config.yaml").write_text(CONFIG)
    for name in ("schema.graphql", "right.py"):
        shutil.copy(TYPED / name, directory)
    with svc.testing.app(directory) as app:
        yield app


def test_records_have_values_of_the_types_that_are_said(app: svc.testing.Application) -> None:
    app.tables.Brand.put("b", {"country": "FR"})
    app.tables.Product.put("pen", PEN)
    found = app.run(app.module("right").read())
    kinds = {
        "name": str, "price": float, "stock": int, "tags": list, "sizes": list, "since": datetime, "code": bytes, "photo": Blob, "weight": int, "changed": int,
        "label": str, "hall": str, "class": str, "_private": str, "get": str, "str": int, "other": list,
    }  # fmt: skip
    assert found.keys() == kinds.keys()
    assert not {name: value for name, value in found.items() if not isinstance(value, kinds[name])}


@pytest.mark.parametrize("part", ["search", "write", "others"])
def test_what_is_right_runs(app: svc.testing.Application, part: str) -> None:
    app.tables.Product.put("pen", PEN)
    app.run(getattr(app.module("right"), part)())
    assert not [entry.text for entry in app.logs if entry.level in ("warn", "error")]


def test_classes_of_the_application_answer(app: svc.testing.Application) -> None:
    app.tables.Product.put("pen", PEN)
    shown = app.get("/Shelf/pen").json
    assert (shown["isCheap"], shown["soldOut"], shown["class"], shown["place"]) == (True, False, "a", {"hall": "A", "row": 4})
    assert app.post("/Shelf/pen").json == {"left": 2, "id": "pen"}
    assert app.get("/Report").status == 200
    assert app.get("/Bound/pen").json["name"] == "PEN"
    assert app.put("/Bound/cap", {"name": "Cap", "stock": 1}).status == 204
    assert app.put("/Shelf/ink", {"name": "Ink", "stock": 1}).status == 204
    assert app.delete("/Ticket/none").status == 204
