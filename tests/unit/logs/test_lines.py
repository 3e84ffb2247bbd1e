"""The text of entries, and that none can be forged."""

import pytest

from svc.logs.lines import MAX_TRACEBACK, START, message_text, prefix, tag_text, timestamp

FORGED = "2026-01-05T10:00:00.123Z [main/0] [notify]: all is well"


def test_a_prefix_is_recognised_by_its_reader() -> None:
    line = f"{timestamp(1_767_607_200.0)} {prefix('http', 3, 'info', ('operation', 'shop'))}text: more"
    match = START.match(line)
    assert match is not None
    assert match.groups() == ("2026-01-05T10:00:00.000Z", "http", "3", "info", " [operation] [shop]")
    assert line[match.end() :] == "text: more"


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\r", "\n\n"])
@pytest.mark.parametrize("forged", [FORGED, "[main/0] [notify]: all is well"])
def test_no_line_of_a_message_looks_like_an_entry(separator: str, forged: str) -> None:
    text = message_text((f"name{separator}{forged}{separator}{forged}",))
    assert [line for line in text.split("\n")[1:] if line.startswith(("2026", "["))] == []
    assert text.count(" " + forged) == 2
    assert "\r" not in text


def test_ordinary_lines_stay_as_they_are() -> None:
    assert message_text(("a\n  b\n[not a prefix]\n2026-01-05 c\n",)) == "a\n  b\n[not a prefix]\n2026-01-05 c"
    assert message_text((FORGED,)) == FORGED  # behind the real prefix it deceives nobody


def test_messages_are_joined() -> None:
    assert message_text(("rows", 3, None, 1.5, True)) == "rows 3 None 1.5 True"
    assert message_text(({"a": "ü", "b": [1, {2}]}, [1])) == '{"a":"ü","b":[1,"{2}"]} [1]'
    assert message_text(()) == ""


def test_what_has_no_json_is_shown_as_python_shows_it() -> None:
    circle: dict[str, object] = {}
    circle["self"] = circle
    assert message_text((circle,)) == "{'self': {...}}"


def test_an_exception_is_its_traceback() -> None:
    try:
        raise ValueError(f"bad\n{FORGED}")
    except ValueError as error:
        text = message_text((error,))
    assert text.startswith("Traceback (most recent call last):\n")
    assert text.endswith(f"ValueError: bad\n {FORGED}")


def test_the_middle_of_an_endless_recursion_is_left_out() -> None:
    def first() -> None:
        second()

    def second() -> None:
        first()

    try:
        first()
    except RecursionError as error:
        text = message_text((error,))
    lines = text.splitlines()
    assert len(lines) == MAX_TRACEBACK + 1
    assert lines[0] == "Traceback (most recent call last):" and lines[-1].startswith("RecursionError:")
    assert any(line.startswith("  ... ") and line.endswith(" lines ...") for line in lines)


def test_tags_cannot_contain_their_delimiters() -> None:
    assert tag_text("my app]\n[x") == "my_app_x"
