"""Subscriptions: a list field becomes the live query that REST has for it (spec: graphql §7.3)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from svc.auth.roles import ALL_RIGHTS, OPENED
from svc.auth.users import user_of
from svc.errors import ClientError, Problem, ServerError
from svc.graphql.code_fields import refuse_nested_arguments, selected, selected_names
from svc.graphql.execution import Execution
from svc.graphql.faults import fault_at, with_location
from svc.graphql.live_field import LiveField, LiveFields
from svc.graphql.operation import Operation
from svc.graphql.reading import is_plain_table
from svc.graphql.selection import Field
from svc.graphql.table_fields import TableFields
from svc.messages import Request
from svc.query.authorization import check_select
from svc.query.printer import print_query
from svc.realtime.live import LiveSubscription
from svc.resources import RequestTarget, TableResource


class Subscriptions:
    """Opens subscriptions, for all transports."""

    def __init__(self, execution: Execution, shared: LiveFields) -> None:
        self._execution = execution
        self.shared = shared

    async def open(self, request: Request, operation: Operation, given: Mapping[str, Any] | None) -> LiveField:
        """`given`: the values of variables. The caller starts and closes it. Raises Problem, with the place of the field."""
        variables = operation.variables(given)
        fields = operation.fields(variables)
        if len(fields) != 1:
            raise fault_at(operation.node, "A subscription has one field: the list that is followed.")
        (field,) = fields
        if field.name.startswith("__"):
            raise fault_at(field.node, f"'{field.name}' cannot be followed: a subscription has the list of a resource.")
        names = self._execution.names
        found = names.find(field.name)
        if found is None:
            raise fault_at(field.node, f"Resource `{field.name}` not found.", "NOT_FOUND")
        if field.nested is None:
            raise fault_at(field.node, f"'{field.name}' needs a selection of its attributes, such as {field.name} {{ id }}.")
        try:
            if found.fault:
                raise ServerError(found.fault)
            resource = found.resource
            tables = TableFields(request, names, variables, extended=True)
            if not issubclass(resource, TableResource) or resource.realtime is None:
                raise ClientError(f"{field.name} is no table, so its list cannot be followed", 405)
            if is_plain_table(resource):
                return self._of_table(field, resource, request, tables)
            return await self._of_code(field, resource, names.name_of(found), request, tables)
        except Problem as problem:
            raise with_location(problem, field.node) from None

    def _of_table(self, field: Field, resource: type[TableResource], request: Request, tables: TableFields) -> LiveField:
        table, realtime = resource.table, resource.realtime
        assert realtime is not None
        target = RequestTarget()
        target.is_collection = True
        resource.authorize("subscribe", target, None, request)
        query = tables.query(field, resource, target)
        select = query.select
        assert select is not None
        check_anyway = target.rights is not ALL_RIGHTS

        def check(user: Any) -> None:
            if check_anyway or user is None or not user.super_user:
                check_select(select, table, user)

        source = realtime.subscribe_to_query(
            replace(query, live=True),
            table,
            user_of(request),
            key_prefix=None,
            allow_full_scan=resource.allow_full_scan,
            reconnected=False,
        )
        return LiveField(source, field.key, None, self.shared, check)

    async def _of_code(
        self, field: Field, resource: type[TableResource], type_name: str, request: Request, tables: TableFields
    ) -> LiveField:
        """A table with code of an application: it is asked as REST asks it, and may have rules of its own."""
        fields = field.nested or ()
        refuse_nested_arguments(fields)
        target = RequestTarget()
        target.is_collection = True
        resource.authorize("subscribe", target, None, request)
        opened = resource.table if target.rights is OPENED else None
        query = tables.query(field, resource, target)
        select = query.select
        assert select is not None
        try:
            text = print_query(replace(query, select=selected_names(field), live=True))
        except ValueError as error:
            raise ClientError(f"The list of {field.name} cannot be followed with these arguments: {error}") from None
        target = RequestTarget(text)
        target.is_collection = True
        source = resource.handle("connect", target, None, request)
        while inspect.isawaitable(source):
            source = await source
        if type(source) is not LiveSubscription:
            close = getattr(source, "aclose", None) or getattr(source, "close", None)
            closed = None if close is None else close()
            if inspect.isawaitable(closed):
                await closed
            raise ClientError(f"{field.name} has events of its own, which are no list: subscribe to it over REST", 405)

        def check(user: Any) -> None:
            if user is None or not user.super_user:
                check_select(select, resource.table, user, opened)

        return LiveField(source, field.key, lambda value: selected(value, fields, type_name), self.shared, check)
