"""The invariant of `fuzz/fuzz_computed.py`, for texts that Hypothesis makes up and shrinks: any text, and expressions that are nearly right."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fuzz.fuzz_computed import CORPUS, TOKENS, check

FILES = sorted(CORPUS.iterdir())

names = st.sampled_from(("a", "b", "code", "place", "tags", "lines", "missing", "when", "big", "x"))
literals = st.sampled_from(("0", "1", "-1", "2.5", "'a'", "''", "None", "True", "[]", "{}", "[1, 'b']"))


def combined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(parts, st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "==", "<", ">=", "in", "and", "or", "if"]), parts).map(
            lambda found: f"({found[0]} if {found[2]} else {found[0]})" if found[1] == "if" else f"({' '.join(found)})"
        ),
        st.tuples(st.sampled_from(("len", "str", "int", "round", "min", "sum", "sorted", "any")), parts).map(
            lambda found: f"{found[0]}({found[1]})"
        ),
        st.tuples(parts, st.sampled_from((".hall", ".upper()", ".split()", ".items()", "[0]", "[1:]", ".count(1)", ".zfill(9)"))).map(
            "".join
        ),
        st.tuples(parts, parts, parts).map(lambda found: f"[{found[0]} for x in {found[1]} if {found[2]}]"),
        st.tuples(parts, parts).map(lambda found: f"{{{found[0]}: {found[1]}}}"),
        parts.map(lambda found: "f'{" + found.replace("'", '"') + "}'"),
        st.lists(parts, min_size=2, max_size=3).map(lambda found: f"[{', '.join(found)}]"),
    )


expressions = st.recursive(names | literals, combined, max_leaves=8)


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_what_was_found_before(path: object) -> None:
    check(path.read_bytes())  # type: ignore[attr-defined]


@given(st.text(max_size=60))
@example("a" * 5000)
@example("\ud800")
def test_any_text(text: str) -> None:
    check(text.encode("utf-8", "surrogatepass"))


@given(st.lists(st.sampled_from(TOKENS), max_size=12).map(b" ".join))
def test_any_sequence_of_tokens(data: bytes) -> None:
    check(data)


@given(expressions)
def test_expressions(text: str) -> None:
    check(text.encode())
