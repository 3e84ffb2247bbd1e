"""Subscriptions of application code: `subscribe` of a table, and of a resource without one (spec: realtime §4).

async for event in Product.subscribe("42"): ...
subscription = await Product.subscribe(conditions=[...], omit_current=True, listener=on_event)
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from svc.api.context import AnyContext
from svc.api.target import RequestTarget
from svc.auth.roles import ALL_RIGHTS, OPENED
from svc.auth.users import User
from svc.awaitables import AlreadyThere, is_waiting, settled
from svc.errors import ClientError, MethodNotAllowed
from svc.http.event_pump import iter_source
from svc.loop import contained
from svc.messages import Request
from svc.query.authorization import narrow_query
from svc.query.select import enumerable_select
from svc.realtime.delivery_queue import DeliveryQueue
from svc.realtime.event import EndReason
from svc.realtime.resume import RECONNECTED, parse_event_id
from svc.realtime.subscription_request import SubscriptionRequest
from svc.resources.subscribing import refuse_whole_results, subscribed_query
from svc.store.values.conversion import check_key

if TYPE_CHECKING:
    from svc.api.current import CurrentInterface
    from svc.resources.table_resource import TableResource

logger = logging.getLogger("svc.applications")

MAX_TIME = 1e16  # ms

_running: set[asyncio.Future[Any]] = set()  # asyncio itself holds only weak references to tasks


class Subscription(AlreadyThere):
    """Events, and what is sent with `send`: iterated, or passed to callbacks with `on("data", callback)`. It may be awaited, and is itself then.

    A handler of `connect` may return it; then its client gets what comes. One that nobody uses any more ends by itself.
    """

    __slots__ = ("_events", "_is_passed_on", "_loop", "source")

    def __init__(self, source: Any, loop: asyncio.AbstractEventLoop) -> None:
        """`source`: an `event.EventSource`."""
        self.source = source
        self._loop = loop
        self._events: AsyncIterator[Any] | None = None
        self._is_passed_on = False

    def __await__(self) -> Generator[Any, Any, Self]:
        return self
        yield

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._events is None:
            source = self.source
            self._events = aiter(source) if hasattr(source, "__aiter__") else _rows(source, self._loop)
        return await anext(self._events)

    async def aclose(self) -> None:
        self.source.close()

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.source.ended is not None

    def send(self, event: Any) -> None:
        """Deliver `event`, which may be anything, behind the events of all commits up to now."""
        if not isinstance(self.source, DeliveryQueue):
            raise TypeError("a live query delivers its result and nothing else")
        self.source.send(event)

    def on(self, name: str, callback: Callable[..., Any]) -> Subscription:
        """`name` "data": `callback` is called with each event, one after the other. "close": it is called at the end; one with a parameter gets the reason,
        a text. It may be async."""
        if name == "data":
            self._is_passed_on = True
            if isinstance(self.source, DeliveryQueue):
                self.source.on("data", lambda event: _made(callback(event)))
            else:
                keep(self._loop.create_task(self._pass_to(callback)))
        elif name == "close":
            if not isinstance(self.source, DeliveryQueue):
                raise TypeError("a live query has no event 'close': it ends when its iteration ends")
            self.source.on("close", _closing(callback, self._loop))
        else:
            raise ValueError(f"a subscription has no event {name!r}: it has data and close")
        return self

    async def _pass_to(self, callback: Callable[..., Any]) -> None:
        async for event in _rows(self.source, self._loop):
            try:
                result = settled(callback(event))
                if is_waiting(result):
                    await result
            except BaseException as error:
                logger.error("a subscriber failed on an event", exc_info=contained(error))

    def end(self) -> None:
        """End it. What is queued can still be taken."""
        if isinstance(self.source, DeliveryQueue):
            self.source.end()
        else:
            self.source.close()

    def pass_on(self) -> Any:
        """Its source, for a protocol, which closes it."""
        self._is_passed_on = True
        return self.source

    def __del__(self) -> None:
        source = self.source
        if not self._is_passed_on and source.ended is None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(source.close)

    def __repr__(self) -> str:
        return f"<Subscription {'ended' if self.ended else 'open'}>"


class RowEvent(dict[str, Any]):
    """An event of a live query."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self["localTime" if name == "local_time" else name]
        except KeyError:
            raise AttributeError(f"an event of this type has no {name!r}") from None


async def _rows(source: Any, loop: asyncio.AbstractEventLoop) -> AsyncIterator[RowEvent]:
    async for event in iter_source(source, loop):
        yield RowEvent(event.members(True))


def _made(result: Any) -> Any:
    """A call that a callback has returned without awaiting it is made."""
    result = settled(result)
    return result if is_waiting(result) else None


