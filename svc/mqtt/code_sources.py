"""Subscriptions to resources of application code (spec: mqtt §4.1): its `subscribe` or `connect` is called as for the other protocols.

CodeCall      the call: what it is about, in whose name, what the code answers
CodeOpening   waits for the answer, if that takes longer
PulledItems   an iterator that the code has returned: a task asks for its items, a few ahead of the client
CodeSource    what the code has returned, its items as events with a topic
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from svc.auth.roles import OPENED
from svc.auth.users import User, user_of
from svc.awaitables import is_waiting
from svc.errors import AccessViolation, Problem, ServerError
from svc.http.event_blocks import is_event
from svc.http.event_pump import WakeSignal, as_event_source
from svc.http.event_stream import close_items
from svc.loop import as_exception, contained, is_ours
from svc.messages import Request
from svc.mqtt.addresses import Filter, topic_of
from svc.mqtt.payloads import BYTES
from svc.mqtt.publishing import Sender
from svc.protocol.mqtt_topics import covers
from svc.query.authorization import narrow_query
from svc.query.nodes import Query, Select
from svc.query.select import enumerable_select
from svc.realtime.connected_items import ConnectedItems, Opening
from svc.realtime.event import EndReason
from svc.realtime.hub import Hub
from svc.realtime.rights_watch import RightsWatch
from svc.realtime.subscription import Subscription
from svc.resources import RequestTarget, Resource, TableResource

logger = logging.getLogger("svc.mqtt")

AHEAD = 64  # items of an iterator that wait for the client
FIRST_ITEM = 0.1  # seconds that the answer to SUBSCRIBE waits for the first item: what is raised until then is the answer
AGAIN = 10.0  # seconds until the code is called anew, because the client has not taken the items fast enough

Report = Callable[[BaseException], None]


def makes_events(resource: type[Resource]) -> bool:
    """Whether code of an application is to be called for a subscription: a table without any serves itself."""
    return resource.own_events or not issubclass(resource, TableResource)


def decides_reading(resource: type[Resource]) -> bool:
    """Whether code of an application says who may read."""
    return resource.own_rights is not None and "allow_read" in resource.own_rights


class CodeCall:
    """`omits_current`: the client does not want the current records."""

    def __init__(self, found: Filter, sender: Sender, *, omits_current: bool) -> None:
        """Raises Problem: the user is gone, or the filter names what is no key."""
        self._resource = found.resource
        self._target = _target_of(found)
        options = {
            "include_descendants": found.is_deep and bool(found.text),
            "only_children": found.has_children,
            "omit_current": omits_current,
        }
        self._resource.set_subscription_options(self._target, {name: True for name, is_set in options.items() if is_set})
        request = self._request = Request("SUBSCRIBE", "/" + "/".join(filter(None, (found.path, self._target.raw))), sender.block)
        request.scheme, request.peer, request.user = "mqtt", sender.peer, sender.user
        request.handler_path = found.registration.path
        self._generation = 0

    def connect(self) -> Any:
        """An event source, an iterator, or an awaitable of one. Raises Problem, and what the code raises."""
        resource = self._resource
        resource.admit(self._request)
        prepared = resource.prepare_connect(self._target, self._request)
        return resource.handle("connect", self._target, None, self._request) if prepared is None else prepared

    def not_allowed(self) -> Problem:
        return self._resource.not_allowed("subscribe", self._request.method, target=self._target)

    # --- a table whose readers are decided on by code ------------------------------------------------------------------------------------

    def permit(self, hub: Hub) -> Any:
        """Ask whether the user may read. Raises AccessViolation, or returns an awaitable that does."""
        self._generation = hub.generation
        return self._resource.permit("connect", self._target, self._request)

    @property
    def is_opened(self) -> bool:
        """Whether the code lets the user read the table, whatever the role says."""
        return self._target.rights is OPENED

    def select(self) -> Select | None:
        """What is read of a table that the code has opened: that opens none to which relationships lead."""
        resource = self._resource
        assert issubclass(resource, TableResource)
        table = resource.table
        select = enumerable_select(table) if table.has_enumerable else None
        return narrow_query(Query(select=select), table, user_of(self._request), table).select

    def watch(self, source: Subscription, hub: Hub) -> None:
        """Ask again whenever rights have changed, for as long as the source lasts."""
        watch = RightsWatch(user_of(self._request), self._generation, self._ask_again, source.finish)
        source.on("close", lambda why: hub.unwatch(watch))
        hub.watch(watch)

    def _ask_again(self, user: User | None) -> Any:
        self._request.user, self._target.rights = user, None
        return self._resource.permit("connect", self._target, self._request)


def _target_of(found: Filter) -> RequestTarget:
    """What stands in front of the wildcards: a record, the records below, the resource."""
    target = RequestTarget()
    if found.text:
        target.id_text, target.raw = found.text, found.raw
    elif found.is_root:
        target.is_root = True
    else:
        front = "/".join(found.pattern[: next(n for n, each in enumerate(found.pattern) if each in "+#")]) if found.pattern else ""
        target.is_collection, target.raw = True, ""
        if front:
            target.prefix = f"{front}/"
            target.raw = quote(target.prefix)
    found.set_parameters(target)
    if target.id_text is not None:
        found.resource.bind(target)
    return target


class CodeOpening:
    """`task`: None, nothing has to be waited for; its result is why there is no subscription, None: there is one."""

    __slots__ = ("_is_closed", "_is_revoked", "_loop", "_report", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop, report: Report) -> None:
        self._loop = loop
        self._report = report
        self._is_closed = self._is_revoked = False
        self.task: asyncio.Task[Problem | None] | None = None

    def run(self, call: Callable[[], Any], go_on: Callable[[Any], None]) -> None:
        """`go_on` gets what `call` returns or its awaitable results in. Raises Problem."""
        try:
            result = call()
            if is_waiting(result) or _is_iterator(result):
                self.task = self._loop.create_task(self._wait(result, go_on))
            else:
                go_on(result)
        except BaseException as error:
            raise self._problem(error) from None

    async def _wait(self, result: Any, go_on: Callable[[Any], None]) -> Problem | None:
        try:
            if isinstance(result, Opening):
                result.tell(self._revoke)
            while is_waiting(result):
                result = await result
            if _is_iterator(result):
                items = PulledItems(aiter(result), self._loop, self._report)
                await items.begin()
                result = items
            if not self._is_closed:
                go_on(result)
            elif (source := as_event_source(result)) is not None:
                source.close()
        except BaseException as error:
            if self._is_revoked and self.task is not None and isinstance(error, asyncio.CancelledError):
                self.task.uncancel()
                return AccessViolation(None)
            return self._problem(error)
        return None

    def _problem(self, error: BaseException) -> Problem:
        """What has been raised, for the answer; a defect is logged."""
        if isinstance(error, Problem):
            return error
        self._report(contained(error))
        return ServerError("Internal Server Error", 500)

    def _revoke(self, why: EndReason) -> None:
        """The user may not read any more."""
        self._is_revoked = True
        self.close()

    def close(self) -> None:
        """The client is gone, or may not read."""
        self._is_closed = True
        if self.task is not None:
            self._loop.call_soon_threadsafe(self.task.cancel)  # behind its first step: a coroutine that has never begun would be reported


def _is_iterator(result: Any) -> bool:
    return hasattr(result, "__aiter__") and as_event_source(result) is None


def _no_consumer() -> None:
    """Until the consumer sets its callback."""


class PulledItems:
    """An `event.EventSource` of the items of an iterator. `begin` it first."""

    def __init__(self, items: Any, loop: asyncio.AbstractEventLoop, report: Report) -> None:
        self.on_ready: Callable[[], None] = _no_consumer
        self.ended: EndReason | None = None
        self.waiting = False
        self._items = items
        self._loop = loop
        self._report = report
        self._queue: deque[Any] = deque()
        self._room = WakeSignal(loop)
        self._is_closed = False
        self._is_begun = False
        self._fault: Exception | None = None  # instead of the first item
        self._first: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(self._pull())
        if isinstance(items, ConnectedItems):
            items.tell(self._revoke)

    async def begin(self) -> None:
        """Until the first item is there, or none has come for a while. Raises what is raised instead of it."""
        try:
            await asyncio.wait((self._first,), timeout=FIRST_ITEM)
        except BaseException:
            self.close()
            raise
        self._is_begun = True
        if self._fault is not None:
            raise self._fault
        if self.ended is EndReason.REVOKED or self.ended is EndReason.NO_LOGIN:
            raise AccessViolation(None)

    async def _pull(self) -> None:
        why = EndReason.FINISHED
        try:
            async for item in self._items:
                self._queue.append(item)
                self._tell()
                while len(self._queue) >= AHEAD and not self._is_closed:
                    await self._room.wait()
        except BaseException as error:
            if is_ours(error) and (self._is_closed or not isinstance(error, asyncio.CancelledError)):
                raise
            why = EndReason.FAILED
            self._failed(as_exception(error))
        finally:
            await close_items(self._items, self._report)
            if self.ended is None:
                self.ended = why
            self._tell()

    def _failed(self, error: Exception) -> None:
        if not self._is_begun:
            self._fault = error
        elif isinstance(error, Problem):
            logger.warning("a subscription has ended: its application says %s", error.message)
        else:
            self._report(error)

    def _tell(self) -> None:
        if not self._first.done():
            self._first.set_result(None)
        if self.waiting:
            self.waiting = False
            self._loop.call_soon_threadsafe(self._notify)

    def _notify(self) -> None:
        self.on_ready()

    def take(self, limit: int) -> list[Any]:
        queue = self._queue
        found = [queue.popleft() for _ in range(min(limit, len(queue)))]
        if found:
            self._room.set()
        elif self.ended is None:
            self.waiting = True
        return found

    def _revoke(self, why: EndReason) -> None:
        """The user may not have the items any more."""
        if self.ended is None:
            self.ended = why
        self._queue.clear()
        self._cancel()
        self._tell()

    def close(self) -> None:
        self.waiting = False
        self.on_ready = _no_consumer
        if self.ended is None:
            self.ended = EndReason.FINISHED
        self._queue.clear()
        self._cancel()

    def _cancel(self) -> None:
        """A second time would cut short what the iterator does at its end."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.call_soon_threadsafe(self._task.cancel)  # behind its first step, too


