"""`Table.source_from`: an application names the source of a table (spec: caching)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from svc.api.caching.cache import TableCache
from svc.api.caching.following import SourceFollower
from svc.api.caching.sources import Source
from svc.api.running import OF_APPLICATIONS
from svc.api.table_settings import Undo, set_on_table
from svc.errors import ClientError
from svc.siblings import Lead
from svc.store.expiry_index import ExpiryTimes

if TYPE_CHECKING:
    from svc.api.current import CurrentInterface
    from svc.api.table import Table

_SPELLINGS = {"scanInterval": "scan_interval", "intermediateSource": "intermediate_source"}
_TIMES = ("expiration", "eviction", "scan_interval")


def times_of(options: Mapping[str, Any]) -> ExpiryTimes:
    """Raises TypeError for what is not a time."""
    for name, value in options.items():
        if name not in _TIMES:
            raise TypeError(f"{name!r} is not one of {', '.join(_TIMES)}")
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12):
            raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    return ExpiryTimes(**{name: None if value is None else float(value) for name, value in options.items()})


def spelled(given: Mapping[str, Any] | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options, of a mapping or keyword arguments, under the names that they have here."""
    return {_SPELLINGS.get(name, name): value for name, value in {**(given or {}), **options}.items()}


def name_source(owner: type[Table], interface: CurrentInterface, given: Any, options: dict[str, Any]) -> None:
    """Make `given` a source of the table. Raises TypeError for what cannot be one, ClientError for a second canonical one, and for a table with `@unique`."""
    intermediate = options.pop("intermediate_source", False)
    times = times_of(options)
    source = Source(given, intermediate=bool(intermediate))
    table = owner._table
    if source.given is owner or getattr(source.given, "_table", None) is table:
        raise ClientError(f"{table.name} cannot be its own source")

    unique = next(
        (attribute.name for attribute in table.definition.attributes if attribute.unique or attribute.name in table.unproved), None
    )
    if unique is not None:
        raise ClientError(
            f"{table.name} cannot have a source, because {table.name}.{unique} is @unique: its records are what the source says, also if two of them"
            f" have the same {unique}. Declare it @indexed instead"
        )

    def setting() -> Undo:
        cache: TableCache = table.caching
        if cache is None:
            cache = TableCache(table, interface.store, interface.loop, interface.recorder)
        cache.add(source, owner, times)
        interface.caches.add(cache)
        lead = _follow(cache, source, interface) if source.has("subscribe") else None
        return partial(_undo, cache, source, lead)

    set_on_table((table.database.name, table.name, "source", source.name), setting, is_exclusive=True)


def _follow(cache: TableCache, source: Source, interface: CurrentInterface) -> Lead | None:
    """Follow the source where it says so; if it does not say, in one of the processes that have it."""

    def follow() -> None:
        cache.follow(source, SourceFollower(cache, source, interface.store).run())

    chosen = getattr(source.given, "subscribe_on_this_thread", None)
    if callable(chosen):
        if chosen(getattr(interface.server, "instance", 0)):
            follow()
        return None
    table, name = cache.table, source.name
    if name.startswith(OF_APPLICATIONS):  # the package of a module has another name in each process, and after each reload
        name = name.split(".", 2)[2]
    lead = interface.lead(f"source of {table.database.name}.{table.name}: {name}", follow, partial(cache.stop_following, source))
    if lead.is_held:
        follow()
    return lead


def _undo(cache: TableCache, source: Source, lead: Lead | None) -> None:
    cache.remove(source)
    if lead is not None:
        lead.close()
