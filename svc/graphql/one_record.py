"""An operation that asks one table for one record by its key, as clients with a cache of records do all the time (spec: graphql §4): answered from what is
kept of its field, without a plan, and without a run of its own.

Only what the ordinary way has planned before is answered so, and nothing that is out of the ordinary: that is left to `Reading`, and so are all faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql.language import StringValueNode, VariableNode

from svc.content.json_type import encode_plain
from svc.errors import Problem
from svc.graphql.names import Names
from svc.graphql.operation import Operation
from svc.graphql.reading import is_plain_table
from svc.graphql.table_fields import kept_plan, seen_by
from svc.messages import Request
from svc.resources import RequestTarget, TableResource

MAX_BYTES = 1 << 16  # of a record; a longer one is counted by the limits of answers


def maybe_record(operation: Operation, variables: Mapping[str, Any], request: Request, names: Names) -> bytes | None:
    """The body of the answer; None: it has to be made in the ordinary way."""
    field = operation.only_field
    if field is None or len(field.arguments) != 1 or (request._state is not None and request._state.spans is not None):
        return None
    argument = field.arguments[0]
    node = argument.value
    if type(node) is VariableNode:
        value = variables.get(node.name.value)
    elif type(node) is StringValueNode:
        value = node.value
    else:
        return None
    registration = names.find(field.name)
    if registration is None or registration.fault or field.nested is None:
        return None
    resource = registration.resource
    if not issubclass(resource, TableResource) or not is_plain_table(resource) or resource.table.caching is not None:
        return None
    target = RequestTarget()
    target.is_collection = True
    try:
        resource.authorize("get", target, None, request)
        seen = seen_by(resource, target, request)
        plan = kept_plan(field, resource, argument.name.value, target, request, names, seen)
        if plan is None:
            return None
        rows = plan.find_record(value, seen, resource.table.database.snapshot())
    except Problem:
        return None
    if rows is None:
        return None
    body = encode_plain({"data": {field.key: rows}})
    return body if len(body) <= MAX_BYTES else None
