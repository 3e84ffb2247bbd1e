"""Records that were read (spec: applications §4)."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from svc.api.frozen import freeze, thaw
from svc.awaitables import AlreadyThere, Deferred
from svc.store.values.records import decode, expiry_of, version_of

if TYPE_CHECKING:
    from svc.api.context import AnyContext
    from svc.store import Table


class Record(Mapping[str, Any]):
    """A record as it was read: `record.name` or `record["name"]`. It cannot be changed; `{**record, "x": 1}` is a changed copy.

    A declared attribute without a value is None, any other name an AttributeError or KeyError. An attribute that leads to related records is awaited or
    iterated: `await seat.show`, `async for seat in show.seats`.
    """

    __slots__ = ("_context", "_raw", "_table", "_values")

    def __init__(self, table: Table, raw: bytes | None, values: dict[str, Any] | None = None, context: AnyContext | None = None) -> None:
        """`raw`: as stored, None for a selection. `values`: decoded, if they are at hand. `context`: of the read; related records are read in it."""
        _set(self, "_table", table)
        _set(self, "_raw", raw)
        _set(self, "_values", values)
        _set(self, "_context", context)

    def _decoded(self) -> dict[str, Any]:
        values = self._values
        if values is None:
            assert self._raw is not None
            values = decode(self._raw)
            for name, computed in self._table.computed.items():
                if name not in values and self._table.attributes[name].enumerable:
                    values[name] = computed(values)
            _set(self, "_values", values)
        return values  # type: ignore[no-any-return]

    def __getitem__(self, name: str) -> Any:
        values = self._decoded()
        if name in values:
            return freeze(values[name])
        return missing(self._table, name, values, self._context)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{self._table.name} has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise TypeError(f"a record that was read cannot be changed: use update(), or a copy of it: {{**record, {name!r}: ...}}")

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    def __setitem__(self, name: str, value: Any) -> NoReturn:
        self.__setattr__(name, value)

    def __delitem__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        return len(self._decoded())

    def __contains__(self, name: object) -> bool:
        return name in self._decoded()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Record):
            return self._decoded() == other._decoded()
        return isinstance(other, Mapping) and self._decoded() == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self._table.name} {self._decoded()!r}>"

    def copy(self) -> dict[str, Any]:
        """A copy that may be changed, with all that is in it."""
        return thaw(self._decoded())  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: Any) -> dict[str, Any]:
        return self.copy()

    def __reduce__(self) -> Any:
        return dict, (self.copy(),)

    def get_id(self) -> Any:
        """The primary key; None if it was not selected."""
        return self._decoded().get(self._table.primary_key)

    def get_updated_time(self) -> float | None:
        """The version: ms since the epoch. None for a selection."""
        return None if self._raw is None else version_of(self._raw)

    def get_expires_at(self) -> float | None:
        """Ms since the epoch; None if it stays."""
        return None if self._raw is None else expiry_of(self._raw)


_set = object.__setattr__


def record_for(
    table: Table, raw: bytes | None, context: AnyContext | None, visible: frozenset[str] | None, values: dict[str, Any] | None = None
) -> Record:
    """A record of which only the `visible` attributes may be seen, None: all. `raw`, or its `values`."""
    if visible is None:
        return Record(table, raw, values, context)
    whole = Record(table, raw, values, context)._decoded()
    return Record(table, None, {name: value for name, value in whole.items() if name in visible}, context)


def missing(table: Table, name: str, values: Mapping[str, Any], context: AnyContext | None) -> Any:
    """The value of an attribute that a record does not hold: computed, related records, or None if it is declared. Raises KeyError."""
    attribute = table.attributes.get(name)
    if attribute is None:
        raise KeyError(name)
    if attribute.relationship is not None:
        from svc.api.related import related  # which reads records itself

        return related(table, attribute, values, context)
    computed = table.computed.get(name)
    return None if computed is None else computed(values if type(values) is dict else dict(values))


class FoundRecord(Deferred, AlreadyThere):
    """A record that was read, for callers that may await it. They get a `Record`; a handler that returns it as it is needs none."""

    __slots__ = ("context", "raw", "table")

    def __init__(self, table: Table, raw: bytes, context: AnyContext | None) -> None:
        self.table = table
        self.raw = raw
        self.context = context

    def run(self) -> Record:
        return Record(self.table, self.raw, None, self.context)

    def __await__(self) -> Generator[Any, Any, Record]:
        return self.run()
        yield
