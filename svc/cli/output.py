"""Results for people and for programs (spec: configuration §6.2).

On a terminal: lists of records as tables, other values as YAML, a lone message as it is. In a pipe: the JSON that the server sent.
`json=true` and `json=false` choose JSON and YAML wherever the output goes.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TextIO

from svc.cli.arguments import FAILED

if TYPE_CHECKING:
    from rich.console import Console

    from svc.cli.client import Answer

MIN_COLUMN = 8  # characters; a table whose columns would be narrower is shown as YAML, record by record
BORDERS = 3  # characters a column takes beside its content
MAX_TABLE_ROWS = 5_000  # a table is laid out as a whole; longer lists are YAML


class OutputStyle(Enum):
    """`HUMAN`: on a terminal."""

    HUMAN = "human"
    YAML = "yaml"
    JSON = "json"


def chosen_style(wants_json: bool | None, stream: TextIO | None = None) -> OutputStyle:
    """`json=true` and `json=false` as given, else by where the output goes."""
    if wants_json is not None:
        return OutputStyle.JSON if wants_json else OutputStyle.YAML
    return OutputStyle.HUMAN if (stream or sys.stdout).isatty() else OutputStyle.JSON


def show(value: Any, style: OutputStyle, console: Console | None = None) -> None:
    """Print a result. `console`: where tables go, for tests."""
    if style is OutputStyle.JSON:
        print(_json_text(value, for_people=sys.stdout.isatty()))
        return
    if style is OutputStyle.YAML or not _show_for_people(value, console):
        text = yaml_text(value)
        if console is None:
            print(text, end="")
        else:
            console.print(text, end="", markup=False, highlight=False, soft_wrap=True)


def _json_text(value: Any, *, for_people: bool) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2 if for_people else None)
    return printable_json(text) if for_people else text


def printable_json(text: str) -> str:
    """JSON with the control characters escaped that JSON allows in strings and terminals obey."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(character if character == "\n" or character.isprintable() else json.dumps(character)[1:-1] for character in text)


def copy_json(answer: Answer) -> None:
    """Copy the JSON of a response to standard output in chunks: a long result is never in memory as a whole."""
    stream = sys.stdout.buffer
    for piece in answer.chunks():
        stream.write(piece)
    stream.write(b"\n")
    stream.flush()


def _show_for_people(value: Any, console: Console | None) -> bool:
    """Print tables and messages; False for values that are better shown as YAML."""
    if isinstance(value, dict) and isinstance(value.get("message"), str) and len(value) == 1:
        value = value["message"]
    if isinstance(value, str):
        _print(printable(value, lines=True), console)
        return True
    if value == [] or value == {}:
        _print("(none)", console)
        return True
    if isinstance(value, list) and len(value) <= MAX_TABLE_ROWS and all(isinstance(row, dict) for row in value):
        return _show_table(value, console)
    return False


def _print(text: str, console: Console | None) -> None:
    if console is None:
        print(text)
    else:
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def _show_table(rows: Sequence[dict[str, Any]], console: Console | None) -> bool:
    """A table with a column per property, in the order they first appear; False if it would not be readable."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = console or Console()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if len(columns) * (MIN_COLUMN + BORDERS) > console.width or not columns:
        return False
    cells = [[_cell(row.get(name), name in row) for name in columns] for row in rows]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        is_number = all(isinstance(row.get(name), int | float) for row in rows if row.get(name) is not None)
        longest = max(len(row[number]) for row in cells)
        if longest > console.width and _is_structure(rows, name):
            return False  # nested values that fill the screen are easier to read as YAML
        table.add_column(
            Text(printable(name)), justify="right" if is_number else "left", overflow="fold", min_width=min(MIN_COLUMN, max(longest, 1))
        )
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)
    count = len(rows)
    console.print(f"{count} {'row' if count == 1 else 'rows'}", style="dim", highlight=False)
    return True


def _is_structure(rows: Sequence[dict[str, Any]], name: str) -> bool:
    return any(isinstance(row.get(name), dict | list) for row in rows)


def _cell(value: Any, given: bool) -> str:
    if isinstance(value, str):
        return printable(value)
    if value is None:
        return "null" if given else ""
    return printable(json.dumps(value, ensure_ascii=False))


def printable(text: str, *, lines: bool = False) -> str:
    """The text with control characters as escapes, for a value of a record must not command the terminal. `lines`: line ends and tabs stay.

    >>> printable("a\\x1b[2Jb\\n")
    'a\\\\x1b[2Jb\\\\n'
    """
    if text.isprintable():
        return text
    return "".join(_shown(character, lines) for character in text)


def _shown(character: str, lines: bool) -> str:
    if character.isprintable() or (lines and character in "\n\t"):
        return character
    category = unicodedata.category(character)
    return repr(character)[1:-1] if category[0] == "C" or category in ("Zl", "Zp") else character


# --- YAML ---------------------------------------------------------------------------------------------------------------------------------


def yaml_text(value: Any) -> str:
    """A value as YAML: strings of several lines as blocks, keys in their order, control characters escaped."""
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent_text(dumper: Any, text: str) -> Any:
        style = "|" if "\n" in text.rstrip("\n") and text.replace("\n", "").isprintable() else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent_text)
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
    if not text.replace(
        "\n", ""
    ).isprintable():  # YAML prints what turns the direction of writing, for example: then all but ASCII is escaped
        text = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=False, width=120)
    return text.removesuffix("...\n")


def milliseconds(seconds: float) -> str:
    """
    >>> milliseconds(0.00321), milliseconds(0.123), milliseconds(12.3)
    ('3.2 ms', '123 ms', '12.3 s')
    """
    if seconds >= 10:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def shows_color(stream: TextIO | None) -> bool:
    """By NO_COLOR, FORCE_COLOR, TERM, and what the stream is."""
    if stream is None:
        return False
    from rich.console import Console

    console = Console(file=stream)
    return console.color_system is not None and not console.no_color


def warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


def refuse(text: str) -> int:
    """Print why a request failed. Returns the exit status."""
    print(f"error: {printable(text, lines=True)}", file=sys.stderr)
    return FAILED
