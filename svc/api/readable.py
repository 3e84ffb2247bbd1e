"""What a caller may read of what a handler returns: records are narrowed wherever they are (spec: applications §2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.api.instances import Instance
from svc.api.records import Record
from svc.http.row_stream import narrow
from svc.messages import Response
from svc.store import Table


def readable(value: Any, table: Table | None, visible: frozenset[str]) -> Any:
    """`value` with the records of `table` in it as objects of `visible` attributes. Data that is no record stays as it is."""
    kind = type(value)
    if kind is Record:
        return _of_record(value, visible) if value._table is table else value
    if kind is list or kind is tuple:
        return [readable(element, table, visible) for element in value]
    if kind is dict:
        return {name: readable(member, table, visible) for name, member in value.items()}
    if kind is Response:
        if value.data is not None:
            value.data = readable(value.data, table, visible)
        return value
    if isinstance(value, Instance) and table is not None and value._table is table:
        return of_instance(value, visible)
    return value


def of_instance(instance: Instance, visible: frozenset[str] | None, asked: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The readable properties of an instance with its changes, what is computed of them, and what its handler has added that is no attribute.

    `asked`: names of computed attributes that are wanted also where they are not enumerable.
    """
    table = instance._table
    assert table is not None
    values = instance._answer()
    computed = {
        name: compute(values)
        for name, compute in table.computed.items()
        if name not in values and (name in asked or table.attributes[name].enumerable)
    }
    values.update(computed)
    return values if visible is None else narrow(values, visible | ((instance._changes or {}).keys() - table.attributes.keys()))


def _of_record(record: Record, visible: frozenset[str]) -> Mapping[str, Any]:
    values = record._decoded()
    if record._raw is None:  # of a selection, which also has what is counted
        visible = visible | (values.keys() - record._table.attributes.keys())
    return narrow(values, visible)
