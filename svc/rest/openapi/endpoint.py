"""GET /openapi: who may have the document, and the copy that is kept (spec: http §1.1, §10.2)."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Callable
from typing import Any

from svc import __version__
from svc.content.registry import ContentTypes
from svc.errors import AccessViolation, MethodNotAllowed, Problem
from svc.http.problems import problem_response
from svc.messages import Request, Response
from svc.resources import Resource, Resources
from svc.rest.openapi.document import EncodedDocument

ADDRESS = "/openapi"
METHODS = ("GET", "HEAD", "OPTIONS")

_Parts = tuple[int, list[tuple[str, type[Resource]]]]
"""Generation of the content types, resources by address."""


class OpenApi:
    """The document of one server. It is built again when a resource, a content type or the definition of a table has changed."""

    methods = METHODS

    def __init__(
        self, resources: Resources, types: ContentTypes, finish: Callable[[Request, Any], Any] = lambda request, answer: answer
    ) -> None:
        """`finish(request, answer)`: the answer compressed, or 304."""
        self._finish = finish
        self._resources = resources
        self._types = types
        self._made_of: _Parts = (-1, [])
        self._document: EncodedDocument | None = None

    def handle(self, request: Request) -> Any:
        """A Response, or an awaitable of one while it is built. Raises Problem: super users only."""
        request.handler_path = ADDRESS[1:]
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"{ADDRESS} is only read", METHODS)
        if request.user is None or not request.user.super_user:
            raise AccessViolation(request.user)
        document = self._document
        if document is None or not document.is_current or self._made_of != self._parts():
            return self._finish(request, self._built(request))
        return self._finish(request, self._response(request, document))

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        return problem_response(error, self._types, request, request_id)

    async def _built(self, request: Request) -> Response:
        """Gives way to other requests between two tables."""
        made_of = self._parts()
        document = EncodedDocument(self._resources, __version__, self._types)
        for _ in document:
            await sleep(0)
        self._document, self._made_of = document, made_of
        return self._response(request, document)

    def _parts(self) -> _Parts:
        return self._types.generation, [(registration.path, registration.resource) for registration in self._resources.values()]

    @staticmethod
    def _response(request: Request, document: EncodedDocument) -> Response:
        server_url = f"{request.scheme}://{request.host}" if request.host else "/"
        pairs = [("Content-Type", "application/json"), ("Cache-Control", "private, no-cache")]
        return Response(document.body(server_url), 200, pairs=pairs)
