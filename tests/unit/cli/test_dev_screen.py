"""svc.cli.dev_screen: what `svc dev` shows."""

from __future__ import annotations

import io
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svc.apps import App, EntryStatus
from svc.auth.users import User
from svc.cli.dev_screen import DevScreen
from svc.clock import FakeClock
from svc.content import values
from svc.logs.core import ERROR, INFO, WARN
from svc.messages import HeaderBlock, Request
from svc.server.reloading import Reload


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Screen(DevScreen):
    """With a stream that can be looked at."""

    def __init__(self, *, color: bool = False) -> None:
        self.out = io.StringIO()
        super().__init__(self.out, clock=FakeClock(), color=color)

    def take(self) -> str:
        """What was shown since the last time, without the times of day."""
        text = self.out.getvalue()
        self.out.seek(0)
        self.out.truncate()
        return "\n".join(line[10:] if line[2:3] == ":" == line[5:6] else line for line in text.splitlines())


@pytest.fixture
def screen() -> Screen:
    return Screen()


def exchange(method: str = "GET", target: str = "/Product/", status: int = 200, rows: int | None = None, **fields: str) -> Any:
    request = Request(method, target, HeaderBlock(list(fields.items())))
    request.handler_path = "Product"
    if rows is not None:
        request.state.rows = rows
    return SimpleNamespace(request=request, status=status)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, "GET    /Product/  200  3.2 ms"),
        ({"rows": 12}, "GET    /Product/  200  3.2 ms  12 rows"),
        ({"rows": 1, "method": "QUERY"}, "QUERY  /Product/  200  3.2 ms  1 row"),
        ({"method": "DELETE", "target": "/Product/1", "status": 204}, "DELETE /Product/1  204  3.2 ms"),
        ({"target": "/a?token=secret&b=1"}, "GET    /a?token=***&b=1  200  3.2 ms"),
        ({"target": "/\x1b[2J\u202e\x9b"}, "GET    /\\x1b[2J\\u202e\\x9b  200  3.2 ms"),
        ({"target": "/" + "x" * 300}, f"GET    /{'x' * 199}...  200  3.2 ms"),
    ],
)
def test_a_request_is_a_line(screen: Screen, given: dict[str, Any], shown: str) -> None:
    screen.request(exchange(**given), 0.0032)
    assert screen.take() == shown


def test_who_asks_is_shown_if_it_was_said(screen: Screen) -> None:
    local, other = exchange(), exchange(authorization="Basic eA==")
    for each in (local, other):
        each.request.user = User("ana\x07")
        screen.request(each, 0.25)
    assert screen.take() == "GET    /Product/  200  250 ms\nGET    /Product/  200  250 ms  ana\\x07"


@pytest.mark.parametrize(("status", "code"), [(200, "32"), (302, "36"), (404, "33"), (500, "31")])
def test_colours_by_status(status: int, code: str) -> None:
    screen = Screen(color=True)
    screen.request(exchange(status=status), 0.0)
    assert f"\x1b[{code}m{status}\x1b[0m" in screen.out.getvalue()


def test_what_has_not_changed_and_static_files_are_dim() -> None:
    screen = Screen(color=True)
    screen.request(exchange(status=304), 0.0)
    static = exchange(target="/app.css")
    static.request.handler_path = ""
    screen.request(static, 0.0)
    assert [line.count("\x1b[2m") for line in screen.out.getvalue().splitlines()] == [2, 2]


def failing(path: Path, text: str) -> BaseException:
    space: dict[str, Any] = {}
    path.write_text(text)
    exec(compile(text, str(path), "exec"), space)
    try:
        space["f"]()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_an_error_is_shown_once_in_full(screen: Screen, tmp_path: Path) -> None:
    screen.loaded([App("shop", tmp_path)], 0.1)
    error = failing(tmp_path / "resources.py", "def f():\n    return 1 / 0\n")
    screen.defect("request 1: GET /Broken/", error)
    first = screen.take()
    assert first.startswith("error GET /Broken/\n  | Traceback (most recent call last):\n  |   File ")
    assert 'resources.py", line 2, in f' in first and first.endswith("\n  | ZeroDivisionError: division by zero")
    assert "test_dev_screen.py" not in first
    screen.defect("request 2: GET /Broken/?again", error)
    again = screen.take()
    assert (
        again.startswith("error GET /Broken/?again: as at ")
        and again.endswith(": ZeroDivisionError: division by zero")
        and "\n" not in again
    )
    screen.reloaded(Reload(App("shop", tmp_path), ["resources.py"], 0.084))
    assert screen.take() == "reloaded shop in 84 ms: resources.py"
    screen.defect("request 3: GET /Broken/", error)
    assert screen.take() == first, "the code is another one"


