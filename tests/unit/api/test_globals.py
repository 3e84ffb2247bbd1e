"""The in-process interface as code of an application sees it: tables, databases, Resource, auth, logger, contentTypes (spec: applications §1)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

import svc
from svc.auth.passwords import Verification
from svc.auth.users import new_user_record
from svc.clock import FakeClock
from svc.logs.core import Logs
from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE
from tests.support.application import Application, application

WAITING = 60_000  # turns, while a password is checked on another thread

SCHEMA = """
type Product @table @export { id: ID @primaryKey  name: String @indexed  price: Float @indexed }
type Ticket @table { id: Int @primaryKey  text: String }
type Note @table(database: "notes") { id: ID @primaryKey  text: String }
"""

RESOURCES = """
class Greeting(Resource):
    def allow_read(self, user, target):
        return True
    def get(self, query=None):
        return {"hello": self.get_id()}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with application(tmp_path_factory.mktemp("shop"), RESOURCES, SCHEMA) as app:
        yield app
        assert not app.errors


@pytest.fixture
def own(shop: Application) -> Any:
    """The module of the application, whose globals are those of the interface, whatever other tests have started and ended."""
    shop.node.interface.make_current()
    return shop.module


# --- available as globals, and as exports of the package


NAMES = ("tables", "databases", "Resource", "auth", "logger", "server", "contentTypes", "content_types")


def test_the_names_are_globals_of_a_module_and_exports_of_the_package(tmp_path: Path) -> None:
    resources = f"""
import svc
from svc import {", ".join(f"{name} as {name}_" for name in NAMES)}
differing = [name for name in {NAMES} if not globals()[name] is globals()[name + "_"] is getattr(svc, name)]
"""
    with application(tmp_path, resources) as app:
        assert app.module.differing == []


def test_names_belong_to_the_instance_of_the_application_also_beside_another_one(tmp_path: Path) -> None:
    resources = """
from svc import transaction

class Source(Resource):
    def get(self, query=None):
        return {"id": self.get_id()}

async def put_two():
    async with transaction():
        await tables.Seat.put({"id": "a"})
        await tables.Seat.put({"id": "b"})
    return [await Source.get("x"), len(await tables.Seat.search([]).to_list())]
"""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with application(tmp_path / "one", resources) as one:
        with application(tmp_path / "two", resources) as two:
            assert one.run(one.module.put_two()) == [{"id": "x"}, 2]
            assert two.run(two.tables.Seat.search([]).to_list()) == []
        assert one.run(one.module.put_two())[0] == {"id": "x"}


def test_outside_of_an_instance_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.api.current._current", None)
    assert svc.Resource is not None
    with pytest.raises(ImportError, match=r"svc\.tables belongs to a running svc instance"):
        _ = svc.tables


# --- tables


def test_tables_are_those_of_the_default_database(own: Any) -> None:
    assert list(own.tables) == ["Product", "Ticket"]
    assert own.tables.Product is own.tables["Product"] is own.databases.data.Product
    assert own.tables.Product.table_name == "Product"
    assert "Note" not in own.tables
    with pytest.raises(AttributeError, match="has no table 'Note'"):
        _ = own.tables.Note


def test_table_classes_are_resources(own: Any) -> None:
    assert issubclass(own.tables.Product, own.Resource)


def test_create_makes_an_id(shop: Application, own: Any) -> None:
    async def work() -> tuple[Any, Any, Any, Any]:
        product = await own.tables.Product.create({"name": "Pen", "price": 2})
        first = await own.tables.Ticket.create({"text": "a"})
        second = await own.tables.Ticket.create({"text": "b"})
        return product.get_id(), await own.tables.Product.get(product.get_id()), first.get_id(), second.get_id()

    key, stored, first, second = shop.run(work())
    assert isinstance(key, str) and len(key) == 36
    assert stored == {"id": key, "name": "Pen", "price": 2}
    assert isinstance(first, int) and second == first + 1


def test_patch_changes_some_properties(shop: Application, own: Any) -> None:
    async def work() -> Any:
        await own.tables.Product.put("p1", {"name": "Pen", "price": 2})
        await own.tables.Product.patch("p1", {"price": 3})
        return await own.tables.Product.get("p1")

    assert shop.run(work()) == {"id": "p1", "name": "Pen", "price": 3}


