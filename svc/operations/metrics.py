"""`GET /metrics` of the operations port, for Prometheus and other programs that read its formats (spec: analytics §10).

The text is made in slices of the loop, once for all who ask within a second; a reader that is no super user gets of it what names no hidden tables.
What the operating system has to be asked is measured on a helper thread. Where there are several instances, the one that is asked puts the figures of all
together; a process that does not answer in time is shown as such.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from svc.analytics.exposition import (
    END_OF_OPENMETRICS,
    GAUGE,
    OPENMETRICS_TYPE,
    TEXT_TYPE,
    Family,
    Gauge,
    accepts_openmetrics,
    family_name,
    iter_lines,
    label_text,
    merge_families,
    with_label,
)
from svc.analytics.process_figures import ProcessFigures, measure
from svc.auth.users import user_of
from svc.errors import AccessViolation
from svc.http.compression import VARY, Compression
from svc.messages import Request, Response
from svc.operations.instance_metrics import OF_THE_NODE, instance_families, process_families, store_families
from svc.operations.permissions import authorize
from svc.operations.registry import by_name
from svc.operations.visible_names import VisibleNames

if TYPE_CHECKING:
    from svc.operations.node import Node
    from svc.siblings import Answer

METRICS_PATH: Final = "/metrics"
KEPT_SECONDS: Final = 1.0  # as often as there are new figures
PIECE: Final = 1 << 16  # bytes of a long text that are sent at a time

TOPIC: Final = "operations.metrics"  # how siblings ask: for True OpenMetrics, for False the text format

_GRANTED_BY: Final = "get_analytics"

Lines = list[tuple[bytes, bytes]]  # (head of a family, lines of it)


class Metrics:
    """Answers for one node. `is_ready`: as for `/ready`."""

    def __init__(self, node: Node, compression: Compression, is_ready: Callable[[], bool]) -> None:
        self._node = node
        self._compression = compression
        self._is_ready = is_ready
        settings = node.config.operations_api.metrics
        self._is_open = settings.access == "open"
        self._max_tables = settings.max_label_sets
        self._texts = _OncePerSecond(node, self._make)
        self._own = _OncePerSecond(node, self._make_own)

    def answer(self, request: Request) -> Any:
        """The response, or an awaitable of it. Raises Problem 401, 403 or 406."""
        if not self._is_open:
            self._authorize(request)
        openmetrics = accepts_openmetrics(request.block.get("accept"))
        kept = self._texts.find(openmetrics)
        return self._wait(request, openmetrics) if kept is None else self._answer_to(request, openmetrics, kept)

    async def answer_sibling(self, openmetrics: bool) -> Lines:
        """What this process has counted and measured itself."""
        return [each for each in await self._own.get(openmetrics) if family_name(each[0]) not in OF_THE_NODE]

    def _authorize(self, request: Request) -> None:
        user = user_of(request)
        if user is None:
            raise AccessViolation(None)
        authorize(by_name()[_GRANTED_BY], _GRANTED_BY, {}, user, self._node)

    async def _wait(self, request: Request, openmetrics: bool) -> Response:
        pieces = await self._texts.get(openmetrics)
        answer = self._answer_to(request, openmetrics, pieces)
        return answer if isinstance(answer, Response) else await answer

    def _answer_to(self, request: Request, openmetrics: bool, pieces: list[bytes]) -> Response | Awaitable[Response]:
        user = user_of(request)
        if user is not None and user.super_user:
            return self._response(request, openmetrics, b"".join(pieces))
        return self._answer_visible(request, openmetrics, pieces, VisibleNames(self._node, user))

    async def _answer_visible(self, request: Request, openmetrics: bool, pieces: list[bytes], visible: VisibleNames) -> Response:
        shown: list[bytes] = []

        def steps() -> Iterator[None]:
            for piece in pieces:
                shown.append(visible.lines(piece))
                yield

        await self._node.store.slices.exhaust(steps())
        return self._response(request, openmetrics, b"".join(shown))

    def _response(self, request: Request, openmetrics: bool, body: bytes) -> Response:
        pairs = [("Content-Type", OPENMETRICS_TYPE if openmetrics else TEXT_TYPE), ("Cache-Control", "no-store"), VARY]
        if len(body) <= PIECE:
            return self._compression.apply(request, Response(body, 200, pairs=pairs))
        # In pieces as the client takes them: its connection does not hold a copy of the whole.
        pairs.append(("Content-Length", str(len(body))))
        pieces = (body[start : start + PIECE] for start in range(0, len(body), PIECE))
        return self._compression.apply(request, Response(pieces, 200, pairs=pairs))

    async def _make(self, openmetrics: bool) -> list[bytes]:
        """Pieces of whole lines."""
        node = self._node
        own, others = await asyncio.gather(self._own.get(openmetrics), node.ask_others(TOPIC, openmetrics))
        parts = [own]
        if others or node.config.instances > 1:
            parts = await node.store.slices.result(self._iter_labelled(own, others, openmetrics))
        pieces = merge_families(parts)
        return [*pieces, END_OF_OPENMETRICS] if openmetrics else pieces

    def _iter_labelled(self, own: Lines, others: Sequence[Answer], openmetrics: bool) -> Generator[None, None, list[Lines]]:
        """What each says of itself, by its number, and what is of all."""
        number = self._node.instance
        up = sorted([(number, True), *((each.number, each.error is None) for each in others)])
        gauges = [Gauge(label_text([("instance", str(number))]), int(is_up)) for number, is_up in up]
        found = [[*iter_lines([Family("svc_instance_up", GAUGE, "1 for each instance that has told its figures.", gauges)], openmetrics)]]
        for each, told in ((number, own), *((answer.number, answer.value or ()) for answer in others)):
            labelled: Lines = []
            found.append(labelled)
            for head, lines in told:
                is_of_all = family_name(head) in OF_THE_NODE
                labelled.append((head, lines if is_of_all else with_label(lines, "instance", str(each))))
                yield
        return found

    async def _make_own(self, openmetrics: bool) -> Lines:
        node = self._node
        measuring = partial(measure, node.store.path, node.store.caches.used)
        figures = await node.loop.run_in_executor(node.executor, measuring)
        return await node.store.slices.result(self._iter_made(figures, openmetrics))

    def _iter_made(self, figures: ProcessFigures, openmetrics: bool) -> Generator[None, None, Lines]:
        node = self._node
        of_store = yield from store_families(node.store, self._max_tables)
        recorded = () if node.analytics is None else node.analytics.totals.families()
        families = chain(instance_families(node, is_ready=self._is_ready()), process_families(figures), of_store, recorded)
        found: Lines = []
        for each in iter_lines(families, openmetrics):
            found.append(each)
            yield
        return found


_Made = TypeVar("_Made")


class _OncePerSecond(Generic[_Made]):
    """What `make(openmetrics)` has made within the last second, for all who ask for it."""

    def __init__(self, node: Node, make: Callable[[bool], Coroutine[Any, Any, _Made]]) -> None:
        self._loop = node.loop
        self._now = node.clock.monotonic
        self._make = make
        self._kept: dict[bool, tuple[float, _Made]] = {}  # by format: when it was made, and what
        self._making: dict[bool, asyncio.Task[_Made]] = {}

    def find(self, openmetrics: bool) -> _Made | None:
        kept = self._kept.get(openmetrics)
        return None if kept is None or self._now() - kept[0] >= KEPT_SECONDS else kept[1]

    async def get(self, openmetrics: bool) -> _Made:
        found = self.find(openmetrics)
        if found is not None:
            return found
        making = self._making.get(openmetrics)
        if making is None:
            making = self._making[openmetrics] = self._loop.create_task(self._make(openmetrics))
            making.add_done_callback(partial(self._made, openmetrics))
        return await asyncio.shield(making)  # another client may wait for it when this one leaves

    def _made(self, openmetrics: bool, task: asyncio.Task[_Made]) -> None:
        del self._making[openmetrics]
        if not task.cancelled() and task.exception() is None:
            self._kept[openmetrics] = (self._now(), task.result())
