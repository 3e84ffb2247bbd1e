"""An application of a test leaves nothing behind, and applications do not disturb each other."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import svc.testing
from svc.errors import StoreFailure
from svc.testing import Application, LoadError
from tests.support.leaks import open_files
from tests.unit.testing.conftest import write_application


def held() -> dict[str, Any]:
    """What a process has, apart from modules of libraries."""
    return {
        "environment": {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
        "path": list(sys.path),
        "finders": list(sys.meta_path),
        "modules": sorted(name for name in sys.modules if name.startswith("svc_apps.")),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "descriptors": sorted(open_files(os.getpid())),
        "signals": {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)},
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "filters": list(warnings.filters),
        "logging": (logging.getLogger("svc").handlers[:], logging.getLogger("svc").level, logging.getLogger().handlers[:]),
        "origin depth": sys.get_coroutine_origin_tracking_depth(),
    }


def added(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What has changed, by kind: of descriptors and threads those that are more, for those of other tests may have gone."""
    counted = ("descriptors", "threads")
    changed = {kind: (before[kind], after[kind]) for kind in before if before[kind] != after[kind] and kind not in counted}
    more = {kind: Counter(after[kind]) - Counter(before[kind]) for kind in counted}
    return changed | {kind: names for kind, names in more.items() if names}


ADDICTED = """
    import asyncio
    import os
    import sys
    from svc import Resource, run_in_thread, tables

    os.environ["SHOP_KEY"] = "secret"
    sys.path.append("/somewhere")


    async def work_for_ever():
        while True:
            await asyncio.sleep(1)


    TASK = asyncio.get_running_loop().create_task(work_for_ever())


    class Page(Resource):
        async def get(self, target=None):
            await run_in_thread(int, "1")
            await asyncio.to_thread(int, "1")
            return os.environ["SHOP_KEY"]
"""


def test_nothing_is_left(tmp_path: Path) -> None:
    directory = write_application(
        tmp_path / "shop", {"schema.graphql": "type A @table @export { id: ID @primaryKey }", "resources.py": ADDICTED}
    )
    with svc.testing.app(directory):
        pass  # what is made once in a process
    before = held()
    with svc.testing.app(directory) as shop:
        assert shop.get("/Page").json == "secret"
        shop.put("/A/1", {})
        shop.events("/A/")
        shop.send("GET", "/Page")
        root = shop.instance.server.config.root
        assert held() != before
    assert added(before, held()) == {}
    assert not root.parent.exists()
    shop.close()
    with pytest.raises(RuntimeError, match="has ended"):
        shop.get("/A/")


def test_nothing_is_left_of_one_that_cannot_be_loaded(tmp_path: Path) -> None:
    directory = write_application(tmp_path / "shop", {"resources.py": ADDICTED + "\n    1 / 0\n"})
    for attempt in range(2):
        before = held()
        with pytest.raises(LoadError):
            svc.testing.app(directory)
        assert added(before, held()) == {} or attempt == 0


def test_two_applications_run_at_once(svc_app_factory: Any, tmp_path: Path) -> None:
    code = """
        from svc import Resource, tables

        class Count(Resource):
            async def get(self, target=None):
                return [a.id async for a in tables.A.search({})]
    """
    schema = "type A @table @export { id: ID @primaryKey }"
    first, second = (
        svc_app_factory(write_application(tmp_path / name, {"schema.graphql": schema, "resources.py": code})) for name in ("one", "two")
    )
    first.put("/A/1", {})
    second.put("/A/2", {})
    assert (first.get("/Count").json, second.get("/Count").json) == (["1"], ["2"])
    first.clock.advance(10)
    assert (first.clock.now - second.clock.now).total_seconds() > 9
    first.close()
    assert second.get("/Count").json == ["2"] and second.tables.A.get("2") is not None


def test_each_application_has_its_own_log(shop_directory: Path) -> None:
    svc.testing.app(shop_directory).close()
    before = held()
    first, second = svc.testing.app(shop_directory), svc.testing.app(shop_directory)
    never = first.send("GET", "/Never")
    first.clock.advance(60)
    assert not never.is_answered
    assert any("Never.get" in entry.text for entry in first.logs) and not any("Never.get" in entry.text for entry in second.logs)
    first.close()
    second.close()
    assert added(before, held()) == {}


