"""The handles of a database's stores for records and indexes, by name: opened, made, and removed when LMDB has no more slots (`store_names`)."""

from __future__ import annotations

from collections.abc import Iterable

from svc.errors import StoreFailure
from svc.store.definitions import StoredTable, store_key
from svc.store.env import Environment, Handle, Txn
from svc.store.store_names import RECORDS, NamePool, default_name


class StoreHandles:
    """Handles by the name of the store. Those made by a schema change are forgotten if it is undone (`forget_made`)."""

    __slots__ = ("_env", "_handles", "_made")

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._handles: dict[str, Handle] = {}
        self._made: list[str] = []  # by the schema change under way

    def __getitem__(self, name: str) -> Handle:
        return self._handles[name]

    def all(self) -> Iterable[Handle]:
        return self._handles.values()

    def open_missing(self, names: Iterable[str]) -> str | None:
        """Open the stores of these names that are not open yet; returns the name of one that does not exist, None if all do."""
        missing = [name for name in names if name not in self._handles]
        if missing:
            for name, handle in zip(missing, self._env.open_stores(missing), strict=True):
                if handle is None:
                    return name
                self._handles[name] = handle
        return None

    def keep_made(self) -> None:
        """The schema change has been committed."""
        self._made.clear()

    def forget_made(self) -> None:
        """The schema change has been undone: the handles of stores that it made are void."""
        for name in self._made:
            del self._handles[name]
        self._made.clear()

    def make(self, writer: Txn, pool: NamePool, stored: StoredTable, attribute: str, definitions: Handle, limit: int) -> Handle:
        """The store of a new index, or of the records of a new table: a spare one, or one that is made. `limit`: the number of stores that may exist."""
        before = len(pool.existing)
        name = pool.take(stored, attribute)
        if name != default_name(stored, attribute):
            writer.put(store_key(stored.number, attribute), name.encode(), True, True, False, definitions)
        if len(pool.existing) > max(before, limit):
            self._remove_spare(pool, records=bool(attribute))
        handle = self._handles.get(name)
        if handle is None:
            handle = self._handles[name] = self._env.create_store(name, duplicates=attribute != RECORDS)
            self._made.append(name)
        return handle

    def make_named(self, name: str) -> Handle:
        """A store for what is neither a table nor an index, made by the schema change under way."""
        handle = self._handles[name] = self._env.create_store(name)
        self._made.append(name)
        return handle

    def _remove_spare(self, pool: NamePool, *, records: bool) -> None:
        """Remove a spare store, of the kind that is not needed. That closes its handle, which must not be used any more."""
        self._env.end_snapshot()
        spare = pool.spare(records=records)
        if not spare or self._env.has_siblings() or self._env.open_snapshots():
            raise StoreFailure("Stores of dropped tables and indexes cannot be reused while others read the database, try again later")
        name = next((name for name in spare if name in self._handles), spare[0])
        handle = self._handles.pop(name, None)
        if name in self._made:
            self._made.remove(name)
        self._env.remove_store(self._env.create_store(name, duplicates=not records) if handle is None else handle)
        pool.existing.remove(name)
