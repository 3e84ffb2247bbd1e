"""SQL: any text is a statement or a fault of it, printing is the inverse of parsing, SQLite reads the language in the same way, and what is hidden from a user
makes no difference.

An input is a text. Invariant, for any text:

1. `parse` returns a tree or raises a Problem with status 400 and a position in the text; nothing else.
2. What is parsed can be printed, and is parsed to the same tree again. The tree is no deeper than `limits` says. Result columns have names.
3. The engine has rows for it, or a Problem with a status below 500, for a user who may read some tables and attributes: the same ones whatever is stored in the
   others, and if they are not there.

And if it begins with a number and a space, for the statement that is made up from this number as seed, which is in SQLite's own language:

4. It is parsed if SQLite parses it, and SQLite does the same for it as for what is printed: its program, step by step, is equal.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from svc.sql.words import UNSUPPORTED, WORDS
from tests.support.sql_checks import check_against_sqlite, check_text
from tests.support.sql_engine_checks import EngineSource, check_engine
from tests.support.sql_texts import COLUMNS, TextSource

CORPUS = Path(__file__).parent / "corpus" / "sql"
SEED = re.compile(r"\d+ \Z")

TOKENS = [word.encode() for word in sorted(WORDS | UNSUPPORTED)] + [name.encode() for name in COLUMNS]
TOKENS += b"( ) , . ; + - * / % || | & ~ << >> < <= > >= = == <> != -> ->> => ? ?1 ?0 ?99999 :a @b $c 1 1.5 .5 1. 1e9 1e999 0x1F 0x 1_0 1__0 1a".split()
TOKENS += b"'a' ''' '' x'00' x'0' \"a\" \"\" `b` [c] [ ' \" ` -- /* */ ! # ^ : @ $ { } \\ \xc2\xa0 \xe2\x80\x9c \x00".split()
TOKENS += (b"\xef\xbb\xbf", b"\xc4\xb1", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80")
TOKENS += [b" " + token + b" " for token in TOKENS[:150]]
TOKENS += (
    b"TOP 5 ",
    b"TRIM(a FROM b)",
    b"CONVERT(INT, a)",
    b"DATE_ADD(a, 1, days)",
    b"COUNT(DISTINCT a)",
    b" IS NOT DISTINCT FROM ",
    b" ON CONFLICT DO NOTHING",
)
TOKENS += (b"(" * 60, b")" * 60, b" OR 1" * 60, b"+1" * 60, b"NOT " * 60, b"(SELECT " * 30, b",1" * 60)


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    kind = source.random()
    if kind < 0.4:
        return b"%d " % source.randrange(1 << 40)
    if kind < 0.5 and corpus:
        return mutate(source, source.choice(corpus), TOKENS)
    if kind < 0.6:
        return b" ".join(source.choice(TOKENS) for _ in range(source.randint(1, 30)))
    kind_of_source = EngineSource if source.random() < 0.8 else TextSource
    text = kind_of_source(source, dialect=True, depth=source.randint(1, 4)).statement().encode()
    return mutate(source, text, TOKENS) if source.random() < 0.7 else text


def check(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    check_text(text)
    check_engine(text)
    if SEED.match(text):
        check_against_sqlite(TextSource(random.Random(int(text))).statement())


if __name__ == "__main__":
    sys.exit(run("sql", generate, check, CORPUS))
