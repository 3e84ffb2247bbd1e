"""What code of applications is promised, on a whole instance: codes of errors, contexts, computed attributes, caching tables, classes of tables."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import pytest

from svc.testing.application import Application
from svc.testing.application import app as start_app

SCHEMA = """
type Seat @table @export { id: ID @primaryKey  stock: Int  tags: [String]  double: Int @computed  first: [String] @computed  failing: Int @computed }
type Rate @table(expiration: 60, eviction: 600) { id: ID @primaryKey  value: Int @indexed }
"""

CODE = """
    import asyncio, datetime, math
    from svc import ClientError, Resource, Response, ServerError, get_context, tables

    class Raises(Resource):
        def get(self, target=None):
            kind, status, code = target.get("kind"), int(target.get("status")), target.get("code")
            error = {"client": ClientError, "server": ServerError}.get(kind)
            if error is not None:
                raise error("no", status, code)
            error = RuntimeError("no")
            error.status_code, error.code = status, code or 17
            raise error

    async def value(given):
        await asyncio.sleep(0)
        return given

    class Nested(Resource):
        def get(self, target=None):
            return {"seat": tables.Seat.get("1"), "list": [value(1), {"deep": value([value(2)])}], "found": tables.Seat.search({}), "plain": "x"}

    class NestedLater(Resource):
        async def get(self, target=None):
            return (value(1), 2)

    class NestedResponse(Resource):
        def get(self, target=None):
            return Response(status=203, headers={"X-A": "b"}, data={"a": value(1)})

    class NestedItems(Resource):
        async def get(self, target=None):
            for number in range(3):
                yield {"a": value(number), "b": number}

    class NestedContext(Resource):
        def get(self, target=None):
            async def path():
                return get_context().target_name
            get_context().state.target_name = None
            async def own():
                return get_context() is not None and get_context().method
            return {"method": own()}

    class NestedFailure(Resource):
        def get(self, target=None):
            async def refuse():
                raise ClientError("refused", 409)
            return {"a": refuse()}

    class Stamps(Resource):
        async def get(self, target=None):
            first = get_context().timestamp
            await asyncio.sleep(2)
            return [first, get_context().timestamp]

    class Modified(Resource):
        def get(self, target=None):
            moment = datetime.datetime(2026, 1, 2, 3, 4, 5)
            given = target.get("as")
            get_context().last_modified = {
                "naive": moment, "aware": moment.replace(tzinfo=datetime.timezone.utc), "ms": moment.replace(tzinfo=datetime.timezone.utc).timestamp() * 1000,
                "none": math.inf,
            }[given]
            return {"a": 1}

    def double(record):
        return None if record.stock is None else record["stock"] * 2

    def failing(record):
        raise ValueError("cannot be computed")

    tables.Seat.set_computed_attribute("double", double)
    tables.Seat.set_computed_attribute("first", lambda record: record.tags)
    tables.Seat.set_computed_attribute("failing", failing)

    asked = []

    class Source:
        def get(self, id):
            asked.append(id)
            return {"value": len(asked)}

    tables.Rate.source_from(Source())

    class Rate(tables.Rate):
        pass

    class Patient(tables.Rate):
        def allow_stale_while_revalidate(self, entry, id):
            return entry.value["value"] > 0

    class Wrong(tables.Rate):
        async def allow_stale_while_revalidate(self, entry, id):
            return False

    class Local(Resource):
        async def get(self, target=None):
            name = target.get("name")
            one = await tables.Rate.get({"id": name, "ensure_loaded": False})
            found = await tables.Rate.search({"conditions": [{"attribute": "value", "comparator": "ge", "value": 0}], "ensure_loaded": False}).to_list()
            return {"one": one and one.value, "found": [rate.value for rate in found], "asked": len(asked)}
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    directory = tmp_path_factory.mktemp("code")
    (directory / "schema.graphql").write_text(SCHEMA)
    (directory / "resources.py").write_text(dedent(CODE))
    with start_app(directory) as made:
        made.put("/Seat/1", {"stock": 2, "tags": ["a"]})
        yield made


@pytest.fixture
def app(running: Application) -> Application:
    running.logs.clear()
    return running


@pytest.mark.parametrize(
    ("kind", "status", "given", "code"),
    [
        ("client", 409, "", "CONFLICT"),
        ("client", 409, "SEAT_TAKEN", "SEAT_TAKEN"),
        ("client", 400, "", "BAD_REQUEST"),
        ("server", 503, "", "SERVICE_UNAVAILABLE"),
        ("server", 503, "CLOSED", "CLOSED"),
        ("other", 409, "", "CONFLICT"),  # its `code` is no text
        ("other", 503, "CLOSED", "CLOSED"),
    ],
)
def test_an_error_of_code_has_the_code_that_it_is_given_or_that_of_its_status(
    app: Application, kind: str, status: int, given: str, code: str
) -> None:
    answer = app.get(f"/Raises/?kind={kind}&status={status}" + (f"&code={given}" if given else ""))
    assert (answer.status, answer.json["code"]) == (status, code)


def test_a_key_that_is_taken_has_its_own_code(app: Application) -> None:
    answer = app.post("/Seat/", {"id": "1"})
    assert (answer.status, answer.json["code"]) == (409, "RECORD_EXISTS")


