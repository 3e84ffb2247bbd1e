"""Errors of names and of what is not possible where it is written (spec: sql §7). Called only after an error."""

from __future__ import annotations

from collections.abc import Iterable

from svc.errors import QueryError
from svc.query.hints import did_you_mean
from svc.sql.binding.scopes import Scope
from svc.sql.binding.sources import Source
from svc.sql.catalogue import Catalogue
from svc.sql.errors import MissingRights, ambiguous_column, unknown_column
from svc.sql.nodes import Column

SHOWN = 100  # characters of a name in a message


def misuse(message: str, at: int | None) -> QueryError:
    """What cannot stand where it does."""
    return QueryError(message, code="QUERY_SYNTAX", position=None if at == -1 else at)


def no_column(catalogue: Catalogue, scope: Scope, node: Column) -> Exception:
    """No source has this column."""
    sources = list(_sources_around(scope))
    hint = ""
    if node.table:
        named = [found for each in _scopes_around(scope) for found in each.called(node.table, node.database)]
        if not named:
            return unknown_column(_shown(node), _for_table(node.table, sources), _at(node))
        sources = named
    fault = without_rights(catalogue, sources, node.name, node.at)
    if fault is not None:
        return fault
    hint = did_you_mean(node.name, [name for source in sources for name in source.names()])
    if not hint and node.is_quoted and not node.table:
        hint = "texts stand in single quotes"
    return unknown_column(_shown(node), hint, _at(node))


def without_rights(catalogue: Catalogue, sources: Iterable[Source], name: str, at: int) -> Exception | None:
    """The error for a column that one of the tables has, but the caller may not read."""
    for source in sources:
        for view in source.views():
            fault = catalogue.column_missing(view, name, at)
            if isinstance(fault, MissingRights):
                return fault
    return None


def _for_table(name: str, sources: list[Source]) -> str:
    for source in sources:
        if any(view.table.name.casefold() == name.casefold() for view in source.views()):
            return f'this table is called "{source.alias}" here'
    return did_you_mean(name, [source.alias for source in sources if source.alias])


def not_unique(node: Column) -> QueryError:
    return ambiguous_column(_shown(node), _at(node))


def _at(node: Column) -> int | None:
    return None if node.at < 0 else node.at


def _shown(node: Column) -> str:
    return ".".join([name if len(name) <= SHOWN else f"{name[:SHOWN]}..." for name in (node.database, node.table, node.name) if name])


def _scopes_around(scope: Scope | None) -> Iterable[Scope]:
    while scope is not None:
        yield scope
        scope = scope.outer


def _sources_around(scope: Scope) -> Iterable[Source]:
    for each in _scopes_around(scope):
        yield from each.sources()
