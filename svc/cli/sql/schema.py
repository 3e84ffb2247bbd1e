"""What there is to ask: databases, tables and columns, as `describe_all` tells them to this user."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

from svc.cli.client import AuthenticationRefused, Client, Unreachable
from svc.cli.sql.answers import StatementFailed


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """`facts`: what else is known of it: `primary key`, `indexed`."""

    name: str
    type: str
    facts: str = ""


@dataclass(frozen=True, slots=True)
class SchemaTable:
    database: str
    name: str
    records: Any
    columns: tuple[SchemaColumn, ...]


@dataclass(frozen=True)
class Schema:
    """Database -> table -> what is known of it."""

    databases: Mapping[str, Mapping[str, SchemaTable]] = field(default_factory=dict)

    def tables(self) -> Iterator[SchemaTable]:
        for tables in self.databases.values():
            yield from tables.values()

    def find(self, database: str, name: str) -> SchemaTable | None:
        return self.databases.get(database, {}).get(name)


class SchemaSource:
    """Asks a server for its schema, and keeps the last answer for completion."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.latest = Schema()

    def read(self) -> Schema:
        """Raises StatementFailed, Unreachable, AuthenticationRefused."""
        answer = self._client.send({"operation": "describe_all", "include_computed": True})
        try:
            if answer.status != 200:
                raise StatementFailed(answer.error_text())
            self.latest = schema_of(answer.value())
        finally:
            answer.close()
        return self.latest

    def read_in_background(self) -> None:
        """Without it there are no names to complete, which is no error."""

        def read() -> None:
            try:
                self.latest = SchemaSource(copy(self._client)).read()
            except (StatementFailed, Unreachable, AuthenticationRefused):
                pass

        Thread(target=read, daemon=True).start()


def schema_of(described: Any) -> Schema:
    """The answer of `describe_all`; what is not as it should be is left out, and so are relationships, which are no columns: their types are tables."""
    types = {name for tables in described.values() if isinstance(tables, dict) for name in tables} if isinstance(described, dict) else set()
    return Schema(
        {
            database: {
                name: SchemaTable(database, name, table.get("record_count"), tuple(_columns(table.get("attributes"), types)))
                for name, table in tables.items()
                if isinstance(table, dict)
            }
            for database, tables in (described.items() if isinstance(described, dict) else ())
            if isinstance(tables, dict)
        }
    )


def _columns(attributes: Any, types: set[str]) -> Iterator[SchemaColumn]:
    for attribute in attributes if isinstance(attributes, list) else ():
        if not isinstance(attribute, dict) or not isinstance(attribute.get("attribute"), str):
            continue
        kind = attribute.get("type", "Any")
        element = attribute.get("elements", "Any") if kind == "array" else kind
        if element not in types or "properties" in attribute:
            yield SchemaColumn(attribute["attribute"], f"[{element}]" if kind == "array" else str(kind), ", ".join(_facts(attribute)))


def _facts(attribute: Mapping[str, Any]) -> Iterator[str]:
    for name, text in (("is_primary_key", "primary key"), ("indexed", "indexed"), ("unique", "unique"), ("computed", "computed")):
        if attribute.get(name) is True:
            yield text
    if attribute.get("nullable") is False and attribute.get("is_primary_key") is not True:
        yield "not null"
    if "default" in attribute:
        yield f"default {json.dumps(attribute['default'], ensure_ascii=False)}"
    if "check" in attribute:
        yield f"check {attribute['check']}"
    if isinstance(attribute.get("enum"), list):
        yield f"one of {', '.join(map(str, attribute['enum']))}"
