"""The OpenAPI document of the operations port, from the rows of the operations."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from svc import __version__
from svc.content.json_type import encode_json
from svc.operations.fields import MAX_NAME, Field
from svc.operations.operation import CATEGORIES, Operation
from svc.operations.registry import all_operations

_TYPES: dict[str, dict[str, Any]] = {
    "string": {"type": "string", "minLength": 1},
    "any string": {"type": "string"},
    "name": {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "bool": {"type": "boolean"},
    "list": {"type": "array", "items": {}},
    "non-empty list": {"type": "array", "items": {}, "minItems": 1},
    "strings": {"type": "array", "items": {"type": "string"}},
    "objects": {"type": "array", "items": {"type": "object", "additionalProperties": True}},
    "object": {"type": "object", "additionalProperties": True},
    "keys": {"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "number"}, {"type": "array", "items": {}}]}},
    "choice": {"type": "string"},
    "any": {},
}
"""JSON Schema of each kind of field."""

_ACCESS = {
    "none": "No login needed.",
    "any": "Every active user with a role.",
    "super_user": "Super users, and roles whose `operations` list names it.",
    "structure": "Super users, and structure users of the database.",
}


def access_text(row: Operation) -> str:
    """The permission that an operation needs, as a sentence."""
    permission = row.permission
    if permission.kind == "table":
        return f"The right to {' and '.join(permission.rights)} on the table."
    if permission.kind == "super_user" and not permission.grantable:
        return "Super users only."
    return _ACCESS[permission.kind]


@lru_cache(4)
def operations_document(server_url: str) -> bytes:
    """The document as JSON. The rows never change while the process lives."""
    rows = all_operations()
    schemas = {row.name: _schema(row) for row in rows}
    mapping = {name: f"#/components/schemas/{row.name}" for row in rows for name in row.names}
    document = {
        "openapi": "3.0.3",
        "info": {"title": "svc operations", "version": __version__, "description": "One address: the body says which operation runs."},
        "servers": [{"url": server_url}],
        "tags": [{"name": title} for title in CATEGORIES.values()],
        "security": [{"basic": []}, {"bearer": []}],
        "paths": {
            "/": {
                "post": {
                    "operationId": "operate",
                    "summary": "Run an operation",
                    "requestBody": {
                        "required": True,
                        "content": {
                            "application/json": {
                                "schema": {
                                    "oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in schemas],
                                    "discriminator": {"propertyName": "operation", "mapping": mapping},
                                },
                                "examples": {row.name: {"value": {"operation": row.name, **row.example}} for row in rows},
                            }
                        },
                    },
                    "responses": {
                        "200": {
                            "description": "The result; what was written is on the disk.",
                            "content": {"application/json": {"schema": {}}},
                        },
                        **{
                            str(status): {"description": text, "content": {"application/json": {"schema": _ERROR}}}
                            for status, text in _ERRORS.items()
                        },
                    },
                }
            },
            "/health": {
                "get": {
                    "operationId": "health",
                    "summary": "The process works",
                    "security": [],
                    "responses": {"200": {"description": "It does."}, "503": {"description": "It has lost a database, and ends."}},
                }
            },
            "/ready": {
                "get": {
                    "operationId": "ready",
                    "summary": "Whether a load balancer should send requests",
                    "security": [],
                    "responses": {"200": {"description": "Yes."}, "503": {"description": "Starting, stopping, or set unavailable."}},
                }
            },
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}, "bearer": {"type": "http", "scheme": "bearer"}},
        },
    }
    return encode_json(document)


_ERRORS = {
    400: "A field is missing or wrong; the text names each.",
    401: "Nobody logged in, or the credentials are wrong.",
    403: "The role does not allow it.",
    404: "The database, table or other item does not exist.",
    409: "It exists already, or is in use.",
    413: "The body is too large.",
    415: "The type of the body is not read here.",
    503: "Too busy, or stopping; try again.",
}
_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}, "code": {"type": "string"}, "position": {"type": "integer"}},
}


def _schema(row: Operation) -> dict[str, Any]:
    properties: dict[str, Any] = {"operation": {"type": "string", "enum": list(row.names)}}
    for field in row.fields:
        properties[field.name] = field_schema(field)
        for alias in field.aliases:
            properties[alias] = {**field_schema(field), "description": f"Older name of `{field.name}`."}
    required = ["operation", *(field.name for field in row.fields if field.required and not field.aliases)]
    return {
        "type": "object",
        "description": "\n\n".join(
            text for text in (row.summary, row.notes, access_text(row), row.returns and f"Answer: {row.returns}") if text
        ),
        "required": required,
        "properties": properties,
    }


def field_schema(field: Field) -> dict[str, Any]:
    """The JSON Schema of a field's value. A default is told in words: generated clients take `default` for a field that has to be sent, or send it."""
    schema = {**_TYPES[field.kind], "description": field.sentence}
    if field.default is not None:
        schema["description"] += f" Default: {encode_json(field.default).decode()}."
    if field.choices:
        schema["enum"] = list(field.choices)
    if field.low is not None:
        schema["minimum"] = field.low
    if field.high is not None:
        schema["maximum"] = field.high
    if field.secret:
        schema["format"] = "password"
    return schema