def test_a_fault_is_shown_with_its_line_and_what_goes_on(screen: Screen, tmp_path: Path) -> None:
    (tmp_path / "schema.graphql").write_text("type A @table { id: ID @primaryKey }\ntype B @table { id: : ID }\n")
    status = EntryStatus()
    status.fail("schema.graphql:2:21: Expected Name, found ':'.")
    status.messages.append("the version before goes on serving")
    reload = Reload(App("shop", tmp_path), ["schema.graphql"], 0.004, {"graphqlSchema": status})
    screen.reloaded(reload)
    assert screen.take() == (
        "not loaded shop, the version before goes on serving\n"
        "  | schema.graphql:2:21: Expected Name, found ':'.\n"
        "  |      2 | type B @table { id: : ID }"
    )
    screen.reloaded(reload)
    assert screen.take() == "not loaded shop: still schema.graphql:2:21: Expected Name, found ':'., the version before goes on serving"


def test_what_is_wrong_at_the_start_is_shown(screen: Screen, tmp_path: Path) -> None:
    bad, odd = EntryStatus(), EntryStatus()
    bad.fail("nothing.graphql:9: no such line")
    odd.warn("no file matches '*.x'")
    screen.loaded([App("shop", tmp_path, entries={"graphqlSchema": bad, "static": odd})], 0.1)
    assert screen.take() == "not loaded shop\n  | nothing.graphql:9: no such line\nwarn shop: no file matches '*.x'"


def test_applications_that_come_and_go(screen: Screen, tmp_path: Path) -> None:
    app = App("shop", tmp_path)
    screen.reloaded(Reload(app, (), 0.002, kind="added", warnings=["odd"]))
    screen.reloaded(Reload(app, [f"{n}.py" for n in range(9)], 0.002))
    screen.reloaded(Reload(app, (), 0.0, kind="removed"))
    assert screen.take() == (
        "added shop in 2 ms\nwarn shop: odd\nreloaded shop in 2 ms: 0.py, 1.py, 2.py, 3.py, 4.py and 4 more files\nremoved shop"
    )


def test_entries_of_the_log(screen: Screen) -> None:
    screen.entry(INFO, "http", ("shop",), "printed\x1b[2J")
    screen.entry(WARN, "main", (), "first\nsecond")
    screen.entry(ERROR, "job", ("a", "b"), "bad")
    screen.entry(INFO, "http", ("http",), "GET / HTTP/1.1 200")
    screen.entry(WARN, "main", (), "authentication.authorizeLocal is on: requests from this machine are made as super user,")
    assert screen.take() == "shop: printed\\x1b[2J\nwarn first\nsecond\nerror a b: bad"


def test_a_traceback_of_the_log_is_set_apart(screen: Screen, tmp_path: Path) -> None:
    screen.loaded([App("shop", tmp_path)], 0.1)
    error = failing(tmp_path / "resources.py", "def f():\n    return 1 / 0\n")
    screen.entry(ERROR, "http", ("shop",), f"a task: {''.join(traceback.format_exception(error))}")
    shown = screen.take().splitlines()
    assert (
        shown[0] == "error shop: a task" and all(line.startswith("  | ") for line in shown[1:]) and "test_dev_screen" not in "".join(shown)
    )


def test_a_stream_that_is_closed_or_cannot_show_a_character_does_no_harm(screen: Screen) -> None:
    raw = io.BytesIO()
    narrow = DevScreen(io.TextIOWrapper(raw, encoding="ascii"), clock=FakeClock(), color=False)
    narrow.entry(INFO, "http", (), "żółw")
    assert raw.getvalue().endswith(b"\\u017c\\xf3\\u0142w\n")
    screen.out.close()
    screen.request(exchange(), 0.0)


def test_files_of_the_application_in_the_working_directory_have_their_plain_names(
    screen: Screen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    screen.loaded([App("shop", Path())], 0.1)
    screen.defect("GET /Broken/ (resources.py:1)", failing(tmp_path.resolve() / "resources.py", "def f():\n    return 1 / 0\n"))
    assert '\n  |   File "resources.py", line 2, in f\n' in screen.take()


def test_a_value_that_cannot_be_encoded_is_no_matter_of_what_svc_did_with_it(screen: Screen, tmp_path: Path) -> None:
    screen.loaded([App("shop", tmp_path)], 0.1)
    try:
        values.to_plain(object())
    except TypeError as error:
        screen.defect("GET /Broken/", error)
    assert screen.take() == "error GET /Broken/\n  | TypeError: a value of type object cannot be encoded"


def test_an_error_that_is_shown_again_is_named_not_its_notes(screen: Screen, tmp_path: Path) -> None:
    screen.loaded([App("shop", tmp_path)], 0.1)
    error = failing(tmp_path / "resources.py", "def f():\n    return 1 / 0\n")
    error.add_note("GET /Broken/\nand more")
    screen.defect("while streaming an answer", error)
    assert screen.take().endswith("\n  | ZeroDivisionError: division by zero\n  | GET /Broken/\n  | and more")
    screen.defect("while streaming an answer", error)
    assert screen.take().endswith(": ZeroDivisionError: division by zero")


def test_a_fault_of_yaml_is_shown_with_its_line(screen: Screen, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("rest: true\na: b: c\n")
    status = EntryStatus()
    status.fail("config.yaml: line 2, column 5: mapping values are not allowed here")
    screen.reloaded(Reload(App("shop", tmp_path), ["config.yaml"], 0.004, {"config": status}))
    assert screen.take().endswith("\n  | config.yaml: line 2, column 5: mapping values are not allowed here\n  |      2 | a: b: c")
