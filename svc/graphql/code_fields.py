"""A top-level field of a resource with code of an application (spec: graphql §4): its handler is called as REST calls it, and what it returns is selected from
here, for a handler may answer with anything.

    nothing but the key  GET of that record, with the selection in its query
    a table's class      the collection, by a query object with the conditions and the selection, as QUERY has it; with options of a list as GET
    a class without one  GET with conditions and selection in its query
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

from svc.awaitables import then
from svc.content.json_type import encode_plain
from svc.content.values import json_form
from svc.errors import Problem, QueryError, ServerError
from svc.graphql.conditions import Path, argument_values, nested_mapping, table_conditions
from svc.graphql.faults import fault_at
from svc.graphql.list_options import list_query
from svc.graphql.selection import TYPE_NAME, Field
from svc.graphql.selects import UNTYPED
from svc.http.row_stream import narrow
from svc.messages import Request, Response
from svc.query.mapping_members import MAX_ROWS
from svc.query.nodes import Comparator, Condition, Conversion, Filter, Group, Query, Select, SelectItem
from svc.query.printer import print_query
from svc.query.resolve import related_table
from svc.query.tables import AnyTable
from svc.resources import RequestTarget, Resource, StoredRecord, TableResource
from svc.resources.resource import NullableValue, StreamedItems
from svc.store.schema import Attribute
from svc.store.values.records import decode_json


def call_resource(field: Field, resource: type[Resource], request: Request, variables: Mapping[str, Any], *, extended: bool) -> Any:
    """What the handler of a resource returns, or an awaitable of it. Raises Problem."""
    refuse_nested_arguments(field.nested or ())
    values, options = argument_values(field.arguments, variables, extended=extended)
    is_table = issubclass(resource, TableResource)
    target = RequestTarget()
    key = _only_key(values, resource.table if issubclass(resource, TableResource) else None)
    if key is not None and not options:
        target.id_text = str(key)
        target.raw = quote(target.id_text)
        target.query = query_text([], [], field)
        resource.bind(target)
        if issubclass(resource, TableResource) and resource.untyped_keys:
            target.id = key  # the text of a number would be one
        found = resource.handle("get", target, None, request)
        return then(found, lambda result: _selected_by_store(result, resource, target, request)) if is_table else found
    target.is_collection = True
    if issubclass(resource, TableResource):
        paths, found = table_conditions(values, resource.table)
        if options:
            target.query = _list_text(paths, found, options, field, resource)
            return resource.handle("get", target, None, request)
        conditions = [{"attribute": list(path), "value": value} for path, value in zip(paths, found, strict=True)]
        return resource.handle("query", target, {"conditions": conditions, "select": select_mapping(field)}, request)
    if options:
        raise QueryError(f"{field.name} has no table, so it takes no {', '.join(options)}", code="UNUSABLE_OPERATOR")
    paths, found = nested_mapping(values)
    target.query = query_text(paths, found, field)
    return resource.handle("get", target, None, request)


def _list_text(paths: list[Path], values: list[Any], options: Mapping[str, Any], field: Field, resource: type[TableResource]) -> str:
    """The query of a list with options, as REST has it. Raises QueryError."""
    given = list_query(options, resource.table, resource.queries)
    where: list[Filter] = [_as_text(path, value, resource.table) for path, value in zip(paths, values, strict=True)]
    if given.where is not None:
        where.append(given.where)
    whole = Group("and", tuple(where)) if len(where) > 1 else where[0] if where else None
    limit = MAX_ROWS - 1 - given.offset if given.limit is None and given.offset else given.limit  # there is no offset without a limit
    return print_query(Query(whole, selected_names(field), given.sort, given.offset, limit, after=given.after))


def _as_text(path: Path, value: Any, table: AnyTable) -> Condition:
    """An equality that means in the query language of URLs what it means here: a declared type converts the value, else it keeps its own."""
    attribute: Attribute | None = None
    at: AnyTable | None = table
    for name in path:
        attribute = None if at is None else at.attributes.get(name)
        at = None if attribute is None or attribute.relationship is None or at is None else related_table(at, attribute)
    is_typed = attribute is not None and attribute.type != "Any"
    if value is None or (type(value) is not str and not is_typed):
        return Condition(path, Comparator.EQUALS, value, Conversion.FORCED)
    return Condition(path, Comparator.EQUALS, _text(value), Conversion.STRICT)


def _only_key(values: Mapping[str, Any], table: AnyTable | None) -> str | int | None:
    """The key that is the only condition: then one record is asked for, as by its address."""
    if len(values) != 1:
        return None
    ((name, key),) = values.items()
    is_key = name == "id" if table is None else name == table.primary_key or (name == "id" and "id" not in table.attributes)
    return key if is_key and type(key) in (str, int) and key != "" else None


def _selected_by_store(result: Any, resource: type[Resource], target: RequestTarget, request: Request) -> Any:
    """A record as stored, which the handler has not changed, by a query for what is selected of it: with what it is related to."""
    if type(result) is not StoredRecord or not issubclass(resource, TableResource) or result.table is not resource.table:
        return result
    return resource.select_one(result, target, request)


def refuse_nested_arguments(fields: tuple[Field, ...]) -> None:
    """Code of an application is asked for attributes by their names: there is no place for arguments below the top level. Raises DocumentError."""
    for field in fields:
        if field.arguments:
            raise fault_at(field.arguments[0], f"'{field.name}' takes no arguments here: code of an application answers.")
        refuse_nested_arguments(field.nested or ())


def query_text(paths: list[Path], values: list[Any], field: Field) -> str:
    """Conditions and selection as REST clients write them: `city=Oslo&select(name)`. Raises QueryError."""
    terms = [f"{'.'.join(path)}={quote(_text(value), safe='')}" for path, value in zip(paths, values, strict=True)]
    select = selected_names(field)
    return "&".join(terms if select is None else [*terms, print_query(Query(select=select))])


def _text(value: Any) -> str:
    return value if type(value) is str else encode_plain(value).decode()


def selected_names(field: Field) -> Select | None:
    """The names that a field selects, each once."""
    items: dict[str, SelectItem] = {}
    for each in field.nested or ():
        if each.name != TYPE_NAME:
            items[each.name] = SelectItem((each.name,), selected_names(each))
    return Select(tuple(items.values())) if items else None


def select_mapping(field: Field) -> list[Any] | None:
    """The same as the member `select` of a query object."""
    found: dict[str, Any] = {}
    for each in field.nested or ():
        if each.name == TYPE_NAME:
            continue
        nested = select_mapping(each)
        if each.name not in found:
            found[each.name] = {"name": [each.name]} if nested is None else {"name": [each.name], "select": nested}
    return list(found.values()) or None


def items_of(result: Any) -> list[Any] | AsyncIterator[Any]:
    """The elements of the answer of a handler, which are to be made JSON (`json_form`). Raises ServerError for what has no elements."""
    kind = type(result)
    if kind is StreamedItems:
        items: AsyncIterator[Any] = result.items
        return items
    if kind is StoredRecord:
        record = decode_json(result.raw)
        return [record if result.visible is None else narrow(record, result.visible)]
    if kind is NullableValue:
        result = result.value
    elif isinstance(result, Response):
        if result.status >= 400:
            raise Problem(str(result.data) if isinstance(result.data, str) else "", result.status)
        if result.data is None and result.body is not None:
            raise ServerError("The resource answers with a body of its own, from which nothing can be selected")
        result = result.data
    if result is None:
        return []
    if type(result) is list:
        return result  # it may be long
    form = json_form(result)
    return form if type(form) is list else [form]


def selected(value: Any, fields: tuple[Field, ...], type_name: str) -> Any:
    """What fields select from a value in JSON form. Lists are selected from element by element; a string, number, boolean or null is returned unchanged."""
    if type(value) is list:
        return [selected(element, fields, type_name) for element in value]
    if not isinstance(value, Mapping):
        return value
    found: dict[str, Any] = {}
    for field in fields:
        if field.name == TYPE_NAME:
            found[field.key] = type_name
            continue
        member = value.get(field.name)
        found[field.key] = member if field.nested is None else selected(member, field.nested, UNTYPED)
    return found
