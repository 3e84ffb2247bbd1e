"""Tokens of expressions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.sql.functions.jsonata.lexer import END, NAME, NUMBER, OPERATOR, TEXT, VARIABLE, pattern_at, tokenize
from svc.sql.functions.jsonata.values import Fault


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("abc", NAME, "abc"), ("äöü_1", NAME, "äöü_1"), ("`a b.c`", NAME, "a b.c"), ("``", NAME, ""), ("$abc", VARIABLE, "abc"), ("$", VARIABLE, ""),
        ("$$", VARIABLE, "$"), ("12", NUMBER, 12), ("0", NUMBER, 0), ("1.50", NUMBER, 1.5), ("5.0", NUMBER, 5), ("1e3", NUMBER, 1000), ("1E-2", NUMBER, 0.01),
        ("9007199254740993", NUMBER, 9007199254740993), ('"a\\"b"', TEXT, 'a"b'), ("'a\\'b'", TEXT, "a'b"), ("'\\u00e4\\n\\/'", TEXT, "ä\n/"),
        ("'ä\n'", TEXT, "ä\n"),
        ("'\\ud83d\\ude00'", TEXT, "😀"), ("'\\ud83d'", TEXT, "?"), ("'\\\\u0041'", TEXT, "\\u0041"), (":=", OPERATOR, ":="), ("**", OPERATOR, "**"),
        ("~>", OPERATOR, "~>"), ("..", OPERATOR, ".."),
        ("", END, ""), ("  /* a */ ", END, ""), (" /* a */ /**/ b", NAME, "b"), ("01", NUMBER, 0), ("1.", NUMBER, 1), ("1..2", NUMBER, 1),
    ],
)  # fmt: skip
def test_tokens(text: str, kind: int, value: object) -> None:
    token = tokenize(text)
    assert (token.kind, token.value) == (kind, value) and type(token.value) is type(value)


@pytest.mark.parametrize("text", ["'a", '"a', "`a", "!", "\\", "~", "/* a", "'\\x'", "1e999", "9" * 301 + "e1000", "\x00"])
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(Fault):
        token = tokenize(text)
        if token.kind == OPERATOR and token.value == "/":  # a comment that does not end
            pattern_at(text, token.at)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("/a/", ("a", "", 3)), ("/a\\/b/i + 1", ("a/b", "i", 7)), (r"/\d+/im", (r"\d+", "im", 7)), ("/[a]/", ("[a]", "", 5))],
)
def test_patterns(text: str, expected: tuple[str, str, int]) -> None:
    assert pattern_at(text, 0) == expected


@given(st.text(max_size=40))
def test_any_text_is_tokens_or_has_a_fault(text: str) -> None:
    at = 0
    try:
        while (token := tokenize(text, at)).kind != END:
            assert at <= token.at < token.end
            at = token.end
    except Fault as error:
        assert 0 <= error.position <= len(text)