# --- awaitables in data --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", ["application/json", "application/x-msgpack", "application/cbor", "text/yaml"])
def test_awaitables_in_returned_data_are_awaited(app: Application, accept: str) -> None:
    answer = app.get("/Nested", headers={"Accept": accept})
    assert answer.status == 200
    if accept == "application/json":
        seat = {"id": "1", "stock": 2, "tags": ["a"]}
        assert answer.json == {"seat": seat, "list": [1, {"deep": [2]}], "found": [seat], "plain": "x"}
    assert not [entry for entry in app.logs if entry.level == "error"]


def test_they_are_awaited_in_responses_tuples_and_items(app: Application) -> None:
    assert app.get("/NestedLater").json == [1, 2]
    answer = app.get("/NestedResponse")
    assert (answer.status, answer.json, answer.headers["x-a"]) == (203, {"a": 1}, "b")
    assert app.get("/NestedItems").json == [{"a": 0, "b": 0}, {"a": 1, "b": 1}, {"a": 2, "b": 2}]
    assert app.get("/NestedItems", headers={"Accept": "text/csv"}).text == '"a","b"\r\n0,0\r\n1,1\r\n2,2\r\n'
    assert app.get("/NestedContext").json == {"method": "GET"}


def test_what_they_raise_is_answered(app: Application) -> None:
    assert app.get("/NestedFailure").json["code"] == "CONFLICT"


# --- contexts ------------------------------------------------------------------------------------------------------------------------------


def test_the_timestamp_is_when_the_call_began(app: Application) -> None:
    now = app.clock.seconds * 1000
    assert app.get("/Stamps").json == [now, now]


def test_last_modified_may_be_a_datetime(app: Application) -> None:
    tags = {given: app.get(f"/Modified/?as={given}").headers.get("etag") for given in ("naive", "aware", "ms", "none")}
    assert tags["naive"] == tags["aware"] == tags["ms"] is not None and tags["none"] is None


# --- computed attributes -------------------------------------------------------------------------------------------------------------------


def test_a_function_gets_a_record_and_what_it_raises_is_logged_once(app: Application) -> None:
    assert app.get("/Seat/1?select([double,first])").json == [4, ["a"]]
    app.put("/Seat/2", {})
    assert app.get("/Seat/2?select([double,first])").json == [None, None]
    for _ in range(3):
        assert app.get("/Seat/?id==1&select([failing,stock])").json == [[None, 2]]
    said = [entry.text for entry in app.logs if entry.level == "error"]
    assert len(said) == 1 and "Seat.failing could not be computed" in said[0] and "ValueError: cannot be computed" in said[0]
    app.delete("/Seat/2")


@pytest.mark.parametrize("function", ["no function", None])
def test_only_a_plain_function_can_compute(app: Application, function: Any) -> None:
    seat = app.module("resources").tables.Seat

    async def later(record: Any) -> int:
        return 1

    for given in (function, later):
        with pytest.raises(TypeError, match="takes a plain function"):
            seat.set_computed_attribute("double", given)


# --- caching tables ------------------------------------------------------------------------------------------------------------------------


def test_what_may_be_stale_is_said_by_the_class_that_is_asked(app: Application) -> None:
    first = app.get("/Patient/s").json["value"]
    app.clock.advance(61)
    assert app.get("/Patient/s").json["value"] == first
    assert app.get("/Patient/s").json["value"] == first + 1, "it was loaded behind the answer"
    app.clock.advance(61)
    assert app.get("/Rate/s").json["value"] == first + 2
    app.clock.advance(61)
    assert app.get("/Wrong/s").status == 500
    assert "must return True or False, not a value of type coroutine" in "".join(entry.text for entry in app.logs)


def test_ensure_loaded_false_takes_what_is_here(app: Application) -> None:
    asked = app.module("resources").asked
    before = len(asked)
    assert app.get("/Local/?name=none").json["one"] is None
    value = app.get("/Rate/here").json["value"]
    app.clock.advance(61)
    found = app.get("/Local/?name=here").json
    assert found["one"] == value and value in found["found"] and found["asked"] == before + 1


def test_what_is_not_cached_has_its_code(app: Application) -> None:
    answer = app.get("/Rate/absent", headers={"Cache-Control": "only-if-cached"})
    assert (answer.status, answer.json["code"], answer.json["detail"]) == (504, "NOT_CACHED", "Entry is not cached")


# --- classes of tables ---------------------------------------------------------------------------------------------------------------------


def test_the_class_of_a_table_cannot_be_changed_one_derived_from_it_can(app: Application) -> None:
    code = app.module("resources")
    for name, given in (("stock", 5), ("get", lambda: None), ("attributes", []), ("audit", False)):
        with pytest.raises(TypeError, match="derive one from it"):
            setattr(code.tables.Seat, name, given)
    with pytest.raises(TypeError, match="derive one from it"):
        del code.tables.Seat.get
    code.Rate.note = "mine"
    assert code.Rate.note == "mine" and not hasattr(code.tables.Rate, "note")
    code.tables.Seat.attributes.clear()
    assert code.tables.Seat.attributes
