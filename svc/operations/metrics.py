"""`GET /metrics` of the operations port, for Prometheus and other programs that read its formats (spec: analytics §10).

The text is made in slices of the loop, once for all who ask within a second; a reader that is no super user gets of it what names no hidden tables.
What the operating system has to be asked is measured on a helper thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from svc.analytics.exposition import OPENMETRICS_TYPE, TEXT_TYPE, accepts_openmetrics, iter_text
from svc.analytics.process_figures import ProcessFigures, measure
from svc.auth.users import user_of
from svc.errors import AccessViolation
from svc.http.compression import VARY, Compression
from svc.messages import Request, Response
from svc.operations.instance_metrics import instance_families, process_families, store_families
from svc.operations.permissions import authorize
from svc.operations.registry import by_name
from svc.operations.visible_names import VisibleNames

if TYPE_CHECKING:
    from svc.operations.node import Node

METRICS_PATH: Final = "/metrics"
KEPT_SECONDS: Final = 1.0  # as often as there are new figures
PIECE: Final = 1 << 16  # bytes of a long text that are sent at a time

_GRANTED_BY: Final = "get_analytics"


class Metrics:
    """Answers for one node. `is_ready`: as for `/ready`."""

    def __init__(self, node: Node, compression: Compression, is_ready: Callable[[], bool]) -> None:
        self._node = node
        self._compression = compression
        self._is_ready = is_ready
        settings = node.config.operations_api.metrics
        self._is_open = settings.access == "open"
        self._max_tables = settings.max_label_sets
        self._kept: dict[bool, tuple[float, list[bytes]]] = {}  # by format: when it was made, monotonic; pieces of whole lines
        self._making: dict[bool, asyncio.Task[list[bytes]]] = {}

    def answer(self, request: Request) -> Any:
        """The response, or an awaitable of it. Raises Problem 401, 403 or 406."""
        if not self._is_open:
            self._authorize(request)
        openmetrics = accepts_openmetrics(request.block.get("accept"))
        kept = self._kept.get(openmetrics)
        if kept is not None and self._node.clock.monotonic() - kept[0] < KEPT_SECONDS:
            return self._answer_to(request, openmetrics, kept[1])
        return self._wait(request, openmetrics)

    def _authorize(self, request: Request) -> None:
        user = user_of(request)
        if user is None:
            raise AccessViolation(None)
        authorize(by_name()[_GRANTED_BY], _GRANTED_BY, {}, user, self._node)

    async def _wait(self, request: Request, openmetrics: bool) -> Response:
        making = self._making.get(openmetrics)
        if making is None:
            making = self._making[openmetrics] = self._node.loop.create_task(self._make(openmetrics))
            making.add_done_callback(partial(self._made, openmetrics))
        pieces = await asyncio.shield(making)  # another client may wait for it when this one leaves
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

    def _made(self, openmetrics: bool, task: asyncio.Task[list[bytes]]) -> None:
        del self._making[openmetrics]
        if not task.cancelled() and task.exception() is None:
            self._kept[openmetrics] = (self._node.clock.monotonic(), task.result())

    def _response(self, request: Request, openmetrics: bool, body: bytes) -> Response:
        pairs = [("Content-Type", OPENMETRICS_TYPE if openmetrics else TEXT_TYPE), ("Cache-Control", "no-store"), VARY]
        if len(body) <= PIECE:
            return self._compression.apply(request, Response(body, 200, pairs=pairs))
        # In pieces as the client takes them: its connection does not hold a copy of the whole.
        pairs.append(("Content-Length", str(len(body))))
        pieces = (body[start : start + PIECE] for start in range(0, len(body), PIECE))
        return self._compression.apply(request, Response(pieces, 200, pairs=pairs))

    async def _make(self, openmetrics: bool) -> list[bytes]:
        node = self._node
        measuring = partial(measure, node.store.path, node.store.caches.used)
        figures = await node.loop.run_in_executor(node.executor, measuring)
        return await node.store.slices.result(self._iter_made(figures, openmetrics))

    def _iter_made(self, figures: ProcessFigures, openmetrics: bool) -> Generator[None, None, list[bytes]]:
        node = self._node
        of_store = yield from store_families(node.store, self._max_tables)
        recorded = () if node.analytics is None else node.analytics.totals.families()
        families = chain(instance_families(node, is_ready=self._is_ready()), process_families(figures), of_store, recorded)
        pieces: list[bytes] = []
        for piece in iter_text(families, openmetrics):
            pieces.append(piece)
            yield
        return pieces
