"""svc.api.caching.written: the source gets what is written first; and events of an active source (svc.api.caching.following)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.errors import Problem
from svc.store.values.records import expiry_of
from tests.support.application import Application, application

SCHEMA = """
type Rate @table(expiration: 60, eviction: 600, scanInterval: 1) @export { id: ID @primaryKey value: Int! name: String @indexed hits: Int }
type Numbered @table(expiration: 60) @export { id: Long @primaryKey value: Int }
type Log @table @export { id: ID @primaryKey what: String }
"""

CODE = """
import asyncio
from svc import tables, get_user

kept = {}
said = []
refuse = None

class Full:
    async def get(self, id, context):
        said.append(("get", id))
        return kept.get(id)
    def put(self, id, data, context):
        return self.note("put", id, data)
    async def patch(self, id, data, context):
        await asyncio.sleep(0)
        return self.note("patch", id, data)
    async def delete(self, id, context):
        return self.note("delete", id, None)
    def publish(self, id, message, context):
        return self.note("publish", id, message)
    def note(self, what, id, data):
        said.append((what, id, data))
        if isinstance(refuse, BaseException):
            raise refuse
        return refuse

class Puts:
    def get(self, id, context):
        said.append(("get", id))
        return kept.get(id)
    async def put(self, id, data, context):
        assert get_user().username == "admin" and context.request_context is not None
        said.append(("put", id, data))
        kept[id] = data
