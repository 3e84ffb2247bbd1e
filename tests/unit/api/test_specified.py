"""What docs/spec/applications.md says of forms, classes of tables, targets and addresses, sentence by sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from svc import ClientError
from svc.errors import AccessViolation
from tests.support.application import SCHEMA, Application, application, user_named

CODE = """
from svc import ClientError, RequestTarget, Resource, tables, transaction

class Checked(tables.Seat):
    def validate(self, record, partial=False):
        if record.get("stock") == 13:
            raise ClientError("unlucky")

class Denied(Resource):
    def allow_read(self, user, target):
        return False
    def get(self, query=None):
        return "never for a protocol"
"""


@pytest.fixture
def app(tmp_path: Any) -> Iterator[Application]:
    with application(tmp_path, CODE) as found:
        yield found
        assert not found.errors


def test_calls_are_coroutines(app: Application) -> None:  # applications §1.3
    seat = app.tables.Seat

    async def work() -> Any:
        await asyncio.gather(seat.put("a", {"stock": 1}), seat.put("b", {"stock": 2}))
        return await asyncio.create_task(seat.get("b"))

    assert app.run(work())["stock"] == 2


@pytest.mark.parametrize("member", [staticmethod(len), 5])
def test_a_verb_is_a_method(app: Application, member: Any) -> None:  # applications §2.1
    with pytest.raises(TypeError, match="get "):
        type("X", (app.module.Resource,), {"get": member})


def test_a_request_without_a_body_has_no_data(tmp_path: Any) -> None:  # applications §2.1
    code = """
    class Action(Resource):
        def post(self, data): return ["post", data]
        async def put(self, data): return ["put", data]
    class Stock(tables.Seat):
        def post(self, data): return ["post", data]
        def patch(self, data): return super().patch(data)
    """
    with application(tmp_path, code) as app:
        assert app.ask("POST", "/Action/x") == (200, ["post", None])
        assert app.ask("PUT", "/Action/x") == (200, ["put", None])
        assert app.ask("POST", "/Stock/") == (200, ["post", None])
        assert app.ask("PATCH", "/Stock/x")[0] == 400
        assert app.ask("PUT", "/Stock/x")[1]["detail"] == "PUT needs a body"
        assert app.ask("PATCH", "/Action/x")[0] == 405


def test_handlers_may_do_without_their_last_arguments(tmp_path: Any) -> None:  # applications §2.1
    code = """
    class Short(tables.Seat):
        def get(self): return super().get()
        def put(self, record):
            record["stock"] = 7
            return super().put(record)
        async def patch(self, data): return super().patch(data)
        def post(self, data): return super().post(data)
        def delete(self): return super().delete()
        def search(self): return super().search()
    class Alone(Resource):
        load_as_instance = False
        def get(self): return "nothing"
        def put(self, target): return target.id
        @classmethod
        async def post(cls): return cls.__name__
    """
    with application(tmp_path, code) as app:
        assert app.ask("PUT", "/Short/a", {"price": 1})[0] == 204
        assert app.ask("PATCH", "/Short/a", {"price": 2})[0] == 204
        assert app.ask("GET", "/Short/a") == (200, {"id": "a", "stock": 7, "price": 2})
        assert app.ask("GET", "/Short/?price=2&select(id)") == (200, ["a"])
        assert app.ask("POST", "/Short/", {})[0] == 201
        assert app.ask("DELETE", "/Short/a")[0] == 204
        assert app.ask("GET", "/Short/a")[0] == 404
        assert [app.ask(*given) for given in (("GET", "/Alone/x"), ("PUT", "/Alone/x", {}), ("POST", "/Alone/x", {}))] == [
            (200, "nothing"),
            (200, "x"),
            (200, "Alone"),
        ]


def test_a_handler_that_wants_more_than_there_is_is_no_handler(app: Application) -> None:  # applications §2.1
    resource = app.module.Resource
    for name, member in (("get", lambda self, target, data: 0), ("put", lambda self, a, b, c: 0), ("invalidate", lambda self, target: 0)):
        with pytest.raises(TypeError, match=r"is called with .*, and wants more"):
            type("X", (resource,), {name: member})
    with pytest.raises(TypeError, match="wants more"):
        type("X", (resource,), {"delete": classmethod(lambda cls, target, data: 0)})


def test_calls_of_code_are_asked_for_rights_only_on_request(app: Application) -> None:  # applications §2.2
    denied = app.module.Denied

    async def work(target: Any) -> Any:
        return await denied.get(target)

    assert app.run(work("x")) == "never for a protocol"
    target = app.module.RequestTarget("/x")
    target.check_permission = True
    for checked in ({"id": "x", "check_permission": True}, {"id": "x", "checkPermission": True}, target):
        with pytest.raises(AccessViolation):
            app.run(work(checked))
    assert app.ask("GET", "/Denied/x")[0] == 403


WRONG_ANSWERS = {
    "yield True": "a generator: it has a yield",
    "return user": "a value of type User",
    "return 1": "a value of type int",
    "return 'no'": "a value of type str",
    "return [False]": "a value of type list",
    "return 0": "a value of type int",
}


def _rules(body: str, prefix: str) -> str:
    arguments = {"read": "target", "update": "data, target", "create": "data, target", "delete": "target"}
    return "\n".join(f"    {prefix}def allow_{name}(self, user, {given}): {body}" for name, given in arguments.items())


@pytest.mark.parametrize("prefix", ["", "async "])
def test_a_rule_says_true_or_false(tmp_path: Any, prefix: str) -> None:  # applications §2.3
    code = "".join(
        f"""
