"""svc.apps.modules: how modules of applications are loaded, what they see, and which addresses they get."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc.api.registry import Entry
from svc.query import QueryCache
from tests.support.application import application
from tests.support.apps import load_app


def test_globals_are_there_without_an_import(tmp_path: Path) -> None:
    code = """
    class Seat(tables.Seat):
        pass
    seen = [tables, databases, Resource, auth, logger, server, contentTypes, content_types]
    import svc
    same = [svc.tables, svc.databases, svc.Resource, svc.auth, svc.logger, svc.server, svc.contentTypes, svc.content_types]
    """
    with application(tmp_path, code) as app:
        assert all(one is other for one, other in zip(app.module.seen, app.module.same, strict=True))
        assert app.module.contentTypes is app.node.types and app.module.databases.data is app.module.tables
        assert app.module.tables["Seat"] is app.module.tables.Seat and "Seat" in app.module.tables
        with pytest.raises(AttributeError, match="has no table 'Nothing'"):
            app.module.tables.Nothing  # noqa: B018
        with pytest.raises(AttributeError, match="no database"):
            app.module.databases.nothing  # noqa: B018


def test_addresses(tmp_path: Path) -> None:
    code = """
    from svc import Resource, server, tables
    from helpers import Shared

    class Base(Resource):
        def allow_read(self, user, target):
            return True
        def get(self, query=None):
            return type(self).__name__

    class _Hidden(Base):
        pass
    class A(Base):
        pass
    class Tour(Base):
        path = "/tour/:city/*rest"
        def get(self, query=None):
            return [query.city, query.rest]
    class Town(Base):
        path = "town/:city"
        def get(self, query=None):
            return [query.city, self.get_id()]
    class Bonn(Base):
        path = "/tour/Bonn"
    class Any(Base):
        path = "any/*"
        def get(self, query=None):
            return query.wildcard
    class Root(Base):
        def get(self, query=None):
            return "root"
    api = {"seat-map": A, "deep": {"er": A}}
    default = Root
    server.resources.set("x/y", A, {"ws": False, "own": True})
    """
    files = {
        "helpers.py": "from svc import Resource\nclass Shared(Resource): pass\n",
        "more/resources.py": """
            class B(Resource):
                def allow_read(self, user, target):
                    return True
                def get(self, query=None):
                    return 'B'
            """,
        "config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\nresources: {files: ['resources.py', '**/resources.py']}\n",
    }
    with application(tmp_path, code, files=files) as app:
        app.node.as_user(None)
        for path, expected in (
            ("/A/", "A"),
            ("/api/seat-map/", "A"),
            ("/api/deep/er/", "A"),
            ("/tour/Aachen/x/y", ["Aachen", "x/y"]),
            ("/tour/Aachen", ["Aachen", ""]),
            ("/tour/Bonn", "Bonn"),
            ("/tour/Bonn/7", "Bonn"),
            ("/town/K%C3%B6ln/5", ["Köln", "5"]),
            ("/any/a/b", "a/b"),
            ("/more/B/", "B"),
            ("/x/y/", "A"),
            ("/something", "root"),
            ("/a/", "root"),
            ("/Shared/", "root"),
            ("/_Hidden/", "root"),
        ):
            assert app.ask("GET", path) == (200, expected), path
        resources = app.module.server.resources
        match = resources.get_match("/x/y/42", "rest")
        assert isinstance(match, Entry) and match.Resource is app.module.A and (match.path, match.relative_url) == ("x/y", "/42")
        assert resources.get_match("/x/y", "ws").Resource is app.module.Root and resources.getMatch("/x/y", exportType="own").path == "x/y"
        assert resources["Show"].Resource is app.tables.Show and "api/seat-map" in resources
        for wrong in (("z", 5), ("z", str), (5, app.module.A)):
            with pytest.raises(TypeError):
                resources.set(*wrong)
        with pytest.raises(ValueError, match="behind"):
            resources.set("a/*b/c", app.module.A)
        with pytest.raises(ValueError, match="parameter"):
            resources.set("a/:b/:b", app.module.A)


def test_names_in_all_are_registered_and_no_others(tmp_path: Path) -> None:
    code = """
    from helpers import Shared
    from svc import Resource
    __all__ = ["Shared", "Alias"]
    class Own(Resource):
        def get(self, query=None):
            return 1
    Alias = Own
    """
    with application(
        tmp_path, code, files={"helpers.py": "from svc import Resource\nclass Shared(Resource):\n    def get(self, query=None): return 2\n"}
    ) as app:
        assert [app.ask("GET", path)[0] for path in ("/Shared/", "/Alias/", "/Own/")] == [200, 200, 404]


def test_two_resources_at_one_address_are_shut_off(tmp_path: Path) -> None:
    code = """
    from svc import Resource
    class Show(Resource):
        def get(self, query=None):
            return 1
    """
    with application(tmp_path, code, healthy=False) as app:
        assert app.node.app.entries["resources"].messages == ["resources.py: Show at /Show: Conflicting paths for Show"]
        status, problem = app.ask("GET", "/Show/")
        assert status == 500 and "Conflicting paths" in problem["detail"]
        app.node.interface.resources.remove("Show")
        assert app.ask("GET", "/Show/")[0] == 404


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\ny = (\n", "resources.py: resources.py:2: SyntaxError: '(' was never closed"),
        ("import nothing_of_this_name\n", "resources.py: resources.py:1: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("from svc import nothing\n", "resources.py: resources.py:1: ImportError: cannot import name 'nothing' from 'svc'"),
        ("def f():\n    return 1 / 0\nf()\n", "resources.py: resources.py:2: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(5)\n", "resources.py: resources.py:2: SystemExit: 5"),
        ("class Seat(tables.Nothing): pass\n", "resources.py: resources.py:1: AttributeError: the database data has no table 'Nothing'"),
        ("import helpers\n", "resources.py: helpers.py:1: NameError: name 'oops' is not defined"),
    ],
)
def test_a_module_that_cannot_be_loaded(tmp_path: Path, code: str, message: str) -> None:
    with application(tmp_path, code, healthy=False, files={"helpers.py": "oops\n"}) as app:
        (found,) = app.node.app.entries["resources"].messages
        assert found.startswith(message.rstrip()), found
        assert app.ask("GET", "/Show/")[0] == 200


def test_applications_do_not_see_each_others_modules(tmp_path: Path) -> None:
    code = """
    from svc import Resource
    import helpers
    from helpers import name
    from package.inner import value
    from . import helpers as relative

    class %s(Resource):
        def get(self, query=None):
            from late import when
            return [helpers.name, name, value, relative is helpers, when]
    """

    def files(name: str) -> dict[str, str]:
        return {
            "helpers.py": f"name = '{name}'\n",
            "package/inner.py": "from helpers import name\nvalue = name.upper()\n",
            "late.py": "from helpers import name\nwhen = 'late ' + name\n",
        }

    with application(tmp_path, code % "First", files=files("first")) as app:
        other = tmp_path / "other"
        other.mkdir()
        (other / "resources.py").write_text((code % "Second").replace("\n    ", "\n"))
        for name, text in files("second").items():
            (other / name).parent.mkdir(exist_ok=True)
            (other / name).write_text(text)
        node = app.node
        second = load_app(other, node.store, node.resources, QueryCache(), {}, interface=node.interface)
        assert second.status == "healthy", second.entries
        assert app.ask("GET", "/First/") == (200, ["first", "first", "FIRST", True, "late first"])
        assert app.ask("GET", "/Second/") == (200, ["second", "second", "SECOND", True, "late second"])
        second.withdraw()


def test_the_configuration_of_the_application(tmp_path: Path) -> None:
    code = """
    from svc import config
    seen = config
    """
    with application(
        tmp_path, code, files={"config.yaml": "rest: true\nresources: {files: resources.py}\nown: {a: 1}\n"}, healthy=False
    ) as app:
        assert app.module.seen["own"] == {"a": 1}


def test_the_same_application_again(tmp_path: Path) -> None:
    code = """
    from svc import Resource
    class A(Resource):
        def get(self, query=None):
            return 1
    """
    with application(tmp_path, code) as app:
        node = app.node
        (node.app.directory / "resources.py").write_text(
            "from svc import Resource\nclass A(Resource):\n    def get(self, query=None): return 2\n"
        )
        node.run(node.applications.reload("app"))
        assert node.app.status == "healthy", node.app.entries
        assert app.ask("GET", "/A/") == (200, 2)


def test_options_of_rest_hold_for_classes_as_for_tables(tmp_path: Path) -> None:
    code = """
    class Own(tables.Seat):
        def get(self, query=None):
            return super().get(query)
    class Bare(tables.Seat):
        pass
    """
    config = "rest: {allowFullScan: true, includeExpensiveRecordCountEstimates: true, webSocket: false}\ngraphqlSchema: {files: '*.graphql'}\nresources: true\n"
    with application(tmp_path, code, files={"config.yaml": config}) as app:
        app.run(app.tables.Seat.put("a", {"stock": 1}))
        for name in ("Own", "Bare"):
            assert app.ask("GET", f"/{name}/?stock=1")[1] == [{"id": "a", "stock": 1}]
            assert app.ask("GET", f"/{name}")[1]["recordCount"] == 1
            assert not app.node.resources[name].visible("ws")
    with application(tmp_path / "off", code, files={"config.yaml": "graphqlSchema: {files: '*.graphql'}\nresources: true\n"}) as app:
        assert app.ask("GET", "/Own/")[0] == 404
