"""The paths of one resource: what each method takes and may answer (spec: http §2-§5, §10.2).

Only what can happen is listed: a verb that the resource lacks, a status that an address cannot give, does not appear. QUERY has no place in
OpenAPI 3.0 and is left out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from svc.resources import Registration, TableResource
from svc.rest.openapi.access import DESCRIBED_VERBS, TableAccess
from svc.rest.openapi.address import Address
from svc.rest.openapi.names import OperationNames
from svc.rest.openapi.responses import (
    ALWAYS,
    READ_CONDITIONS,
    TEXT,
    WRITE_CONDITIONS,
    WRITES,
    MediaTypes,
    header,
    parameters,
    problems,
    use,
)
from svc.rest.openapi.schemas import (
    Schema,
    array_of,
    key_in_path,
    key_in_record,
    key_may_be_missing,
    nullable,
    query_schema,
    reference,
)
from svc.store.schema import Attribute, TableDefinition

RAW = "*/*"  # a record may hold content of any type (spec: http §7.4)
SELECTED = "With `select(...)` in the query the answer has the shape that it asks for."

_CSV = "text/csv"
_FORM = "application/x-www-form-urlencoded"
_LINES = ("application/x-ndjson", "application/ndjson")  # always a list
_TEXTS = (_CSV, _FORM, *_LINES, "text/plain")
_BYTES = "application/octet-stream"  # stands for all types that are not read here

_CONTENT = ("contentType", "data")  # the properties of a record that is content

_ANY_KEY: Schema = {"type": "string", "minLength": 1}


class ResourcePaths:
    """The paths of one resource."""

    def __init__(self, registration: Registration, verbs: Collection[str], names: OperationNames, types: MediaTypes) -> None:
        """`verbs`: that the caller may use there."""
        self._path = registration.path
        self._address = Address.of(registration)
        self._names = names
        self._types = types
        self._tag = self._path or registration.resource.name or "/"
        self._verbs = verbs

    def paths(self) -> dict[str, Schema]:
        key: Schema = {"name": self._address.key_name("id"), "in": "path", "required": True, "schema": _ANY_KEY}
        collection: Schema = {}
        record: Schema = {"parameters": [*self._address.parameters, key]}
        if self._address.parameters:
            collection["parameters"] = self._address.parameters
        one = self._names.one
        for verb in DESCRIBED_VERBS:
            if verb in self._verbs:
                if verb != "patch":
                    collection[verb] = self._any_operation(verb, f"{verb}{one}")
                record[verb] = self._any_operation(verb, f"{verb}{one}ById")
        paths = {self._address.whole: collection}
        if not self._address.is_endless:
            paths[self._address.below(key["name"])] = record
        return self._with_options(paths, (f"options{one}", f"options{one}ById"))

    def _any_operation(self, verb: str, name: str) -> Schema:
        """What a resource of an application may do: all that a resource can."""
        has_body = verb in ("put", "patch", "post")
        operation = self._operation(name, f"{verb.upper()} of {self._tag}")
        if has_body:
            operation["requestBody"] = {"content": {RAW: {}}}
        operation["responses"] = {"default": {"description": "Whatever the application answers.", "content": {RAW: {}}}}
        return operation

    # --- shared ----------------------------------------------------------------------------------------------------------------------

    def _operation(self, name: str, summary: str) -> Schema:
        return {"tags": [self._tag], "operationId": name, "summary": summary}

    def _with_options(self, paths: dict[str, Schema], names: tuple[str, str]) -> dict[str, Schema]:
        for place, name, item in zip(("collection", "record"), names, paths.values(), strict=False):
            operation = self._operation(name, "The methods there are")
            operation["security"] = []
            if place == "record":  # which need not exist: the key is not used
                operation["parameters"] = [{"name": item["parameters"][-1]["name"], "in": "path", "required": True, "schema": _ANY_KEY}]
            headers = use("Server-Timing")
            headers["Allow"] = header("The methods there are.", TEXT, required=True)
            if "patch" in item:
                headers["Accept-Patch"] = header("What PATCH takes.", TEXT, required=True)
            operation["responses"] = {
                "204": {"description": "See `Allow`.", "headers": headers},
                **problems((400, 408, 414, 431) if place != "collection" else (408, 414, 431)),
            }
            item["options"] = operation
        return paths

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


class TablePaths(ResourcePaths):
    """The paths of a table."""

    def __init__(
        self, registration: Registration, verbs: Collection[str], names: OperationNames, types: MediaTypes, access: TableAccess, name: str
    ) -> None:
        super().__init__(registration, verbs, names, types)
        resource = cast(type[TableResource], registration.resource)
        self._access = access
        self._definition: TableDefinition = access.definition
        self._full_scan = resource.allow_full_scan
        self._properties = [attribute for attribute in access.readable if attribute.name in resource.properties]
        self._name = name
        # A record with both is answered as the content it holds; such properties may be added unless the table is sealed.
        self._may_be_raw = access.is_open or {a.name for a in access.readable}.issuperset(_CONTENT)
        self._may_be_given_raw = access.is_open or {a.name for a in access.writable}.issuperset(_CONTENT)
        self._may_be_only_raw = self._may_be_given_raw and not any(
            a.required and a.stored and a.name != self._definition.primary_key and not (a.created_time or a.updated_time or a.embed)
            for a in self._definition.attributes
        )

    def paths(self) -> dict[str, Schema]:
        definition = self._definition
        key_attribute = definition.attribute(definition.primary_key)
        key_name = self._address.key_name(definition.primary_key)
        key: Schema = {"name": key_name, "in": "path", "required": True, "schema": key_in_path(definition)}
        if key_attribute is not None and key_attribute.description:
            key["description"] = key_attribute.description
        verbs = self._verbs
        collection: Schema = {"parameters": self._address.parameters} if self._address.parameters else {}
        record: Schema = {"parameters": [*self._address.parameters, key]}
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
        paths = {self._address.whole: collection, self._address.below(key_name): record}
        if "get" in verbs and self._properties:
            name = "property" if key_name != "property" else "property_name"
            which: Schema = {"name": name, "in": "path", "required": True}
            which["schema"] = {"type": "string", "enum": [a.name for a in self._properties]}
            paths[f"{self._address.below(key_name)}.{{{name}}}"] = {
                "parameters": [*self._address.parameters, key, which],
                "get": self._get_property(),
            }
        return self._with_options(paths, (f"options{self._names.many}", f"options{self._names.one}"))

    # --- the collection --------------------------------------------------------------------------------------------------------------

    def _conditions(self) -> list[Schema]:
        """Attributes that a query may compare without anything else in it."""
        parameters: list[Schema] = []
        for attribute in self._access.readable:
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
        if attribute.enum is not None or attribute.type not in ("ID", "String", "Any", "Bytes"):
            parameter["allowEmptyValue"] = True
            parameter["schema"] = nullable(schema)
            description = f"{description} Empty or `null`: records without it.".lstrip()
        if description:
            parameter["description"] = description
        return parameter

    def _get_collection(self) -> Schema:
        operation = self._operation(f"list{self._names.many}", f"Find records of {self._name}")
        operation["description"] = (
            "All records, or those for which every condition holds. Beyond `attribute=value` a query may have other operators, groups and "
            "relationships, and `select(...)`, `sort(...)`, `limit(...)` and more. With `Prefer: explain` the answer is how the query was run."
        )
        operation["parameters"] = self._conditions()
        found = self._shown(array_of(reference(self._name)))
        operation["responses"] = {
            "200": {"description": f"The records, in an array. {SELECTED}", "headers": use("Link", "Server-Timing"), "content": found},
            **problems((*ALWAYS, 406, 503)),
        }
        return operation

    def _bodies(self, kind: str) -> Schema:
        item = reference(f"{self._name}.{kind}")
        return {"required": True, "content": self._taken(reference(f"{self._name}.form.{kind}"), item, array_of(item))}

    def _put_collection(self) -> Schema:
        operation = self._operation(f"replace{self._names.many}", f"Store records of {self._name} by their keys, all or none")
        operation["requestBody"] = self._bodies("keyed")
        operation["responses"] = {
            "204": {"description": "Stored.", "headers": use("Server-Timing")},
            **problems((*ALWAYS, *WRITES, 409)),
        }
        return operation

    def _post(self) -> Schema:
        operation = self._operation(f"create{self._names.one}", f"Create records of {self._name}, all or none")
        if key_may_be_missing(self._definition):
            operation["description"] = "A record without a key gets a new one."
        made = key_in_record(self._definition)
        operation["requestBody"] = self._bodies("new")
        operation["responses"] = {
            "201": {
                "description": "Created. The key of the new record, or the keys of all in an array.",
                "headers": use("Location", "Server-Timing"),
                "content": self._shown({"anyOf": [made, array_of(made)]}),
            },
            **problems((*ALWAYS, *WRITES, 406, 409)),
        }
        return operation

    def _delete_collection(self) -> Schema:
        operation = self._operation(f"delete{self._names.many}", f"Delete records of {self._name}")
        operation["description"] = "Deletes every record for which the conditions hold; without a condition it empties the table."
        operation["parameters"] = self._conditions()
        operation["responses"] = {
            "204": {"description": "Deleted.", "headers": use("X-Deleted-Count", "Server-Timing")},
            **problems((*ALWAYS, 503, 507)),
        }
        return operation

    # --- one record ------------------------------------------------------------------------------------------------------------------

    def _get_one(self, operation: Schema, schema: Schema, *, raw: bool) -> Schema:
        headers = use("ETag", "Server-Timing")
        content = self._shown(schema)
        operation["parameters"] = parameters(*READ_CONDITIONS)
        operation["responses"] = {
            "200": {"description": SELECTED, "headers": headers, "content": content},
            "304": {"description": "Not changed.", "headers": headers},
            **problems((*ALWAYS, 404, 406, 412)),
        }
        if raw:
            bytes_of: Schema = {"schema": {"type": "string", "format": "binary"}}
            content[RAW] = bytes_of
            operation["parameters"] += parameters("Range")
            part = {"description": "The part.", "headers": headers | use("Content-Range"), "content": {RAW: bytes_of}}
            operation["responses"] |= {"206": part, **problems((416,))}
        return operation

    def _get_record(self) -> Schema:
        operation = self._operation(f"get{self._names.one}", f"Read a record of {self._name}")
        if self._may_be_raw:
            operation["description"] = "A record that has both `contentType` and `data` is answered as the content that it holds."
        return self._get_one(operation, reference(self._name), raw=self._may_be_raw)

    def _get_property(self) -> Schema:
        operation = self._operation(f"get{self._names.one}Property", f"Read one property of a record of {self._name}")
        raw = any(attribute.type in ("Any", "Bytes", "Blob") for attribute in self._properties)
        return self._get_one(operation, reference(f"{self._name}.property"), raw=raw)

    def _written(self, operation: Schema, schema: str, *statuses: int, raw: bool) -> Schema:
        form = reference(f"{self._name}.form.changes" if schema.endswith(".changes") else f"{self._name}.form")
        content = self._taken(form, reference(schema))
        if raw:
            content[_BYTES] = {"schema": {"type": "string", "format": "binary", "minLength": 1}}
        operation["parameters"] = parameters(*WRITE_CONDITIONS)
        operation["requestBody"] = {"required": True, "content": content}
        operation["responses"] = {
            "204": {"description": "Written.", "headers": use("Server-Timing")},
            **problems((*ALWAYS, *WRITES, 409, *statuses)),
        }
        return operation

    def _put_record(self) -> Schema:
        operation = self._operation(f"replace{self._names.one}", f"Store a record of {self._name} in place of what was there")
        if self._may_be_only_raw:
            operation["description"] = "Content of any other type becomes the record `{contentType, data}`."
        return self._written(operation, f"{self._name}.body", 405, 412, raw=self._may_be_only_raw)

    def _patch_record(self) -> Schema:
        operation = self._operation(f"update{self._names.one}", f"Set some properties of a record of {self._name}")
        operation["description"] = (
            "The other properties stay. A record that does not exist is made, and must then have all that is required."
        )
        return self._written(operation, f"{self._name}.changes", 405, 412, raw=self._may_be_given_raw)

    def _delete_record(self) -> Schema:
        operation = self._operation(f"delete{self._names.one}", f"Delete a record of {self._name}")
        operation["parameters"] = parameters(*WRITE_CONDITIONS)
        operation["responses"] = {
            "204": {"description": "There is no such record any more, or never was.", "headers": use("Server-Timing")},
            **problems((*ALWAYS, 405, 412, 503, 507)),
        }
        return operation
