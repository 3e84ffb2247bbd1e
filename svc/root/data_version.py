"""The version of the program that wrote the data (spec: configuration §4).

`system.svc_info` has a row per version that has worked on the data: `{id: n, version, time}`. A program that is older than the newest of them
refuses to start, for it cannot know what the newer one stored.
"""

from __future__ import annotations

import re

from svc import __version__
from svc.clock import Clock
from svc.errors import ConfigError
from svc.store import Store
from svc.store.system import INFO_TABLE, SYSTEM, ensure_system
from svc.store.values.records import decode


def parsed(version: str) -> tuple[int, ...]:
    """A version as numbers that compare: what follows the numbers does not count.

    >>> parsed("1.10.2") > parsed("1.9"), parsed("0.2.0.dev1")
    (True, (0, 2, 0))
    """
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def data_version(store: Store) -> str | None:
    """The newest version that has worked on the data; None before the first."""
    database = store.databases.get(SYSTEM)
    table = None if database is None else database.tables.get(INFO_TABLE)
    if table is None:
        return None
    versions = [record.get("version") for record in (decode(raw) for _, raw in table.scan(table.database.snapshot()))]
    return max((version for version in versions if isinstance(version, str)), key=parsed, default=None)


def ensure_version(store: Store, clock: Clock, version: str = __version__) -> str | None:
    """Bring the system database to what this program needs, and record its version in the data if it is new there. Returns the one before, None if nothing
    changed.

    Every version so far stores the same way: there is nothing to convert. Raises ConfigError if the data is of a newer program, before anything is changed;
    commits.
    """
    before = data_version(store)
    if before is not None and parsed(before) > parsed(version):
        raise ConfigError(
            f"The data was written by svc {before}, which is newer than this svc {version}: start that version, or a newer one"
        )
    ensure_system(store)
    if before is not None and parsed(before) == parsed(version):
        return None
    table = store.databases[SYSTEM].tables[INFO_TABLE]
    transaction = store.begin()
    time = clock.wall() * 1000
    transaction.put(table, version, table.validator.record({"id": version, "version": version, "time": time}))
    store.commit_now(transaction)
    return before
