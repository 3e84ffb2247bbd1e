"""Tables whose records are copies of what a source has (spec: caching): what the store does for them.

A copy is a record with the flag IS_COPY and the time of its last refresh (`values.records`). Past its expiry it is stale: it is found and read until it
is refreshed or evicted, and the code that resolves reads of the table decides what is done with it. `copies` has the writes that only copies know;
`fetch_locks` lets one process at a time ask the source for a record.
"""

from __future__ import annotations

from svc.store.caching.copies import FetchedAnswer, State
from svc.store.caching.fetch_locks import FetchLock, FetchLocks

__all__ = ["FetchLock", "FetchLocks", "FetchedAnswer", "State"]
