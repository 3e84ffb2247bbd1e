"""GET /openapi: who may have the document, and the copy that is kept (contract: http §1.1, §10.2)."""

from __future__ import annotations

from asyncio import sleep
from typing import Any

from svc import __version__
from svc.errors import AccessViolation, MethodNotAllowed
from svc.messages import Request, Response
from svc.resources import Resource, Resources
from svc.rest.openapi.document import EncodedDocument
from svc.rest.openapi.operations import JSON_ONLY, MediaTypes

ADDRESS = "/openapi"
METHODS = ("GET", "HEAD", "OPTIONS")


class OpenApi:
    """The document of one server. It is built anew when a resource or the definition of a table has changed."""

    def __init__(self, resources: Resources, types: MediaTypes = JSON_ONLY) -> None:
        self._resources = resources
        self._types = types
        self._registered: list[tuple[str, type[Resource]]] = []
        self._document: EncodedDocument | None = None

    def handle(self, request: Request) -> Any:
        """A Response, or an awaitable of one while it is built. Raises Problem: super users only."""
        request.handler_path = ADDRESS[1:]
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"{ADDRESS} is only read", METHODS)
        if request.user is None or not request.user.super_user:
            raise AccessViolation(request.user)
        document = self._document
        if document is None or not document.is_current or self._registered != self._registrations():
            return self._built(request)
        return self._response(request, document)

    async def _built(self, request: Request) -> Response:
        """Gives way to other requests between two tables."""
        registered = self._registrations()
        document = EncodedDocument(self._resources, __version__, self._types)
        for _ in document:
            await sleep(0)
        self._document, self._registered = document, registered
        return self._response(request, document)

    def _registrations(self) -> list[tuple[str, type[Resource]]]:
        return [(registration.path, registration.resource) for registration in self._resources.values()]

    @staticmethod
    def _response(request: Request, document: EncodedDocument) -> Response:
        server_url = f"{request.scheme}://{request.host}" if request.host else "/"
        pairs = [("Content-Type", "application/json"), ("Cache-Control", "private, no-cache")]
        return Response(document.body(server_url), 200, pairs=pairs)
