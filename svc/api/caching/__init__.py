"""Tables with a source: reading through them, writing through them, following the source (spec: caching).

source_from -> TableCache, which hangs on the table of the store and is asked by each reader
    directives   what the request says of it
    sources      the application's source, in whatever form it is, and what its results and errors mean
    loading      one record is fetched and stored
    searches     what a query finds is loaded first
    fetches      one call at a time for each record, on all instances; a queue where there are too many
    written      writes that the source gets first
    following    events of an active source
"""

from __future__ import annotations

from svc.api.caching.cache import TableCache
from svc.api.caching.entry import Entry
from svc.api.caching.naming import name_source, spelled

__all__ = ["Entry", "TableCache", "name_source", "spelled"]
