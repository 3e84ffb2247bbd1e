"""svc.api.verbs, svc.api.served: the three ways to write a handler, `super()` in each, and rights."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.application import application, user_named

EXAMPLE = """
from svc import ClientError, Resource, get_user, tables

class Seat(tables.Seat):
    def get(self, query=None):
        self.soldOut = self.stock == 0
        return super().get(query)

    @classmethod
    async def post(cls, target, data):
        if data.get("action") != "reserve":
            raise ClientError("unknown action", 400)
        seat = await cls.update(target.id)
        seat.subtract_from("stock", 1)
        seat.lastBuyer = get_user().username
        await tables.Journal.create({"seat": target.id})
        return {"ok": True}

class Clock(Resource):
    load_as_instance = False

    def get(self, target):
        return {"zone": target.get("zone", "UTC"), "part": target.id}
"""


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    with application(tmp_path, EXAMPLE) as app:
        app.ask("PUT", "/Seat/a", {"stock": 1})
        assert app.ask("GET", "/Seat/a") == (200, {"id": "a", "stock": 1, "soldOut": False})
        assert app.ask("POST", "/Seat/a", {"action": "reserve"}) == (200, {"ok": True})
        assert app.ask("GET", "/Seat/a") == (200, {"id": "a", "stock": 0, "lastBuyer": "admin", "soldOut": True})
        assert [entry["seat"] for entry in app.ask("GET", "/Journal/")[1]] == ["a"]
        status, problem = app.ask("POST", "/Seat/a", {"action": "steal"})
        assert (status, problem["detail"]) == (400, "unknown action")
        assert app.ask("GET", "/Clock/5?zone=CET") == (200, {"zone": "CET", "part": "5"})
        assert app.ask("GET", "/Clock/") == (200, {"zone": "UTC", "part": None})
        assert app.ask("GET", "/Seat/none")[0] == 404


STYLES = """
from svc import tables

class Instance(tables.Seat):
    def get(self, query=None):
        return super().get(query)
    def put(self, data, query=None):
        return super().put({**data, "lastBuyer": "instance"}, query)
    def patch(self, data, query=None):
        return super().patch({**data, "lastBuyer": "instance"}, query)
    def delete(self, query=None):
        return super().delete(query)
    def post(self, data, query=None):
        return super().post({**data, "lastBuyer": "instance"}, query)

class Target(tables.Seat):
    load_as_instance = False
    def get(self, target):
        return super().get(target)
    def put(self, target, data):
        return super().put(target, {**data, "lastBuyer": "target"})
    def patch(self, target, data):
        return super().patch(target, {**data, "lastBuyer": "target"})
    def delete(self, target):
        return super().delete(target)
    def post(self, target, data):
        return super().post(target, {**data, "lastBuyer": "target"})

class Class(tables.Seat):
    @classmethod
    def get(cls, target):
        return super().get(target)
    @classmethod
    def put(cls, target, data):
        return super().put(target, {**data, "lastBuyer": "class"})
    @classmethod
    def patch(cls, target, data):
        return super().patch(target, {**data, "lastBuyer": "class"})
    @classmethod
    def delete(cls, target):
        return super().delete(target)
    @classmethod
    def post(cls, target, data):
        return super().post(target, {**data, "lastBuyer": "class"})
"""


def as_async(code: str) -> str:
    """The same handlers as coroutine functions."""
    return code.replace("    def ", "    async def ").replace("return super()", "return await super()")


@pytest.mark.parametrize("code", [STYLES, as_async(STYLES)], ids=["plain", "async"])
@pytest.mark.parametrize("name", ["Instance", "Target", "Class"])
def test_every_style_reaches_the_table(tmp_path: Path, name: str, code: str) -> None:
    style = name.lower()
    with application(tmp_path, code) as app:
        assert app.ask("PUT", f"/{name}/a", {"stock": 1, "price": 2}) == (204, None)
        expected = {"id": "a", "stock": 1, "price": 2, "lastBuyer": style}
        status, fields, record = app.answer("GET", f"/{name}/a")
        assert (status, record) == (200, expected) and fields["etag"]
        assert app.ask("GET", f"/{name}/a", If_None_Match=fields["etag"])[0] == 304
        assert app.ask("GET", f"/{name}/a?select(price)") == (200, 2)
        assert app.ask("GET", f"/{name}/a.price") == (200, 2)
        assert app.ask("GET", f"/{name}/?price=2&select(id,stock)") == (200, [{"id": "a", "stock": 1}])
        assert app.ask("GET", f"/{name}")[1]["name"] == "Seat"
        assert app.ask("PATCH", f"/{name}/a", {"stock": 5}) == (204, None)
        assert app.ask("GET", f"/{name}/a")[1]["stock"] == 5
        status, fields, key = app.answer("POST", f"/{name}/", {"stock": 9})
        assert status == 201 and fields["location"] == f"/{name}/{key}"
        assert app.ask("GET", fields["location"])[1] == {"id": key, "stock": 9, "lastBuyer": style}
        assert app.ask("PUT", f"/{name}/a", {"stock": 0}, If_Match='"other"')[0] == 412
        assert app.ask("DELETE", f"/{name}/a") == (204, None)
        assert app.ask("GET", f"/{name}/a")[0] == 404
        assert app.ask("DELETE", f"/{name}/?stock=9&price=null")[0] == 204
        assert app.ask("GET", f"/{name}/") == (200, [])
        assert app.ask("PUT", f"/{name}/b", {"stock": "many"})[0] == 400
        assert app.ask("GET", f"/{name}/?nothing=1")[0] == 400


@pytest.mark.parametrize("code", [STYLES, as_async(STYLES)], ids=["plain", "async"])
@pytest.mark.parametrize("name", ["Instance", "Target", "Class"])
def test_every_style_can_be_called_by_code(tmp_path: Path, name: str, code: str) -> None:
    with application(tmp_path, code) as app:
        seat = getattr(app.module, name)

        async def work() -> None:
            await seat.put("a", {"stock": 1})
            await seat.put({"id": "b", "stock": 2})
            await seat.patch("a", {"price": 3.5})
            record = await seat.get("a")
            assert (record.stock, record.price, record["lastBuyer"]) == (1, 3.5, name.lower())
            assert await seat.get("none") is None
            assert sorted([each.id async for each in seat.search({})]) == ["a", "b"]
            await seat.delete("a")
            assert await seat.get("a") is None

        app.run(work())


def test_classes_that_inherit_from_each_other(tmp_path: Path) -> None:
    code = """
    from svc import tables

    class Base(tables.Seat):
        def get(self, query=None):
            self.seen = ["base", *(self["seen"] if "seen" in self else [])]
            return super().get(query)

    class Target(Base):
        load_as_instance = False
        def get(self, target):
            return super().get(target)

    class Class(Base):
        @classmethod
        async def get(cls, target):
            found = await super().get(target)
            return {**found, "by": cls.__name__}

    class Instance(Base):
        def get(self, query=None):
            self.seen = ["own"]
            return super().get(query)
    """
    with application(tmp_path, code) as app:
        app.ask("PUT", "/Base/a", {"stock": 1})
        for name, seen in (("Base", ["base"]), ("Target", ["base"]), ("Class", ["base"]), ("Instance", ["base", "own"])):
            status, record = app.ask("GET", f"/{name}/a")
            assert status == 200 and record["seen"] == seen, (name, record)
        assert app.ask("GET", "/Class/a")[1]["by"] == "Class"


RIGHTS = """
from svc import Resource, tables

