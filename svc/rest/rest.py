"""REST on resources: methods, addresses, conditions, answers (contract: http §1-§5).

The plain path is a chain of function calls: address -> resource -> verb -> bytes. Nothing here waits; a handler that must returns an awaitable,
which is handed on to the dispatcher untouched.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from svc.clock import Clock
from svc.errors import REASONS, ClientError, NotFound, Problem, ServerError
from svc.messages import HeaderPairs, Headers, Request, Response
from svc.resources import Created, RequestTarget, Resource, Resources, Rows, StoredRecord, TableResource, parse_target
from svc.rest.bodies import ACCEPT_PATCH, decode_body, is_json, media_type_of
from svc.rest.conditional import is_unchanged, last_modified, write_precondition
from svc.rest.negotiation import WRITERS, Writer, choose_writer
from svc.rest.rows import JsonRows, encode_json, narrow, small_array
from svc.store import records

VARY = ("Vary", "Accept, Accept-Encoding")
JSON_TYPE = ("Content-Type", "application/json")
PRIVATE = ("Cache-Control", "private, no-cache")
UNKNOWN_METHOD = 501


@dataclass(frozen=True)
class RestOptions:
    last_modified: bool = False


class Rest:
    """The `rest` step of the request chain."""

    def __init__(
        self, resources: Resources, clock: Clock, report: Callable[[BaseException], None], options: RestOptions = RestOptions()
    ) -> None:
        self._resources = resources
        self._wall = clock.wall
        self._report = report
        self._options = options
        self._methods: Mapping[str, Callable[[Request, type[Resource], RequestTarget], Any]] = {
            "GET": self._get,
            "HEAD": self._get,
            "PUT": self._put,
            "PATCH": self._patch,
            "POST": self._post,
            "DELETE": self._delete,
            "QUERY": self._other,
            "COPY": self._other,
            "MOVE": self._other,
            "TRACE": self._other,
        }

    # --- entry ---------------------------------------------------------------------------------------------------------------------

    def handle(self, request: Request) -> Any:
        """A Response, or an awaitable of one. Raises Problem."""
        method = self._methods.get(request.method)
        if method is None:
            raise ClientError(f"Method {request.method[:40]} is not recognized", UNKNOWN_METHOD, "NOT_IMPLEMENTED")
        match = self._resources.get_match(request.pathname, "rest")
        if match is None:
            raise NotFound("Not found")
        registration = match.registration
        request.handler_path = registration.path
        if registration.conflict or registration.load_error:
            raise ServerError(registration.conflict or registration.load_error)
        resource = registration.resource
        target = parse_target(match.relative_url, request.query, resource.properties())
        resource.bind(target)
        return method(request, resource, target)

    def options(self, request: Request) -> Response:
        """OPTIONS that is no preflight: what the addressed resource can do; needs no authentication."""
        match = self._resources.get_match(request.pathname, "rest") if request.target != "*" else None
        if match is None and request.target != "*":
            raise NotFound("Not found")
        allow = match.registration.resource.allowed_methods() if match else ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
        response = Response(status=204)
        response.headers.pairs().append(("Allow", ", ".join(allow)))
        if "PATCH" in allow:
            response.headers.pairs().append(ACCEPT_PATCH)
        return response

    # --- methods -------------------------------------------------------------------------------------------------------------------

    def _get(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        self._writer(request, target)
        result = resource.handle("get", target, None, request)
        kind = type(result)
        if kind is StoredRecord:
            return self._record(request, cast(type[TableResource], resource), target, result)
        if kind is Rows:
            return self._collection(request, result)
        if result is None and target.id_text is not None and "/" in target.id_text:
            return self._uploaded_property(request, resource, target)
        return self._answer(request, result, missing="Record not found")

    def _put(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        if target.property is not None:
            raise resource.not_allowed("put")
        if issubclass(resource, TableResource):
            name = self._upload_name(resource, target)
            if name is not None:
                return self._upload(request, resource, target, name)
        if target.id_text is not None:
            request.precondition = write_precondition(request.block)
        data = decode_body(request.block.get("content-type"), request.body, "PUT")
        return self._answer(request, resource.handle("put", target, data, request))

    def _patch(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        if target.id_text is None or target.property is not None:
            raise resource.not_allowed("patch")
        request.precondition = write_precondition(request.block)
        data = decode_body(request.block.get("content-type"), request.body, "PATCH")
        return self._answer(request, resource.handle("patch", target, data, request))

    def _post(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        self._writer(request, target)
        if target.id_text is not None and issubclass(resource, TableResource):
            raise resource.not_allowed("post")
        data = decode_body(request.block.get("content-type"), request.body, "POST")
        return self._answer(request, resource.handle("post", target, data, request))

    def _delete(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        if target.is_root or target.property is not None:
            raise resource.not_allowed("delete")
        if target.id_text is not None:
            request.precondition = write_precondition(request.block)
        return self._answer(request, resource.handle("delete", target, None, request))

    def _other(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        verb = request.method.lower()
        if verb not in resource.verbs:
            raise resource.not_allowed(verb, request.method)
        return self._answer(request, resource.handle(verb, target, None, request))

    # --- property uploads (http §2.5) ------------------------------------------------------------------------------------------------

    @staticmethod
    def _upload_name(resource: type[TableResource], target: RequestTarget) -> str | None:
        """The attribute a PUT addresses by its last segment, None if the whole path is an id."""
        if target.id_text is None or "/" not in target.id_text:
            return None
        name = target.id_text.rpartition("/")[2]
        attribute = resource.properties().get(name)
        if attribute is None or not attribute.stored or attribute.primary_key:
            return None
        return name

    def _upload(self, request: Request, resource: type[TableResource], target: RequestTarget, name: str) -> Any:
        record = replace(target, id_text=cast(str, target.id_text).rpartition("/")[0])
        resource.bind(record)
        request.precondition = write_precondition(request.block)
        content_type = request.block.get("content-type")
        media_type = media_type_of(content_type)
        is_binary = resource.properties()[name].type in ("Bytes", "Blob")
        if media_type == "application/octet-stream" or (is_binary and not is_json(media_type)):
            value: Any = request.body
        else:
            value = decode_body(content_type, request.body, "PUT")
        return self._answer(request, resource.put_property(record, name, value, request))

    def _uploaded_property(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        """GET of an upload's address, when no record has the full id."""
        name = self._upload_name(resource, target) if issubclass(resource, TableResource) else None
        if name is None:
            raise NotFound("Record not found")
        record = replace(target, id_text=cast(str, target.id_text).rpartition("/")[0], property=name)
        resource.bind(record)
        result = resource.handle("get", record, None, request)
        if type(result) is not StoredRecord:
            raise NotFound("Record not found")
        return self._record(request, cast(type[TableResource], resource), record, result)

    # --- answers -------------------------------------------------------------------------------------------------------------------

    @staticmethod
    def _writer(request: Request, target: RequestTarget) -> Writer:
        """What to write; 406 before any work is done. An extension beats `Accept` (http §1.2)."""
        if target.extension is not None:
            return choose_writer(target.extension, WRITERS)
        memo = request.block.memo
        writer = memo.get("writer")
        if writer is None:
            writer = memo["writer"] = choose_writer(request.block.fields.get("accept"), WRITERS)
        return cast(Writer, writer)

    def _record(self, request: Request, resource: type[TableResource], target: RequestTarget, record: StoredRecord) -> Response:
        raw = record.raw
        tag = records.etag_of(raw)
        pairs: HeaderPairs = [JSON_TYPE, ("ETag", f'"{tag}"'), VARY]
        if request.user is not None:
            pairs.append(PRIVATE)
        if self._options.last_modified:
            pairs.append(("Last-Modified", last_modified(records.version_of(raw))))
        if is_unchanged(request.block, tag, records.version_of(raw)):
            return Response(None, 304, Headers.trusted(pairs[1:]))
        value: Any = records.decode_json(raw)
        if record.visible is not None:
            value = narrow(value, record.visible)
        if target.property is not None:
            if target.property not in value:
                raise NotFound("Record not found" if record.visible is None else "Not found")
            value = value[target.property]
        elif target.query and "select(" in target.query:
            rows = resource.select_one(record, target, request)
            body = small_array(rows, rows.table.database.snapshot(), self._wall() * 1000, 1)
            return Response(body[1:-1], 200, Headers.trusted(pairs))
        if target.extension is None and _is_raw_content(value):
            return self._raw_content(records.decode(raw), target.property, pairs)
        return Response(encode_json(value), 200, Headers.trusted(pairs))

    @staticmethod
    def _raw_content(stored: dict[str, Any], property_name: str | None, pairs: HeaderPairs) -> Response:
        """A stored `{contentType, data}` goes out as what it was (http §7.4)."""
        content = stored if property_name is None else stored[property_name]
        data = content["data"]
        content_type = content["contentType"]
        body = data if isinstance(data, bytes) else data.encode()
        if isinstance(data, str) and content_type.startswith("text/"):
            content_type += "; charset=utf-8"
        headers = Headers([("Content-Type", content_type)])
        headers.pairs().extend([*pairs[1:2], ("Vary", "Accept-Encoding"), *pairs[3:], ("X-Content-Type-Options", "nosniff")])
        return Response(body, 200, headers)

    def _collection(self, request: Request, rows: Rows) -> Response:
        pairs: HeaderPairs = [JSON_TYPE, VARY]
        if request.user is not None:
            pairs.append(PRIVATE)
        database = rows.table.database
        now_ms = self._wall() * 1000
        if rows.bounded:
            body: Any = small_array(rows, database.snapshot(), now_ms, rows.plan.limit or 0)
        else:
            snapshot = database.open_snapshot()
            try:
                chunks = JsonRows(rows, snapshot, now_ms, snapshot.abort, self._report)
            except BaseException:
                snapshot.abort()
                raise
            body = chunks.whole()
            if body is None:
                body = chunks
        return Response(body, 200, Headers.trusted(pairs))

    def _answer(self, request: Request, result: Any, missing: str = "") -> Any:
        """What a handler returned, as a response (http §2.1, §12.4)."""
        kind = type(result)
        if kind is Created:
            headers = Headers.trusted([JSON_TYPE, VARY])
            if result.location:
                headers.pairs().append(("Location", result.location))
            return Response(encode_json(result.value), 201, headers)
        if kind is Response:
            return result
        if inspect.isawaitable(result):
            return self._await(request, result, missing)
        if result is None or (result is True and request.method == "DELETE"):
            if request.method in ("GET", "HEAD"):
                raise NotFound(missing or "Not found")
            return Response(None, 204)
        pairs: HeaderPairs = [JSON_TYPE, VARY]
        if request.user is not None:
            pairs.append(PRIVATE)
        return Response(encode_json(result), 200, Headers.trusted(pairs))

    async def _await(self, request: Request, result: Any, missing: str) -> Any:
        return self._answer(request, await result, missing)


def _is_raw_content(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    content_type = value.get("contentType")
    return (
        isinstance(content_type, str)
        and content_type.isascii()
        and content_type.isprintable()
        and isinstance(value.get("data"), (str, bytes))
    )


def problem_response(error: Problem, request_id: str = "") -> Response:
    """A problem object (RFC 9457) with the members of http §5."""
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
    headers = Headers.trusted([("Content-Type", "application/problem+json"), *error.headers])
    return Response(encode_json(body), error.status_code, headers)
