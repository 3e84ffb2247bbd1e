"""What a text is cut into, however it arrives."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from svc.cli.sql.script import WINDOW, ScriptEntry, ScriptReader, is_complete, parameters_of, read_script

SCRIPT = """-- one; two
select 1 as `a;b`, "c;d", [e;f];;
  .mode csv
/* ; */ select ';' || 'it''s;' -- ; '
from data.t; update data.t
set a = 1; .read it's.sql
delete from data.t -- the end
"""
ENTRIES = [
    ScriptEntry('select 1 as `a;b`, "c;d", [e;f]', 2),
    ScriptEntry(".mode csv", 3),
    ScriptEntry("select ';' || 'it''s;' -- ; '\nfrom data.t", 4),
    ScriptEntry("update data.t\nset a = 1", 5),
    ScriptEntry(".read it's.sql", 6),
    ScriptEntry("delete from data.t -- the end", 7),
]


def test_statements_and_commands() -> None:
    assert list(read_script([SCRIPT])) == ENTRIES
    assert [entry.is_command for entry in ENTRIES] == [False, True, False, False, True, False]
    assert list(read_script([])) == list(read_script([" ; \n;-- x"])) == list(read_script(["/* x */ -- y"])) == []
    assert [entry.text for entry in read_script([".tables"])] == [".tables"]
    assert [entry.text for entry in read_script(["select 'a; b"])] == ["select 'a; b"]  # the server says what is wrong


@given(st.lists(st.integers(0, len(SCRIPT)), max_size=6))
def test_it_may_arrive_in_any_pieces(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(SCRIPT)]
    pieces = [SCRIPT[begin:end] for begin, end in itertools.pairwise(places)]
    assert list(read_script(pieces)) == ENTRIES
    assert list(read_script(SCRIPT)) == ENTRIES


@given(st.text(alphabet="a;'\"`[]-/*.\n $", max_size=30), st.integers(0, 30))
@example("/*;", 1)
def test_any_text_in_any_pieces(text: str, cut: int) -> None:
    assert list(read_script([text[:cut], text[cut:]])) == list(read_script([text]))


def test_long_statements() -> None:
    long = "select '" + "; " * WINDOW + "'"
    script = f"{long}; select 2;\n.mode csv\n" * 3
    expected = [long, "select 2", ".mode csv"] * 3
    assert [entry.text for entry in read_script([script])] == expected
    assert [entry.text for entry in read_script(script.splitlines(keepends=True))] == expected
    assert [entry.text for entry in read_script(script[at : at + 1000] for at in range(0, len(script), 1000))] == expected
    assert [entry.line for entry in read_script([script])] == [1, 1, 2, 3, 3, 4, 5, 5, 6]


def test_a_long_statement_is_not_read_again_for_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0

    def counting(text: str) -> object:
        nonlocal read
        read += len(text)
        return tokens_of(text)

    from svc.cli.sql.script import tokens_of

    monkeypatch.setattr("svc.cli.sql.script.tokens_of", counting)
    lines = ["select '\n", *["a line; of text\n"] * 20_000, "';\n"]
    assert len(list(read_script(lines))) == 1
    assert read < 8 * sum(map(len, lines))


@pytest.mark.parametrize("text", ["", "  \n", "select 1;", "select 1; -- one", ".mode csv", "select ';';\n.tables", "-- x"])
def test_complete(text: str) -> None:
    assert is_complete(text)


@pytest.mark.parametrize("text", ["select 1", "select ';", "select 1; select", "select 1 -- ;", "select `a;", "/* ;", "/* x */ select"])
def test_not_complete(text: str) -> None:
    assert not is_complete(text)


def test_a_reader_knows_whether_something_has_begun() -> None:
    reader = ScriptReader()
    reader.feed("select 1;\nsel")
    assert [entry.text for entry in reader.entries()] == ["select 1"]
    assert not reader.is_between
    reader.feed("ect 2;")
    assert list(reader.entries()) == [ScriptEntry("select 2", 2)]
    assert reader.is_between


def test_parameters() -> None:
    assert parameters_of("select ?, ?, ?9 from data.t where a = :a or b = $b or c = @a -- :no") == (9, {"a", "b"})
    assert parameters_of("select '?', \":x\"") == (0, set())
    assert parameters_of("select ?99999999999999999999") == (0, set())
