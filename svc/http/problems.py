"""Errors as answers (spec: http §5; RFC 9457)."""

from __future__ import annotations

from typing import Any

from svc.content.json_type import encode_json
from svc.content.registry import ContentTypes
from svc.errors import REASONS, AccessViolation, NotAcceptable, Problem, QueryError
from svc.messages import Headers, Request, Response

PROBLEM_TYPE = "application/problem+json"
_BINARY = frozenset(("application/cbor", "application/x-msgpack", "application/msgpack"))


def problem_response(error: Problem, types: ContentTypes, request: Request | None = None, request_id: str = "") -> Response:
    """A problem object in JSON, or in CBOR or MessagePack for a client that prefers these.

    `request_id`: of a defect, also in the log. Errors of a query in the address have a `position`, counted from 0.
    """
    accept = None if request is None else request.block.fields.get("accept")
    takes_json = accept is None or accept == "*/*" or "json" in accept[:16]  # most clients ask for JSON first
    if (
        takes_json and type(error) is AccessViolation and error.__dict__ == _MUST_LOGIN.__dict__
    ):  # code of an application may have changed it
        return Response(_MUST_LOGIN_BODY, 401, pairs=[_TYPE_PAIR])
    body = _problem_object(error, request_id)
    if accept is not None and not takes_json:
        try:
            preferred = types.writer(accept)
            if preferred.name in _BINARY:
                return Response(
                    preferred.encode(body), error.status_code, Headers([("Content-Type", preferred.content_type), *error.headers])
                )
        except NotAcceptable:
            pass  # then it is JSON all the same
    return Response(encode_json(body), error.status_code, Headers([("Content-Type", PROBLEM_TYPE), *error.headers]))


def _problem_object(error: Problem, request_id: str) -> dict[str, Any]:
    detail = error.message if not request_id else f"{error.message} (request {request_id})"
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": REASONS.get(error.status_code, "Error"),
        "status": error.status_code,
        "code": error.code,
        "detail": detail,
        "error": detail,
    }
    if error.retryable:
        body["retryable"] = True
    if error.errors:
        body["errors"] = list(error.errors)
    if error.faults:
        body["faults"] = list(error.faults)
    if isinstance(error, QueryError) and error.position is not None:
        body["position"] = error.position
    return body


_TYPE_PAIR = ("Content-Type", PROBLEM_TYPE)
_MUST_LOGIN = AccessViolation()
_MUST_LOGIN_BODY = encode_json(_problem_object(_MUST_LOGIN, ""))  # prepared: refusing a caller who is not known costs little
