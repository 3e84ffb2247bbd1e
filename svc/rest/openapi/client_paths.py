"""The paths of one resource for generated clients (spec: http §10.3).

A client has one function for an operation, with one type for its body and one for its answer. So bodies are JSON, and what takes or gives another type is an
operation at an address of its own:

    POST /Product/                createProduct      one record
    POST /Product                 createProducts     a list
    GET  /Product/                listProducts       whole records
    GET  /Product/.json?_select=  selectProducts     some properties of each
    PUT  /Product/                replaceProducts    a list
    PUT  /Product/{id}/photo      uploadProductPhoto content
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from svc.resources import Registration, TableResource
from svc.rest.openapi.access import DESCRIBED_VERBS, TableAccess
from svc.rest.openapi.address import Address
from svc.rest.openapi.client_schemas import condition_schema, key_in_path, key_schema
from svc.rest.openapi.names import OperationNames, words
from svc.rest.openapi.responses import ALWAYS, READ_CONDITIONS, TEXT, WRITE_CONDITIONS, WRITES, parameters, problems, use
from svc.rest.openapi.schemas import Schema, array_of, described, reference
from svc.store.schema import Attribute

JSON = "application/json"
BYTES = "application/octet-stream"
_BINARY: Schema = {"type": "string", "format": "binary"}
_WRITTEN: Schema = {"description": "Written.", "headers": use("Server-Timing")}

_SELECT = "Names of properties, separated by commas; of nested objects and relationships with their own in braces: `name,brand{name}`."
_NATURAL: Schema = {"type": "integer", "format": "int64", "minimum": 0}
NARROWING = ("_where", "_sort", "_limit")
PAGING = ("_offset", "_after", "_count")
QUERY_PARAMETERS: Mapping[str, Schema] = {
    name: {"name": name, "in": "query", "schema": schema, "description": meaning}
    for name, schema, meaning in (
        ("_where", TEXT, "Further conditions, in the query language: `price>5&(name==*a*|stock<3)`."),
        ("_sort", TEXT, "Names of attributes, separated by commas; `-` before one for descending order: `-price,name`."),
        ("_limit", _NATURAL, "Largest number of records to return."),
        ("_offset", _NATURAL, "Number of records to skip."),
        ("_after", TEXT, "The cursor in the `Link` of the page before."),
        ("_count", TEXT | {"enum": ["exact"]}, "The answer has `X-Total-Count`."),
    )
}
"""Plain parameters (spec: query), by the name of the component."""


class ClientResourcePaths:
    """The paths of a resource of which only the verbs are known."""

    def __init__(self, registration: Registration, verbs: frozenset[str], names: OperationNames) -> None:
        """`verbs`: that the caller may use there."""
        self._address = Address.of(registration)
        self._names = names
        self._tag = registration.path or registration.resource.name or "/"
        self._verbs = verbs

    def paths(self) -> dict[str, Schema]:
        one = self._names.one
        found: dict[str, Schema] = {self._address.whole: {}}
        key_name = self._address.key_name("id")
        if not self._address.is_endless:
            found[self._address.below(key_name)] = {}
        for path, suffix in zip(list(found), ("", "ById"), strict=False):
            given = [*self._address.parameters, *([_in_path(key_name, TEXT)] if suffix else [])]
            operations = {verb: self._any_operation(verb, verb + one + suffix) for verb in DESCRIBED_VERBS if verb in self._verbs}
            if not suffix:
                operations.pop("patch", None)
            if operations:
                found[path] = {"parameters": given, **operations} if given else operations
        return {path: item for path, item in found.items() if item}

    def _any_operation(self, verb: str, name: str) -> Schema:
        operation = self._operation(name, f"{verb.upper()} of {self._tag}")
        if verb in ("put", "patch", "post"):
            operation["requestBody"] = {"content": {JSON: {"schema": {}}}}
        operation["responses"] = {
            "200": {"description": "Whatever the application answers.", "content": {JSON: {"schema": {}}}},
            "204": {"description": "Done."},
            **problems(ALWAYS),
        }
        return operation

    def _operation(self, name: str, summary: str) -> Schema:
        return {"tags": [self._tag], "operationId": name, "summary": summary}


class ClientTablePaths(ClientResourcePaths):
    """The paths of a table."""

    def __init__(
        self,
        registration: Registration,
        verbs: frozenset[str],
        names: OperationNames,
        access: TableAccess,
        name: str,
        types: Mapping[str, str],
        taken: set[str],
    ) -> None:
        """`types`: enum type -> name of its schema. `taken`: the names of operations that are made of two names, so that another table could make the same."""
        super().__init__(registration, verbs, names)
        self._types = types
        self._taken = taken
        self._access = access
        self._definition = access.definition
        self._full_scan = cast(type[TableResource], registration.resource).allow_full_scan
        self._name = name
        self._key_name = self._address.key_name(access.definition.primary_key)

    def paths(self) -> dict[str, Schema]:
        verbs = self._verbs
        collection: Schema = {}
        plain: Schema = {}
        record: Schema = {}
        if "get" in verbs:
            collection["get"] = self._list()
            record["get"] = self._get()
        if "post" in verbs:
            collection["post"] = self._create()
            plain["post"] = self._create_all()
        if "put" in verbs:
            collection["put"] = self._replace_all()
            record["put"] = self._write(
                f"replace{self._names.one}", f"Store a record of {self._name} in place of what was there", "Replace"
            )
        if "patch" in verbs:
            record["patch"] = self._write(f"update{self._names.one}", f"Set some properties of a record of {self._name}", "Update")
        if "delete" in verbs:
            collection["delete"] = self._delete_all()
            record["delete"] = self._delete()
        whole, template = self._address.whole, self._address.template
        found = {whole: collection, self._address.below(self._key_name): record, **self._content_paths()}
        if "get" in verbs:
            found[f"{template}/.json"] = {"get": self._select()}
        if template not in ("", whole):
            found[template] = plain
        return {path: self._with_parameters(path, item) for path, item in found.items() if item}

    def _with_parameters(self, path: str, item: Schema) -> Schema:
        given = list(self._address.parameters)
        if f"{{{self._key_name}}}" in path:
            key = self._definition.attribute(self._definition.primary_key)
            given.append(_in_path(self._key_name, key_in_path(self._definition, self._types), "" if key is None else key.description))
        return {"parameters": given, **item} if given else item

    # --- the collection --------------------------------------------------------------------------------------------------------------

    def _conditions(self) -> list[Schema]:
        """Attributes that a query may compare without anything else in it."""
        found: list[Schema] = []
        for attribute in self._access.readable:
            if attribute.indexed or attribute.name == self._definition.primary_key or self._full_scan:
                schema = condition_schema(attribute, self._types)
                if schema is not None:
                    found.append(_in_query(attribute.name, schema, attribute.description))
        return found

    def _plain(self, *names: str) -> list[Schema]:
        """Those parameters that are not names of attributes."""
        return parameters(*[name for name in names if self._definition.attribute(name) is None])

    def _found(self, operation: Schema, schema: str) -> Schema:
        headers = use("Link", "X-Total-Count", "Server-Timing")
        operation["responses"] = {
            "200": {"description": "The records.", "headers": headers, "content": {JSON: {"schema": array_of(reference(schema))}}},
            **problems((*ALWAYS, 503)),
        }
        return operation

    def _list(self) -> Schema:
        operation = self._operation(f"list{self._names.many}", f"Find records of {self._name}")
        operation["description"] = "All records, or those for which every condition holds."
        operation["parameters"] = [*self._conditions(), *self._plain(*NARROWING, *PAGING)]
        return self._found(operation, self._name)

    def _select(self) -> Schema:
        operation = self._operation(f"select{self._names.many}", f"Find records of {self._name}, and get some properties of each")
        operation["description"] = "The same as the list, with relationships and computed attributes where they are named."
        select = _in_query("_select", TEXT, _SELECT) | {"required": True}
        operation["parameters"] = [select, *self._conditions(), *self._plain(*NARROWING, *PAGING)]
        return self._found(operation, f"{self._name}Part")

    def _create(self) -> Schema:
        operation = self._operation(f"create{self._names.one}", f"Create a record of {self._name}")
        operation["requestBody"] = _body(reference(f"{self._name}Create"))
        operation["responses"] = {
            "201": {
                "description": "Created. The key of the new record.",
                "headers": use("Location", "Server-Timing"),
                "content": {JSON: {"schema": key_schema(self._definition, self._types)}},
            },
            **problems((*ALWAYS, *WRITES, 409)),
        }
        return operation

    def _create_all(self) -> Schema:
        operation = self._operation(f"create{self._names.many}", f"Create records of {self._name}, all or none")
        operation["requestBody"] = _body(array_of(reference(f"{self._name}Create")))
        operation["responses"] = {
            "201": {
                "description": "Created. The keys of the new records, in the order of the body.",
                "headers": use("Server-Timing"),
                "content": {JSON: {"schema": array_of(key_schema(self._definition, self._types))}},
            },
            **problems((*ALWAYS, *WRITES, 409)),
        }
        return operation

    def _replace_all(self) -> Schema:
        operation = self._operation(f"replace{self._names.many}", f"Store records of {self._name} by their keys, all or none")
        operation["description"] = "Each replaces the record that has its key, or is a new one. Other records stay."
        operation["requestBody"] = _body(array_of(reference(f"{self._name}Keyed")))
        operation["responses"] = {"204": _WRITTEN, **problems((*ALWAYS, *WRITES, 409))}
        return operation

    def _delete_all(self) -> Schema:
        operation = self._operation(f"delete{self._names.many}", f"Delete records of {self._name}")
        operation["description"] = "Deletes every record for which the conditions hold; without a condition it empties the table."
        operation["parameters"] = [*self._conditions(), *self._plain(*NARROWING)]
        operation["responses"] = {
            "204": {"description": "Deleted.", "headers": use("X-Deleted-Count", "Server-Timing")},
            **problems((*ALWAYS, 503, 507)),
        }
        return operation

    # --- one record ------------------------------------------------------------------------------------------------------------------

    def _get(self) -> Schema:
        operation = self._operation(f"get{self._names.one}", f"Read a record of {self._name}")
        operation["parameters"] = parameters(*READ_CONDITIONS)
        headers = use("ETag", "Server-Timing")
        operation["responses"] = {
            "200": {"description": "The record.", "headers": headers, "content": {JSON: {"schema": reference(self._name)}}},
            "304": {"description": "Not changed.", "headers": headers},
            **problems((*ALWAYS, 404, 412)),
        }
        return operation

    def _write(self, name: str, summary: str, schema: str) -> Schema:
        operation = self._operation(name, summary)
        if schema == "Update":
            operation["description"] = "The others stay. A record that does not exist is made, and must then have all that is required."
        operation["parameters"] = parameters(*WRITE_CONDITIONS)
        operation["requestBody"] = _body(reference(self._name + schema))
        operation["responses"] = {"204": _WRITTEN, **problems((*ALWAYS, *WRITES, 405, 409, 412))}
        return operation

    def _delete(self) -> Schema:
        operation = self._operation(f"delete{self._names.one}", f"Delete a record of {self._name}")
        operation["parameters"] = parameters(*WRITE_CONDITIONS)
        operation["responses"] = {
            "204": {"description": "There is no such record any more, or never was.", "headers": use("Server-Timing")},
            **problems((*ALWAYS, 405, 412, 503, 507)),
        }
        return operation

    # --- content ---------------------------------------------------------------------------------------------------------------------

    def _content_paths(self) -> dict[str, Schema]:
        """Of the attributes that hold content of any length."""
        found: dict[str, Schema] = {}
        writable = {attribute.name for attribute in self._access.writable} if "patch" in self._verbs else set()
        readable = {attribute.name for attribute in self._access.readable} if "get" in self._verbs else set()
        for attribute in self._definition.attributes:
            if attribute.type != "Blob" or attribute.elements:
                continue
            item: Schema = {}
            name = base = self._names.one + words(attribute.name)
            number = 1
            while name.lower() in self._taken:
                number += 1
                name = f"{base}{number}"
            self._taken.add(name.lower())
            if attribute.name in readable:
                item["get"] = self._download(f"download{name}", attribute)
            if attribute.name in writable:
                item["put"] = self._upload(f"upload{name}", attribute)
            if item:
                found[f"{self._address.below(self._key_name)}/{attribute.name}"] = item
        return found

    def _download(self, name: str, attribute: Attribute) -> Schema:
        operation = self._operation(name, f"Get {attribute.name} of a record of {self._name}")
        operation["description"] = f"{attribute.description} The answer has the type that it was stored with.".lstrip()
        operation["responses"] = {
            "200": {
                "description": "The content.",
                "headers": use("ETag", "Server-Timing"),
                "content": {BYTES: {"schema": _BINARY}, "*/*": {"schema": _BINARY}},
            },
            **problems((*ALWAYS, 404)),
        }
        return operation

    def _upload(self, name: str, attribute: Attribute) -> Schema:
        operation = self._operation(name, f"Store {attribute.name} of a record of {self._name}")
        operation["description"] = f"{attribute.description} It is kept with the `Content-Type` of the request.".lstrip()
        operation["requestBody"] = {"required": True, "content": {BYTES: {"schema": _BINARY}}}
        operation["responses"] = {"204": _WRITTEN, **problems((*ALWAYS, *WRITES))}
        return operation


def _body(schema: Schema) -> Schema:
    return {"required": True, "content": {JSON: {"schema": schema}}}


def _in_path(name: str, schema: Schema, description: str = "") -> Schema:
    return described({"name": name, "in": "path", "required": True, "schema": schema}, description)


def _in_query(name: str, schema: Schema, description: str = "") -> Schema:
    return described({"name": name, "in": "query", "schema": schema}, description)
