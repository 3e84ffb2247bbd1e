"""A caching table beside a plain model of a cache: any sequence of reads with directives, writes, invalidations, time, evictions and failures."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from svc.store.entity_tags import etag_of_version
from svc.store.integrity.check import check_database
from tests.support.application import application
from tests.support.profile import half_by_day

LIFE, KEPT = 60.0, 30.0  # seconds until a record expires, and then until it is evicted
SCHEMA = """
type Rate @table(expiration: 60, eviction: 30, scanInterval: 1) @export { id: ID @primaryKey value: Int name: String @indexed note: String }
"""
CODE = """
import asyncio
from svc import Response, tables

origin = {}  # id -> (value, version)
mode = "works"
calls = 0

def look(id, context):
    global calls
    calls += 1
    if mode == "away":
        raise ConnectionRefusedError
    if mode == "fails":
        return Response(status=503)
    if id not in origin:
        return None
    value, version = origin[id]
    if context.replacing_version == version:
        return Response(status=304)
    context.last_modified = version
    return {"value": value, "name": str(value % 3), "note": "n"}

def refuse():
    if mode == "away":
        raise ConnectionResetError
    if mode == "fails":
        return Response(status=503)

class Plain:
    def get(self, id, context):
        return look(id, context)
    def put(self, id, data, context):
        refused = refuse()
        if refused is None:
            origin[id] = (data["value"], version_of_next())
        return refused
    def delete(self, id, context):
        refused = refuse()
        if refused is None:
            origin.pop(id, None)
        return refused

class Waiting:
    async def get(self, id, context):
        await asyncio.sleep(0)
        return look(id, context)
    async def put(self, id, data, context):
        await asyncio.sleep(0)
        return Plain().put(id, data, context)
    async def delete(self, id, context):
        return Plain().delete(id, context)

version = 1000.0
def version_of_next():
    global version
    version += 1000.0
    return version

