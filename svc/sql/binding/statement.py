"""What the parts of one statement share while it is bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from svc.sql.binding.names import Labels, Names
from svc.sql.binding.walking import depth_of, walk
from svc.sql.catalogue import Catalogue, ColumnView, TableView
from svc.sql.errors import StatementTooLarge
from svc.sql.nodes import Expression

if TYPE_CHECKING:
    from svc.sql.binding.relations import Relation

# Beyond its text a statement grows by what `*` and USING stand for, and by aliases: each use of one is a copy of its expression.
MAX_COLUMNS = 20_000
MAX_COPIED = 20_000  # nodes
MAX_COPIED_DEPTH = 30  # levels; methods recurse, see limits.MAX_DEPTH
MAX_RELATIONS = 50  # that are built each on the one before: sub-selects behind FROM, tables of WITH


class Statement:
    """`text`: of the statement, "" for a tree that no text stands for. `given`: rows that the caller has, by the names of tables without a database."""

    def __init__(self, catalogue: Catalogue, given: Mapping[str, tuple[ColumnView, ...]], text: str) -> None:
        self.catalogue = catalogue
        self.text = text
        self.labels = Labels()  # of sources
        self.table_labels = Labels()  # of the tables of WITH
        self.views: dict[TableView, None] = {}
        self.given: Names[tuple[str, tuple[ColumnView, ...]]] = Names()
        for name, columns in given.items():
            self.given.add(name, (name, columns))
        self.relations: list[Relation] = []  # all queries, as they are bound
        self.takes_exact = False  # a function is called that needs exact faces of arguments
        self._columns = 0
        self._copied = 0
        self._sizes: dict[int, tuple[Expression, int]] = {}

    def count_columns(self, count: int, at: int) -> None:
        """Columns that stand in the tree for `*`, for USING, for NATURAL. Raises StatementTooLarge if there are too many."""
        self._columns += count
        if self._columns > MAX_COLUMNS:
            raise StatementTooLarge(f"*, USING and NATURAL stand for more than {MAX_COLUMNS} columns: name those that are needed", at)

    def count_copy(self, alias: str, value: Expression, at: int) -> None:
        """`value` stands in the tree once more, for its alias. Raises StatementTooLarge."""
        known = self._sizes.get(id(value))
        if known is None:
            if depth_of(value, MAX_COPIED_DEPTH) > MAX_COPIED_DEPTH:
                raise StatementTooLarge(
                    f"the alias {alias[:100]} stands for an expression of more than {MAX_COPIED_DEPTH} levels: use a sub-select", at
                )
            known = self._sizes[id(value)] = (value, sum(1 for _ in walk(value)))
        self._copied += known[1]
        if self._copied > MAX_COPIED:
            raise StatementTooLarge(
                f"the expressions that aliases stand for are large, and used often ({alias[:100]}): use a sub-select", at
            )
