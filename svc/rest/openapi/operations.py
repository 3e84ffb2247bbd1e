"""The paths of one resource: what each method takes and may answer (contract: http §2-§5, §10.2).

Only what can happen is listed: a verb that the resource lacks, a status that an address cannot give, does not appear. QUERY has no place in
OpenAPI 3.0 and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from svc.content.negotiation import FALLBACK
from svc.content.registry import ContentTypes
from svc.resources import Resource, TableResource
from svc.rest.openapi.schemas import (
    Schema,
    TableSchemas,
    array_of,
    key_in_body,
    key_in_path,
    key_in_record,
    key_may_be_missing,
    nullable,
    query_schema,
    reference,
)
from svc.store.schema import Attribute, TableDefinition

RAW = "*/*"  # a record may hold content of any type (http §7.4)
ETAG = '^"[A-Za-z0-9_-]{11}"$'


@dataclass(frozen=True, slots=True)
class MediaTypes:
    """What can be read and written, in the order of the registry, and what problems come in."""

    readable: tuple[str, ...]
    writable: tuple[str, ...]
    problems: tuple[str, ...]

    @classmethod
    def of(cls, types: ContentTypes) -> MediaTypes:
        writable = tuple(name for name in types if name not in (FALLBACK, EVENTS) and types.named(name) is not None)
        readable = tuple(name for name in types if name != FALLBACK and types.reader(name) is not None)
        return cls(readable, writable, ("application/problem+json", *(name for name in PROBLEM_TYPES if name in writable)))


EVENTS = "text/event-stream"  # subscriptions only
PROBLEM_TYPES = ("application/cbor", "application/x-msgpack", "application/msgpack")

_CSV = "text/csv"
_FORM = "application/x-www-form-urlencoded"
_LINES = ("application/x-ndjson", "application/ndjson")  # always a list
_TEXTS = (_CSV, _FORM, *_LINES, "text/plain")
_BYTES = "application/octet-stream"  # stands for all types that are not read here

TEXT: Schema = {"type": "string"}
_ANY_KEY: Schema = {"type": "string", "minLength": 1}


def _header(description: str, schema: Schema, *, required: bool = False) -> Schema:
    header: Schema = {"description": description, "schema": schema}
    if required:
        header["required"] = True
    return header


HEADERS: Mapping[str, Schema] = {
    "ETag": _header("Changes with every write of the record.", TEXT | {"pattern": ETAG}),
    "Location": _header("Address of the new record, relative to that of the collection. Missing when several were created.", TEXT),
    "Server-Timing": _header("How long the answer took, in ms.", TEXT, required=True),
    "WWW-Authenticate": _header("How to log in. Missing for a request with `X-Requested-With`.", TEXT),
    "Content-Range": _header("Which part of how many bytes.", TEXT, required=True),
    "Retry-After": _header("Seconds.", {"type": "integer", "minimum": 0}),
}


def _use(*names: str) -> dict[str, Schema]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


# Status -> (name of its component, when it happens). The rest of http §5 is in the problem object.
PROBLEMS: Mapping[int, tuple[str, str]] = {
    400: ("BadRequest", "Something in the address, the query or the body is wrong; `detail` says what and where."),
    401: ("Unauthorized", "No credentials, or wrong ones."),
    403: ("Forbidden", "The role of the caller does not allow this."),
    404: ("NotFound", "There is no such record, or it has no such property."),
    405: (
        "MethodNotAllowed",
        "The address ends in a dot and the name of a property, which only GET knows. In a key, write the dot as %2E.",
    ),
    406: ("NotAcceptable", "No type that `Accept` names can be written; `detail` lists those that can."),
    408: ("RequestTimeout", "The request did not arrive in time."),
    409: ("Conflict", "There is a record with this key."),
    412: ("PreconditionFailed", "The record is not in the state that `If-Match`, `If-None-Match` or `If-Unmodified-Since` asks for."),
    413: ("PayloadTooLarge", "The body is larger than this server takes."),
    414: ("UriTooLong", "The address is longer than this server takes."),
    415: ("UnsupportedMediaType", "The coding of the body, or the kind of patch, is not known here."),
    416: ("RangeNotSatisfiable", "The content has no such range."),
    431: ("RequestHeaderFieldsTooLarge", "The header is larger than this server takes."),
    503: ("ServiceUnavailable", "Try again later: the server is busy, or an index is still being built."),
    507: ("InsufficientStorage", "The disk is full; nothing was written."),
}
_EARLY = frozenset((408, 413, 414, 431))  # answered before the request is complete
_ALWAYS = (400, 401, 403, 408, 414, 431)
_WRITE = (413, 415, 503, 507)


def problem_responses(types: MediaTypes) -> dict[str, Schema]:
    """The shared responses of `components`."""
    responses: dict[str, Schema] = {}
    for status, (name, description) in PROBLEMS.items():
        headers = {} if status in _EARLY else _use("Server-Timing")
        if status == 401:
            headers |= _use("WWW-Authenticate")
        elif status == 503:
            headers |= _use("Retry-After")
        elif status == 405:
            headers["Allow"] = _header("The methods there are.", TEXT, required=True)
        response: Schema = {"description": description, "content": {name: {"schema": reference("Problem")} for name in types.problems}}
        if headers:
            response["headers"] = headers
        responses[name] = response
    return responses


PROBLEM_SCHEMA: Schema = {
    "type": "object",
    "description": "What went wrong (RFC 9457).",
    "required": ["type", "title", "status", "code", "detail", "error"],
    "properties": {
        "type": TEXT,
        "title": TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"type": "string", "description": "Stays the same; for programs."},
        "detail": {"type": "string", "description": "For people."},
        "error": {"type": "string", "description": "The same as `detail`."},
        "errors": array_of(TEXT) | {"description": "One sentence for each value that was refused."},
        "retryable": {"type": "boolean"},
    },
}

SELECTED = "With `select(...)` in the query the answer has the shape that it asks for."


class Operations:
    """The paths of one resource."""

    def __init__(self, resource: type[Resource], path: str, types: MediaTypes) -> None:
        self._resource = resource
        self._path = path
        self._base = f"/{quote(path)}" if path else ""
        self._types = types
        self._tag = path or resource.name or "/"
        self._verbs = resource.verbs

    def paths(self) -> dict[str, Schema]:
        key: Schema = {"name": "id", "in": "path", "required": True, "schema": _ANY_KEY}
        collection: Schema = {}
        record: Schema = {"parameters": [key]}
        for verb in ("get", "put", "patch", "post", "delete"):
            if verb in self._verbs:
                for item, place in ((collection, "collection"), (record, "record")):
                    if (verb, place) in (("patch", "collection"),):
                        continue
                    item[verb] = self._any_operation(verb, place)
        return self._with_options({f"{self._base}/": collection, f"{self._base}/{{id}}": record})

    def _any_operation(self, verb: str, place: str) -> Schema:
        """What a resource of an application may do: all that a resource can."""
        has_body = verb in ("put", "patch", "post")
        operation = self._operation(verb, place, f"{verb} of {self._resource.name or self._path}")
        if has_body:
            operation["requestBody"] = {"content": {RAW: {}}}
        operation["responses"] = {"default": {"description": "Whatever the application answers.", "content": {RAW: {}}}}
        return operation

    # --- shared ----------------------------------------------------------------------------------------------------------------------

    def _operation(self, verb: str, place: str, summary: str) -> Schema:
        return {"tags": [self._tag], "operationId": f"{verb} {self._tag} {place}", "summary": summary}

    def _with_options(self, paths: dict[str, Schema]) -> dict[str, Schema]:
        for place, item in zip(("collection", "record"), paths.values(), strict=False):
            operation = self._operation("options", place, "The methods there are")
            operation["security"] = []
            if place == "record":  # which need not exist, nor could: nobody looks at the key
                operation["parameters"] = [{"name": item["parameters"][0]["name"], "in": "path", "required": True, "schema": _ANY_KEY}]
            headers = _use("Server-Timing")
            headers["Allow"] = _header("The methods there are.", TEXT, required=True)
            if "patch" in item:
                headers["Accept-Patch"] = _header("What PATCH takes.", TEXT, required=True)
            operation["responses"] = {
                "204": {"description": "See `Allow`.", "headers": headers},
                **self._problems((400, 408, 414, 431) if place != "collection" else (408, 414, 431)),
            }
            item["options"] = operation
        return paths

    @staticmethod
    def _problems(statuses: Iterable[int]) -> dict[str, Schema]:
        return {str(status): {"$ref": f"#/components/responses/{PROBLEMS[status][0]}"} for status in sorted(statuses)}

    def _shown(self, schema: Schema) -> dict[str, Schema]:
        """An answer in every type. Those that have no place for a structure are text."""
        return {name: {"schema": TEXT if name in _TEXTS else schema} for name in self._types.writable}

    def _taken(self, form: Schema, one: Schema, many: Schema | None = None) -> dict[str, Schema]:
        """A body in every type. `form`: one record as a form; `many`: a list of them is taken too."""
        content: dict[str, Schema] = {}
        for name in self._types.readable:
            if name in _LINES:
                if many is not None:
                    content[name] = {"schema": many | {"minItems": 1}}  # no line is no body
            elif name == _CSV:
                content[name] = {"schema": TEXT}
            elif name == _FORM:
                content[name] = {"schema": form}
            else:
                content[name] = {"schema": one if many is None else {"anyOf": [one, many]}}
        return content


class TableOperations(Operations):
    """The paths of a table."""

    def __init__(self, resource: type[TableResource], path: str, types: MediaTypes, name: str, schemas: TableSchemas) -> None:
        super().__init__(resource, path, types)
        self._definition: TableDefinition = resource.table.definition
        self._full_scan = resource.allow_full_scan
        self._properties = [a for a in self._definition.attributes if not a.hidden and a.name in resource.properties]
        self._name = name
        self._schemas = schemas
        names = {a.name for a in self._definition.attributes}
        # A record with both is answered as the content it holds; such properties may be added unless the table is sealed.
        self._may_be_raw = not self._definition.sealed or {"contentType", "data"} <= names
        self._may_be_only_raw = self._may_be_raw and not any(
            a.required and a.stored and a.name != self._definition.primary_key and not (a.created_time or a.updated_time or a.embed)
            for a in self._definition.attributes
        )

    def paths(self) -> dict[str, Schema]:
        definition = self._definition
        key_name = definition.primary_key
        key_attribute = definition.attribute(key_name)
        key: Schema = {"name": key_name, "in": "path", "required": True, "schema": key_in_path(definition)}
        if key_attribute is not None and key_attribute.description:
            key["description"] = key_attribute.description
        verbs = self._verbs
        collection: Schema = {}
        record: Schema = {"parameters": [key]}
        if "get" in verbs:
            collection["get"] = self._get_collection()
            record["get"] = self._get_record()
        if "put" in verbs:
            collection["put"] = self._put_collection()
            record["put"] = self._put_record()
        if "patch" in verbs:
            record["patch"] = self._patch_record()
        if "post" in verbs:
            collection["post"] = self._post()
        if "delete" in verbs:
            collection["delete"] = self._delete_collection()
            record["delete"] = self._delete_record()
        paths = {f"{self._base}/": collection, f"{self._base}/{{{key_name}}}": record}
        if "get" in verbs and self._properties:
            name = "property" if key_name != "property" else "property_name"
            which: Schema = {"name": name, "in": "path", "required": True}
            which["schema"] = {"type": "string", "enum": [a.name for a in self._properties]}
            paths[f"{self._base}/{{{key_name}}}.{{{name}}}"] = {"parameters": [key, which], "get": self._get_property()}
        return self._with_options(paths)

    # --- the collection --------------------------------------------------------------------------------------------------------------

    def _conditions(self) -> list[Schema]:
        """Attributes that a query may compare without anything else in it."""
        parameters: list[Schema] = []
        for attribute in self._definition.attributes:
            if attribute.hidden:
                continue
            if not (attribute.indexed or attribute.name == self._definition.primary_key or self._full_scan):
                continue
            schema = query_schema(attribute)
            if schema is not None:
                parameters.append(self._condition(attribute, schema))
        return parameters

    def _condition(self, attribute: Attribute, schema: Schema) -> Schema:
        parameter: Schema = {"name": attribute.name, "in": "query", "schema": schema}
        description = attribute.description
        if attribute.elements:
            description = f"{description} One of its elements.".lstrip()
        if attribute.type not in ("ID", "String", "Any", "Bytes"):
            parameter["allowEmptyValue"] = True
            parameter["schema"] = nullable(schema)
            description = f"{description} Empty or `null`: records without it.".lstrip()
        if description:
            parameter["description"] = description
        return parameter

    def _get_collection(self) -> Schema:
        operation = self._operation("get", "collection", f"Find records of {self._name}")
        operation["description"] = (
            "All records, or those for which every condition holds. Beyond `attribute=value` a query may have other operators, groups and "
            "relationships, and `select(...)`, `sort(...)` and `limit(...)`."
        )
        operation["parameters"] = self._conditions()
        found = self._shown(array_of(reference(self._name)))
        operation["responses"] = {
            "200": {"description": f"The records, in an array. {SELECTED}", "headers": _use("Server-Timing"), "content": found},
            **self._problems((*_ALWAYS, 406, 503)),
        }
        return operation

    def _item(self) -> Schema:
        """A record as the body of a request to the collection gives it: with its key."""
        definition = self._definition
        key = key_in_body(definition)
        return {
            "allOf": [
                reference(f"{self._name}.body"),
                {"type": "object", "properties": {definition.primary_key: key}, "required": [definition.primary_key]},
            ]
        }

    def _put_collection(self) -> Schema:
        operation = self._operation("put", "collection", f"Store records of {self._name} by their keys, all or none")
        item = self._item()
        operation["requestBody"] = {
            "required": True,
            "content": self._taken(self._schemas.form(partial=False, key=True), item, array_of(item)),
        }
        operation["responses"] = {
            "204": {"description": "Stored.", "headers": _use("Server-Timing")},
            **self._problems((*_ALWAYS, *_WRITE)),
        }
        return operation

    def _post(self) -> Schema:
        definition = self._definition
        operation = self._operation("post", "collection", f"Create records of {self._name}, all or none")
        item = self._item()
        if key_may_be_missing(definition):
            operation["description"] = "A record without a key gets a new one."
            key = nullable(key_in_body(definition))
            item = {"allOf": [item["allOf"][0], {"type": "object", "properties": {definition.primary_key: key}}]}
        made = key_in_record(definition)
        operation["requestBody"] = {
            "required": True,
            "content": self._taken(self._schemas.form(partial=False, key=True), item, array_of(item)),
        }
        operation["responses"] = {
            "201": {
                "description": "Created. The key of the new record, or the keys of all in an array.",
                "headers": _use("Location", "Server-Timing"),
                "content": self._shown({"anyOf": [made, array_of(made)]}),
            },
            **self._problems((*_ALWAYS, *_WRITE, 406, 409)),
        }
        return operation

    def _delete_collection(self) -> Schema:
        operation = self._operation("delete", "collection", f"Delete records of {self._name}")
        operation["description"] = "Deletes every record for which the conditions hold; without a condition it empties the table."
        operation["parameters"] = self._conditions()
        operation["responses"] = {
            "204": {"description": "Deleted.", "headers": _use("Server-Timing")},
            **self._problems((*_ALWAYS, 503, 507)),
        }
        return operation

    # --- one record ------------------------------------------------------------------------------------------------------------------

    @staticmethod
    def _preconditions(*, read: bool) -> list[Schema]:
        meanings = {
            "If-Match": "Go on only if the record has one of these versions (`ETag`), or, with `*`, exists.",
            "If-None-Match": "304 if the record has one of these versions."
            if read
            else "Go on only if the record has none of these versions, or, with `*`, does not exist.",
            "If-Unmodified-Since": "Go on only if the record was not written since.",
        }
        if read:
            meanings["If-Modified-Since"] = "304 if the record was not written since."
        return [{"name": name, "in": "header", "description": meaning, "schema": TEXT} for name, meaning in meanings.items()]

    def _get_one(self, operation: Schema, schema: Schema, *, raw: bool) -> Schema:
        headers = _use("ETag", "Server-Timing")
        content = self._shown(schema)
        operation["parameters"] = self._preconditions(read=True)
        operation["responses"] = {
            "200": {"description": SELECTED, "headers": headers, "content": content},
            "304": {"description": "Not changed.", "headers": headers},
            **self._problems((*_ALWAYS, 404, 406, 412)),
        }
        if raw:
            bytes_of: Schema = {"schema": {"type": "string", "format": "binary"}}
            content[RAW] = bytes_of
            meaning = "The part of stored content that is wanted, as `bytes=0-99`."
            operation["parameters"].append({"name": "Range", "in": "header", "description": meaning, "schema": TEXT})
            part = {"description": "The part.", "headers": headers | _use("Content-Range"), "content": {RAW: bytes_of}}
            operation["responses"] |= {"206": part, **self._problems((416,))}
        return operation

    def _get_record(self) -> Schema:
        operation = self._operation("get", "record", f"Read a record of {self._name}")
        if self._may_be_raw:
            operation["description"] = "A record that has both `contentType` and `data` is answered as the content that it holds."
        return self._get_one(operation, reference(self._name), raw=self._may_be_raw)

    def _get_property(self) -> Schema:
        operation = self._operation("get", "property", f"Read one property of a record of {self._name}")
        choices: list[Schema] = []
        raw = False
        for attribute in self._properties:
            schema = self._schemas.shown(attribute)
            schema = schema if attribute.required else nullable(schema)
            raw = raw or attribute.type in ("Any", "Bytes", "Blob")
            if schema not in choices:
                choices.append(schema)
        return self._get_one(operation, {} if {} in choices else choices[0] if len(choices) == 1 else {"anyOf": choices}, raw=raw)

    def _written(self, operation: Schema, schema: str, *statuses: int, raw: bool) -> Schema:
        form = self._schemas.form(partial=schema.endswith(".changes"), key=False)
        content = self._taken(form, reference(schema))
        if raw:
            content[_BYTES] = {"schema": {"type": "string", "format": "binary", "minLength": 1}}
        operation["parameters"] = self._preconditions(read=False)
        operation["requestBody"] = {"required": True, "content": content}
        operation["responses"] = {
            "204": {"description": "Written.", "headers": _use("Server-Timing")},
            **self._problems((*_ALWAYS, *_WRITE, *statuses)),
        }
        return operation

    def _put_record(self) -> Schema:
        operation = self._operation("put", "record", f"Store a record of {self._name} in place of what was there")
        if self._may_be_only_raw:
            operation["description"] = "Content of any other type becomes the record `{contentType, data}`."
        return self._written(operation, f"{self._name}.body", 405, 412, raw=self._may_be_only_raw)

    def _patch_record(self) -> Schema:
        operation = self._operation("patch", "record", f"Set some properties of a record of {self._name}")
        operation["description"] = (
            "The other properties stay. A record that does not exist is made, and must then have all that is required."
        )
        return self._written(operation, f"{self._name}.changes", 405, 412, raw=self._may_be_raw)

    def _delete_record(self) -> Schema:
        operation = self._operation("delete", "record", f"Delete a record of {self._name}")
        operation["parameters"] = self._preconditions(read=False)
        operation["responses"] = {
            "204": {"description": "There is no such record any more, or never was.", "headers": _use("Server-Timing")},
            **self._problems((*_ALWAYS, 405, 412, 503, 507)),
        }
        return operation
