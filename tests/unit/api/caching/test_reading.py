"""svc.api.caching: reading a table through its source, over REST and from code, with a source in the same process."""

from __future__ import annotations

import asyncio
import socket
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from svc.api.caching import fetches
from svc.errors import ClientError, Overloaded, ServerError
from svc.messages import Response
from svc.store.entity_tags import etag_of_version
from svc.store.log.entries import INVALIDATE
from svc.store.writing.bulk_write import load_records
from tests.support.application import Application, application

SCHEMA = """
type Rate @table(expiration: 60, eviction: 600, scanInterval: 1) @export { id: ID @primaryKey value: Int name: String @indexed note: String }
type Log @table @export { id: ID @primaryKey what: String }
"""

# A source whose answers the test decides: `answers[id]` is returned, raised if it is an exception, called if it is callable.
CODE = """
import asyncio
from svc import Resource, tables, get_context, Response

calls = []
answers = {}
contexts = []
gate = None

def answer(id, context):
    calls.append(id)
    contexts.append(context)
    found = answers.get(id)
    if isinstance(found, BaseException):
        raise found
    return found(context) if callable(found) else found

class Source:
    def get(self, id, context):
        return answer(id, context)

class Waiting:
    async def get(self, id, context):
        if gate is not None:
            await gate.wait()
        else:
            await asyncio.sleep(0)
        return answer(id, context)
"""
PLAIN = CODE + "tables.Rate.source_from(Source())\n"
WAITING = CODE + "tables.Rate.source_from(Waiting())\n"
both = pytest.mark.parametrize("code", [PLAIN, WAITING], ids=["plain", "waiting"])


def get(app: Application, target: str, **fields: str) -> tuple[int, dict[str, str], Any]:
    return app.answer("GET", target, **fields)