class Own(tables.Seat):
    def allow_read(self, user, target):
        return target.id != "secret" and (self.stock is None or self.stock < 10)
    async def allow_update(self, user, data, target):
        return user is not None and user.username == "anna" and "price" not in data
    def allow_create(self, user, data, target):
        return user is not None
    def allow_delete(self, user, target):
        return False
    def get(self, query=None):
        return super().get(query)

class Open(Resource):
    def allow_read(self, user, target):
        return True
    def get(self, query=None):
        return {"user": None if self.get_current_user() is None else self.get_current_user().username}

class Closed(Resource):
    def get(self, query=None):
        return "seen"

class Table(tables.Seat):
    def get(self, query=None):
        return super().get(query)
"""


def test_rights(tmp_path: Path) -> None:
    with application(tmp_path, RIGHTS) as app:
        for key, stock in (("a", 1), ("rich", 11), ("secret", 1)):
            app.run(app.tables.Seat.put(key, {"stock": stock}))
        app.node.as_user(None)
        assert app.ask("GET", "/Own/a")[0] == 200
        assert app.ask("GET", "/Own/rich")[0] == app.ask("GET", "/Own/secret")[0] == 401
        assert app.ask("PUT", "/Own/a", {"stock": 2})[0] == app.ask("PUT", "/Own/new", {"stock": 2})[0] == 401
        assert app.ask("GET", "/Open/") == (200, {"user": None})
        assert app.ask("GET", "/Closed/")[0] == app.ask("GET", "/Table/a")[0] == 401
        app.node.as_user(user_named("bert"))
        assert app.ask("GET", "/Own/rich")[0] == app.ask("PATCH", "/Own/a", {"stock": 2})[0] == 403
        assert app.ask("PUT", "/Own/new", {"stock": 2})[0] == 204
        assert app.ask("GET", "/Closed/")[0] == app.ask("GET", "/Table/a")[0] == 403
        app.node.as_user(user_named("anna"))
        assert app.ask("PATCH", "/Own/a", {"stock": 2})[0] == 204
        assert app.ask("PATCH", "/Own/a", {"price": 2})[0] == app.ask("DELETE", "/Own/a")[0] == 403
        assert app.run(app.tables.Seat.get("a")).stock == 2
        # Calls of code are not asked, unless they want to be.
        app.run(app.module.Own.delete("new"))
        assert app.run(app.tables.Seat.get("new")) is None


def test_a_verb_that_is_missing(tmp_path: Path) -> None:
    with application(tmp_path, EXAMPLE) as app:
        status, fields, problem = app.answer("PUT", "/Clock/5", {"a": 1})
        assert (status, fields["allow"]) == (405, "GET, HEAD, OPTIONS")
        assert problem["detail"] == "The Clock does not have a put method implemented to handle HTTP method PUT"
        assert app.ask("OPTIONS", "/Clock/5")[0] == 204
        assert app.ask("COPY", "/Seat/a")[0] == 405
        assert app.ask("BREW", "/Seat/a")[0] == 501


def test_a_static_method_is_refused_when_the_class_is_made(tmp_path: Path) -> None:
    code = """
    from svc import Resource

    class Wrong(Resource):
        @staticmethod
        def get(target):
            return 1
    """
    with application(tmp_path, code, healthy=False) as app:
        assert app.node.app.entries["resources"].messages == [
            "resources.py: resources.py:4: TypeError: get cannot be a static method: write @classmethod, whose first argument is the class"
        ]
