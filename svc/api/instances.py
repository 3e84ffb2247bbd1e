"""Records that can be changed: what `update` returns, and what handlers are bound to (spec: applications §4)."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from svc.api.context import AnyContext, current_context
from svc.api.current import CurrentInterface, current
from svc.api.frozen import is_frozen, thaw
from svc.api.records import missing
from svc.api.tracked import TRACKED, TrackedDict, TrackedList, TrackedSet, plain, track
from svc.api.transactions import Transaction, open_transaction, run_in_transaction
from svc.awaitables import AlreadyThere, Ready
from svc.errors import ClientError
from svc.store.values.conversion import check_key
from svc.store.values.keys import encode_primary, storage_key
from svc.store.values.records import decode, expiry_of, version_of
from svc.store.values.validation import Add
from svc.store.writing.merge_rules import merge

if TYPE_CHECKING:
    from svc.messages import Caller
    from svc.query.row_guard import RowGuard
    from svc.store import Table

NOT_LOADED: Any = object()


class Instance(AlreadyThere):
    """A resource bound to what is addressed: a record, a collection, or nothing (`load_as_instance = False`).

    Attributes of the record are read and written as `self.price`, `self["price"]`, or by `get_property` and `set`; those whose names are taken by methods by
    `[]` only. Names that begin with an underscore are ordinary Python attributes. What is written is stored when `update()` has been called before, else it
    only changes the answer.
    """

    _table: ClassVar[Table | None] = None
    _interface: ClassVar[CurrentInterface | None] = None

    # Defaults of what an instance has of its own.
    _target: Any = None  # what the handler is bound to
    _raw: Any = NOT_LOADED  # the stored record, None if there is none
    _values: dict[str, Any] | None = None  # decoded, with all changes
    _changes: dict[str, Any] | None = None
    _is_saving = False
    _rows: RowGuard | None = (
        None  # what the rules on rows say of what the caller may do with the record; None: nothing, or it is not bound for a caller
    )

    def __init__(self, id: Any = None, context: AnyContext | None = None) -> None:
        own = self.__dict__
        own["_id"] = id
        own["_context"] = context

    # --- what it is bound to -----------------------------------------------------------------------------------------------------------

    def get_id(self) -> Any:
        """The primary key of the record; None for a collection."""
        return self._id

    @property
    def is_collection(self) -> bool:
        """Whether it is bound to a collection, not to a record."""
        target = self._target
        return self._id is None if target is None else target.id is None

    def get_context(self) -> Any:
        """The request, or the context of code that runs without one."""
        return self._context if self._context is not None else current_context()

    def _writing_context(self) -> Any:
        """The context whose transaction writes take part in: its own, or that of the running call if its own is over."""
        own = self._context
        return own if own is not None and open_transaction(own) is not None else current_context()

    def get_current_user(self) -> Caller | None:
        """The user that the call is made for; None: anonymous."""
        context = self.get_context()
        return None if context is None else context.user

    def does_exist(self) -> bool:
        """Whether the record exists."""
        return self._stored() is not None

    def was_loaded_from_source(self) -> bool | None:
        """Whether reading the record has asked the source of a caching table; None without one."""
        target = self._target
        return None if target is None else target.loaded_from_source

    def _stored(self) -> bytes | None:
        own = self.__dict__  # whose members are had at a third of the price of attributes, since the class has a `__getattr__`
        raw: bytes | None = own.get("_raw", NOT_LOADED)
        if raw is NOT_LOADED:
            table, key = type(self)._table, own["_id"]
            if table is None or key is None:
                raw = None
            else:
                transaction = open_transaction(own["_context"] or current_context())
                raw = table.get_raw(key) if transaction is None else transaction.get_raw(table, key)
                if raw is not None and self._rows is not None and not self._is_there(raw, transaction):
                    raw = None
            own["_raw"] = raw
        return raw

    def _is_there(self, raw: bytes, transaction: Transaction | None) -> bool:
        """Whether the record is there for the caller, as what is read in the transaction says."""
        table, rows = self._table, self._rows
        assert table is not None
        if rows is None:
            return True
        txn = table.database.snapshot() if transaction is None else transaction.reading(table.database)
        return rows.can_see(table, txn, storage_key(encode_primary(table.key_of(raw))), raw)

    def _narrow(self, rows: RowGuard) -> None:
        """From now on the record is there only if the caller may read it, and is written as the caller may write it."""
        own = self.__dict__
        own["_rows"] = rows
        if not own.get("_changes"):
            own["_raw"], own["_values"] = NOT_LOADED, None

    def _current(self) -> dict[str, Any]:
        """The properties, with all changes."""
        values: dict[str, Any] | None = self._values
        if values is None:
            raw = self._stored()
            values = {} if raw is None else decode(raw)
            self.__dict__["_values"] = values
        return values

    # --- reading ---------------------------------------------------------------------------------------------------------------------

    def get_property(self, name: str) -> Any:
        """The value of the attribute `name`. A declared one without a value is None. Raises KeyError."""
        values = self._current()
        if name in values:
            value = values[name]
            if type(value) in TRACKED:
                value = values[name] = track(value, lambda: self._mark(name))
            return value
        if self._table is None:
            raise KeyError(name)
        return missing(self._table, name, values, self.get_context())

    __getitem__ = get_property

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._table is None:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        try:
            return self.get_property(name)
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}") from None

    def __await__(self) -> Generator[Any, Any, Any]:
        """`await self.update()` is the instance."""
        return self
        yield

    def __contains__(self, name: object) -> bool:
        return name in self._current()

    def keys(self) -> list[str]:
        """The names of the properties: `{**self}` is a copy of the record."""
        return list(self._current())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def get_updated_time(self) -> float | None:
        """The version of the stored record, ms since the epoch; None: there is none."""
        raw = self._stored()
        return None if raw is None else version_of(raw)

    def get_expires_at(self) -> float | None:
        """When the record expires, ms since the epoch; None if it stays."""
        raw = self._stored()
        return None if raw is None else expiry_of(raw)

    # --- changing --------------------------------------------------------------------------------------------------------------------

    def set(self, name: str, value: Any) -> None:
        """Change the property `name` to `value`. It need not be declared by the schema."""
        if self._table is None:
            raise TypeError(f"{type(self).__name__} has no table whose records could be changed")
        values = self._current()
        if is_frozen(value):
            value = thaw(value)
        elif isinstance(value, TrackedDict | TrackedList | TrackedSet) and value is not values.get(
            name
        ):  # a part of this or another record
            value = plain(value)
        values[name] = value
        self._changed()[name] = value

    __setitem__ = set

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or self._table is None:
            object.__setattr__(self, name, value)
            return
        of_class = getattr(type(self), name, None)
        if hasattr(of_class, "__set__"):
            object.__setattr__(self, name, value)
        elif of_class is not None and name not in self._table.attributes:
            raise AttributeError(f"{name!r} is a name of the class: an attribute of the record is set as self[{name!r}]")
        else:
            self.set(name, value)

    def __delattr__(self, name: str) -> None:
        if name.startswith("_") or self._table is None:
            object.__delattr__(self, name)
        else:
            self.delete_property(name)

    def delete_property(self, name: str) -> None:
        """Remove the property `name` from the record."""
        self._current().pop(name, None)
        self._changed()[name] = REMOVED

    __delitem__ = delete_property

    def add_to(self, name: str, amount: int | float, *, at_least: float | None = None, at_most: float | None = None) -> None:
        """Add to a number. Increments of concurrent transactions all count.

        `at_least`, `at_most`: what the result must stay within, tested where it is written, beside all concurrent writes: else the transaction is
        undone, with a ClientError 409.
        """
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise ClientError(f"{name}: {amount!r} is not a number", code="VALIDATION")
        values, changes = self._current(), self._changed()
        before = changes.get(name)
        added = Add(amount).applied_to(values.get(name))
        if type(before) is Add:
            changes[name] = Add(before.value + amount)
        else:
            changes[name] = added if name in changes else Add(amount)
        values[name] = added
        if at_least is not None or at_most is not None:
            bounds = self.__dict__.setdefault("_bounds", {})
            bounds[name] = (at_least, at_most)

    def subtract_from(self, name: str, amount: int | float, *, at_least: float | None = None, at_most: float | None = None) -> None:
        """Subtract from a number; see `add_to`."""
        self.add_to(name, -amount, at_least=at_least, at_most=at_most)

    def _changed(self) -> dict[str, Any]:
        changes: dict[str, Any] | None = self._changes
        if changes is None:
            changes = self.__dict__["_changes"] = {}
        if self._is_saving:
            self._save_later()
        return changes

    def _mark(self, name: str) -> None:
        """The object or list in a property is about to change."""
        self._changed()[name] = self._current()[name]

    def _start_saving(self) -> None:
        """From now on changes are saved. Those made before only change the answer."""
        if self._table is None:
            raise TypeError(f"{type(self).__name__} has no table whose records could be updated")
        if not self._is_saving:
            self.__dict__["_is_saving"] = True
            self.__dict__["_changes"] = None

    def _save_later(self) -> None:
        transaction = open_transaction(self._writing_context())
        if transaction is not None:
            transaction.save_later(self)

    def save(self) -> Awaitable[Any]:
        """Save the changes now: in the open transaction, or without one in one of their own. What it returns need not be awaited."""
        self._start_saving()
        if not self._changes:
            return Ready(self)
        result = run_in_transaction(self._own_interface().store, self._writing_context(), self._save_now)
        return result if hasattr(result, "__await__") else Ready(self)

    def _save_now(self, transaction: Transaction) -> Any:
        """Add the changes to the transaction, and test what becomes of the record. What is wrong leaves it as it was."""
        start = transaction.writes.size
        try:
            self.collect(transaction)
        except BaseException:
            transaction.writes.forget_from(start)
            raise
        return None if self._table is None else transaction.admit(self._table, start)

    def collect(self, transaction: Transaction) -> Any:
        """Add the changes to the transaction."""
        table, changes = self._table, self._changes
        if table is None or not changes:
            return None
        self.__dict__["_changes"] = None
        removed = [name for name, value in changes.items() if value is REMOVED]
        given = {name: plain(value) for name, value in changes.items() if value is not REMOVED}
        self._check_changes(given)
        checked = table.validator.changes(given, source="native")
        key = self._id
        bounds: dict[str, tuple[float | None, float | None]] = self.__dict__.pop("_bounds", {})
        if not removed:
            keep_bounds = partial(_keep_bounds, bounds, table.name) if bounds else None
            transaction.writes.patch(table, key, checked, transaction.precondition(table, key), decide=keep_bounds, rows=self._rows)
            return None

        def decide(record: dict[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
            kept = {name: value for name, value in (stored or {}).items() if name not in removed}
            _keep_bounds(bounds, table.name, checked, stored)
            result = merge(kept, checked)
            result[table.primary_key] = record[table.primary_key]
            table.validator.require_all(result)
            table.validator.merged(result, [name for name, value in checked.items() if type(value) is Add])
            return result

        transaction.writes.put(table, key, {}, transaction.precondition(table, key), decide=decide, rows=self._rows)
        return None

    def _is_of(self, table: Table, key: Any) -> bool:
        """Whether it is bound to this record."""
        return self._table is table and self._id == key

    def _discard(self) -> None:
        """Forget the changes: the record is deleted."""
        own = self.__dict__
        own["_changes"], own["_values"], own["_raw"] = None, None, NOT_LOADED
        own.pop("_bounds", None)

    def _check_changes(self, changes: dict[str, Any]) -> None:
        """For rules of subclasses."""

    # --- the answer ------------------------------------------------------------------------------------------------------------------

    def _answer(self) -> dict[str, Any]:
        """The properties with all changes, for the client."""
        values = {name: thaw(value) for name, value in self._current().items()}
        if self._table is not None and self._id is not None:
            values.setdefault(self._table.primary_key, self._id)
        return values

    @classmethod
    def _own_interface(cls) -> CurrentInterface:
        interface = cls._interface
        if interface is None:
            return current()
        return interface

    def _key(self, given: Any) -> Any:
        assert self._table is not None
        return check_key(self._table.definition, given)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'collection' if self._id is None else repr(self._id)}>"


def _keep_bounds(
    bounds: dict[str, tuple[float | None, float | None]], table: str, changes: dict[str, Any], stored: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Refuse increments whose result is not within its bounds. Called inside the transaction."""
    for name, (low, high) in bounds.items():
        change = changes.get(name)
        value = change.applied_to((stored or {}).get(name)) if type(change) is Add else change
        if isinstance(value, int | float) and ((low is not None and value < low) or (high is not None and value > high)):
            limit = f"at least {low:g}" if low is not None and value < low else f"at most {high:g}"
            raise ClientError(f"{name} of this {table} would become {value:g}, and must stay {limit}", 409, "OUT_OF_BOUNDS")
    return changes


class _RemovedAttribute:
    def __repr__(self) -> str:
        return "REMOVED"


REMOVED = _RemovedAttribute()