class _NoChange:
    """Of an event that is no entry of a log."""

    lsn = 1  # nobody has got it before
    key = b""
    mqtt = None


class ItemEvent:
    """An item of the code as an event, for the client of one subscription. `type` "": it is not sent."""

    __slots__ = ("id", "memo", "type", "value")

    is_current = False
    change = _NoChange
    version = 0

    def __init__(self, kind: str, key: Any, value: Any) -> None:
        self.type = kind
        self.id = key
        self.value = {"contentType": BYTES, "data": bytes(value)} if isinstance(value, bytes | bytearray | memoryview) else value
        self.memo: dict[Any, Any] = {}

    def members(self, native: bool) -> dict[str, Any]:
        return {"type": self.type, "id": self.id, "value": self.value}


SENT = frozenset(("put", "message", "delete"))
_TYPES = SENT | {"invalidate", "patch", "relocate", "end_txn"}
_MEMBERS = frozenset(("type", "id", "value", "version", "timestamp", "localTime", "node", "coalesced", "begin_txn", "user"))
_OF_ROWS = {"snapshot": "put", "enter": "put", "update": "put", "leave": "delete"}  # events of a live query


def _left_out() -> ItemEvent:
    return ItemEvent("", None, None)


class CodeSource:
    """An `event.EventSource` whose events are covered by the filter. Those of a table come as they are; a mapping with the members of an event is one;
    anything else is a message about what the filter names in front of its wildcards."""

    resume_after = None

    def __init__(self, source: Any, found: Filter, text: str) -> None:
        """`text`: the filter."""
        self._source = source
        self._path = found.path
        self._levels = tuple(text.split("/"))
        front = next((number for number, level in enumerate(self._levels) if level in ("+", "#")), len(self._levels))
        self._front = "/".join(self._levels[:front])[len(found.path) :].lstrip("/") or None

    @property
    def ended(self) -> EndReason | None:
        found: EndReason | None = self._source.ended
        return found

    @property
    def waiting(self) -> bool:
        found: bool = self._source.waiting
        return found

    @property
    def on_ready(self) -> Callable[[], None]:
        found: Callable[[], None] = self._source.on_ready
        return found

    @on_ready.setter
    def on_ready(self, on_ready: Callable[[], None]) -> None:
        self._source.on_ready = on_ready

    def take(self, limit: int) -> list[Any]:
        """What the client does not get is among it, with another type."""
        return [self._event(item) for item in self._source.take(limit)]

    def close(self) -> None:
        self._source.close()

    def _event(self, item: Any) -> Any:
        if is_event(item):
            if hasattr(item, "change"):
                return item if item.type in SENT and self._covers(item.id) else _left_out()
            kind = _OF_ROWS.get(item.type)
            return _left_out() if kind is None else self._make(kind, item.id, item.members(True)["value"])
        if isinstance(item, Mapping) and item.get("type") in _TYPES and _MEMBERS.issuperset(item):
            return self._make(item["type"], item.get("id"), item.get("value")) if item["type"] in SENT else _left_out()
        return self._make("message", None, item)

    def _make(self, kind: str, key: Any, value: Any) -> ItemEvent:
        if key is None:
            return ItemEvent(kind, self._front, value)
        return ItemEvent(kind, key, value) if self._covers(key) else _left_out()

    def _covers(self, key: Any) -> bool:
        topic = topic_of(self._path, key)
        return topic is not None and covers(self._levels, tuple(topic.split("/")))
