"""A table as a resource: reading, writing, events. One subclass per table, made by `table_resource` (architecture §11; spec: http §2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from svc.auth.users import user_of
from svc.messages import Request
from svc.query import QueryCache
from svc.realtime.event import EventSource
from svc.resources.subscribing import subscribed_query, subscription_request
from svc.resources.table_writing import TableWriting
from svc.resources.target import RequestTarget
from svc.store import Store, Table
from svc.store.schema import key_enum, key_type
from svc.store.system import SYSTEM

if TYPE_CHECKING:
    from svc.realtime.realtime import Realtime


class TableResource(TableWriting):
    """Class attributes are set per table; every verb is a class method that returns at once."""

    realtime: ClassVar[Realtime | None] = None  # None: the table has no events
    verbs = frozenset({"get", "search", "put", "patch", "post", "delete", "query", "subscribe", "connect", "publish"})

    @classmethod
    def prepare_connect(cls, target: RequestTarget, request: Request) -> EventSource:
        super().prepare_connect(target, request)
        return cls.on_subscribe(target, None, request)

    @classmethod
    def on_subscribe(cls, target: RequestTarget, data: Any, request: Request) -> EventSource:
        """The events of a record or a collection (spec: realtime §1); with `live()`, those of a query's result."""
        if cls.realtime is None:
            raise cls.not_allowed("subscribe", request.method, target=target)
        query = subscribed_query(cls, target)
        if not query.live:
            return cls.realtime.subscribe(subscription_request(cls, query, target, request))
        subscription = cls.realtime.subscribe_to_query(
            query,
            cls.table,
            user_of(request),
            key_prefix=target.prefix,
            allow_full_scan=cls.allow_full_scan,
            reconnected="last-event-id" in request.block.fields,
        )
        return cast(EventSource, subscription)


def table_resource(
    table: Table,
    store: Store,
    queries: QueryCache,
    *,
    path: str | None = None,
    allow_full_scan: bool = False,
    shows_record_count: bool = False,
    realtime: Realtime | None = None,
) -> type[TableResource]:
    """The resource class of `table`. `path`: its address, default the type's name. `realtime`: the source of its events, if it has any."""
    name = path if path is not None else (table.definition.export.path if table.definition.export else table.name)
    return type(
        table.name,
        (TableResource,),
        {
            "table": table,
            "store": store,
            "queries": queries,
            "realtime": realtime,
            "name": name,
            "allow_full_scan": allow_full_scan,
            "shows_record_count": shows_record_count,
            "is_system": table.database.name == SYSTEM,
            "text_keys": key_type(table.definition) in ("ID", "String")
            and not table.definition.split_segments
            and key_enum(table.definition) is None,
            "untyped_keys": key_type(table.definition) == "Any",
            "properties": {a.name: a for a in table.definition.attributes},
        },
    )