@both
def test_a_record_is_fetched_once_and_then_served(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        app.module.answers["eur"] = {"value": 5, "name": "Euro"}
        status, fields, body = get(app, "/Rate/eur")
        assert (status, body) == (200, {"value": 5, "name": "Euro", "id": "eur"})
        assert "age" not in fields
        tag = fields["etag"]
        status, fields, body = get(app, "/Rate/eur")
        assert (status, body) == (200, {"value": 5, "name": "Euro", "id": "eur"})
        assert fields["age"] == "0" and fields["etag"] == tag
        assert app.module.calls == ["eur"]
        assert get(app, "/Rate/eur", if_none_match=tag)[0] == 304
        assert get(app, "/Rate/none")[0] == 404 and get(app, "/Rate/none")[0] == 404
        assert app.module.calls == ["eur", "none", "none"]
        assert app.errors == []
        app.node.store.check()


@both
def test_a_copy_that_was_fetched_while_the_clock_was_ahead_is_stale(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        calls, answers, clock = app.module.calls, app.module.answers, app.node.clock
        for step, fetched in ((30, 1), (400 * 86_400, 2)):
            key = f"k{step}"
            answers[key] = {"value": 1}
            calls.clear()
            clock.step(step)
            assert get(app, f"/Rate/{key}")[0] == 200 and len(calls) == 1
            clock.step(-step)
            assert get(app, f"/Rate/{key}")[0] == 200 and len(calls) == fetched
            assert app.run(app.tables.Rate.get(key))["value"] == 1 and len(calls) == fetched


@both
def test_an_absence_is_remembered_for_as_long_as_the_source_says(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        calls, answers, clock = app.module.calls, app.module.answers, app.node.clock

        def absent(context: Any) -> None:
            context.expires_at = clock.wall() * 1000 + 30_000

        def ask(**fields: str) -> tuple[int, int]:
            return get(app, "/Rate/a", **fields)[0], len(calls)

        answers["a"] = absent
        assert ask() == (404, 1)
        answers["a"] = {"value": 1}
        assert ask() == (404, 1) and ask(cache_control="only-if-cached") == (404, 1)
        assert app.run(app.tables.Rate.get("a")) is None and len(calls) == 1
        clock.advance(10)
        assert ask(cache_control="max-age=20") == (404, 1)
        assert ask(cache_control="max-age=5") == (200, 2)
        for undo in ("invalidate", "put", "delete", "no-cache", "expired"):
            answers["b"] = absent
            app.run(app.tables.Rate.delete("b"))
            count = len(calls)
            assert [get(app, "/Rate/b")[0] for _ in range(3)] == [404] * 3 and len(calls) == count + 1, undo
            answers["b"] = {"value": 2}
            if undo == "invalidate":
                app.run(app.tables.Rate.invalidate("b"))
            elif undo == "put":
                app.run(app.tables.Rate.put("b", {"value": 2}))
            elif undo == "delete":
                app.run(app.tables.Rate.put("b", {"value": 3}))
                app.run(app.tables.Rate.delete("b"))
            elif undo == "expired":
                clock.advance(31)
            fields = {"cache_control": "no-cache"} if undo == "no-cache" else {}
            assert get(app, "/Rate/b", **fields)[2]["value"] == 2, undo
        assert app.errors == []


def tag_of_version(version: float) -> str:
    return f'"{etag_of_version(version)}"'


@both
def test_a_stale_record_is_fetched_again_and_the_source_knows_what_it_replaces(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        seen: list[Any] = []

        def answer(context: Any) -> Any:
            entry = context.replacing_entry
            seen.append(
                (
                    context.replacing_version,
                    None if entry is None else (dict(context.replacing_record), entry.version, entry.local_time, entry.expires_at),
                    context.request_context.method,
                    context.user.username,
                )
            )
            context.last_modified = 1_000_000.0 + len(seen)
            return {"value": len(seen)}

        app.module.answers["a"] = answer
        began = app.node.clock.wall() * 1000
        assert get(app, "/Rate/a")[2]["value"] == 1
        app.node.clock.advance(59)
        _, fields, body = get(app, "/Rate/a")
        assert body["value"] == 1 and fields["age"] == "59" and fields["etag"] == tag_of_version(1_000_001.0)
        app.node.clock.advance(1)
        _status, fields, body = get(app, "/Rate/a")
        assert body["value"] == 2 and fields["etag"] == tag_of_version(1_000_002.0) and "age" not in fields
        method, user = "GET", seen[0][3]
        assert seen == [
            (None, None, method, user),
            (1_000_001.0, ({"value": 1, "id": "a"}, 1_000_001.0, began, began + 60_000), method, user),
        ]
        app.node.store.check()


@pytest.mark.parametrize(
    ("given", "version"),
    [(5.5, 5.5), ("Thu, 01 Jan 1970 00:00:07 GMT", 7000.0), ("1970-01-01T00:00:08Z", 8000.0), (datetime(1970, 1, 1, 0, 0, 9), 9000.0)],
)
def test_the_version_follows_the_source(tmp_path: Path, given: Any, version: float) -> None:
    with application(tmp_path, PLAIN, SCHEMA) as app:

        def answer(context: Any) -> Any:
            context.last_modified, context.expires_at = given, app.node.clock.wall() * 1000 + 5000
            return {"value": 1}

        app.module.answers["a"] = answer
        assert get(app, "/Rate/a")[1]["etag"] == tag_of_version(version) == get(app, "/Rate/a")[1]["etag"]
        app.node.clock.advance(4)
        get(app, "/Rate/a")
        assert len(app.module.calls) == 1
        app.node.clock.advance(1)
        get(app, "/Rate/a")
        assert len(app.module.calls) == 2


@both
def test_a_confirmed_record_keeps_its_entity_tag(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        entries: list[Any] = []
        app.node.store.on_commit.append(lambda database, found: entries.extend(found))
        app.module.answers["a"] = {"value": 1}
        tag = get(app, "/Rate/a")[1]["etag"]
        app.node.clock.advance(70)
        app.module.answers["a"] = lambda context: app.module.Response(status=304) if context.replacing_version else {"value": 2}
        status, fields, body = get(app, "/Rate/a")
        assert (status, body["value"], fields["etag"]) == (200, 1, tag)
        app.node.clock.advance(5)
        status, fields, body = get(app, "/Rate/a")
        assert (body["value"], fields["etag"], fields["age"]) == (1, tag, "5") and len(app.module.calls) == 2
        assert len(entries) == 1, "a confirmation is not logged"
        app.module.answers["new"] = app.module.Response(status=304)
        assert get(app, "/Rate/new")[0] == 502
        app.node.store.check()


class Foreign:
    """A response as HTTP clients have it."""

    def __init__(self, status_code: int, content: Any) -> None:
        self.status_code = status_code
        self._content = content

    def json(self) -> Any:
        return self._content


class Later(Foreign):
    async def json(self) -> Any:
        return self._content


class Reply:
    def __init__(self, status: int, body: Any) -> None:
        self.status, self.body = status, body


@pytest.mark.parametrize(
    ("answer", "status", "value"),
    [
        ({"status": 200, "headers": {}, "data": {"value": 3}}, 200, 3),
        ({"status": 200, "body": b'{"value": 4}'}, 200, 4),
        (Foreign(200, {"value": 5}), 200, 5),
        (Later(201, {"value": 6}), 200, 6),
        (Reply(200, '{"value": 7}'), 200, 7),
        (Reply(200, b"[1]"), 502, None),
        (Reply(200, b"{"), 502, None),
        (Reply(204, None), 404, None),
        (Reply(404, b""), 404, None),
        (Foreign(503, None), 503, None),
        (Reply(301, b""), 301, None),
        ([{"value": 1}], 502, None),
        (7, 502, None),
        ("text", 502, None),
        ({"value": "no number"}, 502, None),
        ({"value": 1, "id": "another"}, 200, 1),
        ({"status": 5, "value": 1}, 200, 1),
        (ValueError("a secret"), 500, None),
        (type("Refused", (Exception,), {"status_code": 418})("short and stout"), 418, None),
        (ConnectionRefusedError(), 502, None),
        (SystemExit(1), 500, None),
        (asyncio.CancelledError(), 500, None),
        (lambda context: setattr(context, "last_modified", "tomorrow") or {"value": 1}, 502, None),
        (lambda context: setattr(context, "expires_at", "soon") or {"value": 1}, 502, None),
        (lambda context: setattr(context, "expires_at", float("nan")) or {"value": 1}, 502, None),
        (lambda context: setattr(context, "expires_at", 1e300) or {"value": 1}, 502, None),
    ],
)
@both
def test_what_a_source_returns_and_raises(
    tmp_path: Path, code: str, answer: Any, status: int, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        app.module.answers["a"] = answer
        for _ in range(2):
            found, _, body = get(app, "/Rate/a")
            assert found == status
            if status == 200:
                assert body["value"] == value and body["id"] == "a"
            elif status not in (404, 301) or (type(answer) is Reply and answer.body is not None):
                assert "Rate 'a'" in body["detail"] and "secret" not in body["detail"]
        assert ("a secret" in caplog.text) == isinstance(answer, ValueError)
        assert len(app.module.calls) == (1 if status == 200 else 2)
        assert app.errors == []
        app.node.store.check()


def unreachable() -> Exception:
    """As a library wraps it."""
    try:
        try:
            raise ConnectionResetError("reset")
        except OSError as error:
            raise RuntimeError("the request failed") from error
    except RuntimeError as error:
        return error


@both
def test_errors_and_stale_records(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        answers = app.module.answers
        answers["a"] = {"value": 1}
        get(app, "/Rate/a")
        app.node.clock.advance(100)
        answers["a"] = unreachable()
        status, fields, body = get(app, "/Rate/a")
        assert (status, body["value"], fields["age"]) == (200, 1, "100")
        assert get(app, "/Rate/a", cache_control="must-revalidate")[0] == 502
        for error in (500, 502, 503, 504):
            answers["a"] = Reply(error, b"")
            assert get(app, "/Rate/a")[0] == error
            assert get(app, "/Rate/a", cache_control="stale-if-error")[2]["value"] == 1
        answers["a"] = Reply(501, b"")
        assert get(app, "/Rate/a", cache_control="stale-if-error")[0] == 501
        answers["a"] = ValueError()
        assert get(app, "/Rate/a", cache_control="stale-if-error")[0] == 500
        answers["a"] = socket.gaierror()
        assert get(app, "/Rate/a", cache_control="no-cache")[2]["value"] == 1
        answers["a"] = None
        assert get(app, "/Rate/a")[0] == 404
        answers["a"] = unreachable()
        assert get(app, "/Rate/a")[0] == 502, "what is not there any more is not served"
        app.node.store.check()


@both
def test_directives_of_a_request(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        calls, answers = app.module.calls, app.module.answers
        assert get(app, "/Rate/a", cache_control="only-if-cached")[0] == 504
        assert get(app, "/Rate/a", cache_control="only-if-cached")[2]["detail"] == "Entry is not cached" and calls == []
        answers["a"] = lambda context: {"value": len(calls)}
        assert get(app, "/Rate/a", cache_control="no-store")[2]["value"] == 1
        assert get(app, "/Rate/a")[2]["value"] == 2, "it was not stored"
        assert get(app, "/Rate/a", cache_control="No-Cache")[2]["value"] == 3
        assert get(app, "/Rate/a")[2]["value"] == 3, "what was fetched with no-cache is stored"
        app.node.clock.advance(10)
        assert get(app, "/Rate/a", cache_control="max-age=10")[2]["value"] == 3
        assert get(app, "/Rate/a", cache_control="foo, max-age=9")[2]["value"] == 4
        assert get(app, "/Rate/a", cache_control="max-age=0")[2]["value"] == 4, "it is not older than that"
        assert get(app, "/Rate/a", cache_control="max-age=x, max-age=-1, max-age")[2]["value"] == 4
        app.node.clock.advance(100)
        assert get(app, "/Rate/a", cache_control="only-if-cached")[2]["value"] == 4
        assert get(app, "/Rate/a", cache_control="only-if-cached, no-cache")[2]["value"] == 4 and len(calls) == 4
        answers["b"] = lambda context: setattr(context, "no_cache_store", True) or {"value": len(calls)}
        assert [get(app, "/Rate/b")[2]["value"] for _ in range(2)] == [5, 6]


OWN = (
    CODE
    + """
class Rate(tables.Rate):
    stale = None

    def get(self, query=None):
        self.fromSource = self.was_loaded_from_source()
        return super().get(query)

    async def post(self, data, query=None):
        before = self.value
        await self.ensure_loaded()
        return {"before": before, "value": self.value}

    def allow_stale_while_revalidate(self, entry, id):
        type(self).stale = (entry.value["value"], entry.version, id)
        return data_may_be_stale

data_may_be_stale = False
Rate.source_from(Waiting(), {"expiration": 30})
"""
)


def test_a_class_with_code_of_its_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    schema = SCHEMA.replace("scanInterval: 1) @export", "scanInterval: 1)")
    with application(tmp_path, OWN, schema) as app:
        app.module.answers["a"] = lambda context: {"value": len(app.module.calls)}
        assert get(app, "/Rate/a")[2] == {"value": 1, "id": "a", "fromSource": True}
        _, fields, body = get(app, "/Rate/a")
        assert body == {"value": 1, "id": "a", "fromSource": False} and fields["age"] == "0"
        assert app.ask("POST", "/Rate/b", {}) == (200, {"before": None, "value": None})
        app.module.answers["b"] = {"value": 7}
        assert app.ask("POST", "/Rate/b", {}) == (200, {"before": None, "value": 7})
        app.node.clock.advance(31)
        app.module.data_may_be_stale = True
        count = len(app.module.calls)
        _status, fields, body = get(app, "/Rate/a")
        assert (body["value"], fields["age"]) == (1, "31"), "the stale value is served"
        app.node.settle()
        assert len(app.module.calls) == count + 1 and app.module.Rate.stale[0] == 1 and app.module.Rate.stale[2] == "a"
        assert get(app, "/Rate/a")[2]["value"] == count + 1, "and refreshed behind the answer"
        app.node.clock.advance(31)
        app.module.answers["a"] = ValueError("failed behind the answer")
        assert get(app, "/Rate/a")[2]["value"] == count + 1
        app.node.settle()
        assert "refreshed behind an answer: Rate 'a' cannot be loaded" in caplog.text
        assert app.errors == []
        app.node.store.check()


@both
def test_reads_by_code(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        rates, answers = app.tables.Rate, app.module.answers
        answers["a"] = lambda context: {"value": len(app.module.calls), "name": "x"}
        assert rates.is_caching and rates.expiration_ms == 60_000
        record = app.run(rates.get("a"))
        assert (record.value, record.get_expires_at()) == (1, app.node.clock.wall() * 1000 + 60_000)
        assert app.run(rates.get("a")).value == 1 and app.run(rates.get({"id": "a", "select": ["value"]})) == {"value": 1}
        assert app.run(rates.get({"id": "a", "no_cache": True})).value == 2
        assert app.run(rates.get({"id": "b", "select": ["value", "name"]})) is None
        answers["b"] = {"value": 3, "name": "b"}
        assert app.run(rates.get({"id": "b", "select": ["name"]})) == {"name": "b"}
        with pytest.raises(ServerError, match="Entry is not cached"):
            app.run(rates.get({"id": "c", "onlyIfCached": True}))
        found = app.run(rates.get({"id": "a", "no_cache_store": True, "noCache": True}))
        assert found.value == 5 and app.run(rates.get("a")).value == 2
        app.node.store.check()


@both
def test_one_call_for_many_at_once(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        rates = app.tables.Rate
        app.module.answers["a"] = lambda context: {"value": len(app.module.calls)}

        async def many() -> list[Any]:
            return await asyncio.gather(*(rates.get("a") for _ in range(20)), *(rates.get("b") for _ in range(5)))

        found = app.run(many())
        assert [record.value for record in found[:20]] == [1] * 20 and found[20:] == [None] * 5
        assert app.module.calls.count("a") == 1
        if code is WAITING:
            assert app.module.calls == ["a", "b"]
        app.module.answers["a"] = ValueError()
        app.node.clock.advance(100)

        async def failing() -> list[Any]:
            return await asyncio.gather(*(rates.get("a") for _ in range(5)), return_exceptions=True)

        assert {type(each) for each in app.run(failing())} == {ServerError}


@both
def test_what_a_source_writes_is_committed_with_the_record(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        commits: list[list[str]] = []
        app.node.store.on_commit.append(lambda database, entries: commits.append([entry.table for entry in entries]))

        def answer(context: Any) -> Any:
            async def work() -> Any:
                await app.tables.Log.put("l", {"what": "fetched"})
                return {"value": 1}

            return work()

        app.module.answers["a"] = answer
        assert get(app, "/Rate/a")[2]["value"] == 1
        assert app.ask("GET", "/Log/l")[1] == {"what": "fetched", "id": "l"}
        assert commits == [["Log", "Rate"]]

        def failing(context: Any) -> Any:
            async def work() -> Any:
                await app.tables.Log.put("m", {"what": "fetched"})
                raise ValueError

            return work()

        app.module.answers["b"] = failing
        assert get(app, "/Rate/b")[0] == 500 and app.ask("GET", "/Log/m")[0] == 404


@both
def test_queries_load_what_they_find(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        answers, calls = app.module.answers, app.module.calls
        for number in range(5):
            answers[f"r{number}"] = {"value": number, "name": "odd" if number % 2 else "even", "note": "n"}
            get(app, f"/Rate/r{number}")
        calls.clear()
        assert len(get(app, "/Rate/?name=odd")[2]) == 2 and calls == []
        app.node.store.maintenance(1.0)
        app.node.clock.advance(10_000)
        app.node.store.maintenance(1.0)
        app.node.store.end_turn()
        table = app.node.store.databases["data"].tables["Rate"]
        assert table.get_raw("r1") is None, "evicted"
        assert get(app, "/Rate/?name=odd", cache_control="only-if-cached")[0] == 504 and calls == []
        found = get(app, "/Rate/?name=odd&sort(id)")[2]
        assert [(each["id"], each["note"], each["value"]) for each in found] == [("r1", "n", 1), ("r3", "n", 3)] and sorted(calls) == [
            "r1",
            "r3",
        ]
        answers["r0"] = None
        assert [each["id"] for each in get(app, "/Rate/?name=even&sort(id)&select(id,note)")[2]] == ["r2", "r4"]
        assert get(app, "/Rate/?name=even&sort(id)&limit(1)")[2][0]["note"] == "n"
        assert sorted(calls) == ["r0", "r1", "r2", "r3", "r4"]
        status, body = app.ask("QUERY", "/Rate/", {"conditions": [{"attribute": "name", "value": "odd"}]})
        assert status == 200 and len(body) == 2
        app.node.clock.advance(100)

        async def search() -> list[Any]:
            return [record.value async for record in app.tables.Rate.search([{"attribute": "name", "value": "odd"}])]

        answers["r1"] = {"value": 10, "name": "odd"}
        assert app.run(search()) == [10, 3]
        answers["r3"] = ValueError()
        app.node.clock.advance(100)
        stale = app.tables.Rate.search({"conditions": [{"attribute": "name", "value": "odd"}], "only_if_cached": True})
        assert [record.value for record in app.run(stale.to_list())] == [10, 3]
        assert get(app, "/Rate/?name=odd")[0] == 500
        assert app.errors == []
        app.node.store.check()


def test_a_query_that_finds_too_much_is_refused(tmp_path: Path) -> None:
    with application(tmp_path, WAITING, SCHEMA) as app:
        table = app.node.store.databases["data"].tables["Rate"]
        for _ in load_records(table, [{"id": str(number), "name": "x"} for number in range(1100)]):
            pass
        app.node.clock.advance(100)
        app.module.answers.update({str(number): {"value": number, "name": "x"} for number in range(1100)})
        status, body = app.ask("GET", "/Rate/?name=x")
        assert (status, body["code"]) == (400, "QUERY_TOO_LARGE")
        assert len(app.ask("GET", "/Rate/?name=x&limit(300)")[1]) == 300
        assert len(app.module.calls) == 300


@both
def test_parts_of_a_record_that_has_to_be_fetched(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        app.module.answers.update({key: {"value": 1, "name": key} for key in "abcd"})
        assert app.ask("GET", "/Rate/a?select(name)") == (200, "a")
        assert app.ask("GET", "/Rate/b.name") == (200, "b")
        assert app.ask("GET", "/Rate/c.csv")[0] == 200
        assert app.ask("GET", "/Rate/d?select(value)", cache_control="no-store") == (200, 1)
        assert app.ask("HEAD", "/Rate/a")[0] == 200 and len(app.module.calls) == 4
        assert app.errors == []


def test_invalidation_and_intermediate_sources(tmp_path: Path) -> None:
    code = (
        CODE
        + """
class Near:
    has = {}
    invalidated = []
    available = True
    def get(self, id, context):
        calls.append("near")
        return self.has.get(id)
    async def invalidate(self, id):
        self.invalidated.append(id)

near = Near()
tables.Rate.source_from(near, intermediateSource=True)
tables.Rate.source_from(Waiting())
"""
    )
    with application(tmp_path, code, SCHEMA) as app:
        module, rates = app.module, app.tables.Rate
        module.answers["a"] = {"value": 1, "name": "x"}
        assert get(app, "/Rate/a")[2]["value"] == 1 and module.calls == ["near", "a"]
        module.near.has["a"] = {"value": 2}
        app.run(rates.invalidate("a"))
        assert module.near.invalidated == ["a"]
        assert get(app, "/Rate/a")[2] == {"value": 2, "id": "a"} and module.calls == ["near", "a", "near"]
        app.run(rates.invalidate("a"))
        module.near.available = False
        assert get(app, "/Rate/a")[2]["value"] == 1
        kinds = [entry.kind for entry in app.node.store.databases["data"].log.read(app.node.store.databases["data"].snapshot())]
        assert kinds.count(INVALIDATE) == 2
        with pytest.raises(ClientError, match="has a canonical source already"):
            rates.source_from(module.Source())
        rates.source_from(module.Waiting())  # of the application, loaded again
        for wrong in (object(), 5, rates):
            with pytest.raises((TypeError, ClientError)):
                rates.source_from(wrong)
        with pytest.raises(TypeError, match="expiration"):
            rates.source_from(module.Waiting(), expiration="long")
        with pytest.raises(TypeError, match="expires"):
            rates.source_from(module.Waiting(), expires=5)
        app.node.store.check()


def test_a_table_and_resource_classes_as_sources(tmp_path: Path) -> None:
    code = """
from svc import tables, Resource, get_context

class Backend(Resource):
    def get(self, query=None):
        context = self.get_context()
        assert context is get_context() and context.request_context is not None
        context.last_modified = 5000
        return {"value": 9, "note": self.get_id()} if self.get_id() == "a" else None

class Other(Resource):
    load_as_instance = False
    async def get(self, target):
        return {"value": 8, "note": target.id}

tables.Rate.source_from(Backend)
tables.Second.source_from(tables.Log)
tables.Third.source_from(Other)
"""
    schema = (
        SCHEMA
        + "type Second @table @export { id: ID @primaryKey what: String } type Third @table @export { id: ID @primaryKey value: Int note: String }"
    )
    with application(tmp_path, code, schema) as app:
        _, fields, body = get(app, "/Rate/a")
        assert body == {"value": 9, "note": "a", "id": "a"} and fields["etag"] == tag_of_version(5000.0)
        assert get(app, "/Rate/b")[0] == 404
        app.ask("PUT", "/Log/l", {"what": "it"})
        tag = get(app, "/Log/l")[1]["etag"]
        _status, fields, body = get(app, "/Second/l")
        assert body == {"what": "it", "id": "l"} and fields["etag"] == tag
        assert get(app, "/Third/x")[2] == {"value": 8, "note": "x", "id": "x"}
        app.ask("PUT", "/Second/m", {"what": "through"})
        assert app.ask("GET", "/Log/m")[1] == {"what": "through", "id": "m"}
        app.ask("PATCH", "/Second/m", {"what": "changed"})
        app.ask("DELETE", "/Second/l")
        assert app.ask("GET", "/Log/m")[1]["what"] == "changed" and app.ask("GET", "/Log/l")[0] == 404
        assert app.errors == []
        app.node.store.check()


def test_a_source_that_asks_for_what_it_loads(tmp_path: Path) -> None:
    with application(tmp_path, WAITING, SCHEMA) as app:
        app.module.answers["a"] = lambda context: app.tables.Rate.get("b")
        app.module.answers["b"] = lambda context: app.tables.Rate.get("a")
        status, body = app.ask("GET", "/Rate/a")
        assert status == 500 and "asks for that record itself" in body["detail"]


def test_calls_that_take_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for a call for a while and then make one of their own; too many calls are refused."""
    monkeypatch.setattr(fetches, "PATIENCE", 0.0)
    monkeypatch.setattr(fetches, "MOST", 3)
    with application(tmp_path, WAITING, SCHEMA) as app:
        rates, module, clock = app.tables.Rate, app.module, app.node.clock
        module.answers.update({str(number): {"value": number} for number in range(10)})

        async def work() -> None:
            module.gate = asyncio.Event()
            first = asyncio.create_task(wait(rates.get("0")))
            await asyncio.sleep(0)
            second = asyncio.create_task(wait(rates.get("0")))
            for _ in range(20):
                await asyncio.sleep(0)
            others = [asyncio.create_task(wait(rates.get(str(number)))) for number in range(1, 4)]
            for _ in range(20):
                await asyncio.sleep(0)
            clock.advance(21)
            with pytest.raises(Overloaded):
                await rates.get("9")
            module.gate.set()
            assert [record.value for record in await asyncio.gather(first, second, *others)] == [0, 0, 1, 2, 3]
            assert module.calls.count("0") == 2
            assert (await rates.get("9")).value == 9

        app.run(work(), turns=100_000)
        app.node.store.check()


async def wait(call: Any) -> Any:
    return await call


def test_a_call_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with application(tmp_path, WAITING, SCHEMA) as app:
        app.module.answers["a"] = {"value": 1}
        get(app, "/Rate/a")
        app.module.gate = asyncio.Event()
        monkeypatch.setattr(fetches, "LONGEST", 0.0)
        assert get(app, "/Rate/b")[0] == 504
        assert get(app, "/Rate/a", cache_control="no-cache")[0] == 504
        assert get(app, "/Rate/a", cache_control="no-cache, stale-if-error")[2]["value"] == 1
        assert not app.node.store.databases["data"].tables["Rate"].loading


def test_related_records_are_loaded(tmp_path: Path) -> None:
    schema = SCHEMA + 'type Price @table @export { id: ID @primaryKey rateId: ID rate: Rate @relationship(from: "rateId") rateIds: [ID] }'
    with application(tmp_path, WAITING, schema) as app:
        app.module.answers["a"] = {"value": 5, "name": "x"}
        app.ask("PUT", "/Price/p", {"rateId": "a"})
        app.ask("PUT", "/Price/q", {"rateId": "none"})

        async def related() -> list[Any]:
            return [await (await app.tables.Price.get(key)).rate for key in "pq"]

        first, second = app.run(related())
        assert first.value == 5 and second is None


@pytest.mark.parametrize("kind", ["attribute", "function", "coroutine"])
def test_a_source_that_is_not_available(tmp_path: Path, kind: str) -> None:
    available = {
        "attribute": "    available = False",
        "function": "    def available(self):\n        return False",
        "coroutine": "    async def available(self):\n        return False",
    }[kind]
    code = CODE + f"class Off(Source):\n{available}\noff = Off()\ntables.Rate.source_from(off)\n"
    with application(tmp_path, code, SCHEMA) as app:
        assert get(app, "/Rate/a")[0] == 502
        app.run(app.tables.Rate.put("a", {"value": 1}))
        app.node.clock.advance(100)
        assert get(app, "/Rate/a")[2]["value"] == 1, "what is here is served"
        assert app.module.calls == []


def test_a_query_whose_every_record_is_another_when_it_is_loaded(tmp_path: Path) -> None:
    with application(tmp_path, WAITING, SCHEMA) as app:
        keys = [str(number) for number in range(990)]
        app.module.answers.update((key, {"name": "before"}) for key in keys)

        async def load() -> None:
            for key in keys:
                await app.tables.Rate.get(key)

        app.run(load(), turns=100_000)
        app.node.clock.advance(100)
        app.module.answers.update((key, {"name": "after"}) for key in keys)
        assert get(app, "/Rate/?name=before&limit(1)")[::2] == (200, [])
        assert len(app.module.calls) == 2 * len(keys)


@both
@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"note":' * 5000 + b"1" + b"}" * 5000, b"", b"\xff", b"5"])
def test_a_body_that_is_no_record(tmp_path: Path, code: str, body: bytes) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        app.module.answers["a"] = Response(body)
        assert get(app, "/Rate/a")[0] == 502
        assert app.errors == []


class Answered:
    """A response of a library."""

    def __init__(self, status: int) -> None:
        self.status = status


@pytest.mark.parametrize(("status", "expected"), [(599, 599), (600, 502), (99_999, 502)])
def test_a_status_that_http_does_not_have(tmp_path: Path, status: int, expected: int) -> None:
    code = (
        CODE
        + "class Writing(Source):\n    def put(self, id, data, context):\n        return answers['put']\ntables.Rate.source_from(Writing())\n"
    )
    with application(tmp_path, code, SCHEMA) as app:
        app.module.answers.update(a=Answered(status), put=Answered(status))
        assert get(app, "/Rate/a")[0] == expected
        assert app.answer("PUT", "/Rate/a", {"value": 1})[0] == expected
        assert app.errors == []


class LibraryError(Exception):
    """As an HTTP client raises it."""

    status = 503


def test_the_text_of_a_librarys_error_is_for_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with application(tmp_path, PLAIN, SCHEMA) as app:
        app.module.answers["a"] = LibraryError("503, url='http://origin/?key=secret'")
        status, _, body = get(app, "/Rate/a")
        assert (status, body["detail"]) == (503, "Rate 'a' cannot be loaded: its source has answered 503")
        assert "key=secret" in caplog.text
        app.module.answers["a"] = ClientError("the service is closed on Sundays", 409)
        status, _, body = get(app, "/Rate/a")
        assert (status, body["detail"]) == (409, "Rate 'a' cannot be loaded: its source: the service is closed on Sundays")
        assert app.errors == []
