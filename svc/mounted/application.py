"""An ASGI application under a path: a listener for requests, and one for WebSockets (spec: asgi §1).

The chain of listeners has found the path to be that of the application, so the listeners ask nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from svc.api.context import Context, entered
from svc.errors import ServerError
from svc.messages import Abort, Request, Response
from svc.mounted.http_call import HttpCall
from svc.mounted.lifespan import Lifespan, LifespanState
from svc.mounted.messages import AsgiApplication, Scope
from svc.mounted.request_body import RequestBody, body_of_request
from svc.mounted.scope import http_scope, websocket_scope
from svc.mounted.websocket_call import WebSocketCall
from svc.websocket import WebSocket
from svc.websocket.opening_handshake import offered_protocols

END_SECONDS = 5.0  # for what an application does at its end

LogError = Callable[[str, BaseException | None], None]


class HttpListener:
    """The listener of requests: it receives long bodies while they come."""

    passes_on = False

    def __init__(self, mounted: MountedApplication) -> None:
        self._answer = mounted.answer

    def __call__(self, request: Request, next: Callable[[Request], Any], /) -> Any:
        return self._answer(request, next)

    def body_channel(self, request: Request) -> RequestBody | None:
        return body_of_request(request)


class MountedApplication:
    """`http` and `websocket` are the listeners. `path`: without a `/` at its end; "" mounts at the root."""

    def __init__(
        self, app: AsgiApplication, path: str, *, loop: asyncio.AbstractEventLoop, log: Any, lifespan: AsgiApplication | None = None
    ) -> None:
        """`log`: a `logs.Logger`. `lifespan`: what is called with the scope of that, if not `app`. Raises ValueError for a path that cannot be one."""
        self.path = mount_path(path)
        self.app = app
        self.loop = loop
        self.name = f"the application at {self.path or '/'}"
        self._log = log
        self.http = HttpListener(self)
        self._lifespan = Lifespan(lifespan or app, self.name, loop, log)
        self._tasks: set[asyncio.Task[None]] = set()

    # --- listeners -------------------------------------------------------------------------------------------------------------------

    def answer(self, request: Request, next: Callable[[Request], Any]) -> Any:
        """The answer, or an awaitable of it."""
        if request.is_websocket and request.method == "GET":  # other methods cannot open one
            return next(request)  # to `websocket`
        if self._lifespan.is_settled:
            return self._serve(request)
        return self._serve_later(request)

    async def websocket(self, ws: WebSocket, request: Request, chain_completion: Awaitable[Any], next: Callable[..., Any]) -> None:
        answer = await chain_completion
        if answer is not None:
            raise Abort(answer)  # of a listener before it
        await self.serve_websocket(ws, request)

    async def serve_websocket(self, ws: WebSocket, request: Request) -> None:
        """Raises Abort with the answer that refuses the handshake."""
        await self._lifespan.wait()
        self._check()
        scope = websocket_scope(request, self.path, self._lifespan.values, offered_protocols(request))
        request.handler_path = self.path[1:]
        await WebSocketCall(self, scope, ws, request).run()

    def _serve(self, request: Request) -> Awaitable[Response]:
        self._check()
        request.handler_path = self.path[1:]
        body, request.upload = request.upload, None
        if body is not None and not isinstance(body, RequestBody):
            return self._serve_upload(request, body)
        call = HttpCall(self, http_scope(request, self.path, self._lifespan.values), request, body)
        call.start()
        return call.response()

    async def respond(self, request: Request) -> tuple[Response, Scope]:
        """The answer, and the scope as the application has left it. A body that is coming can be taken once."""
        await self._lifespan.wait()
        self._check()
        request.handler_path = self.path[1:]
        body, request.upload = request.upload, None
        if body is not None and not isinstance(body, RequestBody):
            request.content = await body.bytes()
            body = None
        scope = http_scope(request, self.path, self._lifespan.values)
        call = HttpCall(self, scope, request, body)
        call.start()
        return await call.response(), scope

    async def _serve_upload(self, request: Request, upload: Any) -> Response:
        """The body has gone into a file, for the resource that has the same address."""
        request.content = await upload.bytes()
        return await self._serve(request)

    async def _serve_later(self, request: Request) -> Response:
        await self._lifespan.wait()
        return await self._serve(request)

    def _check(self) -> None:
        """Raise ServerError unless it has started."""
        if self._lifespan.state is LifespanState.FAILED:
            raise ServerError(f"The application has not started: {self._lifespan.reason}")
        if self._lifespan.state is LifespanState.ENDED:
            raise ServerError("The application has ended", 503)

    # --- start and end -----------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin its lifespan. It goes on when the loop runs; requests wait for it."""
        self._lifespan.start()

    async def started(self) -> str:
        """Wait until the start is over. Returns why it has failed, "" if it has not."""
        await self._lifespan.wait()
        return self._lifespan.reason if self._lifespan.state is LifespanState.FAILED else ""

    async def stop(self, seconds: float = END_SECONDS) -> None:
        """End it: calls that are under way get `seconds` altogether, and then its lifespan as long again."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=seconds)
        await self._lifespan.stop(seconds)

    # --- for the calls -----------------------------------------------------------------------------------------------------------------

    def log_error(self, where: str, error: BaseException | None) -> None:
        self._log.error(where, error)

    def run(self, work: Coroutine[Any, Any, None], request: Request) -> asyncio.Task[None]:
        """A task of the application, in a context of its own: what it writes to tables does not wait for the answer to be committed."""
        with entered(Context(request.user)):
            task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def mount_path(path: str) -> str:
    """
    >>> mount_path("/api/"), mount_path("api"), mount_path("/")
    ('/api', '/api', '')
    """
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") for part in parts) or not path.isprintable():
        raise ValueError(f"not a path to mount an application at: {path!r}")
    return "".join(f"/{part}" for part in parts)
