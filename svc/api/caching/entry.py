"""A record of a caching table, as its class and its source see it (spec: caching §4)."""

from __future__ import annotations

from typing import Any

from svc.api.context import AnyContext, Context
from svc.api.records import Record
from svc.messages import Caller
from svc.store import Table
from svc.store.values.keys import Key
from svc.store.values.records import expiry_of, refreshed_of, version_of


class Entry:
    """`version`, `expires_at`: ms; `local_time`: of the last refresh, ms. `value`: the record."""

    __slots__ = ("_context", "_raw", "_table")

    def __init__(self, table: Table, raw: bytes, context: AnyContext | None) -> None:
        self._table = table
        self._raw = raw
        self._context = context

    @property
    def version(self) -> float:
        return version_of(self._raw)

    @property
    def local_time(self) -> float:
        refreshed = refreshed_of(self._raw)
        return version_of(self._raw) if refreshed is None else refreshed

    @property
    def expires_at(self) -> float | None:
        return expiry_of(self._raw)

    @property
    def value(self) -> Record:
        return Record(self._table, self._raw, None, self._context)

    def __repr__(self) -> str:
        return f"<Entry {self.value!r}>"


class SourceContext(Context):
    """The context in which a source is asked. `request_context`: of the caller. To be set by the source: `last_modified`, `expires_at`,
    `no_cache_store`.
    """

    __slots__ = ("_entry", "_key", "_table", "request_context")

    def __init__(self, table: Table, raw: bytes | None, request_context: Any, key: Key | None = None) -> None:
        """`raw`: the whole record that is here, if there is one. `key`: of the record that is loaded."""
        user: Caller | None = None if request_context is None else request_context.user
        super().__init__(user, None if request_context is None else request_context.trace_id)
        if request_context is not None:
            self.trace_as(request_context)
        self.request_context = request_context
        self._table = table
        self._key = key
        self._entry = None if raw is None else Entry(table, raw, self)

    def is_loading(self, table: Table, key: Key) -> bool:
        """Whether this record is what is being loaded, here or for whom."""
        found: Any = self
        while type(found) is SourceContext:
            if found._table is table and found._key == key:
                return True
            found = found.request_context
        return False

    @property
    def replacing_entry(self) -> Entry | None:
        return self._entry

    @property
    def replacing_record(self) -> Record | None:
        return None if self._entry is None else self._entry.value

    @property
    def replacing_version(self) -> float | None:
        return None if self._entry is None else self._entry.version

    requestContext = property(lambda self: self.request_context)
