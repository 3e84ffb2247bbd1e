"""Nodes of a tree whose names are resolved, beside those of `svc.sql.nodes`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from svc.sql.binding.walking import PARTS
from svc.sql.catalogue import ColumnView, TableView
from svc.sql.functions import Function
from svc.sql.nodes import Call, Column, Expression, Literal, Parameter, TableRef

if TYPE_CHECKING:
    from svc.sql.binding.sources import SourceColumn


@dataclass(slots=True)
class ResolvedColumn(Column):
    """A column of SQLite: `table` is the label of its source, `name` what SQLite calls it. `column`: what was named; None for an exact face."""

    column: SourceColumn | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class BoundTable(TableRef):
    """A table of the store, by its names in SQLite."""

    view: TableView = field(default=cast(Any, None), compare=False, repr=False)

    def column(self, node: Expression) -> ColumnView | None:
        """Which column of this table `node` is, with either face; None if it is another."""
        if not isinstance(node, ResolvedColumn) or node.table != self.alias:
            return None
        return next((column for column in self.view.columns if node.name in (column.sql_name, column.exact_name)), None)


@dataclass(slots=True)
class BoundCall(Call):
    """`name`: in SQLite. `function`: what it calls."""

    function: Function | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class ExactParameter(Parameter):
    """A parameter whose value is given as `Decoding.EXACT` has it."""


@dataclass(slots=True)
class ExactLiteral(Literal):
    """The exact face of a constant: bytes that `encode_payload` has made."""


@dataclass(slots=True)
class GivenLiteral(Literal):
    """A literal that SQLite gets as a parameter where it can, because other statements have other values of its class in its place: nothing that is made of
    the statement depends on which it is."""


PARTS[ResolvedColumn] = PARTS[BoundTable] = PARTS[ExactParameter] = PARTS[ExactLiteral] = PARTS[GivenLiteral] = ()
PARTS[BoundCall] = PARTS[Call]