"""
FULL = CODE + "tables.Rate.source_from(Full())\ntables.Numbered.source_from(Full())\n"
PUTS = CODE + "tables.Rate.source_from(Puts())\ntables.Numbered.source_from(Puts())\n"


def said(app: Application) -> list[Any]:
    found = list(app.module.said)
    app.module.said.clear()
    return found


def test_each_write_is_carried_out_at_the_source_first(tmp_path: Path) -> None:
    with application(tmp_path, FULL, SCHEMA) as app:
        assert app.ask("PUT", "/Rate/a", {"value": 1})[0] == 204
        assert said(app) == [("put", "a", {"value": 1, "id": "a"})]
        assert app.ask("GET", "/Rate/a")[1] == {"value": 1, "id": "a"} and said(app) == []
        assert app.ask("PATCH", "/Rate/a", {"name": "x"})[0] == 204
        assert said(app) == [("patch", "a", {"name": "x"})]
        app.ask("PATCH", "/Rate/a", {"hits": {"__op__": "add", "value": 2}})
        assert said(app) == [("patch", "a", {"hits": {"__op__": "add", "value": 2}})]
        assert app.ask("GET", "/Rate/a")[1] == {"value": 1, "id": "a", "name": "x", "hits": 2}
        status, fields, key = app.answer("POST", "/Rate/", {"value": 3})
        assert status == 201 and said(app) == [("put", key, {"value": 3, "id": key})]
        assert app.ask("POST", "/Rate/", {"id": "a", "value": 3})[0] == 409 and said(app) == []
        assert app.ask("PUT", "/Rate/", [{"id": "b", "value": 1}, {"id": "c", "value": 2}])[0] == 204
        assert [each[:2] for each in said(app)] == [("put", "b"), ("put", "c")]
        assert app.ask("DELETE", "/Rate/b")[0] == 204 and said(app) == [("delete", "b", None)]
        app.ask("PATCH", "/Rate/c", {"name": "old"})
        said(app)
        assert app.ask("DELETE", "/Rate/?name=old")[0] == 204 and said(app) == [("delete", "c", None)]
        status, fields, _ = app.answer("GET", "/Rate/a")
        assert app.ask("PUT", "/Rate/a", {"value": 5}, if_match='"other"')[0] == 412 and said(app) == []
        assert app.ask("PUT", "/Rate/a", {"value": 5}, if_match=fields["etag"])[0] == 204 and len(said(app)) == 1
        for method, data in (("PATCH", {"value": 5}), ("DELETE", None), ("PUT", {"value": 5})):
            assert app.ask(method, "/Rate/a", data, if_match='"other"')[0] == 412 and said(app) == []
        app.run(app.tables.Rate.publish("a", {"value": 9}))
        assert said(app) == [("publish", "a", {"value": 9})]
        app.run(app.tables.Rate.patch("a", {"value": 6}))
        app.run(app.tables.Rate.put("a", {"value": 7}))
        app.run(app.tables.Rate.delete("a"))
        assert said(app) == [("patch", "a", {"value": 6}), ("put", "a", {"value": 7, "id": "a"}), ("delete", "a", None)]
        assert app.errors == []
        app.node.store.check()


@pytest.mark.parametrize("refusal", [ValueError("no"), type("No", (Exception,), {"status_code": 423})("locked"), "response"])
def test_a_source_that_refuses_undoes_all(tmp_path: Path, refusal: Any) -> None:
    with application(tmp_path, FULL, SCHEMA) as app:
        app.ask("PUT", "/Rate/a", {"value": 1})
        if refusal == "response":
            refusal = type("Response", (), {"status": 403})()
        app.module.refuse = refusal
        expected = getattr(refusal, "status_code", getattr(refusal, "status", 500))
        for method, target, data in (
            ("PUT", "/Rate/a", {"value": 2}),
            ("PATCH", "/Rate/a", {"value": 2}),
            ("DELETE", "/Rate/a", None),
            ("PUT", "/Rate/new", {"value": 2}),
            ("POST", "/Rate/", {"value": 2}),
        ):
            status, problem = app.ask(method, target, data)
            assert status == expected and "Rate '" in problem["detail"] and "no" not in problem["detail"].split()

        async def both() -> None:
            async with app.module.transaction():
                await app.tables.Log.put("l", {"what": "x"})
                await app.tables.Rate.put("a", {"value": 3})

        from svc import transaction

        app.module.transaction = transaction
        with pytest.raises(Problem):
            app.run(both())
        app.module.refuse = None
        assert app.ask("GET", "/Rate/a")[1]["value"] == 1 and app.ask("GET", "/Log/l")[0] == 404
        assert app.ask("GET", "/Rate/")[1] == [{"value": 1, "id": "a"}]
        assert app.errors == []
        app.node.store.check()


def test_a_source_with_put_alone_gets_complete_records(tmp_path: Path) -> None:
    with application(tmp_path, PUTS, SCHEMA) as app:
        app.module.kept["a"] = {"value": 1, "name": "x", "hits": 5}
        assert app.ask("PATCH", "/Rate/a", {"name": "y"})[0] == 204
        assert said(app) == [("get", "a"), ("put", "a", {"value": 1, "name": "y", "hits": 5, "id": "a"})]
        assert app.ask("GET", "/Rate/a")[1] == {"value": 1, "name": "y", "hits": 5, "id": "a"} and said(app) == []
        app.ask("PATCH", "/Rate/a", {"hits": {"__op__": "add", "value": 2}})
        assert said(app)[-1] == ("put", "a", {"value": 1, "name": "y", "hits": 7, "id": "a"})
        assert app.ask("PATCH", "/Rate/new", {"name": "z"})[0] == 400, "value is required"
        assert [each[0] for each in said(app)] == ["get"]
        assert app.ask("PATCH", "/Rate/new", {"value": 4})[0] == 204
        assert said(app)[-1] == ("put", "new", {"value": 4, "id": "new"})
        assert app.ask("DELETE", "/Rate/new")[0] == 204 and said(app) == [], "it has no delete"
        app.node.clock.advance(100)
        app.module.kept["a"] = {"value": 50}
        app.ask("PATCH", "/Rate/a", {"name": "q"})
        assert said(app)[-1] == ("put", "a", {"value": 50, "name": "q", "id": "a"}), "a stale record is loaded before"
        assert app.ask("GET", "/Rate/a")[1] == {"value": 50, "name": "q", "id": "a"}
        app.node.store.maintenance(1.0)
        app.node.clock.advance(10_000)
        app.node.store.maintenance(1.0)
        app.ask("PATCH", "/Rate/a", {"name": "r"})
        assert app.ask("GET", "/Rate/a")[1] == {"value": 50, "name": "r", "id": "a"}
        assert app.errors == []
        app.node.store.check()


def test_numbers_as_keys_are_known_to_the_source(tmp_path: Path) -> None:
    with application(tmp_path, FULL, SCHEMA) as app:
        status, fields, key = app.answer("POST", "/Numbered/", {"value": 3})
        assert status == 201 and said(app) == [("put", key, {"value": 3, "id": key})] and fields["location"] == f"/Numbered/{key}"
        status, keys = app.ask("POST", "/Numbered/", [{"value": number} for number in range(60)])
        assert status == 201 and [each[1] for each in said(app)] == keys and len(set(keys)) == 60
        assert app.ask("GET", f"/Numbered/{keys[59]}")[1] == {"value": 59, "id": keys[59]}
        assert app.errors == []
        app.node.store.check()


def test_max_age_of_a_write(tmp_path: Path) -> None:
    with application(tmp_path, FULL, SCHEMA) as app:
        table, now = app.node.store.databases["data"].tables["Rate"], app.node.clock.wall() * 1000
        app.ask("PUT", "/Rate/a", {"value": 1}, cache_control="max-age=5")
        app.ask("PUT", "/Rate/b", {"value": 1})
        assert [expiry_of(table.get_raw(key) or b"") for key in "ab"] == [now + 5000, now + 60_000]
        app.ask("PATCH", "/Rate/b", {"value": 2}, cache_control="max-age=7")
        assert expiry_of(table.get_raw("b") or b"") == now + 7000


EVENTS = (
    CODE
    + """
