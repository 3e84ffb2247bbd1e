"""Whatever a client sends to code of an application that only calls `super()`: an answer, never a 500, and nothing is left behind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.application import Application, application
from tests.unit.api.test_same_as_the_table import PLAIN
from tests.unit.api.test_styles import as_async

PARAMETERS = """
class Tour(Resource):
    path = "/tour/:city/*rest"
    load_as_instance = False
    def get(self, target):
        return [target.city, target.rest, target.id, list(target), str(target)]
    def put(self, target, data):
        return {"data": data, "limit": target.limit if target.parse_error is None else None}
    def post(self, target, data):
        return data
    def delete(self, target):
        return True
"""

PIECES = st.sampled_from(
    [
        "",
        "a",
        "b",
        "a/b",
        "none",
        "%00",
        "%ZZ",
        "%F0%9F%90%8D",
        "..",
        ".",
        ".csv",
        ".price",
        "a.stock",
        "a.csv",
        "x" * 300,
        "é",
        "a%2Fb",
        "*",
        ":city",
        "null",
        "5",
    ]
)
QUERIES = st.sampled_from(
    [
        "", "?", "?price=1", "?price=gt=1&sort(-price)", "?select(id,price)", "?select(show{title})", "?limit(2)", "?limit(x)", "?count()", "?facet(price)",
        "?price=gt=", "?(((", "?a=1&a=2&b", "?stock=1|price=2", "?after(x)", "?show.title=x", "?%00=1", "?price=number:x", "?live()", "?explain()",
    ]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "stock", "price", "place", "__op__", "value", "get", "", "a.b"]), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "If-Match": st.sampled_from(["*", '"x"', "x"]),
        "If-None-Match": st.sampled_from(["*", '"x"']),
        "Accept": st.sampled_from(["text/csv", "application/cbor", "text/event-stream", "x/y", "*/*;q=0"]),
        "Prefer": st.just("explain"),
        "Cache-Control": st.sampled_from(["no-cache", "only-if-cached", "max-age=x", "max-age=1"]),
        "Range": st.just("bytes=0-1"),
    },
)


@pytest.fixture(scope="module", params=[PLAIN, as_async(PLAIN)], ids=["plain", "async"])
def app(request: Any) -> Iterator[Application]:
    with ExitStack() as stack:
        path = stack.enter_context(tempfile.TemporaryDirectory())
        code = "from svc import Resource, tables\n" + request.param + PARAMETERS
        yield stack.enter_context(application(Path(path), code))


@given(
    method=st.sampled_from(["GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "QUERY", "OPTIONS", "COPY", "MOVE"]),
    resource=st.sampled_from(["/Instance", "/Target", "/Class", "/tour", "/tour/Bonn"]),
    piece=PIECES,
    slash=st.sampled_from(["/", ""]),
    query=QUERIES,
    data=VALUES,
    fields=FIELDS,
)
def test_there_is_an_answer(
    app: Application, method: str, resource: str, piece: str, slash: str, query: str, data: Any, fields: dict[str, str]
) -> None:
    if "event-stream" in fields.get("Accept", "") and method == "GET":
        fields = {name: value for name, value in fields.items() if name != "Accept"}  # it would go on
    target = f"{resource}{slash or ('/' if piece else '')}{piece}{query}".encode("ascii", "ignore").decode()
    status, _, body = app.answer(method, target, None if method in ("GET", "HEAD", "DELETE", "OPTIONS") else data, **fields)
    assert status < 500, (method, target, data, status, body, app.errors)
    assert not app.errors
    assert len(app.node.store.snapshots) == 0 and not app.node.interface.running.open
