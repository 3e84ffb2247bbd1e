"""A client that is connected to code of an application: with a WebSocket, or for server-sent events (spec: realtime §4).

    permission -> `connect` -> a subscription, or an iterator of items

The handler runs for as long as its client listens, so there is no transaction around it: each write commits by itself. The right to read is asked for when the
client connects, and again whenever users or roles have changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from svc.api.calls import each
from svc.api.context import enter, leave
from svc.api.instances import Instance
from svc.api.readable import of_instance, readable
from svc.api.records import Record
from svc.api.subscriptions import Subscription, keep
from svc.api.target import RequestTarget
from svc.auth.users import User, user_of
from svc.awaitables import is_waiting, settled, then
from svc.errors import Problem
from svc.http.event_pump import as_event_source
from svc.loop import contained
from svc.messages import Request, Response
from svc.realtime.connected_items import ConnectedItems, Opening
from svc.realtime.delivery_queue import DeliveryQueue
from svc.realtime.event import EndReason
from svc.realtime.hub import Hub
from svc.realtime.rights_watch import RightsWatch
from svc.realtime.subscription import Subscription as TableSubscription

if TYPE_CHECKING:
    from svc.api.resource import Resource
    from svc.api.verbs import Verb

logger = logging.getLogger("svc.applications")


@contextmanager
def _running(request: Request) -> Iterator[None]:
    """Code of the application runs, in the context of the request. A defect in it says which request it was."""
    token = enter(request)
    try:
        yield
    except (Problem, StopAsyncIteration):
        raise
    except BaseException as error:
        defect = contained(error, "the handler")
        where = "" if request.handler is None else f"in {request.handler.place}, "
        note = f"{where}for {request.method} {request.target[:200]}"
        if note not in getattr(defect, "__notes__", ()):
            defect.add_note(note)
        raise defect
    finally:
        leave(token)


class Connection:
    """One client of one handler. `visible`: the attributes of the application's table that it may read; None: all."""

    __slots__ = ("_application", "_generation", "_request", "_target", "_verb", "_visible")

    def __init__(
        self,
        application: type[Resource],
        verb: Verb,
        target: RequestTarget,
        request: Request,
        visible: Callable[[RequestTarget], frozenset[str] | None],
    ) -> None:
        self._application = application
        self._verb = verb
        self._target = target
        self._request = request
        self._visible = visible
        hub = self._hub
        self._generation = 0 if hub is None else hub.generation

    def open(self, incoming: Any) -> Any:
        """Run the handler. `incoming`: messages of the client, None if it sends none. Returns an event source, an async iterator, or an awaitable of one."""
        application, verb, target, request = self._application, self._verb, self._target, self._request
        request.state.target, request.state.handler = target, verb
        messages = None if incoming is None else Messages(incoming, request)
        if incoming is not None and not verb.takes_messages:
            incoming.ignore()
        with _running(request):
            allowed = application._check_permission(verb, target, None, request)
            result = settled(then(allowed, lambda _: verb.call(application, target, messages, request)))
            if not is_waiting(result):
                return self._connected(result)
            # Without messages a handler can only prepare what it returns, and has the time of any answer for that.
            return Opening(self._open_later(result, has_limit=incoming is None), self._hub, self._watch)

    async def _open_later(self, result: Awaitable[Any], *, has_limit: bool) -> Any:
        request = self._request
        running = self._application._own_interface().running
        with running.run(self._verb, f"{request.method} {request.target[:200]}") if has_limit else nullcontext(), _running(request):
            found = settled(await result)
            while is_waiting(found):
                found = settled(await found)
        return self._connected(found)

    @property
    def _hub(self) -> Hub | None:
        realtime = self._application._own_interface().realtime
        return None if realtime is None else realtime.hub

    def _connected(self, result: Any) -> Any:
        if isinstance(result, Subscription):
            result = result.pass_on()
        source = as_event_source(result)
        if source is not None:
            self._watch_source(source)
            return source
        if hasattr(result, "__aiter__"):
            items = aiter(result)
        elif isinstance(result, Iterator | list | tuple):
            items = each(result)
        elif result is None or isinstance(result, str | bytes | Mapping | Response):
            return result  # the answer to a client that asks for an event stream
        else:
            raise TypeError(f"{self._verb.place} must return an async iterator or a subscription, not {type(result).__name__}")
        return ConnectedItems(_ItemsInContext(items, self._request, self._shown), self._hub, self._watch)

    def _shown(self, item: Any) -> Any:
        """What is sent of an item."""
        visible = self._visible(self._target)
        if visible is not None:
            item = readable(item, self._application._table, visible)
        if isinstance(item, Record):
            return item._decoded()
        return of_instance(item, None) if isinstance(item, Instance) and item._table is not None else item

    # --- rights ----------------------------------------------------------------------------------------------------------------------

    def _watch(self, end: Callable[[EndReason], None]) -> RightsWatch:
        return RightsWatch(user_of(self._request), self._generation, self._ask_again, end)

    def _ask_again(self, user: User | None) -> Any:
        request, target = self._request, self._target
        request.user = user  # for the handler, too
        target.rights = None
        with _running(request):
            allowed = settled(self._application._check_permission(self._verb, target, None, request))
        return self._in_context(allowed) if is_waiting(allowed) else None

    async def _in_context(self, waiting: Awaitable[Any]) -> None:
        with _running(self._request):
            await waiting

    def _watch_source(self, source: Any) -> None:
        hub = self._hub
        if (
            hub is None
            or (isinstance(source, TableSubscription) and source.request.check_rights)
            or getattr(source, "checks_rights", False)
        ):
            return  # they are watched already
        watch = self._watch(source.finish)
        if isinstance(source, DeliveryQueue):
            source.on("close", lambda why: hub.unwatch(watch))
        else:  # a live query, which does not tell of its end
            watch.has_ended = lambda: source.ended is not None
        hub.watch(watch)


