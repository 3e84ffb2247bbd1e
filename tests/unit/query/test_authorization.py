"""svc.query.authorization: what a caller with some rights gets of a selection, and which queries are refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from svc.auth.roles import Role
from svc.errors import AccessViolation
from svc.query import parse_query
from svc.query.authorization import narrow_query
from svc.query.nodes import Query
from svc.store.schema import Attribute, Relationship, TableDefinition

ATTRIBUTES = {
    "Seat": (
        Attribute("id", "ID", primary_key=True),
        Attribute("price", "Float"),
        Attribute("cost", "Float"),
        Attribute("showId", "ID"),
        Attribute("label", "String", computed_from="id"),
        Attribute("show", "Show", relationship=Relationship("Show", "showId")),
    ),
    "Show": (
        Attribute("id", "ID", primary_key=True),
        Attribute("title", "String"),
        Attribute("secret", "String"),
        Attribute("hallId", "ID"),
        Attribute("hall", "Hall", relationship=Relationship("Hall", "hallId")),
        Attribute("motto", "String", computed_from="title"),
    ),
    "Hall": (Attribute("id", "ID", primary_key=True), Attribute("address", "String")),
}


def narrowed(text: str, **readable: Any) -> Query:
    """The query for a user who may read these tables: True for everything, or the names of attributes."""
    database = SimpleNamespace(name="data", tables={})
    for name, attributes in ATTRIBUTES.items():
        definition = TableDefinition(name, attributes=attributes)
        database.tables[name] = SimpleNamespace(
            name=name, database=database, definition=definition, attributes={attribute.name: attribute for attribute in attributes}
        )
    tables: dict[str, Any] = {}
    for name, names in readable.items():
        tables[name] = {"read": True, "insert": False, "update": False, "delete": False}
        if names is not True:
            listed = [{"attribute_name": attribute, "read": True, "insert": False, "update": False} for attribute in names]
            tables[name]["attribute_permissions"] = listed
    role = Role("r", "r", {"data": {"tables": tables}}, databases={"data": database})  # type: ignore[dict-item]
    return narrow_query(parse_query(text), database.tables["Seat"], SimpleNamespace(role=role))  # type: ignore[arg-type]


def names(query: Query, *through: str) -> list[str]:
    """Names of the selection, or of the one nested in these."""
    select = query.select
    for step in through:
        assert select is not None
        select = next(item for item in select.items if item.path == (step,)).nested
    assert select is not None
    return [".".join(item.path) for item in select.items]


def test_who_may_read_everything_gets_everything() -> None:
    query = narrowed("select(*,label,show{*,hall})", Seat=True, Show=True, Hall=True)
    assert names(query) == ["*", "label", "show"]
    assert names(query, "show") == ["*", "hall"]


def test_a_whole_record_is_its_stored_properties_that_may_be_read() -> None:
    assert names(narrowed("select(*,)", Seat=("price", "label", "show"), Show=True)) == ["id", "price"]


def test_computed_attributes_need_a_right_of_their_own() -> None:
    assert names(narrowed("select(*,label)", Seat=("price", "label"))) == ["id", "price", "label"]
    assert names(narrowed("select(*,label)", Seat=("price",))) == ["id", "price"]
    with pytest.raises(AccessViolation):
        narrowed("label=1", Seat=("price",))
    with pytest.raises(AccessViolation):
        narrowed("sort(label)", Seat=("price",))


def test_a_related_record_is_narrowed_too() -> None:
    query = narrowed("select(id,show)", Seat=True, Show=("title", "hall", "motto"), Hall=("id",))
    assert names(query, "show") == ["id", "title"], "what a relationship leads to is not part of it"
    query = narrowed("select(id,show{title,secret,motto,hall})", Seat=True, Show=("title", "hall", "motto"), Hall=("id",))
    assert names(query, "show") == ["title", "motto", "hall"]
    assert names(query, "show", "hall") == ["id"]
    assert names(narrowed("select(id,show{title,hall})", Seat=True, Show=True), "show") == ["title"]


def test_a_table_that_may_not_be_read_is_left_out() -> None:
    assert names(narrowed("select(id,show)", Seat=True)) == ["id"]
    assert names(narrowed("select(id,show.title)", Seat=True)) == ["id"]
    with pytest.raises(AccessViolation):
        narrowed("select(show)", Seat=True)
    with pytest.raises(AccessViolation):
        narrowed("show.title=x", Seat=True)


@pytest.mark.parametrize(
    "text", ["count()", "facet(price)", "group(price;count,sum(price))&sort(-sum.price)", "group(show.title;max(price))"]
)
def test_aggregates_of_what_may_be_read(text: str) -> None:
    assert narrowed(text, Seat=("price", "show"), Show=("title",)).aggregate is not None


@pytest.mark.parametrize(
    "text",
    [
        "facet(cost)",
        "group(cost)",
        "group(price,cost)",
        "group(price;sum(cost))",
        "group(price;count,max(show.secret))",
        "facet(show.secret)",
        "group(show.hall.address)",
        "cost=5&count()",
    ],
)
def test_aggregates_tell_nothing_of_what_may_not_be_read(text: str) -> None:
    with pytest.raises(AccessViolation):
        narrowed(text, Seat=("price", "show"), Show=("title", "hall"))
