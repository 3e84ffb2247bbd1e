"""What a live query asks, taken apart: how its result is followed, and the functions that this needs.

    PLAIN      conditions on the record itself, and no order: a change of a record says by itself what becomes of the result
    KEPT       an order, a limit, or relationships that can be followed both ways: the keys of the result are kept, and those records are looked
               at again that a change may concern
    RUN        relationships that cannot be followed backwards without reading a table, and aggregates: the query is run again

A live query with a limit has an order, that of the primary key if it does not say another one: without, its result would be no particular
records.
"""

from __future__ import annotations

from dataclasses import replace

from svc.errors import ClientError, QueryError
from svc.query import plan_query
from svc.query.access_paths import collection_below
from svc.query.aggregate import row_names
from svc.query.definition_cache import Definitions
from svc.query.executor import compiled_plan, sort_keys_for
from svc.query.functions import Encoded, Filter, filter_of
from svc.query.matching import reads_others
from svc.query.nodes import Query, SortKey
from svc.query.plan import AllOf, Plan, Predicate, iter_members
from svc.query.relations import Links
from svc.query.resolve import resolve_where
from svc.query.select import Shape, enumerable_select
from svc.realtime.live.chains import Chain, chains_of, is_followed_back
from svc.store import Table
from svc.store.env import Txn

PLAIN, KEPT, RUN = "plain", "kept", "run"

MAX_WINDOW = 10_000  # offset + limit: so many places are compared with each change
LEAST_SLACK = 32  # rows known behind a window, so that it need not be read again with each row that leaves it


class Asked:
    """A query of a table, as one user may ask it. `query`: without `live`, but with an order if it needs one."""

    __slots__ = (
        "aggregate_keys",
        "chains",
        "definitions",
        "end",
        "has_index",
        "keep",
        "mode",
        "offset",
        "plan",
        "predicate",
        "prefix",
        "query",
        "shape",
        "sort_keys",
        "table",
        "test",
    )

    def __init__(self, query: Query, table: Table, prefix: str | None, allow_full_scan: bool | None, txn: Txn) -> None:
        """Raises QueryError; IndexRebuilding if the index that is needed is being built."""
        if query.after is not None or query.explain:
            raise QueryError("live() stands neither beside a cursor nor beside explain: its result has no pages", code="QUERY_SYNTAX")
        query = replace(query, live=False)
        if table.has_enumerable and query.select is None and query.aggregate is None:
            query = replace(query, select=enumerable_select(table))
        is_window = query.aggregate is None and (query.limit is not None or query.offset > 0)
        plan_query(query, table, txn, allow_full_scan=allow_full_scan, key_prefix=prefix)  # refuses what would be refused once
        self.offset = query.offset if is_window else 0
        self.end = None if query.limit is None or not is_window else query.offset + query.limit
        if (self.end or self.offset) > MAX_WINDOW:
            raise ClientError(f"A live query follows at most the first {MAX_WINDOW} records of an order, make offset and limit smaller")
        if is_window and not query.sort:
            query = replace(query, sort=(SortKey((table.primary_key,)),))
        self.query = query
        self.table = table
        self.prefix = prefix
        self.keep = None if self.end is None else self.end + max(LEAST_SLACK, self.end // 2)
        self.has_index = bool(query.sort) or (query.aggregate is not None and query.aggregate.kind != "count")
        run = query if query.aggregate is not None else replace(query, offset=0, limit=self.keep)
        # Refused was it above, if at all: an order that is added here, or left out of an aggregate, is no reason.
        self.plan: Plan = plan_query(run, table, txn, allow_full_scan=True, key_prefix=prefix)
        self.definitions = Definitions(table)
        self.predicate: Predicate | None = None if query.where is None else resolve_where(query.where, table)
        if prefix is not None:
            below = collection_below(table, prefix)
            self.predicate = below if self.predicate is None else AllOf((below, *iter_members(self.predicate)))
        self.chains: list[Chain] = chains_of(query, self.predicate, table)
        links = Links()
        joins = reads_others(self.predicate)
        self.test: Filter | None = None if self.predicate is None else filter_of(self.predicate, table, links)
        self.shape: Shape | None = None
        self.sort_keys: Encoded | None = None
        self.aggregate_keys: tuple[str, ...] = ()
        if query.aggregate is not None:
            self.mode = RUN
            self.aggregate_keys = row_names(query.aggregate)[: len(query.aggregate.keys)]
            if joins:
                self.test = None
            return
        if query.select is not None:
            self.shape = compiled_plan(self.plan, False).shape
        if query.sort:
            self.sort_keys, _ = sort_keys_for(query.sort, table)
        if self.chains:
            self.mode = KEPT if all(is_followed_back(chain) for chain in self.chains) else RUN
            if self.mode == RUN and joins:
                self.test = None
        else:
            self.mode = KEPT if query.sort else PLAIN
