"""A table as one user sees and writes it: `tables.Product.as_user(user)` (spec: rows §1.8).

rights of the user's role -> the verb of the table, in a `UserContext` -> what the user may read of the result
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from svc.api.calls import Call
from svc.api.context import UserContext, current_context
from svc.api.instances import Instance
from svc.api.readable import of_instance, readable
from svc.api.records import Record, record_for
from svc.api.results import Results
from svc.api.target import RequestTarget
from svc.api.transactions import Transaction, open_transaction, run_in_transaction
from svc.api.verbs import WITH_DATA, split_arguments
from svc.auth.roles import TableRights
from svc.auth.users import User
from svc.awaitables import then
from svc.errors import ClientError

if TYPE_CHECKING:
    from svc.api.table import Table

_CHECKED_AS = {"search": "get", "query": "get", "create": "post"}


class TableAsUser:
    """`tables.Product.as_user("ann")`: the verbs of a table, with which records are seen and written as this user would see and write them.

    The rights of the user's role and the rules about rows hold: what may not be read is not there, attributes without the right to read are left out, related
    records too, and what may not be written is refused, as over any interface. Calls take part in the open transaction, and see what was written in it.
    """

    __slots__ = ("_owner", "_user")

    def __init__(self, owner: type[Table], user: User | str | None) -> None:
        """`user`: a user, or the name of one, whose rights are those at each call; None: an anonymous caller. Raises as `user` does, and TypeError."""
        if user is not None and not isinstance(user, User | str):
            raise TypeError(f"as_user takes a user, as from server.get_user, or the name of one, not {type(user).__name__}")
        self._owner = owner
        self._user = user
        _ = self.user

    @property
    def user(self) -> User | None:
        """Whose rights count; None: an anonymous caller. Raises ClientError 404 for a name that no active user has."""
        given = self._user
        if not isinstance(given, str):
            return given
        user: User | None = self._owner._own_interface().server._parts.directory.get_user(given)
        if user is None or not user.active:
            raise ClientError(f"There is no active user {given[:100]!r}", 404, "NOT_FOUND")
        return user

    # --- reading ---------------------------------------------------------------------------------------------------------------------

    def get(self, target: Any = None, **options: Any) -> Any:
        """The record with this id, None if the user sees none; of a query what `search` finds."""
        arguments = () if target is None else (target,)
        found, _ = split_arguments("get", self._owner, arguments, options)
        return self.search(found) if found.id is None else self._call("get", (found,), {})

    def search(self, target: Any = None, **options: Any) -> Any:
        """The records that a query finds and the user sees: awaited or iterated. No query needs an index, unless it says so."""
        owner = self._owner
        arguments = () if target is None else (target,)
        found, _ = split_arguments("search", owner, arguments, options)
        if found.id is not None:
            raise TypeError(f"{owner.__name__}.search takes a query, not an id: a record is read with get(id)")
        if owner._own_rights or "search" in owner._own_verbs or "get" in owner._own_verbs:
            return self._call("search" if "search" in owner._own_verbs else "get", (found,), {})
        return owner._search_checked(found, self._context())

    def query(self, data: Any) -> Any:
        """The records that a query object finds and the user sees."""
        return self.search(data)

    def subscribe(self, target: Any = None, **options: Any) -> Any:
        """The events of the record, or of the table, that the user sees; see `Table.subscribe`."""
        return self._call("subscribe", () if target is None else (target,), options)

    # --- writing ---------------------------------------------------------------------------------------------------------------------

    def put(self, *arguments: Any) -> Any:
        """`put(id, data)`: store a record in place of what was there; `put(data)`: of a record with its key, or each of a list."""
        return self._call("put", arguments, {})

    def patch(self, *arguments: Any) -> Any:
        """`patch(id, changes)`: change these properties of the record."""
        return self._call("patch", arguments, {})

    def post(self, *arguments: Any) -> Any:
        """`post(data)`: create a record, or each of a list. Returns what the user may read of it."""
        return self._call("post", arguments, {})

    def create(self, *arguments: Any) -> Any:
        """`create(data)`: create a record. Returns what the user may read of it."""
        return self._call("create", arguments, {})

    def delete(self, target: Any = None, **options: Any) -> Any:
        """Delete the record, or what of the results of a query the user may delete."""
        return self._call("delete", () if target is None else (target,), options)

    def publish(self, *arguments: Any) -> Any:
        """`publish(id, message)`: send a message to the subscribers of a record."""
        return self._call("publish", arguments, {})

    # --- calls -----------------------------------------------------------------------------------------------------------------------

    def _call(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Call:
        return Call(self._make, (name, arguments, options), 3)

    def _make(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        target, data = split_arguments(name, self._owner, arguments, options)
        if name in WITH_DATA:
            data = _plain(data)
        context = self._context()
        transaction = open_transaction(context)
        if transaction is not None:
            return self._run(name, target, data, context)
        return run_in_transaction(self._owner._store(), context, partial(self._run_in, name=name, target=target, data=data))

    def _run_in(self, transaction: Transaction, *, name: str, target: RequestTarget, data: Any) -> Any:
        context = transaction._context
        assert type(context) is UserContext
        return self._run(name, target, data, context)

    def _run(self, name: str, target: RequestTarget, data: Any, context: UserContext) -> Any:
        owner, verb = self._owner, self._owner._verbs[name]
        if name == "create":
            target.is_collection = True
        checked = self._check(name, target, data, context)
        called = then(checked, lambda _: verb.call(owner, target, data, context))
        return then(called, lambda result: self._shown(result, target, context))

    def _check(self, name: str, target: RequestTarget, data: Any, context: UserContext) -> Any:
        """Raises AccessViolation; an awaitable if code of an application decides and waits."""
        owner = self._owner
        if owner._own_rights:
            return owner._check_permission(owner._verbs[name], target, data, context)
        owner._check_default(_CHECKED_AS.get(name, name), target, data, context)
        return None

    def _shown(self, result: Any, target: RequestTarget, context: UserContext) -> Any:
        """What the user may read of a result."""
        table, rights = self._owner._table, target.rights
        visible = rights.readable if isinstance(rights, TableRights) else None
        if type(result) is Record:
            return record_for(result._table, result._raw, context, visible if result._table is table else None, result._values)
        if isinstance(result, Instance) and result._table is table:
            return record_for(table, None, context, None, of_instance(result, visible))
        if type(result) is list:
            return [self._shown(each, target, context) for each in result]
        return result if visible is None or isinstance(result, Results) else readable(result, table, visible)

    def _context(self) -> UserContext:
        """For a call; it takes part in the open transaction of the running one."""
        outer = current_context()
        context = UserContext(self.user, None if outer is None else outer.trace_id)
        if outer is not None:
            context.trace_as(outer)
            context.state.transaction = open_transaction(outer)
        return context

    def __repr__(self) -> str:
        user = self._user
        name = "an anonymous caller" if user is None else user if isinstance(user, str) else user.username
        return f"<{self._owner.__name__} as {name}>"


def _plain(data: Any) -> Any:
    """Data of a write as dicts, whose names are checked."""
    if isinstance(data, Instance) and data._table is not None:
        return data._answer()
    if isinstance(data, list | tuple):
        return [_plain(element) for element in data]
    return dict(data) if isinstance(data, Mapping) and not isinstance(data, dict) else data
