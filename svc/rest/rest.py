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
from svc.errors import REASONS, ClientError, NotAcceptable, NotFound, Problem, ServerError
from svc.messages import HeaderBlock, HeaderPairs, Headers, Request, Response
from svc.query.select import joins
from svc.resources import Created, RequestTarget, Resource, Resources, Rows, StoredRecord, TableResource, parse_target
from svc.rest.bodies import ACCEPT_PATCH, decode_body, is_json, media_type_of
from svc.rest.conditional import READ_CONDITIONS, is_unchanged, last_modified, write_precondition
from svc.rest.negotiation import WRITERS, choose_writer
from svc.rest.openapi import ADDRESS, METHODS, OpenApi
from svc.rest.rows import JsonRows, encode_json, narrow
from svc.store.records import decode, decode_json, etag_of, etag_of_version, version_of

VARY = ("Vary", "Accept, Accept-Encoding")
JSON_TYPE = ("Content-Type", "application/json")
PRIVATE = ("Cache-Control", "private, no-cache")
UNKNOWN_METHOD = 501


class Wishes:
    """What follows from a header block alone, worked out once and kept in its memo. `refusal`: why nothing we write is acceptable."""

    __slots__ = ("conditional", "refusal")

    def __init__(self, block: HeaderBlock) -> None:
        self.conditional = not READ_CONDITIONS.isdisjoint(block.fields)
        self.refusal: str | None = None
        try:
            choose_writer(block.fields.get("accept"), WRITERS)
        except NotAcceptable as error:
            self.refusal = error.message


def wishes_of(block: HeaderBlock) -> Wishes:
    wishes: Wishes | None = block.memo.get("rest")
    if wishes is None:
        wishes = block.memo["rest"] = Wishes(block)
    return wishes


@dataclass(frozen=True)
class RestOptions:
    last_modified: bool = False