def _closing(callback: Callable[..., Any], loop: asyncio.AbstractEventLoop) -> Callable[[EndReason], None]:
    try:
        inspect.signature(callback).bind("")
        takes_reason = True
    except (TypeError, ValueError):
        takes_reason = False

    def closed(why: EndReason) -> None:
        result = _made(callback(why.value) if takes_reason else callback())
        if result is not None:
            keep(loop.create_task(_awaited(result)))

    return closed


async def _awaited(result: Any) -> None:
    try:
        await result
    except BaseException as error:
        logger.error("a subscriber failed on the end of a subscription", exc_info=contained(error))


def keep(task: asyncio.Future[Any]) -> None:
    _running.add(task)
    task.add_done_callback(_running.discard)


# --- opening --------------------------------------------------------------------------------------------------------------------------------


def empty_subscription(interface: CurrentInterface) -> Subscription:
    """A subscription to nothing, which does not end by itself: what is sent to it is all there is."""
    return Subscription(DeliveryQueue(interface.loop), interface.loop)


def subscribe_to_table(
    served: type[TableResource], interface: CurrentInterface, target: RequestTarget, context: AnyContext | None
) -> Subscription:
    """What `target` asks for, of a table of `interface`. A call of code has all rights; what the client of a protocol asks for has those of its user's
    role, as long as it lasts.

    Raises ClientError, QueryError, AccessViolation.
    """
    realtime = interface.realtime
    if realtime is None:
        raise MethodNotAllowed(f"{served.__name__} has no events here", ("OPTIONS",))
    table = served.table
    narrowed = target.rights is not None and target.rights is not ALL_RIGHTS  # by rules on rows
    checked = narrowed and target.rights is not OPENED
    user: Any = None if context is None else context.user
    assert user is None or isinstance(user, User)
    request = context if isinstance(context, Request) and context.state.target is target else None
    options = target.subscription_options or {}
    query = subscribed_query(served, target) if target.is_plain else target.query_for(table)
    if target.rights is OPENED:  # this table is open to the caller, those that its relationships lead to are not
        if query.select is None and query.aggregate is None and table.has_enumerable:
            query = replace(query, select=enumerable_select(table))
        query = narrow_query(query, table, user, table)
    allow = target.option("allow_full_scan")
    allow_full_scan = (request is None or served.allow_full_scan) if allow is None else bool(allow)
    key, prefix = _address(target, table)
    if query.live:
        if key is not None or options.keys() - {"listener"}:
            raise ClientError("A live query is of a collection, and has none of the options of a subscription but listener")
        source: Any = realtime.live.subscribe(
            query, table, user, key_prefix=prefix, allow_full_scan=allow_full_scan, check_rights=checked, check_rows=narrowed
        )
        if request is not None and "last-event-id" in request.block.fields:
            source.reset_reason = RECONNECTED
    else:
        refuse_whole_results(query, target.query or "")
        wanted = SubscriptionRequest(
            table,
            key,
            prefix,
            query.where,
            query.select,
            user,
            start_time=_milliseconds(options.get("start_time")),
            previous_count=options.get("previous_count"),
            after=None if request is None else parse_event_id(request.block.get("last-event-id")),
            omit_current=bool(options.get("omit_current")),
            only_children=bool(options.get("only_children")),
            include_descendants=bool(options.get("include_descendants")),
            supports_transactions=bool(options.get("supports_transactions")),
            raw_events=bool(options.get("raw_events")),
            check_rights=checked,
            check_rows=narrowed,
            allow_full_scan=allow_full_scan,
        )
        source = realtime.subscribe(wanted)
    subscription = Subscription(source, interface.loop)
    listener = options.get("listener")
    if listener is not None:
        if not callable(listener):
            source.close()
            raise TypeError(f"listener must be a function, not {type(listener).__name__}")
        subscription.on("data", listener)
    return subscription


def _address(target: RequestTarget, table: Any) -> tuple[Any, str | None]:
    """(key, None) of one record, (None, prefix) of the records below, (None, None) of the table."""
    if target.id is None:
        return None, target.prefix
    if not target.is_collection:
        return check_key(table.definition, target.id), None
    parts = target.id if isinstance(target.id, tuple | list) else (target.id,)
    if not all(isinstance(part, str) for part in parts):
        raise ClientError("The keys of a collection begin with a text or a list of texts")
    prefix = "/".join(parts)
    return None, prefix if prefix.endswith("/") or not prefix else f"{prefix}/"


def _milliseconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.timestamp() * 1000
    if type(value) in (int, float) and abs(value) < MAX_TIME:
        return float(value)
    raise ClientError("start_time must be a time in milliseconds since 1970, or a datetime")