def test_get_of_an_id_is_the_record_or_none(shop: Application, own: Any) -> None:
    async def work() -> tuple[Any, Any]:
        await own.tables.Product.put("p2", {"name": "Ink", "price": 9})
        return await own.tables.Product.get("p2"), await own.tables.Product.get("p0")

    record, missing = shop.run(work())
    assert (record.id, record.name, record["price"]) == ("p2", "Ink", 9)
    assert missing is None


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ({"attribute": "price", "comparator": "less_than", "value": 70}, ["s5", "s6"]),
        ({"attribute": "price", "comparator": "greater_than_equal", "value": 60}, ["s6", "s7"]),
        ({"attribute": "name", "comparator": "equals", "value": "s6"}, ["s6"]),
        ({"attribute": "name", "value": "s7"}, ["s7"]),
        ({"attribute": "name", "comparator": "starts_with", "value": "s"}, ["s5", "s6", "s7"]),
    ],
)
def test_search_is_an_async_iterable_of_what_a_query_finds(
    shop: Application, own: Any, condition: dict[str, Any], names: list[str]
) -> None:
    async def work() -> list[str]:
        for number in (5, 6, 7):
            await own.tables.Product.put(f"s{number}", {"name": f"s{number}", "price": number * 10})
        conditions = [condition, {"attribute": "name", "comparator": "starts_with", "value": "s"}]
        return [product.name async for product in own.tables.Product.search({"conditions": conditions})]

    assert sorted(shop.run(work())) == names


def test_a_comparator_that_does_not_exist_is_an_error_of_the_caller(shop: Application, own: Any) -> None:
    async def work() -> None:
        async for _ in own.tables.Product.search({"conditions": [{"attribute": "price", "comparator": "lesser", "value": 1}]}):
            pass

    with pytest.raises(svc.ClientError, match="lesser"):
        shop.run(work())


# --- databases


def test_databases_are_objects_of_tables(shop: Application, own: Any) -> None:
    assert {"data", "notes"} <= set(own.databases)
    assert list(own.databases.notes) == ["Note"]
    assert own.databases["notes"]["Note"] is own.databases.notes.Note

    async def work() -> Any:
        await own.databases.notes.Note.put("n", {"text": "x"})
        return await own.databases.notes.Note.get("n")

    assert shop.run(work()) == {"id": "n", "text": "x"}
    with pytest.raises(AttributeError, match="no database 'nothing'"):
        _ = own.databases.nothing


# --- Resource


def test_resource_is_extended_by_resources_that_are_served(shop: Application) -> None:
    assert shop.ask("GET", "/Greeting/you") == (200, {"hello": "you"})


def test_resource_is_extended_by_classes_that_are_called_by_code(shop: Application, own: Any) -> None:
    class Source(own.Resource):  # type: ignore[misc,name-defined]
        def get(self, query: Any = None) -> Any:
            return {"id": self.get_id(), "from": "source"}

    async def work() -> Any:
        return await Source.get("a")

    assert shop.run(work()) == {"id": "a", "from": "source"}


# --- auth


