"""What a user may not read makes no difference to any answer: the same statement of stores that differ in it only (spec: sql §6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from svc.errors import Problem
from tests.support.profile import half_by_day
from tests.support.sql_pair import KINDS
from tests.support.sql_rights import Twins, twins_of
from tests.support.sql_statements import DEFINITIONS, Scope, Statements

HIDDEN: dict[str, Any] = {"Author": ("born", "active"), "Book": ("title", "price", "tags"), "Loose": ...}
READ = {"Author": ("name", "rating"), "Book": ("author", "year", "published")}
# Names that differ in case from hidden ones, and what is known to nobody: told as hidden ones are.
NAMES = (
    "born",
    "BORN",
    "Active",
    "title",
    "price",
    "tags",
    "rowid",
    "borm",
    "authr",
    "id",
    "name",
    "Name",
    "rating",
    "author",
    "year",
    "published",
)
_ROLE = {"read": True, "insert": True, "update": True, "delete": True}
PERMISSIONS = {
    table: _ROLE | {"attribute_permissions": [{"attribute_name": name, "read": True, "insert": True, "update": True} for name in names]}
    for table, names in READ.items()
}


class RestrictedStatements(Statements):
    """Most of what they name may be read, so that many of them are answered."""

    def source(self, depth: int, is_joined: bool = False) -> tuple[str, Scope]:
        text, scope = super().source(depth, is_joined)
        if self.chance(3):
            return text, scope
        return (text, self._known(text, scope)) if "data.Loose" not in text else self.source(depth, is_joined)

    def _known(self, text: str, scope: Scope) -> Scope:
        for table, names in READ.items():
            if text.startswith(f"data.{table} AS "):
                return Scope([column for column in scope.columns if column[0].partition(".")[2] in (*names, "id") or self.chance(1)])
        return scope

    def write(self) -> str:
        """One that writes to a table of which some may be read."""
        table = self.pick(("Author", "Book")) if self.chance(95) else "Loose"
        scope = Scope([(f"{table}.{name}", "any") for name in (*READ.get(table, ("a", "b")), "id")])
        returning = self.pick(("", "", " RETURNING *", f" RETURNING {self.written(table)}", f" RETURNING {self.text(scope, 1)}"))
        where = f" WHERE {self.condition(scope, 2)}" if self.chance(70) else ""
        kind = self.count(0, 4)
        if kind == 0:
            return f"DELETE FROM data.{table}{where}{returning}"
        column = self.written(table)
        value = f"{table}.{column}" if self.chance(50) else self.pick(("NULL", "1", f"LENGTH({table}.{self.written(table)})"))
        if kind == 1:
            return f"UPDATE data.{table} SET {column} = {value}{where}{returning}"
        if kind == 2:
            key = "10 + id" if table == "Book" else "'x' || id"
            return f"INSERT INTO data.{table} (id, {column}) SELECT {key}, {column} FROM data.{table} {where}{returning}"
        key = self.pick(("0", "1", "9")) if table == "Book" else self.pick(("'k0'", "'k1'", "'k9'"))
        text = f"INSERT INTO data.{table} (id, {column}) VALUES ({key}, NULL)"
        if kind == 3:
            return text + self.pick(("", " ON CONFLICT DO NOTHING", f" ON CONFLICT ({self.pick(NAMES)}) DO NOTHING")) + returning
        met = f"excluded.{column}" if self.chance(50) else value
        return f"{text} ON CONFLICT DO UPDATE SET {column} = {met}{where}{returning}"

    def written(self, table: str) -> str:
        return str(self.pick(READ.get(table, ("a",)) if self.chance(92) else NAMES))


@st.composite
def asked(draw: Any) -> tuple[str, bool]:
    """(a statement, whether its plan is wanted)"""
    source = RestrictedStatements(draw)
    return source.write() if source.chance(30) else source.statement(), source.chance(20)


@st.composite
def records(draw: Any) -> tuple[dict[str, list[dict[str, Any]]], dict[str, list[dict[str, Any]]]]:
    """Of two stores: what may be known is the same."""
    found: tuple[dict[str, list[dict[str, Any]]], dict[str, list[dict[str, Any]]]] = ({}, {})
    for table, kinds in KINDS.items():
        hidden = HIDDEN[table]
        counts = [draw(st.integers(0, 6))] * 2 if hidden is not ... else [draw(st.integers(0, 6)), draw(st.integers(0, 6))]
        for place in range(2):
            found[place][table] = []
            for number in range(counts[place]):
                row = {"id": number if table == "Book" else f"k{number}"}
                for name, kind in kinds.items():
                    if name != "id":
                        is_known = place == 1 and hidden is not ... and name not in hidden
                        row[name] = found[0][table][number].get(name) if is_known else draw(kind)
                found[place][table].append({name: value for name, value in row.items() if value is not None})
    return found


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    definitions = [replace(definition, dynamic=False) for definition in DEFINITIONS]
    with twins_of(tmp_path_factory.mktemp("twins"), definitions, HIDDEN, PERMISSIONS) as made:
        yield made


# Each example is 20 statements, and the error names the one that fails: nothing is made smaller, which would take minutes.
@settings(max_examples=half_by_day(30), phases=(Phase.explicit, Phase.generate))
@given(records(), st.lists(asked(), min_size=20, max_size=20))
def test_what_is_hidden_makes_no_difference(twins, stored, statements):
    twins.fill(*stored)
    for text, is_explained in statements:
        answer = twins.ask(text, explain=is_explained)
        assert not isinstance(answer, Problem) or answer.status_code < 500, text
