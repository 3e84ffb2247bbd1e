"""The page at `/docs`: the REST interface in a browser, to read and to try, with Swagger UI and no other host (spec: http §10.5).

`files` are ours, `swagger_ui` is as its makers deliver it. Nothing in them depends on who asks: what a user may see comes with the document that the page
loads. They are read when the first one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from svc.auth.users import User, user_of
from svc.content.registry import ContentTypes
from svc.errors import AccessViolation, MethodNotAllowed, Problem
from svc.http.compression import Compression
from svc.http.page_files import PageFile, read_file, security_pairs
from svc.http.problems import problem_response
from svc.messages import Request, Response

ADDRESS = "/docs"
METHODS = ("GET", "HEAD", "OPTIONS")

_HERE = Path(__file__).parent
_PAGE = _HERE / "files" / "page.html"
_ASSETS = {
    f"{ADDRESS}/assets/{path.name}": path
    for path in (
        *(_HERE / "files" / name for name in ("icon.svg", "page.css", "page.js")),
        *(_HERE / "swagger_ui" / name for name in ("swagger-ui.css", "swagger-ui-bundle.js")),
    )
}
PATHS = (ADDRESS, *_ASSETS)

_SECURITY = security_pairs(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@cache
def _file(path: Path) -> PageFile:
    return read_file(path, _SECURITY)


class Viewer:
    """Answers at `PATHS`."""

    methods = METHODS

    def __init__(self, types: ContentTypes, compression: Compression, has_something: Callable[[User | None], bool]) -> None:
        """`has_something(user)`: whether there is a document for this caller."""
        self._types = types
        self._compression = compression
        self._has_something = has_something

    def handle(self, request: Request) -> Response:
        """Raises Problem: a caller for whom there is no document is to log in."""
        request.handler_path = ADDRESS[1:]
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"{ADDRESS} is only read", METHODS)
        if request.pathname == ADDRESS and not self._has_something(user_of(request)):
            raise AccessViolation(None)
        return _file(_ASSETS.get(request.pathname, _PAGE)).response(request, self._compression)

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        return problem_response(error, self._types, request, request_id)
