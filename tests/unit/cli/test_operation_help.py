"""Help on operations comes from the rows."""

import shlex

import pytest

from svc.cli import BY_NAME, main
from svc.cli.operation_arguments import PARAMETERS, read_arguments
from svc.cli.operation_help import command_line, operation_help, operations_text
from svc.operations.registry import all_operations
from tests.support.cli import JOB_ROW, ROW


def test_everything_a_row_says_is_shown() -> None:
    assert operation_help(ROW).splitlines() == [
        "svc paint wall=... [name=value ...]",
        "",
        "Paint a wall.",
        "Also called coat.",
        "",
        "Fields:",
        "  wall          The wall. (name, required)",
        "  colour/color  Its colour. (red | blue, default red)",
        "  coats         How often. (integer, default 1)",
        "  dry           Whether to wait. (true or false)",
        "  key           What opens the door. (text)",
        "  windows       What to leave out. (list)",
        "",
        "Permission: super users",
        "Answer: message",
        "",
        "Paint dries.",
        "",
        "- slowly",
        "- in winter",
        "",
        "Example:",
        "  svc paint wall=north windows='[\"a b\", 1]'",
        '    {"message": "painted"}',
        "",
        "Of the command line: " + ", ".join(f"{name}=" for name in PARAMETERS) + " (svc help operations)",
    ]


def test_jobs_say_how_they_are_waited_for() -> None:
    assert "wait=false" in operation_help(JOB_ROW)


@pytest.mark.parametrize("row", all_operations(), ids=lambda row: row.name)
def test_the_example_of_every_operation_can_be_typed(row: object) -> None:
    """Its command line, as a shell splits it, is the example again."""
    command, name, *words = shlex.split(command_line(row.name, row.example))  # type: ignore[attr-defined]
    assert (command, name) == ("svc", row.name)  # type: ignore[attr-defined]
    assert read_arguments(words, row, remote=True).body == dict(row.example)  # type: ignore[arg-type, attr-defined]


def test_texts_that_look_like_values_are_quoted() -> None:
    assert command_line("x", {"value": "12", "name": "it's", "empty": ""}) == "svc x value='\"12\"' name='it'\\''s' empty=''"


def test_every_operation_is_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    text = operations_text()
    assert main(["help", "operations"]) == 0
    assert capsys.readouterr().out == text + "\n"
    for row in (row for row in all_operations() if row.name not in BY_NAME):
        assert row.name in text
        for line in (["help", row.name], [row.name, "--help"], ["help", *row.aliases[:1]] if row.aliases else ["help", row.name]):
            assert main(line) == 0
            assert capsys.readouterr().out == operation_help(row) + "\n"
