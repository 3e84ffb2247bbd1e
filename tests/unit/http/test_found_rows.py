"""Rows that are found in parts, as answers (spec: sql §1, http §8)."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.content.arrow_type import ARROW
from svc.content.json_type import decode_json
from svc.content.msgpack_reader import decode_msgpack
from svc.content.registry import ContentTypes
from svc.errors import QueryTooLarge
from svc.http.compression import Compression
from svc.http.found_rows import AT_ONCE, each_row, gather_rows
from svc.http.response_parts import RestOptions
from svc.http.responses import ResponseBuilder
from svc.messages import HeaderBlock, Request, Response
from svc.resources import RequestTarget
from svc.resources.resource import StreamedRows
from tests.support.application import application
from tests.support.statements import FakeEngine, FakeRows, statements_of

PARTS: list[list[dict[str, Any]]] = [[{"a": 1, "b": "x"}], [], [{"a": 2, "b": None}, {"a": 3, "b": "y"}]]
ALL = [row for part in PARTS for row in part]


class Answers:
    def __init__(self) -> None:
        self.reports: list[BaseException] = []
        self.types = ContentTypes.built_in()
        self.builder = ResponseBuilder(self.types, Compression(0), FakeClock(), self.reports.append, RestOptions())
        self.request = Request("POST", "/sql", HeaderBlock([]))

    def answer(self, rows: FakeRows, accept: str = "application/json", most: int = 1000) -> Response:
        self.request = Request("POST", "/sql", HeaderBlock([("accept", accept)]))

        async def run() -> Response:
            result = self.builder.answer(self.request, RequestTarget(), StreamedRows(rows, most, 0.004))
            response: Response = await result if inspect.isawaitable(result) else result
            return response

        return asyncio.run(run())

    def body(self, rows: FakeRows, accept: str = "application/json", most: int = 1000) -> bytes:
        return read(self.answer(rows, accept, most))


def read(response: Response) -> bytes:
    body: Any = response.body
    if isinstance(body, bytes):
        return body

    async def run() -> bytes:
        return b"".join([chunk async for chunk in body])

    return asyncio.run(run())


@pytest.fixture
def answers() -> Answers:
    return Answers()


def test_what_is_found_at_once_is_one_body(answers: Answers) -> None:
    rows = FakeRows(["a"], [{"a": 1}])
    response = answers.answer(rows)
    assert (response.status, response.body, rows.is_closed) == (200, b'[{"a":1}]', True)
    fields = dict(response.pairs)
    assert fields["Content-Type"] == "application/json"
    assert fields["Cache-Control"] == "public, no-cache"
    assert fields["Server-Timing"] == "execute;dur=4.00"
    assert "Accept" in fields["Vary"] and "ETag" not in fields
    assert answers.request.state.rows == 1
    assert answers.body(FakeRows(["a"], [])) == b"[]"


@pytest.mark.parametrize(
    ("accept", "body"),
    [
        ("application/json", b'[{"a":1,"b":"x"},{"a":2,"b":null},{"a":3,"b":"y"}]'),
        ("application/x-ndjson", b'{"a":1,"b":"x"}\n{"a":2,"b":null}\n{"a":3,"b":"y"}\n'),
        ("text/csv", b'"a","b"\r\n1,"x"\r\n2,\r\n3,"y"\r\n'),
        ("text/yaml", b"- a: 1\n  b: x\n- a: 2\n  b: null\n- a: 3\n  b: y\n"),
    ],
)
def test_more_is_a_stream(answers: Answers, accept: str, body: bytes) -> None:
    rows = FakeRows(["a", "b"], *PARTS)
    response = answers.answer(rows, accept)
    assert rows.asked == 0
    assert read(response) == body
    assert rows.is_closed
    assert answers.request.state.rows == 3


def test_columns_are_there_without_rows(answers: Answers) -> None:
    assert answers.body(FakeRows(["a", "b"], []), "text/csv") == b'"a","b"\r\n'
    assert answers.body(FakeRows(["a", "b"], [], []), "text/csv") == b'"a","b"\r\n'


def test_arrow(answers: Answers) -> None:
    import pyarrow as pa

    assert pa.ipc.open_stream(answers.body(FakeRows(["a", "b"], *PARTS), ARROW)).read_all().to_pylist() == ALL


def test_a_type_that_begins_with_the_number_of_rows_waits_for_all(answers: Answers) -> None:
    assert decode_msgpack(answers.body(FakeRows(["a", "b"], *PARTS), "application/x-msgpack")) == ALL
    many = [[{"a": number} for number in range(start, start + AT_ONCE)] for start in range(0, 3 * AT_ONCE, AT_ONCE)]
    rows = FakeRows(["a"], *many)
    assert decode_msgpack(answers.body(rows, "application/x-msgpack", 3 * AT_ONCE)) == [row for part in many for row in part]
    rows = FakeRows(["a"], *many)
    with pytest.raises(QueryTooLarge, match=r"more than 2048 rows.*sql\.maxRows"):
        answers.body(rows, "application/x-msgpack", 2 * AT_ONCE)
    assert rows.is_closed


def test_many_rows_that_are_there_are_written_in_pieces(answers: Answers) -> None:
    rows = [{"a": number} for number in range(AT_ONCE + 1)]
    response = answers.answer(FakeRows(["a"], rows))
    assert not isinstance(response.body, bytes)
    assert decode_json(read(response)) == rows
    assert decode_json(answers.body(FakeRows(["a"], rows))) == rows


def test_a_failure_on_the_way_is_the_last_element(answers: Answers) -> None:
    limit = QueryTooLarge("The statement took too long", budget="seconds")
    rows = FakeRows(["a"], [{"a": 1}], limit)
    assert decode_json(answers.body(rows)) == [{"a": 1}, {"error": "QueryTooLarge: The statement took too long"}]
    assert rows.is_closed and answers.reports == []
    defect = ZeroDivisionError("inside")
    assert decode_json(answers.body(FakeRows(["a"], [{"a": 1}], defect))) == [
        {"a": 1},
        {"error": "ZeroDivisionError: Internal Server Error"},
    ]
    assert answers.reports == [defect]
    with pytest.raises(QueryTooLarge):
        answers.body(FakeRows(["a"], [{"a": 1}], limit), "text/csv")


def test_a_stream_that_is_left_ends_the_statement(answers: Answers) -> None:
    rows = FakeRows(["a"], [{"a": 1}], [{"a": 2}])
    body: Any = answers.answer(rows).body

    async def leave() -> None:
        assert await anext(body) == b"["
        assert await anext(body) == b'{"a":1}'
        await body.aclose()

    asyncio.run(leave())
    assert rows.is_closed and rows.asked == 0
    unread = FakeRows(["a"], [{"a": 1}], [{"a": 2}])
    unsent: Any = answers.answer(unread).body
    unsent.close()
    assert unread.is_closed


def test_a_value_that_cannot_be_encoded_closes_the_rows(answers: Answers) -> None:
    rows = FakeRows(["a"], [{"a": object()}])
    with pytest.raises(TypeError):
        answers.answer(rows)
    assert rows.is_closed


def test_types_of_applications(answers: Answers) -> None:
    answers.types["text/x-list"] = {"serialize": lambda data: repr(data)}
    assert answers.body(FakeRows(["a", "b"], *PARTS), "text/x-list") == repr(ALL).encode()

    async def lines(data: Any) -> Any:
        async for item in data:
            yield repr(item)

    answers.types["text/x-lines"] = {"serialize_stream": lines}
    rows = FakeRows(["a", "b"], *PARTS)
    assert answers.body(rows, "text/x-lines") == "".join(map(repr, ALL)).encode()
    assert rows.is_closed
    with pytest.raises(QueryTooLarge):
        answers.body(FakeRows(["a", "b"], *PARTS), "text/x-list", 2)


def test_all_rows_and_one_after_the_other() -> None:
    async def each(rows: FakeRows) -> list[Any]:
        return [row async for row in each_row(rows)]

    rows = FakeRows(["a", "b"], *PARTS)
    assert asyncio.run(each(rows)) == ALL and rows.is_closed
    rows = FakeRows(["a", "b"], *PARTS)
    assert asyncio.run(gather_rows(StreamedRows(rows, 3))) == ALL and rows.is_closed
    rows = FakeRows(["a", "b"], *PARTS)
    with pytest.raises(QueryTooLarge):
        asyncio.run(gather_rows(StreamedRows(rows, 2)))
    assert rows.is_closed


def test_an_answer_that_breaks_off_has_no_traceback_in_the_log(tmp_path: Path) -> None:
    """It is not a defect, but what the client would have been told before the first byte."""
    with application(tmp_path, "") as app:
        engine = FakeEngine({"S": FakeRows(["a"], [{"a": 1}], QueryTooLarge("too long", budget="seconds"))})
        app.node.rest.serve_sql(statements_of(engine), app.node.store, "roles")
        app.ask("POST", "/sql", {"sql": "S"}, accept="text/csv")
        [(where, error)] = app.errors
        assert "too long" in where and error is None