class Loose{number}(Resource):
{_rules(body, prefix)}
    def get(self, query=None): return "secret"
    def put(self, data, query=None): return "changed"
    def post(self, data, query=None): return "added"
    def delete(self, query=None): return True
class Stock{number}(tables.Seat):
{_rules(body, prefix)}
"""
        for number, body in enumerate(WRONG_ANSWERS)
    )
    with application(tmp_path, code) as app:
        for number, (body, kind) in enumerate(WRONG_ANSWERS.items()):
            if prefix and "yield" in body:
                kind = kind.replace("generator", "async_generator")
            for method, path in [
                *[(method, f"/Loose{number}/1") for method in ("GET", "PUT", "POST", "DELETE")],
                ("GET", f"/Stock{number}/"),
            ]:
                status, answer = app.ask(method, path, None if method in ("GET", "DELETE") else {"stock": 1})
                assert status == 500 and "secret" not in str(answer), (method, path)
                assert f"must return True or False, not {kind}" in str(app.errors.pop()[1])
        assert not app.errors


@pytest.mark.parametrize("prefix", ["", "async "])
def test_none_refuses_as_false_does(tmp_path: Any, prefix: str) -> None:  # applications §2.3
    bodies = {"return True": 200, "return False": 403, "return None": 403, "pass": 403}
    code = "".join(
        f"""
class Loose{number}(Resource):
    {prefix}def allow_read(self, user, target): {body}
    def get(self, query=None): return "secret"