class _ItemsInContext:
    """The items of an iterator, made in the context of the request."""

    __slots__ = ("_items", "_request", "_shown")

    def __init__(self, items: AsyncIterator[Any], request: Request, shown: Callable[[Any], Any]) -> None:
        self._items = items
        self._request = request
        self._shown = shown

    def __aiter__(self) -> _ItemsInContext:
        return self

    async def __anext__(self) -> Any:
        with _running(self._request):
            return self._shown(await anext(self._items))

    async def aclose(self) -> None:
        close = getattr(self._items, "aclose", None)
        if close is not None:
            with _running(self._request):
                await close()


class Messages:
    """The messages of the client: `async for message in incoming`, or `incoming.on("data", callback)`. They end when the client has gone."""

    __slots__ = ("_messages", "_request")

    def __init__(self, messages: Any, request: Request) -> None:
        self._messages = messages
        self._request = request

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> Any:
        return await anext(self._messages)

    def on(self, name: str, callback: Callable[..., Any]) -> Messages:
        """`"data"`: with each message; an async callback gets the next one when it is done. `"close"`: at the end, without arguments."""
        if name == "close":
            self._messages.on("close", lambda: self._call_at_end(callback))
        else:
            self._messages.on(name, lambda message: self._call(callback, message))
        return self

    def _call(self, callback: Callable[..., Any], *arguments: Any) -> Awaitable[None] | None:
        with _running(self._request):
            result = settled(callback(*arguments))
        return self._wait(result) if is_waiting(result) else None

    async def _wait(self, result: Awaitable[Any]) -> None:
        with _running(self._request):
            await result

    def _call_at_end(self, callback: Callable[..., Any]) -> None:
        waiting = self._call(callback)
        if waiting is not None:
            keep(asyncio.ensure_future(_logged(waiting)))


async def _logged(waiting: Awaitable[None]) -> None:
    try:
        await waiting
    except Exception:  # `_running` makes one of whatever is raised
        logger.exception("a callback for the end of a connection failed")
