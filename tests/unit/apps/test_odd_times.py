"""What code of an application registers at odd moments: in handlers, after it was replaced, on other threads (spec: configuration §9.2)."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.api.table_settings import TableSettings
from svc.apps.entry_load import EntryLoad
from tests.support.application import Application, application

SCHEMA = "type Cached @table @export { id: ID @primaryKey  a: Int  b: Int @computed }\ntype Plain @table { id: ID @primaryKey }\n"
CODE = """
import asyncio

class Open(Resource):
    def allow_read(self, user, target):
        return True

class Source:
    def get(self, id, context):
        return {"id": id, "a": 1}

class Named(Open):
    def get(self, query=None):
        tables.Cached.source_from(Source(), expiration=50)
        tables.Cached.set_computed_attribute("b", lambda record: 2)
        return 1

class Set(Open):
    def get(self, query=None):
        server.resources.set("late", Open)
        return 1

class OnThread(Open):
    async def get(self, query=None):
        found = []
        for function in (lambda: server.http(lambda request, next: next(request)), lambda: server.resources.set("x", Open),
                         lambda: server.resources.remove("Cached")):
            try:
                await asyncio.to_thread(function)
            except RuntimeError as error:
                found.append(str(error)[:60])
        return found

def name():
    tables.Cached.source_from(Source())

def register():
    server.resources.set("late", Open)
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    with application(tmp_path, CODE, SCHEMA) as made:
        yield made


def reload(app: Application, code: str = CODE) -> None:
    (app.node.app.directory / "resources.py").write_text(code)
    app.node.run(app.node.applications.change("app", ["resources.py"], reloads_code=True))
    assert app.node.app.status == "healthy", app.node.app.entries


def test_a_source_that_a_handler_names_ends_with_its_version(app: Application) -> None:
    for _ in range(3):
        assert app.ask("GET", "/Named/") == (200, 1)
    assert app.ask("GET", "/Cached/x") == (200, {"id": "x", "a": 1})
    assert app.ask("GET", "/Cached/x?select(b)") == (200, 2)
    table = app.tables.Cached._table
    assert table.expiry.duration_ms == 50_000
    settings: TableSettings = app.node.app.code.settings  # type: ignore[union-attr]
    assert len(settings._undo) == 2, "each is kept once, however often it is set"
    reload(app)
    assert app.ask("GET", "/Cached/y")[0] == 404
    assert table.expiry.duration_ms is None, "the times of a source go with it"
    assert app.ask("GET", "/Named/") == (200, 1)
    reload(app, CODE + "tables.Cached.source_from(Source())\n")
    assert app.ask("GET", "/Cached/y") == (200, {"id": "y", "a": 1})


def test_what_a_handler_registers_ends_with_its_version(app: Application) -> None:
    assert app.ask("GET", "/late/")[0] == 404
    assert app.ask("GET", "/Set/") == (200, 1)
    assert app.ask("GET", "/late/")[0] != 404
    reload(app)
    assert app.ask("GET", "/late/")[0] == 404


def test_a_version_that_was_replaced_registers_nothing_any_more(app: Application) -> None:
    former: Any = app.module
    reload(app)
    for function in (former.register, former.name):
        with pytest.raises(RuntimeError, match="this version of the application has been replaced"):
            function()
    assert app.ask("GET", "/late/")[0] == 404
    app.node.run(app.node.applications.remove("app"))
    assert list(app.node.resources) == []


def test_nothing_is_registered_on_another_thread(app: Application) -> None:
    found = app.node.run(app.module.OnThread.get())
    assert found == ["nothing can be registered on this thread: a function of run_"] * 3


def test_an_application_that_goes_while_it_waits_to_be_loaded_does_not_come_back(app: Application) -> None:
    applications = app.node.applications

    async def run() -> list[Any]:
        waiting = [
            applications.remove("app"),
            applications.remove("app"),
            applications.reload("app"),
            applications.change("app", ["resources.py"], reloads_code=True),
        ]
        found: list[Any] = await asyncio.gather(*waiting, return_exceptions=True)  # type: ignore[call-overload]
        return found

    first, second, third, fourth = app.node.run(run())
    assert (first, second, fourth) == (None, None, []) and isinstance(third, KeyError)
    assert list(app.node.resources) == [] and not list(applications)
    assert app.ask("GET", "/Cached/x")[0] == 404


def test_a_load_that_is_cancelled_leaves_nothing(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    node = app.node
    before = len(sys.meta_path), {name for name in sys.modules if name.startswith("svc_apps.")}, node.app.config
    begun = asyncio.Event()

    async def wait(*given: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    (node.app.directory / "config.yaml").write_text("rest: true\nresources: true\npluginModule: resources.py\n")
    monkeypatch.setattr(EntryLoad, "_load", wait)

    async def run() -> None:
        task = asyncio.ensure_future(node.applications.reload("app"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    node.run(run())
    assert (len(sys.meta_path), {name for name in sys.modules if name.startswith("svc_apps.")}, node.app.config) == before
    assert len(node.interface.app_servers) == 1
