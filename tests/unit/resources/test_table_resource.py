"""svc.resources.table_resource: tables with relationships and computed attributes, as a client of a whole node sees them."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from svc.resources import TableResource
from svc.store.writing.bulk_write import load_records
from tests.support.node import Node

SCHEMA = """
type Seat @table @export {
  code: ID @primaryKey
  showId: ID @indexed
  show: Show @relationship(from: "showId") @enumerable
  actorIds: [ID] @indexed
  actors: [Actor] @relationship(from: "actorIds")
  hall: String
  label: String @computed(from: "hall + '-' + code") @indexed
  made: Date
  day: Date @computed(from: "made") @enumerable
  words: [String] @computed(from: "hall.split()")
}
type Show @table @export {
  id: ID @primaryKey
  title: String
  shout: String @computed(from: "title.upper()") @enumerable
  seats: [Seat] @relationship(to: "showId") @enumerable
}
type Actor @table @export {
  id: ID @primaryKey
  name: String
  seats: [Seat] @relationship(from: "id", to: "actorIds")
}
"""

Ask = Callable[..., Any]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    made = Node(tmp_path / "store", app)
    assert made.app.status == "healthy", made.app.entries
    yield made
    made.close()
    assert not made.errors


@pytest.fixture
def ask(node: Node) -> Ask:
    """Sends a request; the decoded body if it was successful, else (status, detail)."""
    wire = node.connect()

    def send(method: str, target: str, body: object = None) -> Any:
        status, _, answer = wire.ask(method, target, b"" if body is None else json.dumps(body).encode())
        value = json.loads(answer) if answer else None
        return value if status < 300 else (status, value["detail"])

    assert send("PUT", "/Show/", [{"id": "1", "title": "Hamlet"}]) is None
    assert (
        send("PUT", "/Seat/", [{"code": "a", "showId": "1", "hall": "big H", "made": "2026-01-05"}, {"code": "b", "showId": "none"}])
        is None
    )
    return send


SHOW = {"id": "1", "title": "Hamlet"}
A = {"code": "a", "showId": "1", "hall": "big H", "made": "2026-01-05T00:00:00.000Z"}
B = {"code": "b", "showId": "none"}
DAY = "2026-01-05T00:00:00.000Z"


class TestEnumerable:
    def test_a_record_shows_what_is_enumerable(self, ask: Ask) -> None:
        assert ask("GET", "/Seat/a") == A | {"show": SHOW | {"shout": "HAMLET"}, "day": DAY}
        assert ask("GET", "/Seat/b") == B | {"day": None}, "a dangling key leads to nothing"

    def test_so_do_collections_and_the_results_of_queries(self, ask: Ask) -> None:
        whole = [A | {"show": SHOW | {"shout": "HAMLET"}, "day": DAY}, B | {"day": None}]
        assert ask("GET", "/Seat/") == whole
        assert ask("GET", "/Seat/?code=a") == whole[:1]
        assert ask("QUERY", "/Seat/", {"conditions": [{"attribute": "label", "value": "big H-a"}]}) == whole[:1]

    def test_what_a_relationship_leads_to_shows_no_relationships(self, ask: Ask) -> None:
        """Or two that lead to each other would have no end."""
        assert ask("GET", "/Show/1") == SHOW | {"shout": "HAMLET", "seats": [A | {"day": DAY}]}

    def test_a_selection_is_what_it_says(self, ask: Ask) -> None:
        assert ask("GET", "/Seat/a?select(*)") == A
        assert ask("GET", "/Seat/?code=a&select(code,)") == [{"code": "a"}]
        assert ask("GET", "/Seat/a?select(*,words)") == A | {"words": ["big", "H"]}

    def test_a_query_without_select_on_a_record(self, ask: Ask) -> None:
        assert ask("GET", "/Show/1?title=select") == ask("GET", "/Show/1")
        ask("PUT", "/Actor/1", {"name": "x"})
        assert ask("GET", "/Actor/1?name=select") == {"id": "1", "name": "x"}

    def test_deleting_is_no_reading(self, ask: Ask) -> None:
        assert ask("DELETE", "/Seat/?label=b") is None
        assert ask("DELETE", "/Seat/?hall=x&code=b") is None
        assert ask("DELETE", "/Seat/?showId=none") is None
        assert [row["code"] for row in ask("GET", "/Seat/")] == ["a"]


class TestComputed:
    def test_it_is_left_out_unless_selected(self, ask: Ask) -> None:
        assert "label" not in ask("GET", "/Seat/a")
        assert ask("GET", "/Seat/a?select(label)") == "big H-a"
        assert ask("GET", "/Seat/a.label") == "big H-a"
        assert ask("GET", "/Seat/?select([code,label,words,day])") == [["a", "big H-a", ["big", "H"], DAY], ["b", None, None, None]]

    def test_it_can_be_searched_and_sorted_by(self, ask: Ask) -> None:
        assert ask("GET", "/Seat/?label=sw=big&select(code)") == ["a"]
        assert ask("GET", "/Seat/?label==null&select(code)") == ["b"]
        assert ask("GET", "/Seat/?sort(-label)&select(code)") == ["a", "b"]
        assert ask("GET", "/Seat/?label!=null&words=H&day=ge=2026-01-01&select(code)") == ["a"]
        assert ask("GET", "/Show/?seats.label=big%20H-a&select(id)") == ["1"]
        status, message = ask("GET", "/Seat/?words=H")
        assert status == 400 and message.startswith('"words" is not indexed, can not search for this attribute (add @indexed to words')
        ask("PATCH", "/Seat/b", {"hall": "small"})
        assert ask("GET", "/Seat/?label=small-b&select(code)") == ["b"]

    @pytest.mark.parametrize(
        ("method", "target", "body"),
        [
            ("PUT", "/Seat/c", {"label": "x"}),
            ("PUT", "/Seat/", [{"code": "c", "label": None}]),
            ("POST", "/Seat/", {"label": "x"}),
            ("PATCH", "/Seat/a", {"label": "x"}),
            ("PATCH", "/Seat/new", {"label": "x"}),
        ],
    )
    def test_it_is_not_accepted_in_writes(self, ask: Ask, method: str, target: str, body: object) -> None:
        status, said = ask(method, target, body)
        place = 'Element 0 ("c"): ' if isinstance(body, list) else ""
        assert (status, said) == (400, f"{place}Property label is computed and cannot be given a value")
        assert [row["code"] for row in ask("GET", "/Seat/")] == ["a", "b"]

    def test_nor_is_an_increment(self, ask: Ask) -> None:
        assert ask("PATCH", "/Seat/a", {"label": {"__op__": "add", "value": 1}}) == (400, "Property label cannot be incremented")


class TestRelationships:
    @pytest.mark.parametrize("name", ["show", "actors"])
    @pytest.mark.parametrize(
        ("method", "target"), [("PUT", "/Seat/c"), ("PUT", "/Seat/"), ("POST", "/Seat/"), ("PATCH", "/Seat/a"), ("PATCH", "/Seat/new")]
    )
    def test_they_are_not_written(self, ask: Ask, method: str, target: str, name: str) -> None:
        for value in ({"id": "1"}, [], None, "1"):
            is_list = method == "PUT" and target == "/Seat/"
            place = 'Element 0 ("c"): ' if is_list else ""
            expected = (400, f"{place}Property {name} is a relationship and cannot be given a value")
            body = {"code": "c", name: value}
            assert ask(method, target, [body] if is_list else body) == expected
        assert [row["code"] for row in ask("GET", "/Seat/")] == ["a", "b"]

    def test_to_is_not_written_either(self, ask: Ask) -> None:
        assert ask("PATCH", "/Show/1", {"seats": []}) == (400, "Property seats is a relationship and cannot be given a value")

    def test_a_condition_needs_an_attribute(self, ask: Ask) -> None:
        status, detail = ask("GET", "/Seat/?show=1")
        assert (status, detail.split(",")[0]) == (400, "show is a relationship")

    def test_every_form(self, ask: Ask) -> None:
        """schema-and-store §4.1."""
        ask("PUT", "/Actor/", [{"id": "2", "name": "Y"}, {"id": "1", "name": "X"}])
        ask("PATCH", "/Seat/a", {"actorIds": ["2", "gone", "1"]})
        assert ask("GET", "/Seat/a?select(show.title)") == "Hamlet"
        assert ask("GET", "/Seat/a?select(actors{name})") == [{"name": "Y"}, {"name": "X"}]
        assert ask("GET", "/Show/1?select(seats{code})") == [{"code": "a"}]
        assert ask("GET", "/Actor/1?select(seats{code})") == [{"code": "a"}]


class TestDescription:
    def test_the_size_of_the_log_is_that_of_the_table(self, ask: Ask) -> None:
        assert ask("GET", "/Seat")["auditSize"] == 2
        ask("DELETE", "/Seat/a")
        assert [ask("GET", f"/{name}")["auditSize"] for name in ("Seat", "Show", "Actor")] == [3, 1, 0]

    def test_a_long_log_is_counted_in_slices(self, node: Node, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
        database = node.store.databases["data"]
        for _ in load_records(database.tables["Actor"], [{"id": str(number)} for number in range(3000)]):
            pass
        clock = itertools.count()
        monkeypatch.setattr(node.store.slices, "_now", lambda: next(clock))
        found = node.resources.find("/Actor", "rest")
        assert found is not None
        later = cast(type[TableResource], found[0].resource).describe()
        assert inspect.isawaitable(later)
        assert asyncio.run(later)["auditSize"] == 3000  # type: ignore[arg-type]

    def test_the_number_of_records_is_shown_where_it_is_asked_for(self, tmp_path: Path) -> None:
        for name, wanted in (("with", "{includeExpensiveRecordCountEstimates: true}"), ("without", "true")):
            app = tmp_path / name
            app.mkdir()
            (app / "config.yaml").write_text(f"rest: {wanted}\ngraphqlSchema: {{files: '*.graphql'}}\n")
            (app / "schema.graphql").write_text("type Plant @table @export { id: Long @primaryKey }")
            node = Node(tmp_path / f"store {name}", app)
            wire = node.connect()
            wire.ask("POST", "/Plant/", b"[{}, {}]")
            description = json.loads(wire.ask("GET", "/Plant")[2])
            node.close()
            shown = {key: description[key] for key in ("recordCount", "estimatedRecordRange") if key in description}
            assert shown == ({"recordCount": 2, "estimatedRecordRange": [2, 2]} if name == "with" else {})
            assert list(description)[-1] == "attributes"


class TestAddresses:
    @pytest.mark.parametrize("query", ["hall=x", "select(code)", "x", "hall=x&limit(1)"])
    @pytest.mark.parametrize(("method", "body"), [("PUT", {"hall": "z"}), ("PATCH", {"hall": "z"}), ("DELETE", None)])
    def test_a_write_of_one_record_takes_no_query(self, ask: Ask, method: str, body: object, query: str) -> None:
        status, detail = ask(method, f"/Seat/a?{query}", body)
        assert status == 400 and f"{method} of one record takes no query" in detail
        assert ask("GET", "/Seat/a?select(*)") == A
        assert ask(method, "/Seat/b?", body) is None, "an empty one is none"

    def test_keys_with_endings_are_keys_of_their_own(self, ask: Ask) -> None:
        for key in ("report.csv", "report.json", "2026/report.csv", ".csv", "a.hall", "a.hall.json"):
            ending = key if key != "a.hall" else "a%2Ehall"
            assert ask("PUT", f"/Seat/{ending}", {"hall": key}) is None
        assert ask("GET", "/Seat/report") == (404, "Record not found")
        for key in ("report.csv", "report.json", "2026/report.csv", ".csv", "a%2Ehall", "a.hall.json"):
            record = ask("GET", f"/Seat/{key}?select(*)")
            assert record["code"] == record["hall"] == key.replace("%2E", "."), "the record of the whole key goes first"
        assert ask("GET", "/Seat/a.hall") == "big H"
        assert ask("PATCH", "/Seat/report.csv", {"hall": "new"}) is None
        assert ask("GET", "/Seat/report%2Ecsv?select(hall)") == "new"
        assert ask("DELETE", "/Seat/report.csv") is None and ask("DELETE", "/Seat/.csv") is None
        assert ask("GET", "/Seat/report.csv") == (404, "Record not found")
        assert ask("GET", "/Seat/report.json?select(hall)") == "report.json"

    def test_an_ending_chooses_the_type_where_no_record_has_it(self, node: Node, ask: Ask) -> None:
        wire = node.connect()
        for target in ("/Seat/a.csv", "/Seat/.csv", "/Seat.csv?code=a", "/Seat/a.hall.cbor"):
            status, fields, _ = wire.ask("GET", target)
            assert (status, fields["content-type"].partition(";")[0]) == (200, "application/cbor" if "cbor" in target else "text/csv")
        assert ask("PUT", "/Seat/a.csv", {"hall": "other"}) is None
        assert json.loads(wire.ask("GET", "/Seat/a.csv?select(hall)")[2]) == "other"
        assert wire.ask("HEAD", "/Seat/a.csv")[1]["content-type"] == "application/json"

    def test_the_table_with_an_ending_is_for_reading(self, ask: Ask) -> None:
        assert ask("PUT", "/Seat.csv", [{"code": "z"}]) == (404, "Not found")
        assert ask("DELETE", "/Seat.csv?code=a") == (404, "Not found")
        assert ask("DELETE", "/Seat/.csv?code=a")[0] == 400, "the record of that key, and a query"
        assert ask("GET", "/Seat/a?select(*)") == A