@pytest.fixture
def auth(shop: Application, own: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`auth` of the application, with a user `ann` whose password is `ann`."""
    store = shop.node.store
    monkeypatch.setattr("svc.auth.users.hash_password", lambda password, function="argon2id": "hash:" + password)
    monkeypatch.setattr("svc.auth.verifier.verify_password", lambda password, stored, *rest: Verification(stored == "hash:" + password))
    records = {
        ROLE_TABLE: {"id": "clerk", "role": "clerk", "permission": {"super_user": False}},
        USER_TABLE: new_user_record("ann", "ann", "clerk"),
    }
    for table, record in records.items():
        transaction = store.begin()
        transaction.put(store.databases[SYSTEM].tables[table], record[store.databases[SYSTEM].tables[table].primary_key], record)
        transaction.apply()
        store.commit_turn()
    return own.auth


def test_auth_gives_a_user_without_a_look_at_a_password(shop: Application, auth: Any) -> None:
    user = shop.run(auth("ann"))
    assert (user.username, user.active, user.role.role, user.super_user) == ("ann", True, "clerk", False)
    assert "hash" not in str(vars(user) if hasattr(user, "__dict__") else user)
    assert shop.run(auth("nobody")) is None


def test_auth_verifies_a_password_that_is_given(shop: Application, auth: Any) -> None:
    assert shop.run(auth("ann", "ann"), turns=WAITING).username == "ann"
    for name, password in (("ann", "bob"), ("nobody", "ann"), ("ann", "")):
        with pytest.raises(svc.ClientError) as caught:
            shop.run(auth(name, password), turns=WAITING)
        assert caught.value.status_code == 401


# --- logger


def test_the_logger_writes_at_each_level_of_its_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    logs = Logs(FakeClock())
    logger = logs.logger
    for level in ("trace", "debug", "info", "warn", "error", "fatal", "notify"):
        getattr(logger, level)("message of", level, {"n": 1})
    logs.flush()
    written = "".join(capfd.readouterr())
    assert [level for level in ("trace", "debug", "info", "warn", "error", "fatal", "notify") if f"message of {level}" in written] == [
        "warn",
        "error",
        "fatal",
        "notify",
    ]


# --- contentTypes


def test_content_types_is_what_requests_are_served_with(shop: Application, own: Any) -> None:
    types = own.contentTypes
    assert "application/json" in types

    types["text/x-shout"] = {
        "serialize": lambda data: json.dumps(data).upper(),
        "deserialize": lambda text: {"id": "shouted", "name": text.lower()},
    }
    try:
        status, fields, body = shop.answer("GET", "/Greeting/you", Accept="text/x-shout")
        assert (status, fields["content-type"], body) == (200, "text/x-shout", b'{"HELLO": "YOU"}')
        assert shop.wire.ask("PUT", "/Product/shouted", b"HELLO", {"Content-Type": "text/x-shout"})[0] == 204
        assert shop.ask("GET", "/Product/shouted")[1]["name"] == "hello"
    finally:
        del types["text/x-shout"]


def test_the_type_with_the_highest_product_of_both_qualities_is_sent(shop: Application, own: Any) -> None:
    own.contentTypes["text/x-poor"] = {"serialize": str, "q": 0.4}
    try:
        _, fields, _ = shop.answer("GET", "/Greeting/you", Accept="text/x-poor;q=0.9, application/json;q=0.5")  # 0.36 and 0.5
        assert fields["content-type"] == "application/json"
        _, fields, _ = shop.answer("GET", "/Greeting/you", Accept="text/x-poor, application/json;q=0.3")  # 0.4 and 0.3
        assert fields["content-type"] == "text/x-poor"
    finally:
        del own.contentTypes["text/x-poor"]


def test_content_types_is_that_of_the_server(own: Any) -> None:
    assert own.contentTypes is own.server.content_types is own.server.contentTypes


@pytest.mark.parametrize(("media_type", "kind"), [("text/x-kind", "str"), ("application/x-kind", "bytes")])
def test_deserialize_gets_text_for_text_types_and_bytes_for_others(shop: Application, own: Any, media_type: str, kind: str) -> None:
    own.contentTypes[media_type] = {"deserialize": lambda raw: {"name": type(raw).__name__}}
    try:
        assert shop.wire.ask("PUT", "/Product/kind", b"x", {"Content-Type": media_type})[0] == 204
        assert shop.ask("GET", "/Product/kind")[1]["name"] == kind
    finally:
        del own.contentTypes[media_type]
        shop.ask("DELETE", "/Product/kind")


def test_deserialize_stream_is_used_where_both_are_there(shop: Application, own: Any) -> None:
    async def read(stream: Any) -> Any:
        return {"name": b"".join([piece async for piece in stream]).decode()}

    own.contentTypes["text/x-both"] = {"deserializeStream": read, "deserialize": lambda raw: {"name": "not this one"}}
    try:
        assert shop.wire.ask("PUT", "/Product/both", b"streamed", {"Content-Type": "text/x-both"})[0] == 204
        assert shop.ask("GET", "/Product/both")[1]["name"] == "streamed"
    finally:
        del own.contentTypes["text/x-both"]
        shop.ask("DELETE", "/Product/both")


def test_serialize_stream_writes_what_is_iterated(shop: Application, own: Any) -> None:
    async def write(items: Any) -> Any:
        async for item in items:
            yield f"<{item['name']}>".encode()

    own.contentTypes["text/x-tags"] = {"serializeStream": write, "serialize": lambda data: f"[{data['name']}]"}
    try:
        shop.run(own.tables.Product.put("tagged", {"name": "tagged"}))
        assert shop.answer("GET", "/Product/?name=tagged", Accept="text/x-tags")[2] == b"<tagged>"
        assert shop.answer("GET", "/Product/tagged", Accept="text/x-tags")[2] == b"[tagged]"
    finally:
        del own.contentTypes["text/x-tags"]


def test_calls_take_effect_when_they_are_awaited(shop: Application, own: Any) -> None:
    async def work() -> tuple[Any, Any]:
        call = own.tables.Product.put("lazy", {"name": "x", "price": 1})
        assert isinstance(call, Awaitable)
        before = await own.tables.Product.get("lazy")
        await call
        return before, await own.tables.Product.get("lazy")

    before, after = shop.run(work())
    assert before is None
    assert after is not None
