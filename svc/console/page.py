"""What a view of the console is given: who asks, where, what was sent; and how it runs operations and shows pages."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from svc.auth.users import User
from svc.console.places import PLACES, Place
from svc.errors import AccessViolation, Problem, Refusal
from svc.http.compression import Compression
from svc.http.response_parts import RestOptions
from svc.http.responses import ResponseBuilder
from svc.logs.redact import redacted
from svc.messages import HeaderPairs, Request, Response
from svc.operations.call import Call
from svc.operations.node import Node
from svc.operations.permissions import authorize
from svc.operations.registry import by_name
from svc.operations.service import Operations
from svc.pages.cells import shortened
from svc.pages.frame import NO_STORE, PAIRS, SECURITY, frame_of
from svc.pages.neighbours import neighbour
from svc.pages.sent_form import SentForm
from svc.pages.tokens import form_token
from svc.resources import RequestTarget
from svc.store.writing.commit import wait_committed

if TYPE_CHECKING:
    from svc.pages.templates import Templates

ROOT = "/console/"
_LONGEST_FAULT = 5000


def root_of_console(path: str) -> str:
    """The relative address of the console.

    >>> [root_of_console(path) for path in ("/", "/console/", "/console/users", "/console/users/ann")]
    ['./console/', './', './', '../']
    """
    depth = path.count("/") - 1
    return "./console/" if depth == 0 else "../" * (depth - 1) or "./"


class ConsolePage:
    """`user`: who asks, logged in and with a role. `place`: where; `rest`: the decoded segments of the path behind it. `fields`: of the address.
    `form`: what was posted, its token checked; None for GET."""

    def __init__(
        self, operations: Operations, templates: Templates, compression: Compression, request: Request, place: Place, rest: list[str]
    ) -> None:
        assert isinstance(request.user, User)
        self.request = request
        self.user: User = request.user
        self.place = place
        self.rest = rest
        self.fields: Mapping[str, str] = {}
        self.form: SentForm | None = None
        self._operations = operations
        self._templates = templates
        self._compression = compression

    @property
    def node(self) -> Node:
        return self._operations.node

    # --- operations ------------------------------------------------------------------------------------------------------------------

    async def run(self, operation: str, **fields: Any) -> Any:
        """What an operation answers to this caller, as Python values, once what it wrote is on the disk. Raises Problem."""
        return await self._run(operation, fields, None)

    async def run_in_session(self, operation: str, **fields: Any) -> Any:
        """The same for an operation that asks about the caller's own session. What it answers must be no stream."""
        return await self._run(operation, fields, self.request)

    async def _run(self, operation: str, fields: Mapping[str, Any], request: Request | None) -> Any:
        body = {"operation": operation, **fields}
        row = by_name()[operation]
        logger = self.node.logs.logger.with_tag("operation")
        if row.logged and logger.is_enabled("info"):
            logger.info({**redacted(body, row.secrets), "user": self.user.username})
        return await self._operations.perform(body, self.user, authorize=True, request=request)

    async def begin(self, body: Mapping[str, Any], *, streams: bool = False) -> tuple[Call, Any]:
        """Run a body that the caller has written, as if it had been posted to the operations API: (the call, what its handler has answered, once what it wrote
        is on the disk). Rows of a query are still to be found, in the turn in which this returns. `streams`: entries of logs may be a stream, as a client gets
        them, instead of a list. Raises Problem."""
        call = self._operations.prepare(body, self.user, self.request)
        logger = self.node.logs.logger.with_tag("operation")
        if call.operation.logged and logger.is_enabled("info"):
            logger.info({**redacted(call.body, call.operation.secrets), "user": call.username})
        if call.operation.category == "logs" and not streams:
            call.request = None
        result = self._operations.run(call)
        if isawaitable(result):
            result = await result
        if call.pending_commit is not None:
            await wait_committed(call.pending_commit)
        return call, result

    async def file(self, result: Any, name: str, media_type: str) -> Response:
        """All of a result as a file. Raises Problem."""
        target = RequestTarget()
        target.extension = media_type
        logger, node = self.node.logs.logger, self.node
        responses = ResponseBuilder(
            node.types,
            self._compression,
            node.clock,
            lambda error: logger.error("a file of the console broke off", error),
            RestOptions(pages=False),
        )
        answer = responses.answer(self.request, target, {} if result is None else result)
        response: Response = await answer if isawaitable(answer) else answer
        if not isinstance(result, Response):
            response.pairs = [pair for pair in response.pairs if pair[0] != "Content-Disposition"]
            response.pairs.append(("Content-Disposition", f'attachment; filename="{name}"'))
        response.pairs += SECURITY
        return response

    def may(self, operation: str, **fields: Any) -> bool:
        """Whether the caller may run it, as far as that is known without running it."""
        try:
            authorize(by_name()[operation], operation, fields, self.user, self.node)
        except Problem:
            return False
        return True

    def require(self, operation: str, **fields: Any) -> None:
        """Raise AccessViolation for who may not run it: a form is not shown to who may not send it, and does not ask them for more."""
        if not self.may(operation, **fields):
            raise AccessViolation(self.user)

    # --- answers ---------------------------------------------------------------------------------------------------------------------

    def at(self, path: str = "", **fields: str) -> str:
        """A relative address of the console. `path`: below its root, percent-encoded; `fields`: of its query, those that are empty are left out."""
        query = urlencode({name: value for name, value in fields.items() if value})
        return f"{self.root}{path}" + (f"?{query}" if query else "")

    @property
    def application_root(self) -> str:
        """The root of the application port as the reader reaches it; "" if that is not known."""
        return neighbour(self.node.addresses().get("applications", ()), self.request)

    @property
    def root(self) -> str:
        """The relative address of the console."""
        return root_of_console(self.request.pathname)

    async def show(
        self,
        template: str,
        *,
        title: str = "",
        status: int = 200,
        pairs: HeaderPairs | None = None,
        fault: Problem | None = None,
        **values: Any,
    ) -> Response:
        """A page. `fault`: why what was sent was refused; its template shows `{{ fault }}`, a text, and `{{ faults }}`, what its object says besides."""
        own: HeaderPairs = [NO_STORE, *(pairs or ()), *(() if fault is None else fault.headers)]
        common: dict[str, Any] = {
            "frame": frame_of(self.request, has_login=False),
            "title": title or self.place.title,
            "trail": [(self.place.title, ROOT[1:] + self.place.path)] if title and title != self.place.title else [],
            "console": self.root,
            "place": self.place,
            "groups": self._groups(),
            "token": form_token(self.request),
            "fault": "" if fault is None else shortened(fault.message, _LONGEST_FAULT),
            "fault_code": "" if fault is None else f"{fault.status_code} {fault.code}",
            "faults": fault.body if isinstance(fault, Refusal) else {},
            "note": shortened(self.fields.get("note", ""), 300),
        }
        common["frame"].home = self.root
        body = await self._templates.render(template, {**common, **values})
        names = {name.lower() for name, _ in own}
        pairs = [*own, *(pair for pair in PAIRS if pair[0].lower() not in names)]
        return self._compression.apply(
            self.request, Response(body, fault.status_code if fault is not None and status == 200 else status, pairs=pairs)
        )

    def see_other(self, path: str, note: str = "", **fields: str) -> Response:
        """Where a form leads: a page of the console. `note`: what was done, which the page says."""
        return Response(None, 303, pairs=[("Location", self.at(path, **fields, note=note)), NO_STORE])

    def _groups(self) -> list[tuple[str, list[Place]]]:
        """The places that the caller sees, in their groups."""
        found: dict[str, list[Place]] = {}
        for place in PLACES:
            if not place.operation or self.may(place.operation):
                found.setdefault(place.group, []).append(place)
        return list(found.items())
