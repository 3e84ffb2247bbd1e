"""The options of a subscription (spec: realtime §1)."""

from __future__ import annotations

from dataclasses import dataclass

from svc.auth.users import User
from svc.query.nodes import Filter, Select
from svc.store import Table
from svc.store.values.keys import Key


@dataclass(slots=True)
class SubscriptionRequest:
    """The target is the record `key`, the keys that begin with the string `prefix` ("a/b/"), or without either the whole table.

    `include_descendants`: besides the record `key`, all below it. `only_children`: those one level below the target, and not the target.

    The first events are one of: events from the log, if `after` (an LSN: those behind it), `start_time` (ms: those later than that) or
    `previous_count` (that many, the last ones) is given; nothing, with `omit_current`; else the current records.

    `raw_events`: patches as written, not the record they result in. `supports_transactions`: the first event of each transaction says so, and an event follows
    the last. `check_rights` False: application code subscribes, or checks rights itself; `check_rows`: rules on rows hold for `user` all the same.
    `allow_full_scan`: the current records need no index to be found (spec: query §6). `only_root`: nothing but the messages to the table as a whole.
    `keeps_all`: every change is delivered, however late: several of one record do not become one, and the subscription does not end because its client is
    slow. `pattern`: levels of keys, of which "+" stands for any one and "#", the last, for all that follow. `adds_current`: the records that are as they were
    at `after` come first, then what is behind it.
    """

    table: Table
    key: Key | None = None
    prefix: str | None = None
    where: Filter | None = None
    select: Select | None = None
    user: User | None = None
    start_time: float | None = None
    previous_count: int | None = None
    after: int | None = None
    omit_current: bool = False
    only_children: bool = False
    include_descendants: bool = False
    supports_transactions: bool = False
    raw_events: bool = False
    check_rights: bool = True
    check_rows: bool = False
    allow_full_scan: bool = False
    only_root: bool = False
    keeps_all: bool = False
    pattern: tuple[str, ...] | None = None
    adds_current: bool = False