class Rest:
    """The `rest` step of the request chain."""

    def __init__(
        self, resources: Resources, clock: Clock, report: Callable[[BaseException], None], options: RestOptions = RestOptions()
    ) -> None:
        self._resources = resources
        self._openapi = OpenApi(resources)
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
        if request.pathname == ADDRESS:
            return self._openapi.handle(request)
        found = self._resources.find(request.pathname, "rest")
        if found is None:
            raise NotFound("Not found")
        registration, relative_url = found
        request.handler_path = registration.path
        if registration.fault:
            raise ServerError(registration.fault)
        resource = registration.resource
        target = parse_target(relative_url, request.query, resource.properties)
        if target.id_text is not None:
            resource.bind(target)
        return method(request, resource, target)

    def options(self, request: Request) -> Response:
        """OPTIONS that is no preflight: what the addressed resource can do; needs no authentication."""
        allow: tuple[str, ...] = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
        if request.pathname == ADDRESS:
            allow = METHODS
        elif request.target != "*":
            found = self._resources.find(request.pathname, "rest")
            if found is None:
                raise NotFound("Not found")
            allow = found[0].resource.allowed_methods()
        response = Response(status=204)
        response.pairs.append(("Allow", ", ".join(allow)))
        if "PATCH" in allow:
            response.pairs.append(ACCEPT_PATCH)
        return response

    def decode_content(self, request: Request) -> Any:
        """The body of a request as a value, for handlers that ask for it."""
        return decode_body(request.block.get("content-type"), request.content, request.method) if request.content else None

    # --- methods -------------------------------------------------------------------------------------------------------------------

    def _get(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        wishes: Wishes | None = request.block.memo.get("rest")
        if wishes is None:
            wishes = wishes_of(request.block)
        if target.extension is not None:
            choose_writer(target.extension, WRITERS)  # an extension beats `Accept` (http §1.2)
        elif wishes.refusal is not None:
            raise NotAcceptable(wishes.refusal)  # before any work is done
        result = resource.handle("get", target, None, request)
        kind = type(result)
        if kind is StoredRecord:
            return self._record(request, resource, target, result, wishes)
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
        resource.admit(request)
        data = decode_body(request.block.get("content-type"), request.content, "PUT")
        return self._answer(request, resource.handle("put", target, data, request))

    def _patch(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        if target.id_text is None or target.property is not None:
            raise resource.not_allowed("patch")
        request.precondition = write_precondition(request.block)
        resource.admit(request)
        data = decode_body(request.block.get("content-type"), request.content, "PATCH")
        return self._answer(request, resource.handle("patch", target, data, request))

    def _post(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        wishes = wishes_of(request.block)
        if wishes.refusal is not None:
            raise NotAcceptable(wishes.refusal)
        if target.id_text is not None and issubclass(resource, TableResource):
            raise resource.not_allowed("post")
        resource.admit(request)
        data = decode_body(request.block.get("content-type"), request.content, "POST")
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
        attribute = resource.properties.get(name)
        if attribute is None or not attribute.stored or attribute.primary_key:
            return None
        return name

    def _upload(self, request: Request, resource: type[TableResource], target: RequestTarget, name: str) -> Any:
        resource.admit(request)
        record = replace(target, id_text=cast(str, target.id_text).rpartition("/")[0])
        resource.bind(record)
        request.precondition = write_precondition(request.block)
        content_type = request.block.get("content-type")
        media_type = media_type_of(content_type)
        is_binary = resource.properties[name].type in ("Bytes", "Blob")
        if media_type == "application/octet-stream" or (is_binary and not is_json(media_type)):
            value: Any = request.content
        else:
            value = decode_body(content_type, request.content, "PUT")
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
        return self._record(request, resource, record, result, wishes_of(request.block))

    # --- answers -------------------------------------------------------------------------------------------------------------------

    def _record(self, request: Request, resource: type[Resource], target: RequestTarget, record: StoredRecord, wishes: Wishes) -> Response:
        if target.query and "select(" in target.query:
            return self._selected(request, cast(type[TableResource], resource), target, record, wishes)
        raw = record.raw
        tag = etag_of(raw)
        if request.user is None or self._options.last_modified:
            pairs = self._record_pairs(request, raw, tag)
        else:
            pairs = [JSON_TYPE, ("ETag", f'"{tag}"'), VARY, PRIVATE]
        if wishes.conditional and is_unchanged(request.block, tag, version_of(raw)):
            return Response(None, 304, pairs=pairs[1:])
        value: Any = decode_json(raw)
        if record.visible is not None:
            value = narrow(value, record.visible)
        if target.property is not None:
            if target.property not in value:
                raise NotFound("Record has no such property")
            value = value[target.property]
        if type(value) is dict and "contentType" in value and target.extension is None and _is_raw_content(value):
            return self._raw_content(decode(raw), target.property, pairs)
        return Response(encode_json(value), 200, pairs=pairs)

    def _record_pairs(self, request: Request, raw: bytes, tag: str) -> HeaderPairs:
        pairs: HeaderPairs = [JSON_TYPE, ("ETag", f'"{tag}"'), VARY]
        if request.user is not None:
            pairs.append(PRIVATE)
        if self._options.last_modified:
            pairs.append(("Last-Modified", last_modified(version_of(raw))))
        return pairs

    def _selected(
        self, request: Request, resource: type[TableResource], target: RequestTarget, record: StoredRecord, wishes: Wishes
    ) -> Response:
        """A record through `select`. With values of other tables in it, its version says nothing about it: no validators (http §4.1)."""
        rows = resource.select_one(record, target, request)
        pairs: HeaderPairs = [JSON_TYPE, VARY]
        if not joins(rows.plan.select, rows.table):
            tag = etag_of(record.raw)
            pairs = self._record_pairs(request, record.raw, tag)
            if wishes.conditional and is_unchanged(request.block, tag, version_of(record.raw)):
                return Response(None, 304, pairs=pairs[1:])
        elif request.user is not None:
            pairs.append(PRIVATE)
        array = JsonRows(rows, self._wall() * 1000, self._report).whole(rows)
        assert array is not None
        return Response(array[1:-1], 200, pairs=pairs)

    @staticmethod
    def _raw_content(stored: dict[str, Any], property_name: str | None, pairs: HeaderPairs) -> Response:
        """A stored `{contentType, data}` goes out as what it was (http §7.4)."""
        content = stored if property_name is None else stored[property_name]
        data = content["data"]
        content_type = content["contentType"]
        body = data if isinstance(data, bytes) else data.encode()
        if isinstance(data, str) and content_type.startswith("text/"):
            content_type += "; charset=utf-8"
        kept = [pair for pair in pairs if pair[0] not in ("Content-Type", "Vary")]
        nosniff = ("X-Content-Type-Options", "nosniff")
        return Response(body, 200, pairs=[("Content-Type", content_type), *kept, ("Vary", "Accept-Encoding"), nosniff])

    def _collection(self, request: Request, rows: Rows) -> Response:
        pairs: HeaderPairs = [JSON_TYPE, VARY]
        if request.user is not None:
            pairs.append(PRIVATE)
        chunks = JsonRows(rows, self._wall() * 1000, self._report)
        body = chunks.whole(rows)
        return Response(chunks if body is None else body, 200, pairs=pairs)

    def _answer(self, request: Request, result: Any, missing: str = "") -> Any:
        """What a handler returned, as a response (http §2.1, §12.4)."""
        kind = type(result)
        if kind is Created:
            pairs: HeaderPairs = [JSON_TYPE, VARY]
            if result.location:
                pairs.append(("Location", result.location))
            return Response(encode_json(result.value), 201, pairs=pairs)
        if kind is dict:
            result = as_response(result)
            kind = type(result)
        if kind is Response:
            if result.data is not None and result.body is None:
                result.body = encode_json(result.data)
                if not result.headers.has("Content-Type"):
                    result.pairs += [JSON_TYPE, VARY]
            return result
        if inspect.isawaitable(result):
            return self._await(request, result, missing)
        if result is None or (result is True and request.method == "DELETE"):
            if request.method in ("GET", "HEAD"):
                raise NotFound(missing or "Not found")
            return Response(None, 204)
        pairs = [JSON_TYPE, VARY]
        if request.last_modified is not None:
            tag = etag_of_version(request.last_modified)
            pairs.append(("ETag", f'"{tag}"'))
            if is_unchanged(request.block, tag, request.last_modified):
                return Response(None, 304, pairs=pairs[1:])
        if request.user is not None:
            pairs.append(PRIVATE)
        return Response(encode_json(result), 200, pairs=pairs)

    async def _await(self, request: Request, result: Any, missing: str) -> Any:
        return self._answer(request, await result, missing)


def as_response(result: dict[str, Any]) -> Any:
    """A plain mapping that a handler returned is a response if it has `status` and `headers`, or exactly `status` and one of `data` and `body`;
    anything else is data, for attributes of records may be called `status` (http §12.4)."""
    status = result.get("status")
    if type(status) is not int:
        return result
    keys = result.keys()
    if "headers" not in keys and not (100 <= status <= 599 and keys in ({"status", "data"}, {"status", "body"})):
        return result
    headers = result.get("headers")
    return Response(result.get("body"), status, headers if isinstance(headers, Headers) else Headers(headers), result.get("data"))


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
    return Response(encode_json(body), error.status_code, Headers([("Content-Type", "application/problem+json"), *error.headers]))
