"""svc.cli.own_traceback: what of a traceback an author is shown."""

from __future__ import annotations

import traceback

from svc.cli.own_traceback import MAX_LINES, own_traceback

INSIDE = __file__.replace("tests/unit/cli/test_own_traceback.py", "svc/rest/rest.py")


def failing(filename: str, code: str) -> BaseException:
    """The error of code that seems to be in a file, called by code of svc."""
    space: dict[str, object] = {}
    exec(compile(code, filename, "exec"), space)
    outer: dict[str, object] = {"call": space["f"]}
    exec(compile("def g():\n    call()\n", INSIDE, "exec"), outer)
    try:
        outer["g"]()  # type: ignore[operator]
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def shown(error: BaseException) -> list[str]:
    text = own_traceback("".join(traceback.format_exception(error)), lambda name: name.startswith("/shop/"))
    return [line for line in text.split("\n") if line.startswith("  File") or not line.startswith(" ")]


def test_it_begins_with_the_applications_first_line() -> None:
    assert shown(failing("/shop/a.py", "def f():\n    1 / 0\n")) == [
        "Traceback (most recent call last):",
        '  File "/shop/a.py", line 2, in f',
        "ZeroDivisionError: division by zero",
    ]


def test_both_errors_of_a_chain_are_cut() -> None:
    lines = shown(
        failing(
            "/shop/a.py",
            "def f():\n    try:\n        1 / 0\n    except ZeroDivisionError as error:\n        raise KeyError('x') from error\n",
        )
    )
    assert [line for line in lines if "Error" in line] == ["ZeroDivisionError: division by zero", "KeyError: 'x'"]
    assert not any("rest.py" in line for line in lines)


def test_an_error_without_a_line_of_the_application_is_shown_as_it_is() -> None:
    lines = shown(failing("/elsewhere/a.py", "def f():\n    1 / 0\n"))
    assert any("rest.py" in line for line in lines) and any("elsewhere" in line for line in lines)


def test_the_middle_of_a_very_long_one_is_left_out() -> None:
    text = (
        "Traceback (most recent call last):\n"
        + "".join(f'  File "/shop/a.py", line {n}, in f{n}\n' for n in range(5000))
        + "KeyError: 'x'\n"
    )
    lines = own_traceback(text, lambda name: True).split("\n")
    assert len(lines) == MAX_LINES + 1 and lines[-1] == "KeyError: 'x'"


def test_messages_of_several_lines_stay() -> None:
    error = failing("/shop/a.py", "def f():\n    raise ValueError('first\\n    second\\n  third')\n")
    text = own_traceback("".join(traceback.format_exception(error)), lambda name: name.startswith("/shop/"))
    assert text.endswith("ValueError: first\n    second\n  third")
