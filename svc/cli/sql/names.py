"""What can stand at the cursor: keywords, functions, databases, tables, columns, commands of the shell. Knows no terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from svc.cli.sql.schema import Schema, SchemaTable
from svc.sql.functions import FUNCTIONS
from svc.sql.lexer import tokens_of
from svc.sql.words import ALIASES, NAMES, WORDS

# CURRENT_DATE and the like are words, and stand without parentheses. CAST and CONVERT have a syntax of their own.
_FUNCTION_NAMES = sorted([*(function.name for name, function in FUNCTIONS.items() if name not in WORDS), "CAST", "CONVERT"], key=str.upper)

_NAME = r"(?:[\w$]+|`[^`]*`|\[[^\]]*\]|\"[^\"]*\")"
_PATH = re.compile(rf"((?:{_NAME}\.){{0,2}})([\w$]*|[`\[\"][\w$ ]*)$")
_PLAIN = re.compile(r"[^\W\d][\w$]*", re.ASCII)
_NEAR = 300  # characters before the cursor in which the name begins that stands there
_CLAUSES = frozenset(
    ("FROM", "JOIN", "INTO", "UPDATE", "SELECT", "WHERE", "ON", "SET", "BY", "HAVING", "VALUES", "LIMIT", "USING", "RETURNING")
)
_BEFORE_TABLES = frozenset(("FROM", "JOIN", "INTO", "UPDATE"))


@dataclass(frozen=True, slots=True)
class Candidate:
    """`text`: to put in place of the last `replaced` characters before the cursor. `kind`: what it is, for people."""

    text: str
    replaced: int
    kind: str


def quoted(name: str) -> str:
    """A name as it is written in a statement.

    >>> quoted("Flight"), quoted("order"), quoted("my table")
    ('Flight', '`order`', '`my table`')
    """
    is_plain = _PLAIN.fullmatch(name) is not None and (name.upper() not in WORDS or name.upper() in NAMES)
    return name if is_plain else "`" + name.replace("`", "``") + "`"


def candidates(before: str, behind: str, schema: Schema) -> Iterator[Candidate]:
    """What the text before the cursor may go on with; `behind` it a statement may name its tables. Nothing within texts and comments."""
    path = _PATH.search(before, max(len(before) - _NEAR, 0))
    assert path is not None
    tokens, kinds, starts = tokens_of(before[: path.start()])
    if "unclosed" in kinds or path[2][:1].isdecimal():
        return
    del kinds[len(tokens) - 1 :]
    qualifiers = [bare(part) for part in re.findall(_NAME, path[1])]
    begun = path[2].lstrip('`["').lower()
    statement = starts[len(kinds) - kinds[::-1].index(";")] if ";" in kinds else 0
    used = tables_used(f"{before[statement : path.start()]} {behind}", schema)
    for name, text, kind in _names(qualifiers, used, schema, is_table=_is_at_table(kinds)):
        if name.lower().startswith(begun):
            yield Candidate(text, len(path[2]), kind)
    if begun and not qualifiers and path[2][0] not in '`["':
        yield from _words(path[2])


def _words(begun: str) -> Iterator[Candidate]:
    """Keywords and functions, in the case in which they were begun; `geoArea` as it is."""
    case = str.lower if begun.islower() else str.upper
    for word in sorted(WORDS):
        if word.startswith(begun.upper()):
            yield Candidate(case(word), len(begun), "keyword")
    for name in _FUNCTION_NAMES:
        if name.upper().startswith(begun.upper()):
            yield Candidate(f"{case(name) if name.isupper() else name}(", len(begun), "function")


def _names(qualifiers: list[str], used: Mapping[str, SchemaTable], schema: Schema, *, is_table: bool) -> Iterator[tuple[str, str, str]]:
    """(name, how it is written, what it is)"""
    if len(qualifiers) == 2:
        yield from _columns(schema.find(*qualifiers))
    elif qualifiers:
        yield from _columns(used.get(qualifiers[0].lower()))
        for name in schema.databases.get(qualifiers[0], ()):
            yield name, quoted(name), "table"
    elif is_table:
        for database in schema.databases:
            yield database, f"{quoted(database)}.", "database"
        for table in schema.tables():
            yield table.name, f"{quoted(table.database)}.{quoted(table.name)}", "table"
    else:
        seen: dict[str, tuple[str, str, str]] = {}
        for name, table in used.items():
            seen.setdefault(name, (name, name, f"{table.database}.{table.name}"))
        for table in used.values():
            seen.update({found[0]: found for found in _columns(table) if found[0] not in seen})
        yield from seen.values()


def _columns(table: SchemaTable | None) -> Iterator[tuple[str, str, str]]:
    for column in () if table is None else table.columns:
        yield column.name, quoted(column.name), column.type


def _is_at_table(kinds: list[str]) -> bool:
    """Whether a table is named behind these tokens."""
    clause = next((kind for kind in reversed(kinds) if kind in _CLAUSES), "")
    return clause in _BEFORE_TABLES and (kinds[-1] == clause or kinds[-1] == ",")


def bare(name: str) -> str:
    """A name without its quotes."""
    return name if name[:1] not in ("`", "[", '"') else name[1:-1].replace(name[0] * 2, name[0])


def tables_used(text: str, schema: Schema) -> dict[str, SchemaTable]:
    """Alias, or name, in lower case -> table, of the tables that a statement names."""
    tokens, kinds, _ = tokens_of(text)
    found = {}
    for index, token in enumerate(tokens):
        if token != "." or index == 0:
            continue
        table = schema.find(bare(tokens[index - 1]), bare(tokens[index + 1]))
        if table is not None:
            alias = index + 3 if kinds[index + 2] == "AS" else index + 2
            is_alias = kinds[alias] == "name" or (kinds[alias] in ALIASES and kinds[alias] != "text")
            found[(bare(tokens[alias]) if is_alias else table.name).lower()] = table
    return found
