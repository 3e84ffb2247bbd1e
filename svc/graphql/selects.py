"""Selected fields -> the selection of a query (spec: graphql §4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from svc.errors import Problem
from svc.graphql.conditions import LIST_OPTIONS, argument_values
from svc.graphql.faults import fault_at, with_location
from svc.graphql.list_options import list_query
from svc.graphql.selection import TYPE_NAME, Field
from svc.query import QueryCache
from svc.query.nodes import Query, Select, SelectItem
from svc.query.resolve import is_many, related_table
from svc.query.tables import AnyTable
from svc.store.schema import SCALAR_TYPES, Attribute

CONSTANT = ("$constant",)
UNTYPED = "Any"
"""The type name of objects of which nothing is declared."""


class TypeName(Protocol):
    def __call__(self, table: AnyTable, structure: str = "", /) -> str:
        """The name of the type of a table's records, or of a type that is embedded in them."""


class Selects:
    """Makes selections. `type_name`: of the records of a table. `variables`: of the operation. `queries`: parses conditions in the query language of URLs."""

    def __init__(self, type_name: TypeName, variables: Mapping[str, Any], queries: QueryCache, *, extended: bool) -> None:
        self._type_name = type_name
        self._variables = variables
        self._queries = queries
        self._extended = extended

    def of_table(self, fields: tuple[Field, ...], table: AnyTable, type_name: str | None = None) -> Select:
        """`type_name`: of the records, if that is not the table's. Raises Problem."""
        items = []
        for field in fields:
            if field.name == TYPE_NAME:
                items.append(self._constant(field, type_name or self._type_name(table)))
                continue
            attribute = table.attributes.get(field.name)
            if attribute is not None and attribute.relationship is not None:
                items.append(self._related(field, attribute, table))
            else:
                self._refuse_arguments(field)
                nested = None if field.nested is None else self._of_values(field.nested, attribute, table)
                items.append(SelectItem((field.name,), nested, alias=_alias(field)))
        return Select(tuple(items), nulls=True)

    def _related(self, field: Field, attribute: Attribute, table: AnyTable) -> SelectItem:
        target = related_table(table, attribute)
        nested = None if field.nested is None else self.of_table(field.nested, target)
        alias = _alias(field)
        if not field.arguments:
            return SelectItem((field.name,), nested, alias=alias)
        if not self._extended or not is_many(attribute, table):
            self._refuse_arguments(field)
        values, options = argument_values(field.arguments, self._variables, extended=True)
        if values:
            raise fault_at(field.node, f"A list below the top level takes {', '.join(sorted(LIST_OPTIONS))}, not '{next(iter(values))}'.")
        if options.get("_after") is not None:
            raise fault_at(field.node, "A list below the top level has no pages: _after cannot be used.")
        try:
            query = list_query(options, target, self._queries)
        except Problem as problem:
            raise with_location(problem, field.node) from None
        return SelectItem((field.name,), query=Query(query.where, nested, query.sort, query.offset, query.limit), alias=alias)

    def _of_values(self, fields: tuple[Field, ...], attribute: Attribute | None, table: AnyTable) -> Select:
        """A selection from nested objects, or from whatever else the attribute holds."""
        structure = None if attribute is None else next((each for each in table.definition.structures if each.name == attribute.type), None)
        declared = {} if structure is None else {each.name: each for each in structure.attributes}
        items = []
        for field in fields:
            self._refuse_arguments(field)
            if field.name == TYPE_NAME:
                is_scalar = attribute is None or attribute.type in SCALAR_TYPES
                items.append(self._constant(field, UNTYPED if is_scalar or attribute is None else self._type_name(table, attribute.type)))
                continue
            nested = None if field.nested is None else self._of_values(field.nested, declared.get(field.name), table)
            items.append(SelectItem((field.name,), nested, alias=_alias(field)))
        return Select(tuple(items), nulls=True)

    def _constant(self, field: Field, value: str) -> SelectItem:
        self._refuse_arguments(field)
        return SelectItem(CONSTANT, alias=field.key, constant=value)

    def _refuse_arguments(self, field: Field) -> None:
        if field.arguments:
            raise fault_at(field.arguments[0], f"'{field.name}' takes no arguments: conditions stand at the top level.")


def named(fields: tuple[Field, ...], table: AnyTable) -> Select:
    """The attributes that fields name, whatever their arguments are: for a check of rights."""
    items = []
    for field in fields:
        if field.name == TYPE_NAME:
            continue
        attribute = table.attributes.get(field.name)
        nested = None
        if field.nested is not None and attribute is not None and attribute.relationship is not None:
            nested = named(field.nested, related_table(table, attribute))
        items.append(SelectItem((field.name,), nested))
    return Select(tuple(items))


def has_arguments(fields: tuple[Field, ...] | None) -> bool:
    """Whether some field takes arguments, so that what is made of the fields depends on variables."""
    return any(field.arguments or has_arguments(field.nested) for field in fields or ())


def _alias(field: Field) -> str | None:
    return None if field.key == field.name else field.key
