"""`POST /ticket`: a ticket for a WebSocket or an event stream of a page on another site (spec: http §11.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc.auth.tickets import Tickets
from svc.auth.users import user_of
from svc.awaitables import then
from svc.content.registry import ContentTypes
from svc.errors import AccessViolation, MethodNotAllowed, Problem
from svc.http.problems import problem_response
from svc.messages import Request, Response

TICKET_PATH = "/ticket"
METHODS = ("POST", "OPTIONS")


class TicketEndpoint:
    """Answers at `TICKET_PATH` where no resource does."""

    methods = METHODS

    def __init__(self, tickets: Tickets, types: ContentTypes, finish: Callable[[Request, Any], Any]) -> None:
        """`finish(request, answer)`: the answer in the content type of the caller."""
        self._tickets = tickets
        self._types = types
        self._finish = finish

    def handle(self, request: Request) -> Any:
        """201 `{ticket, expires}`, or an awaitable of it. Raises Problem."""
        request.handler_path = TICKET_PATH[1:]
        if request.method != "POST":
            raise MethodNotAllowed(f"{TICKET_PATH} takes POST only", METHODS)
        user = user_of(request)
        if user is None:
            raise AccessViolation
        return then(self._tickets.issue(user), lambda made: self._finish(request, _created(*made)))

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        return problem_response(error, self._types, request, request_id)


def _created(ticket: str, expires: float) -> Response:
    return Response(None, 201, {"Cache-Control": "no-store"}, {"ticket": ticket, "expires": expires})
