"""Faults of GraphQL requests, and where in the document they are (spec: graphql §2.1)."""

from __future__ import annotations

from graphql import get_location
from graphql.language import Node

from svc.errors import BadBody, ClientError, Problem
from svc.messages import Abort

Location = tuple[int, int]
"""Line and column, both counted from 1."""


class RequestFault(BadBody):
    """The request has no well-formed parameters: 400 whatever the client accepts."""


class DocumentError(ClientError):
    """Something is wrong in the document or in its variables. `location`: where, None if that is no place in it. `is_stored`: what a mutation has written is
    on disk all the same."""

    code = "QUERY_SYNTAX"

    def __init__(self, message: str, *, location: Location | None = None, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.location = location
        self.is_stored = False


class FieldError(Problem):
    """What a field of the operation has failed with: `problem`, at a place in the document. `is_stored`: as of a DocumentError."""

    def __init__(self, problem: Problem, location: Location | None) -> None:
        super().__init__(
            problem.message, problem.status_code, problem.code, headers=problem.headers, errors=problem.errors, retryable=problem.retryable
        )
        self.faults = problem.faults
        self.location = location
        self.is_stored = False


def location_of(node: Node | None) -> Location | None:
    """Where a node begins."""
    if node is None or node.loc is None:
        return None
    found = get_location(node.loc.source, node.loc.start)
    return found.line, found.column


def fault_at(node: Node | None, message: str, code: str | None = None) -> DocumentError:
    """The fault of a node."""
    return DocumentError(message, location=location_of(node), code=code)


def with_location(problem: Problem, node: Node | None) -> Problem:
    """The same problem with the place of the node that caused it, if it has none yet."""
    if isinstance(problem, (DocumentError, FieldError)):
        return problem
    return FieldError(problem, location_of(node))


def problem_of_abort(abort: Abort) -> Problem:
    """What a handler has ended its request with, as an error: an answer of GraphQL has a form of its own."""
    response = abort.response
    return Problem(response.data if isinstance(response.data, str) else "", response.status if response.status >= 400 else 500)