def test_a_server_that_cannot_be_built_leaves_nothing(shop_directory: Path, tmp_path: Path) -> None:
    svc.testing.app(shop_directory).close()
    (tmp_path / "file").write_text("no directory")
    before = held()
    with pytest.raises(StoreFailure):
        svc.testing.app(shop_directory, storage_path=str(tmp_path / "file" / "database"))
    assert added(before, held()) == {}


FAULTS = {
    "resources.py": ("def broken(:\n", "resources.py"),
    "schema.graphql": ("type A @table { id: ", "schema.graphql"),
    "config.yaml": ("resources: [", "config.yaml"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_loaded_says_why(tmp_path: Path, name: str) -> None:
    text, expected = FAULTS[name]
    with pytest.raises(LoadError, match=expected):
        svc.testing.app(write_application(tmp_path / "shop", {name: text}))


def test_the_traceback_of_a_failed_module_begins_in_the_application(tmp_path: Path) -> None:
    directory = write_application(
        tmp_path / "shop", {"resources.py": "from .prices import price\n", "prices.py": "def price():\n    return 1 / 0\n\n\nprice()\n"}
    )
    with pytest.raises(LoadError, match="ZeroDivisionError") as raised:
        svc.testing.app(directory)
    text = str(raised.value)
    assert "resources.py" in text and "prices.py" in text and "return 1 / 0" in text and "importlib" not in text


def test_what_works_of_a_broken_application_may_be_tested(tmp_path: Path) -> None:
    schema = "type A @table @export { id: ID @primaryKey }"
    directory = write_application(tmp_path / "shop", {"schema.graphql": schema, "resources.py": "class Page(Resource): oops"})
    with svc.testing.app(directory, check=False) as shop:
        assert shop.get("/A/").json == []
        assert shop.get("/Page").status == 503
        assert shop.statuses["resources"].status == "error" if "resources" in shop.statuses else shop.statuses


@pytest.mark.parametrize(("name", "text"), [("nothing", "there is no directory"), ("empty", "holds no application")])
def test_a_directory_without_an_application_says_so(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(LoadError, match=text):
        svc.testing.app(tmp_path / name)


def test_a_task_of_the_application_ends_with_it(shop: Application) -> None:
    assert shop.modules[0] is shop.module("resources")
    with pytest.raises(LookupError, match="'nothing'"):
        shop.module("nothing")
    assert shop.module("resources").Echo.__name__ == "Echo" and shop.server.config


def test_applications_exit_does_not_end_the_tests(tmp_path: Path) -> None:
    code = """
        import asyncio
        import sys
        from svc import Resource

        class Page(Resource):
            async def get(self, target=None):
                asyncio.get_running_loop().call_soon(sys.exit)
                await asyncio.sleep(1)
                return 1
    """
    with svc.testing.app(write_application(tmp_path / "shop", {"resources.py": code})) as shop:
        assert shop.get("/Page").json == 1
        assert any("sys.exit" in entry.text for entry in shop.logs)


@pytest.mark.parametrize("first", [0, 1])
def test_applications_at_once_may_end_in_any_order(tmp_path: Path, first: int) -> None:
    before = held()
    apps = []
    for name in ("one", "two"):
        files = {
            "config.yaml": "loadEnv: {files: .env}\nresources: {files: resources.py}\n",
            ".env": f"VARIABLE_{name}=1\n",
            "resources.py": f"import os, sys\nos.environ['CODE_{name}'] = '1'\nsys.path.append('/{name}')\n",
        }
        apps.append(svc.testing.app(write_application(tmp_path / name, files)))
    other = ("two", "one")[first]
    apps[first].close()
    assert os.environ[f"VARIABLE_{other}"] == os.environ[f"CODE_{other}"] == "1" and f"/{other}" in sys.path
    apps[1 - first].close()
    after = held()
    assert (after["environment"], after["path"]) == (before["environment"], before["path"])


def test_an_application_that_has_ended_says_so(tmp_path: Path) -> None:
    with svc.testing.app(write_application(tmp_path / "shop", {"schema.graphql": "type T @table @export { id: ID @primaryKey }"})) as shop:
        table = shop.tables.T
    for use in (
        lambda: shop.get("/T/"),
        lambda: shop.get("/T/", user=None),
        lambda: shop.as_user("admin").get("/T/"),
        lambda: shop.tables.T,
        lambda: table.get("1"),
        lambda: shop.databases["data"],
        lambda: shop.events("/T/"),
        lambda: shop.connect("/T/"),
        lambda: shop.operation("describe_all"),
        lambda: shop.clock.advance(1),
    ):
        with pytest.raises(RuntimeError, match="the application of this test has ended"):
            use()
