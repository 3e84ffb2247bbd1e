from __future__ import annotations

import pytest

from svc.sql.lexer import tokens_of
from svc.sql.words import WORDS

MARKS = "-> ->> < <= << <> > >= >> = == != | || - + * / % & ~ ( ) , . ;"


def cut(text: str) -> list[tuple[str, str]]:
    """Kinds and tokens, without the end."""
    tokens, kinds, starts = tokens_of(text)
    assert len(tokens) == len(starts) and kinds[len(tokens) - 1] == tokens[-1] == "" and starts[-1] == len(text)
    for token, start in zip(tokens, starts, strict=True):
        assert text.startswith(token, start)
    return list(zip(kinds, tokens, strict=False))[:-1]


def kinds_of(text: str) -> list[str]:
    return [kind for kind, _ in cut(text)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *((name, "name") for name in ("a", "_a1", "a$b", "é", "हिन्दी", "日本", "😀", "e\u0301", "x", "xa", "lımit", "TABLE", "date")),
        *((number, "number") for number in ("0", "10", "1.5", ".5", "5.", "1e5", "1.e-5", ".5E+10", "0x1F", "1_000", "1_0.0_1", "1a", "1e", "0x")),
        *((text, "text") for text in ("''", "'a'", "'it''s'", "''''", "'a\nb'", "'--'", "'\0'")),
        *((name, "quoted") for name in ('"a"', '"a""b"', '""', "`a`", "`a``b`", "[a b]", "[a[b]", '"\'"')),
        *((blob, "blob") for blob in ("x''", "X'00ff'", "x'zz'")),
        *((name, "parameter") for name in ("?", "?1", ":a", "@a", "$a", ":1", ":é")),
        *((mark, mark) for mark in MARKS.split()),
        *((mark, "illegal") for mark in ("!", "#", "^", ":", "@", "$", "{", "\\", "\0", "“", "’", "\ufeff", "\u200b", "\x7f")),
        *((text, "unclosed") for text in ("'", "'a", "'a''", '"', '"a""', "`a", "[a", "x'00", "/*", "/* *", "/*/", "/* ' ", "'--")),
    ],
)  # fmt: skip
def test_single_tokens(text: str, kind: str) -> None:
    assert cut(text) == [(kind, text)]
    assert cut(f" \t{text}") == [(kind, text)]


@pytest.mark.parametrize("word", sorted(WORDS))
def test_words_in_any_case(word: str) -> None:
    assert kinds_of(f"{word} {word.lower()} {word.title()}") == [word] * 3
    assert kinds_of(f'{word}1 _{word} "{word}"') == ["name", "name", "quoted"]


def test_comments_and_blanks_are_left_out() -> None:
    assert kinds_of("a--b\n+ /* 'c' */ b -- d") == ["name", "+", "name"]
    assert kinds_of("/**/a/***/b/*-- */") == ["name", "name"]
    assert kinds_of("a\u00a0\u3000\r\n\f\vb") == ["name", "name"]
    assert kinds_of("") == kinds_of(" -- only this") == []


def test_only_the_last_token_can_be_unclosed() -> None:
    assert kinds_of("'a' 'b") == ["text", "unclosed"]
    assert kinds_of("'a /* b") == ["unclosed"]
    assert kinds_of("a /* b") == ["name", "unclosed"]
    assert kinds_of("/* a */ /* b") == ["unclosed"]


def test_tokens_without_blanks_between_them() -> None:
    assert kinds_of("a.b,c.*") == ["name", ".", "name", ",", "name", ".", "*"]
    assert kinds_of("a->>'b'->1<>2<<3<=4>=5>>6==7!=8||9") == [
        "name", "->>", "text", "->", "number", "<>", "number", "<<", "number", "<=", "number", ">=", "number", ">>", "number", "==", "number", "!=",
        "number", "||", "number",
    ]  # fmt: skip
    assert kinds_of("a--1") == ["name"]
    assert kinds_of("1-1-+1") == ["number", "-", "number", "-", "+", "number"]
    assert kinds_of("t.5") == ["name", "number"]
    assert kinds_of("xx'00'x '00'") == ["name", "text", "name", "text"]
    assert kinds_of("a::b") == ["name", "illegal", "parameter"]


@pytest.mark.parametrize(
    "mark", ["'", '"', "`", "[", "/*", "--", "(", "a ", "1 ", "x'", "''", '""', "/", "-", ".", "?", "$", "1.", "1_", "1e", "e", "!", "é"]
)
def test_no_text_takes_longer_than_its_length(mark: str) -> None:
    """It would hang, if anything were looked at again and again."""
    cut(mark * (200_000 // len(mark)))