"""
ids = st.sampled_from(("a", "b"))
values = st.integers(0, 5)
modes = st.sampled_from(("works", "works", "works", "away", "fails"))
directives = st.lists(
    st.sampled_from(
        ("no-cache", "no-store", "only-if-cached", "stale-if-error", "must-revalidate", "max-age=0", "max-age=20", "max-age=500", "x=1")
    ),
    max_size=2,
    unique=True,
)


@dataclass
class Cached:
    """`value` None: no more is here than the name. `version` None: it was written here."""

    name: str
    value: int | None
    version: float | None
    expires: float
    refreshed: float


class CacheMachine(RuleBasedStateMachine):
    @initialize(waiting=st.booleans())
    def open(self, waiting: bool) -> None:
        self.stack = ExitStack()
        self.path = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        code = CODE + f"tables.Rate.source_from({'Waiting' if waiting else 'Plain'}())\n"
        self.app = self.stack.enter_context(application(self.path, code, SCHEMA))
        self.module = self.app.module
        self.cached: dict[str, Cached] = {}
        self.module.origin["a"] = (1, self.module.version_of_next())

    @property
    def now(self) -> float:
        return self.app.node.clock.wall()

    # -- the model

    def expected(self, id: str, given: list[str]) -> tuple[int, int | None, bool]:
        """(status, value, whether the source is asked) of a read; changes what is cached."""
        cached = self.cached.get(id)
        ages = [float(each[8:]) for each in given if each.startswith("max-age")]
        whole = cached is not None and cached.value is not None
        fresh = (
            cached is not None
            and whole
            and cached.expires > self.now
            and "no-cache" not in given
            and not (ages and self.now - cached.refreshed > ages[-1])
        )
        if fresh:
            assert cached is not None
            return 200, cached.value, False
        if "only-if-cached" in given:
            return (200, cached.value, False) if cached is not None and whole else (504, None, False)
        if self.module.mode != "works":
            away = self.module.mode == "away"
            served = "must-revalidate" not in given if away else "stale-if-error" in given
            return (200, cached.value, True) if cached is not None and whole and served else (502 if away else 503, None, True)
        stored = "no-store" not in given
        if id not in self.module.origin:
            if stored:
                self.cached.pop(id, None)
            return 404, None, True
        value, version = self.module.origin[id]
        if stored:
            if cached is not None and whole and cached.version == version:
                cached.expires, cached.refreshed = self.now + LIFE, self.now
            else:
                self.cached[id] = Cached(str(value % 3), value, version, self.now + LIFE, self.now)
        return 200, value, True

    def check_answer(self, id: str, answer: tuple[int, dict[str, str], Any], expected: tuple[int, int | None, bool], calls: int) -> None:
        status, fields, body = answer
        assert (status, self.module.calls - calls) == (expected[0], int(expected[2]))
        if status == 200:
            assert body == {"id": id, "value": expected[1], "name": str(expected[1] % 3), "note": "n"} if expected[1] is not None else False
            cached = self.cached.get(id)
            if not expected[2]:
                assert cached is not None and fields["age"] == str(int(self.now - cached.refreshed))
            if cached is not None and cached.value == expected[1] and cached.version is not None and not expected[2]:
                assert fields["etag"] == f'"{etag_of_version(cached.version)}"'

    # -- what happens

    @rule(id=ids, given=directives, mode=modes, seconds=st.sampled_from((0, 0, 21, 61)))
    def read(self, id: str, given: list[str], mode: str, seconds: int) -> None:
        self.module.mode = mode
        self.app.node.clock.advance(seconds)
        calls = self.module.calls
        expected = self.expected(id, given)
        fields = {"cache_control": ", ".join(given)} if given else {}
        self.check_answer(id, self.app.answer("GET", f"/Rate/{id}", **fields), expected, calls)

    @rule(id=ids)
    def read_by_code(self, id: str) -> None:
        calls = self.module.calls
        status, value, asked = self.expected(id, [])
        if status in (200, 404):
            record = self.app.run(self.app.tables.Rate.get(id))
            assert (None if record is None else record.value) == value
        else:
            try:
                self.app.run(self.app.tables.Rate.get(id))
            except Exception as error:
                assert getattr(error, "status_code", None) == status
            else:
                raise AssertionError("it must fail")
        assert self.module.calls - calls == int(asked)

    @rule(name=st.sampled_from(("0", "1", "2")))
    def search(self, name: str) -> None:
        found = sorted(id for id, cached in self.cached.items() if cached.name == name)
        stale = [id for id in found if self.cached[id].value is None or self.cached[id].expires <= self.now]
        outcomes = {id: self.expected(id, [])[0] for id in stale}
        status, body = self.app.ask("GET", f"/Rate/?name=={name}&sort(id)")
        failed = {outcome for outcome in outcomes.values() if outcome not in (200, 404)}
        if failed:
            assert status in failed
        else:
            expected = [(id, cached.value) for id, cached in sorted(self.cached.items()) if cached.name == name]
            assert status == 200 and [(each["id"], each["value"]) for each in body] == expected

    @rule(id=ids, value=values)
    def put(self, id: str, value: int) -> None:
        record = {"value": value, "name": str(value % 3), "note": "n"}
        status = self.app.ask("PUT", f"/Rate/{id}", record)[0]
        assert status == {"works": 204, "away": 502, "fails": 503}[self.module.mode]
        if status == 204:
            self.cached[id] = Cached(record["name"], value, None, self.now + LIFE, self.now)

    @rule(id=ids)
    def delete(self, id: str) -> None:
        status = self.app.ask("DELETE", f"/Rate/{id}")[0]
        assert status == {"works": 204, "away": 502, "fails": 503}[self.module.mode]
        if status == 204:
            self.cached.pop(id, None)

    @rule(id=ids)
    def invalidate(self, id: str) -> None:
        self.app.run(self.app.tables.Rate.invalidate(id))
        if id in self.cached:
            self.cached[id].value = None

    @rule(id=ids, value=values)
    def change_the_source(self, id: str, value: int) -> None:
        self.module.origin[id] = (value, self.module.version_of_next())

    @rule(id=ids)
    def remove_from_the_source(self, id: str) -> None:
        self.module.origin.pop(id, None)

    @rule(mode=modes)
    def set_mode(self, mode: str) -> None:
        self.module.mode = mode

    @rule(seconds=st.sampled_from((1, 15, 45, 70)))
    def pass_time(self, seconds: int) -> None:
        self.app.node.clock.advance(seconds)

    @rule()
    def evict(self) -> None:
        store = self.app.node.store
        store.maintenance(10.0)
        self.app.node.clock.advance(2)
        assert not store.maintenance(10.0)
        store.end_turn()
        for cached in self.cached.values():
            if cached.expires + KEPT <= self.now:
                cached.value = None

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "app"):
            return
        store = self.app.node.store
        store.end_turn()
        table = store.databases["data"].tables["Rate"]
        assert table.record_count() == len(self.cached) and not table.loading
        for id in ("a", "b", "c"):
            cached = self.cached.get(id)
            assert (table.get_raw(id) is not None) == (cached is not None and cached.value is not None)
        assert self.app.errors == []
        store.check()

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.stack.close()


def test_the_files(tmp_path: Path) -> None:
    """What `svc check` says of a database with stale, evicted, invalidated and confirmed records."""
    with application(tmp_path, CODE + "tables.Rate.source_from(Plain())\n", SCHEMA) as app:
        for number in range(20):
            app.module.origin[str(number)] = (number, 5000.0)
            app.ask("GET", f"/Rate/{number}")
        app.run(app.tables.Rate.invalidate("3"))
        app.node.store.maintenance(1.0)
        app.node.clock.advance(80)
        for number in range(5, 10):
            app.ask("GET", f"/Rate/{number}")
        app.node.clock.advance(15)
        app.node.store.maintenance(1.0)
        app.ask("PUT", "/Rate/4", {"value": 1})
        app.ask("DELETE", "/Rate/15")
    report = check_database(tmp_path / "data" / "data")
    assert report.ok, report.findings
    assert report.records["Rate"] == 19


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=half_by_day(60), stateful_step_count=50, deadline=None)