"""
        for number, body in enumerate(bodies)
    )
    with application(tmp_path, code) as app:
        assert [app.ask("GET", f"/Loose{number}/1")[0] for number in range(len(bodies))] == list(bodies.values())
        assert not app.errors


def test_forms_of_put_post_and_create(app: Application) -> None:  # applications §3
    seat = app.tables.Seat

    async def work() -> list[Any]:
        await seat.put({"id": "a", "stock": 1})
        await seat.put([{"id": "b"}, {"id": "c"}])
        made = await seat.post([{"stock": 4}, {"stock": 5}])
        prefixed = await seat.create("shelf/", {"stock": 6})
        return [
            await seat.search([]).to_list(),
            made,
            prefixed.get_id(),
            await seat.delete("nothing"),
            await seat.delete(),
        ]

    records, made, prefixed, *deleted = app.run(work())
    assert len(records) == 6
    assert [record.stock for record in made] == [4, 5]
    assert prefixed.startswith("shelf/")
    assert deleted == [True, True]
    with pytest.raises(ClientError) as caught:
        app.run(seat.post("a", {}))
    assert caught.value.status_code == 405


def test_what_is_called_wrongly_says_so(app: Application) -> None:
    seat = app.tables.Seat
    for call in (lambda: seat.search("a"), lambda: seat.search({"id": "a"}), lambda: seat.get(None)):
        with pytest.raises(TypeError, match="takes"):
            call()


def test_validate_is_asked_by_every_write_of_the_class(app: Application) -> None:  # applications §3.2
    checked, seat = app.module.Checked, app.tables.Seat

    async def save() -> None:
        record = await checked.update("a")
        record.stock = 13
        await record.save()

    app.run(checked.put("a", {"stock": 1}))
    for write in (
        lambda: checked.put("a", {"stock": 13}),
        lambda: checked.patch("a", {"stock": 13}),
        lambda: checked.create({"stock": 13}),
        save,
    ):
        with pytest.raises(ClientError, match="unlucky"):
            app.run(write())
    assert app.run(seat.search([]).to_list()) == [{"id": "a", "stock": 1}]
    for method, target in (("PUT", "/Checked/a"), ("PATCH", "/Checked/a"), ("POST", "/Checked/")):
        assert app.ask(method, target, {"stock": 13})[0] == 400


def test_the_condition_of_a_request_holds_for_what_its_handler_does_to_the_record(tmp_path: Any) -> None:  # applications §5.2
    code = """
    class Saved(tables.Seat):
        def patch(self, data): self.update(data)
        def put(self, data):
            self.update({"price": 1.0})
            return super().put(data)
        @classmethod
        async def delete(cls, target):
            await tables.Journal.put("j", {"seat": "deleted"})
            await cls.patch(target.id, {"stock": 0})
            await cls.patch(target.id, {"price": 0})
    """
    with application(tmp_path, code) as app:
        assert app.ask("PUT", "/Saved/a", {"stock": 1})[0] == 204
        old = app.answer("GET", "/Saved/a")[1]["etag"]
        assert app.ask("PATCH", "/Saved/a", {"stock": 2}, If_Match=old)[0] == 204
        for method, data in (("PATCH", {"stock": 3}), ("PUT", {"stock": 3}), ("DELETE", None)):
            assert app.ask(method, "/Saved/a", data, If_Match=old)[0] == 412, method
        assert app.ask("GET", "/Saved/a")[1]["stock"] == 2
        assert app.ask("GET", "/Journal/j")[0] == 404
        new = app.answer("GET", "/Saved/a")[1]["etag"]
        assert app.ask("DELETE", "/Saved/a", None, If_Match=new)[0] == 204
        assert app.ask("GET", "/Saved/a")[1] == {"id": "a", "stock": 0, "price": 0}


def test_query_reads_a_collection_as_get_does(tmp_path: Any) -> None:  # applications §2.2
    code = """
    class Cheap(tables.Seat):
        def search(self, query):
            return super().search(query).filter(lambda seat: seat.price < 5)
    class Got(tables.Seat):
        @classmethod
        async def get(cls, target):
            return [seat.id async for seat in await super().get(target)]
    class Open(tables.Seat):
        def allow_read(self, user, target): return user is not None
        def search(self, query): return super().search(query).map(lambda seat: seat.id)
    """
    query = {"conditions": [{"attribute": "price", "comparator": "greater_than", "value": 1}], "select": ["id", "price"]}
    with application(tmp_path, code) as app:
        for key, price in (("a", 1), ("b", 3), ("c", 9)):
            app.run(app.tables.Seat.put(key, {"price": price}))
        assert app.ask("QUERY", "/Cheap/", query) == (200, [{"id": "b", "price": 3}])
        assert app.ask("QUERY", "/Got/", query) == (200, ["b", "c"])
        for wrong in ({"id": "a"}, "a", 5, {"conditions": [{"attribute": "nothing", "value": 1}]}):
            assert app.ask("QUERY", "/Cheap/", wrong)[0] == 400, wrong
        app.node.as_user(user_named("guest"))
        assert app.ask("QUERY", "/Open/", query) == (200, ["b", "c"])
        assert [app.ask("QUERY", f"/{name}/", query)[0] for name in ("Cheap", "Got")] == [403, 403]
        app.node.as_user(None)
        assert [app.ask("QUERY", f"/{name}/", query)[0] for name in ("Cheap", "Got", "Open")] == [401, 401, 401]


def test_a_transaction_sees_its_writes_and_may_be_undone(app: Application) -> None:  # applications §5.4, §5.5, §5.6
    seat = app.tables.Seat

    async def work() -> list[Any]:
        async with app.module.transaction() as txn:
            await seat.put("a", {"stock": 1})
            seen = [(await seat.get("a")).stock, len(await seat.search([{"attribute": "id", "value": "a"}]).to_list())]
            txn.abort()
            with pytest.raises(ClientError, match="aborted"):
                await seat.put("b", {})
        return [*seen, await seat.get("a")]

    assert app.run(work()) == [1, 1, None]


def test_a_target_has_the_parts_of_its_address(app: Application) -> None:  # applications §6
    target = app.module.RequestTarget("/x?zone=UTC&size=1&size=2")
    assert (target.id, target.pathname, target.search, str(target)) == ("x", "/x", "?zone=UTC&size=1&size=2", "/x?zone=UTC&size=1&size=2")
    assert (target.get("zone"), target.get("none", 3), target.get_all("size"), target.has("none")) == ("UTC", 3, ["1", "2"], False)
    assert [condition["value"] for condition in target.conditions] == ["UTC", "1", "2"]
    target.set("size", 9)
    target.delete("zone")
    assert (str(target), list(target)) == ("/x?size=9", [("size", "9")])
    assert [condition["attribute"] for condition in target.conditions] == ["size"]


def test_each_iteration_of_results_is_a_search(app: Application) -> None:  # applications §7.3
    seat = app.tables.Seat

    async def work() -> list[int]:
        results = seat.search([])
        counts = [len(await results.to_list())]
        await seat.put("a", {})
        return [*counts, len(await results.to_list()), (await results) is results]

    assert app.run(work()) == [0, 1, True]


def test_a_faulty_query_of_derived_results_is_an_error_of_the_client(tmp_path: Any) -> None:  # applications §7.5
    code = """
    class Ids(tables.Seat):
        def search(self, query): return super().search(query).map(lambda seat: seat.id).slice(0, 2)
    class Guarded(tables.Seat):
        def search(self, query): return super().search(query).map_error(lambda error: "guarded")
    """
    with application(tmp_path, code) as app:
        for query in ("nothing=1", "stock=1", "price=gt="):
            assert app.ask("GET", f"/Ids/?{query}")[0] == 400, query
        assert app.ask("GET", "/Guarded/?nothing=1") == (200, ["guarded"])


def test_a_class_and_its_exported_table_at_one_address_are_shut_off(tmp_path: Any) -> None:  # applications §10.4
    code = """
    class Show(tables.Show):
        def get(self, query=None):
            self.added = 1
            return super().get(query)
    """
    with application(tmp_path, code, healthy=False) as app:
        (message,) = app.node.app.entries["resources"].messages
        assert message.endswith(
            "Conflicting paths for Show, for type Show is exported there: remove its @export, or give the class another name"
        )
        assert app.ask("GET", "/Show/s")[0] == 500
    schema = SCHEMA.replace("type Show @table @export", "type Show @table")
    with application(tmp_path / "without", code, schema) as app:
        app.run(app.tables.Show.put("s", {"title": "Faust"}))
        assert app.ask("GET", "/Show/s") == (200, {"id": "s", "title": "Faust", "added": 1})


def test_two_classes_of_one_table_at_one_address_are_shut_off(tmp_path: Any) -> None:  # applications §10.4
    code = """
    class Seat(tables.Seat):
        pass
    class Another(tables.Seat):
        path = "/Seat"
    """
    with application(tmp_path, code, healthy=False) as app:
        assert app.node.app.status == "error"
        assert app.ask("GET", "/Seat/a")[0] == 500
