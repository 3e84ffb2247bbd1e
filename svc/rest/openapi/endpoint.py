"""GET /openapi: who may have the document, and the copies that are kept (spec: http §1.1, §10.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from svc import __version__
from svc.auth.users import User, user_of
from svc.content.registry import ContentTypes
from svc.errors import AccessViolation, ClientError, MethodNotAllowed, Problem
from svc.http.conditional import CODINGS, coded_tag, parse_tags
from svc.http.problems import problem_response
from svc.messages import HeaderPairs, Request, Response
from svc.resources import Resources
from svc.rest.openapi.access import View
from svc.rest.openapi.document import EncodedDocument, exported
from svc.rest.openapi.forms import FORMS

ADDRESS = "/openapi"
METHODS = ("GET", "HEAD", "OPTIONS")

_KEPT_BYTES = 32 << 20  # of all documents together; the last one is kept, however long it is
_KEPT = 16  # documents


@dataclass(slots=True)
class _CachedDocument:
    """`version`: of the registry; `generation`: of the content types; both when the document was begun."""

    version: int
    generation: int
    document: EncodedDocument


class OpenApi:
    """The documents of one server, two for each role. One is built again when a resource, a content type, the definition of a table or a right of the
    role has changed."""

    methods = METHODS

    def __init__(
        self, resources: Resources, types: ContentTypes, finish: Callable[[Request, Any], Any] = lambda request, answer: answer
    ) -> None:
        """`finish(request, answer)`: the answer compressed."""
        self._finish = finish
        self._resources = resources
        self._types = types
        self._kept: dict[str, _CachedDocument] = {}  # by `_key`; the one that was used last is the last
        self._building: dict[str, asyncio.Task[None]] = {}

    def handle(self, request: Request) -> Any:
        """A Response, or an awaitable of one while it is built. Raises Problem."""
        request.handler_path = ADDRESS[1:]
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"{ADDRESS} is only read", METHODS)
        form = (request.query or "").removesuffix("=")
        if form not in FORMS:
            raise ClientError(f"{ADDRESS} takes no query but {ADDRESS}?json, for generated clients")
        user = user_of(request)
        kept = self._valid(_key(user, form), user)
        if kept is None:
            return self._finish(request, self._built(request, user, form))
        return self._finish(request, self._response(request, user, kept.document))

    def has_something(self, user: User | None) -> bool:
        """Whether there is a document for this caller: one without a login gets none where nothing is open to all."""
        if user is not None:
            return True
        view = View(None)
        return any(view.verbs(registration) for registration in exported(self._resources))

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        return problem_response(error, self._types, request, request_id)

    # --- copies ----------------------------------------------------------------------------------------------------------------------

    def _valid(self, key: str, user: User | None) -> _CachedDocument | None:
        kept = self._kept.get(key)
        if kept is None or not self._is_current(kept, user):
            return None
        self._kept[key] = self._kept.pop(key)
        return kept

    def _is_current(self, kept: _CachedDocument, user: User | None) -> bool:
        return (kept.version, kept.generation) == (self._resources.version, self._types.generation) and kept.document.is_current(user)

    async def _built(self, request: Request, user: User | None, form: str) -> Response:
        """Requests that ask for the same wait for one build, and for another if it is outdated when it is done."""
        key = _key(user, form)
        while (kept := self._valid(key, user)) is None:
            task = self._building.get(key)
            if task is None:
                task = self._building[key] = asyncio.get_running_loop().create_task(self._build(key, user, form))
                task.add_done_callback(lambda _: self._building.pop(key, None))
            await asyncio.shield(task)
        return self._response(request, user, kept.document)

    async def _build(self, key: str, user: User | None, form: str) -> None:
        """Gives way to other requests between two tables."""
        document = EncodedDocument(self._resources, __version__, self._types, user, form)
        kept = _CachedDocument(self._resources.version, self._types.generation, document)
        for _ in document:
            await asyncio.sleep(0)
        self._kept.pop(key, None)
        self._kept[key] = kept
        while len(self._kept) > 1 and (len(self._kept) > _KEPT or self._size() > _KEPT_BYTES):
            del self._kept[next(iter(self._kept))]

    def _size(self) -> int:
        return sum(len(kept.document) for kept in self._kept.values())

    # --- answers ---------------------------------------------------------------------------------------------------------------------

    @staticmethod
    def _response(request: Request, user: User | None, document: EncodedDocument) -> Response:
        if user is None and not document.has_paths:
            raise AccessViolation(None)
        server_url = f"{request.scheme}://{request.host}{request.prefix}" if request.host else request.prefix or "/"
        tag = document.tag(server_url)
        pairs: HeaderPairs = [("ETag", f'"{tag}"'), ("Cache-Control", "private, no-cache"), ("Vary", "Accept-Encoding")]
        given = parse_tags(request.block.get("if-none-match") or "", weak_counts=True)
        if given == "*" or any(each in given for each in (tag, *[coded_tag(tag, name) for name in CODINGS])):
            return Response(None, 304, pairs=pairs)
        return document.response(server_url, pairs)


def _key(user: User | None, form: str) -> str:
    """One for all whose documents are alike: those of a role; of users without one; of callers without a login."""
    if user is None:
        return form
    return f"{form}/" if user.role is None else f"{form}/{user.role.id}"
