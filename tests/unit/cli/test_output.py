"""What results look like on a terminal, as YAML, in a pipe."""

import io
import json
import sys
from typing import Any

import pytest
import yaml
from rich.console import Console

from svc.cli.output import OutputStyle, chosen_style, copy_json, printable, show, shows_color, yaml_text
from tests.support.cli import FakeAnswer


def shown(value: Any, width: int = 60) -> str:
    """As a terminal of this width shows it, without the spaces that fill lines."""
    stream = io.StringIO()
    show(value, OutputStyle.HUMAN, Console(file=stream, width=width, color_system=None))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_style_follows_the_wish_and_then_the_place() -> None:
    assert chosen_style(None, Terminal()) is OutputStyle.HUMAN
    assert chosen_style(None, io.StringIO()) is OutputStyle.JSON
    for stream in (Terminal(), io.StringIO()):
        assert chosen_style(True, stream) is OutputStyle.JSON
        assert chosen_style(False, stream) is OutputStyle.YAML


def test_lists_of_records_are_tables() -> None:
    records = [{"id": 1, "name": "fern"}, {"id": 20, "tags": ["a", {"b": 1}], "name": None}]
    assert shown(records).splitlines() == [
        "",
        " id   name   tags",
        " ───────────────────────────",
        "  1   fern",
        ' 20   null   ["a", {"b": 1}]',
        "",
        "2 rows",
    ]
    assert shown([{"id": 1}]).endswith("1 row")


def test_long_values_are_folded_and_never_cut() -> None:
    text = "word" * 40
    assert "".join(shown([{"id": 1, "text": text}]).split()).count("word") == 40


def test_too_many_columns_are_yaml() -> None:
    record = {f"attribute{n}": n for n in range(8)}
    assert yaml.safe_load(shown([record])) == [record]
    assert "─" not in shown([record])


def test_large_structures_are_yaml() -> None:
    users = [{"username": "ann", "role": {"permission": {f"table{n}": {"read": True} for n in range(9)}}}]
    assert yaml.safe_load(shown(users)) == users


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"message": "database 'dev' successfully created"}, "database 'dev' successfully created"),
        ("text", "text"),
        ([], "(none)"),
        ({}, "(none)"),
        ({"a": [1, "x"], "b": {"c": None}}, "a:\n- 1\n- x\nb:\n  c: null"),
        ({"message": "x", "job_id": "1"}, "message: x\njob_id: '1'"),
        ([1, "a"], "- 1\n- a"),
        (7, "7"),
        ([{}], "- {}"),
    ],
)
def test_other_values(value: Any, text: str) -> None:
    assert shown(value) == text


def test_markup_of_the_terminal_library_in_values_is_text() -> None:
    assert "[red]x[/]" in shown([{"a": "[red]x[/]"}])
    assert shown("[bold]x") == "[bold]x"


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\x9b31m", "\r", "\x07", "a\u2028b", "\u202e", "\x7f"])
def test_values_cannot_command_the_terminal(hostile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    for value in ([{"a": hostile, hostile: 1, "c": [hostile]}], {"a": hostile, hostile: [hostile]}, hostile, {"message": hostile}):
        for style in OutputStyle:
            stream.truncate(0)
            stream.seek(0)
            console = Console(file=stream, width=80, color_system=None) if style is OutputStyle.HUMAN else None
            show(value, style, console)
            said = stream.getvalue()
            assert all(character.isprintable() or character == "\n" for character in said), said
            if style is OutputStyle.JSON:
                assert json.loads(said) == value
            elif style is OutputStyle.YAML:
                assert yaml.safe_load(said) == value


def test_yaml_keeps_order_and_shows_long_texts_as_blocks() -> None:
    value = {"z": 1, "a": "one\ntwo\n", "n": 12345678901234567890, "t": "true", "u": "grün"}
    text = yaml_text(value)
    assert text == "z: 1\na: |\n  one\n  two\nn: 12345678901234567890\nt: 'true'\nu: grün\n"
    assert yaml.safe_load(text) == value
    same = [1]
    assert "&" not in yaml_text({"a": same, "b": same})
    assert yaml_text("x") == "x\n"


def test_json_is_on_one_line_in_a_pipe_and_on_several_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show({"a": "ü"}, OutputStyle.JSON)
    assert capsys.readouterr().out == '{"a": "ü"}\n'
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    show({"a": "ü"}, OutputStyle.JSON)
    assert stream.getvalue() == '{\n  "a": "ü"\n}\n'


def test_json_goes_through_a_pipe_as_it_came(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    copy_json(FakeAnswer(content=b'{"a":1.50,"a":2}'))  # type: ignore[arg-type]
    assert capfdbinary.readouterr().out == b'{"a":1.50,"a":2}\n'


def test_printable_keeps_what_can_be_read() -> None:
    assert printable("a b ü 日本 \u00a0") == "a b ü 日本 \u00a0"
    assert printable("a\nb\tc", lines=True) == "a\nb\tc"
    assert printable("a\nb\tc") == "a\\nb\\tc"


@pytest.mark.parametrize(
    ("stream", "variables", "color"),
    [
        (Terminal(), {"TERM": "xterm-256color"}, True),
        (Terminal(), {"TERM": "xterm-256color", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm-256color"}, False),
    ],
)
def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, variables: dict[str, str], color: bool) -> None:
    for name in ("NO_COLOR", "TERM", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert shows_color(stream) is color
