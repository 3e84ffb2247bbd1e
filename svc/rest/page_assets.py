"""The files of pages, at addresses that name their content (spec: http §7.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc.content.registry import ContentTypes
from svc.errors import MethodNotAllowed, Problem
from svc.http.compression import Compression
from svc.http.problems import problem_response
from svc.messages import Request, Response
from svc.pages.frame import ASSETS


class PageAssets:
    """An endpoint of `Rest`, for all of them."""

    methods = ("GET", "HEAD", "OPTIONS")

    def __init__(self, types: ContentTypes, compression: Compression) -> None:
        self._types = types
        self._compression = compression

    def handle(self, request: Request) -> Any:
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed("The files of pages are only read", self.methods)
        return self.answer(request)

    def answer(self, request: Request) -> Any:
        return ASSETS[request.pathname].response(request, self._compression)

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        return problem_response(error, self._types, request, request_id)


class HomePage(PageAssets):
    """What there is on the server, also where an application has a page of its own at the root. `home` answers."""

    def __init__(self, types: ContentTypes, compression: Compression, home: Callable[[Request], Any]) -> None:
        super().__init__(types, compression)
        self._home = home

    def answer(self, request: Request) -> Any:
        return self._home(request)
