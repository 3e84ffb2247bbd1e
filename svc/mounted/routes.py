"""The ASGI applications of framework routes at one path: asked one after the other when no resource has the address (spec: plugins §1).

What answers 404 passes on to the next one, and at the end to the listeners behind. If none of them has the address, the first 404 is the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from svc.analytics.recorder import FRAMEWORK_ROUTE
from svc.errors import ApplicationFault
from svc.messages import Abort, Feed, Request, Response
from svc.mounted.application import MountedApplication
from svc.mounted.messages import AsgiApplication, Scope
from svc.mounted.request_body import RequestBody, body_of_request
from svc.websocket import WebSocket

NOT_FOUND = 404
REFUSED = (403, NOT_FOUND)  # of a WebSocket by an application that does not know the address


class RoutesListener:
    """The listener of requests. Long bodies are received while they come if there is one application to take them."""

    passes_on = True

    def __init__(self, routes: MountedRoutes) -> None:
        self._routes = routes

    def __call__(self, request: Request, next: Callable[[Request], Any], /) -> Any:
        if request.is_websocket and request.method == "GET":
            return next(request)
        return self._routes.answer(request, next)

    def body_channel(self, request: Request) -> RequestBody | None:
        return body_of_request(request) if len(self._routes) == 1 else None


class MountedRoutes:
    """`fault`: why some of them could not be loaded; the answer, with 503, to what the others do not know."""

    def __init__(
        self, path: str, is_resource: Callable[[str], bool], make_mounted: Callable[[AsgiApplication, AsgiApplication], MountedApplication]
    ) -> None:
        self.path = path.rstrip("/")
        self.fault = ""
        self.http = RoutesListener(self)
        self._is_resource = is_resource
        self._make_mounted = make_mounted
        self._apps: list[MountedApplication] = []

    def __len__(self) -> int:
        return len(self._apps)

    async def add(self, app: AsgiApplication, name: str, seconds: float, lifespan: AsgiApplication) -> str:
        """Add an application, and wait for its start. Returns why it has failed and was not added, "" if it was. `name`: in the log. `lifespan`: what is
        called with the scope of that."""
        mounted = self._make_mounted(app, lifespan)
        mounted.name = name
        try:
            reason = await asyncio.wait_for(mounted.started(), seconds)
        except TimeoutError:
            reason = f"it has not started within {seconds:g} s"
        except BaseException:
            await mounted.stop(0)
            raise
        if reason:
            await mounted.stop(0)
        else:
            self._apps.append(mounted)
        return reason

    # --- listeners -------------------------------------------------------------------------------------------------------------------

    async def answer(self, request: Request, next: Callable[[Request], Any]) -> Response:
        is_streamed = isinstance(request.upload, RequestBody)
        unknown: Response | None = None
        self._record(request, {})
        for app in self._apps:
            response, scope = await app.respond(request)
            self._record(request, scope)
            if response.status != NOT_FOUND or is_streamed:
                return response
            if unknown is None:
                unknown = response
            else:
                _drop(response)
        if self.fault:
            raise ApplicationFault(self.fault, request.user)
        request.handler_path, request.state.metric_type = "", None
        following: Response = await next(request)
        if unknown is None or following.status != NOT_FOUND:
            return following
        self._record(request, {})
        return unknown

    def _record(self, request: Request, scope: Scope) -> None:
        """The path of the metrics is the template of the route, where the framework says it."""
        template = getattr(scope.get("route"), "path", None)
        request.handler_path = f"{self.path}{template if isinstance(template, str) else ''}".strip("/")
        request.state.metric_type = FRAMEWORK_ROUTE

    async def websocket(self, ws: WebSocket, request: Request, chain_completion: Awaitable[Any], next: Callable[..., Any]) -> Any:
        if self._is_resource(quote(self.path) + request.pathname):
            return await next(ws, request, chain_completion)
        answer = await chain_completion
        if answer is not None:
            raise Abort(answer)
        refusal: Abort | None = None
        for app in self._apps:
            try:
                return await app.serve_websocket(ws, request)
            except Abort as abort:
                if abort.response.status not in REFUSED:
                    raise
                refusal = refusal or abort
        if self.fault:
            raise ApplicationFault(self.fault, request.user)
        if refusal is not None:
            raise refusal
        return await next(ws, request, chain_completion)

    # --- start and end -----------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """They have started when they were added."""

    async def stop(self) -> None:
        if self._apps:
            await asyncio.gather(*(app.stop() for app in self._apps))


def _drop(response: Response) -> None:
    if isinstance(response.body, Feed):
        response.body.close()
