"""The plugin, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.testing.conftest import write_application

pytestmark = pytest.mark.programs

pytest_plugins = ["pytester"]

RunPytest = Callable[..., tuple[int, str]]

SCHEMA = "type Product @table @export { id: ID @primaryKey }"
PASSING = """
    def test_one(svc_app):
        assert svc_app.put("/Product/1", {}).status == 204

    def test_two(svc_app):
        assert svc_app.get("/Product/").json == []

    class TestThree:
        def test_three(self, svc_app):
            assert svc_app.put("/Product/1", {}).status == 204
"""


OPTIONS = ("-W", "error", "-p", "no:schemathesis", "-p", "no:asyncio", "-p", "no:cacheprovider", "--strict-markers")


def run_process(directory: Path, *options: str) -> tuple[int, str]:
    """(exit status, output) of a process of its own."""
    command = [sys.executable, "-m", "pytest", *OPTIONS, *options]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def run_pytest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """The same in this process, which has loaded the server."""

    def run(directory: Path, *options: str) -> tuple[int, str]:
        monkeypatch.chdir(directory)
        result = pytester.runpytest_inprocess(*OPTIONS, "--rootdir", str(directory), *options)
        return int(result.ret), result.stdout.str() + result.stderr.str()

    return run


def test_the_application_in_the_current_directory_is_tested(tmp_path: Path) -> None:
    directory = write_application(tmp_path / "shop", {"schema.graphql": SCHEMA, "tests/test_shop.py": PASSING})
    status, output = run_process(directory, "-n", "1", "--import-mode=importlib")
    assert status == 0 and "3 passed" in output, output


def test_options_and_markers_say_what_is_started(tmp_path: Path, run_pytest: RunPytest) -> None:
    tests = """
        import pytest

        def test_option(svc_app):
            assert svc_app.directory.name == "shop"

        @pytest.mark.svc_app("other", now=1_893_456_000, http_maxRequestBodySize=100)
        def test_marker(svc_app):
            assert svc_app.directory.name == "other" and svc_app.clock.now.year == 2030
            assert svc_app.put("/Product/1", {"x": "x" * 100}).status == 413

        @pytest.mark.svc_app("broken", check=False)
        def test_broken(svc_app):
            assert svc_app.get("/Product/").status == 503

        def test_factory(svc_app_factory):
            first, second = svc_app_factory(), svc_app_factory("other")
            assert first.directory != second.directory
    """
    files = {
        "pytest.ini": "[pytest]\nsvc_app = apps/shop\naddopts = --strict-markers --strict-config\n",
        "apps/shop/schema.graphql": SCHEMA,
        "other/schema.graphql": SCHEMA,
        "broken/schema.graphql": "type Product @table @export { id: ",
        "test_all.py": tests,
    }
    status, output = run_pytest(write_application(tmp_path, files), "-q")
    assert status == 0 and "4 passed" in output, output


def test_failures_show_what_the_application_said(tmp_path: Path, run_pytest: RunPytest) -> None:
    code = "from svc import Resource\nclass Page(Resource):\n    def get(self, target=None):\n        return [][1]\n"
    tests = """
        def test_page(svc_app):
            assert svc_app.get("/Page").status == 200
    """
    directory = write_application(tmp_path / "shop", {"resources.py": code, "test_page.py": tests})
    status, output = run_pytest(directory)
    assert status == 1 and "assert 500 == 200" in output and "Captured stderr call" in output, output
    assert "return [][1]" in output and "IndexError" in output
    (directory / "resources.py").write_text("import nothing_of_that_name\n")
    status, output = run_pytest(directory)
    assert status == 1 and "could not be loaded" in output and "ModuleNotFoundError" in output and "resources.py" in output, output
    assert "svc/testing" not in output


ASYNC = """
    import asyncio
    import pytest

    @pytest.mark.{marker}
    async def test_several(svc_app):
        assert svc_app.put("/Product/1", {{}}).status == 204
        answers = await asyncio.gather(svc_app.send("GET", "/Product/1"), svc_app.send("GET", "/Product/2"))
        assert [answer.status for answer in answers] == [200, 404]
        assert svc_app.tables.Product.get("1") is not None
"""


def test_failures_show_the_line_of_the_test_alone(tmp_path: Path, run_pytest: RunPytest) -> None:
    tests = """
        def test_user(svc_app):
            svc_app.get("/Product/1", user="bob")

        def test_json(svc_app):
            svc_app.delete("/Product/1").text
            svc_app.head("/Product/1").json

        def test_stream(svc_app):
            svc_app.events("/Nothing")

        def test_load(svc_app_factory):
            svc_app_factory("nowhere")
    """
    directory = write_application(tmp_path / "shop", {"schema.graphql": SCHEMA, "test_shop.py": tests})
    status, output = run_pytest(directory, "-p", "no:xdist")
    assert status == 1 and "4 failed" in output
    assert "svc/testing/" not in output and 'svc_app.get("/Product/1", user="bob")' in output and "there is no user 'bob'" in output
    assert "svc/testing/" in run_pytest(directory, "-p", "no:xdist", "--full-trace")[1]


def test_async_tests_use_the_same_calls(tmp_path: Path, run_pytest: RunPytest) -> None:
    files = {"schema.graphql": SCHEMA, "test_async.py": ASYNC.format(marker="anyio"), "conftest.py": BACKEND}
    status, output = run_pytest(write_application(tmp_path / "shop", files), "-q")
    assert status == 0 and "1 passed" in output, output


BACKEND = """
    import pytest

    @pytest.fixture
    def anyio_backend():
        return "asyncio"
"""


def test_unittest_uses_it_without_pytest(tmp_path: Path) -> None:
    tests = """
        import sys
        import unittest
        import svc.testing

        class Shop(unittest.TestCase):
            def setUp(self):
                self.app = self.enterContext(svc.testing.app("."))

            def test_put(self):
                self.assertEqual(self.app.put("/Product/1", {}).status, 204)
                self.assertNotIn("pytest", sys.modules)
    """
    directory = write_application(tmp_path / "shop", {"schema.graphql": SCHEMA, "test_shop.py": tests})
    command = [sys.executable, "-W", "error", "-m", "unittest", "-q"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_pytest_that_does_not_use_it_loads_nothing(tmp_path: Path) -> None:
    tests = """
        import sys

        def test_modules():
            loaded = sorted(name for name in sys.modules if name == "svc" or name.startswith("svc."))
            assert loaded == ["svc", "svc.testing", "svc.testing.plugin"]
    """
    status, output = run_process(write_application(tmp_path, {"test_modules.py": tests}), "-q")
    assert status == 0, output