class Active(Full):
    queue = asyncio.Queue()
    subscribed = 0
    async def subscribe(self, request):
        type(self).subscribed += 1
        return self.events()
    async def events(self):
        while True:
            event = await self.queue.get()
            if event is None:
                return
            yield event

active = Active()
{owner}
Rate.source_from(active)
"""
)


@pytest.mark.parametrize("own_get", [False, True])
def test_an_active_source_is_followed(tmp_path: Path, own_get: bool, caplog: pytest.LogCaptureFixture) -> None:
    owner = (
        "class Rate(tables.Rate):\n    def get(self, query=None):\n        return super().get(query)\n" if own_get else "Rate = tables.Rate"
    )
    schema = SCHEMA.replace("scanInterval: 1) @export", "scanInterval: 1)") if own_get else SCHEMA
    with application(tmp_path, EVENTS.replace("{owner}", owner), schema) as app:
        active = app.module.active

        def happen(*events: Any) -> None:
            for event in events:
                active.queue.put_nowait(event)
            app.node.settle()

        now = app.node.clock.wall() * 1000
        happen({"type": "put", "id": "a", "value": {"value": 1, "name": "x"}, "timestamp": now - 50})
        app.module.kept["a"] = {"value": 100}
        if own_get:
            assert app.ask("GET", "/Rate/a")[1]["value"] == 100 and said(app) == [("get", "a")]
            happen({"type": "put", "id": "a", "value": {"value": 1}})
            app.module.kept["a"] = {"value": 101}
            assert app.ask("GET", "/Rate/a")[1]["value"] == 101
        else:
            assert app.ask("GET", "/Rate/a")[1] == {"value": 1, "name": "x", "id": "a"}
            happen({"type": "put", "id": "a", "value": {"value": 0}, "timestamp": now - 60})
            assert app.ask("GET", "/Rate/a")[1]["value"] == 1, "an older event has no effect"
            happen({"type": "patch", "id": "a", "value": {"value": 2}}, {"type": "patch", "id": "none", "value": {"value": 2}})
            assert app.ask("GET", "/Rate/a")[1] == {"value": 2, "name": "x", "id": "a"}
            happen({"type": "invalidate", "id": "a"})
            assert said(app) == [] and app.ask("GET", "/Rate/a")[1]["value"] == 100 and said(app) == [("get", "a")]
            happen({"type": "delete", "id": "a"})
            app.module.kept.clear()
            assert app.ask("GET", "/Rate/a")[0] == 404
            commits: list[list[str]] = []
            app.node.store.on_commit.append(lambda database, entries: commits.append([entry.table for entry in entries]))
            writes = [
                {"type": "put", "id": "t", "value": {"value": 5}},
                {"type": "put", "id": "l", "table": "Log", "value": {"what": "together"}},
                {"type": "message", "id": "t", "value": {"value": 6}},
            ]
            happen({"type": "transaction", "writes": writes, "timestamp": now})
            assert commits == [["Rate", "Log", "Rate"]] and app.ask("GET", "/Log/l")[1]["what"] == "together"
            said(app)
            assert not any(each[0] in ("put", "patch", "delete", "publish") for each in said(app)), "they are not sent back"
        caplog.clear()
        wrong = [
            {"type": "dance", "id": "a"},
            {"type": "put", "id": "a", "value": 5},
            {"type": "put", "value": {}},
            5,
            {"type": "put", "id": "x", "table": "No"},
        ]
        happen(*wrong, {"type": "put", "id": "z", "value": {"value": "no number"}}, {"type": "put", "id": "ok", "value": {"value": 1}})
        assert len([record for record in caplog.records if "cannot be applied" in record.message]) >= (4 if own_get else 6)
        if not own_get:
            assert app.ask("GET", "/Rate/ok")[1]["value"] == 1
        happen(None)
        assert active.subscribed == 1, "it is asked again after a while"
        app.node.store.check()
        for cache in app.node.interface.caches:
            cache.close()
        app.node._loop.call_soon(lambda: None)
        app.node.settle()


def test_a_write_while_the_source_is_asked_counts(tmp_path: Path) -> None:
    code = (
        FULL.replace("        return kept.get(id)\n", "        await gate.wait()\n        return {'value': 1}\n", 1)
        + "gate = asyncio.Event()\n"
    )
    with application(tmp_path, code, SCHEMA) as app:
        rates = app.tables.Rate

        async def work() -> None:
            for write in (rates.put("a", {"value": 2}), rates.invalidate("b"), rates.delete("c")):
                key = write._arguments[2][0]
                if key == "c":
                    app.module.gate.set()
                    app.module.kept["c"] = {}
                    await rates.put("c", {"value": 3})
                app.module.gate.clear()
                reading = asyncio.create_task(_read(rates, key, key == "c"))
                await asyncio.sleep(0)
                await write
                app.module.gate.set()
                assert (await reading).value == 1, "whoever asked gets what the source has said"

        app.run(work())
        assert app.ask("GET", "/Rate/a")[1]["value"] == 2, "and it is not stored"
        table = app.node.store.databases["data"].tables["Rate"]
        assert table.get_raw("b") is None and table.get_raw("c") is None
        app.node.store.check()


async def _read(rates: Any, key: str, fresh: bool) -> Any:
    return await rates.get({"id": key, "no_cache": fresh})


RULED = """
type Rate @table(expiration: 60) @export
  @allow(read: "name!=secret", create: "name==$user.username", update: "name==$user.username&value=lt=10", delete: "name==$user.username") {
  id: ID @primaryKey value: Int! name: String @indexed hits: Int
}
type Numbered @table(expiration: 60) { id: Long @primaryKey value: Int }
"""


@pytest.mark.parametrize("code", [FULL, FULL.replace("    async def patch", "    async def patched")])
def test_rules_on_rows_are_asked_before_the_source_is(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, RULED, healthy=False) as app:  # no index serves the rule: a warning
        kept = app.module.kept
        kept |= {"mine": {"id": "mine", "value": 1, "name": "ann"}, "bobs": {"id": "bobs", "value": 1, "name": "bob"}}
        kept["hidden"] = {"id": "hidden", "value": 1, "name": "secret"}
        may = {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}
        app.node.as_user(
            User("ann", role=Role("member", "member", {"data": {"tables": {"Rate": may}}}, databases=app.node.store.databases))
        )

        def written() -> list[Any]:
            return [each for each in said(app) if each[0] != "get"]

        for method, target, data, status in (
            ("PUT", "/Rate/bobs", {"value": 2, "name": "ann"}, 403),
            ("PATCH", "/Rate/bobs", {"value": 2}, 403),
            ("DELETE", "/Rate/bobs", None, 403),
            ("PUT", "/Rate/hidden", {"value": 2, "name": "ann"}, 404),
            ("PATCH", "/Rate/hidden", {"value": 2}, 404),
            ("DELETE", "/Rate/hidden", None, 204),
            ("PATCH", "/Rate/mine", {"name": "bob"}, 403),
            ("PATCH", "/Rate/mine", {"value": 10}, 403),
            ("PUT", "/Rate/new", {"value": 1, "name": "bob"}, 403),
            ("POST", "/Rate/", {"value": 1, "name": "bob"}, 403),
        ):
            assert (app.ask(method, target, data)[0], method, target) == (status, method, target)
            assert written() == []
        assert app.ask("DELETE", "/Rate/?name==bob")[0] == 204 and written() == []  # what may not be deleted is left alone
        assert app.ask("PATCH", "/Rate/mine", {"value": 2})[0] == 204 and len(written()) == 1
        assert app.ask("PUT", "/Rate/new", {"value": 1, "name": "ann"})[0] == 204 and len(written()) == 1
        assert app.ask("DELETE", "/Rate/mine")[0] == 204 and written() == [("delete", "mine", None)]
