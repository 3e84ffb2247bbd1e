"""TypeScript: the records of an application as JSON has them, and a client of its addresses (spec: applications §11.6).

The client itself, `client.ts` beside this module, is the same for all applications. What is generated are the types of each table, and a class with one
member for each table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from svc.store.schema import DEFAULT_DATABASE, Attribute, Enumeration, Structure, TableDefinition, key_enum, key_type
from svc.stubs.names import Names, capitalized
from svc.stubs.schema import ApplicationSchema

HEAD = "// Types and a client of the tables of an application. Written by `svc types --typescript` from its schema; do not edit.\n/* eslint-disable */\n"

_CLIENT = Path(__file__).with_name("client.ts")
_IDENTIFIER = re.compile(r"[A-Za-z$_][\w$]*", re.ASCII)
_READ = {
    "ID": "string",
    "String": "string",
    "Int": "number",
    "Long": "number",
    "BigInt": "number",
    "Float": "number",
    "Boolean": "boolean",
    "Date": "string",
    "Bytes": "string",
    "Blob": "string | BlobDescription",
    "Any": "any",
}
_WRITTEN = {**_READ, "BigInt": "number | string", "Date": "string | number | Date", "Blob": "string | BlobDescription"}
_COMPARED = {**_READ, "BigInt": "number | string", "Date": "string | number | Date", "Blob": "string"}
_NUMBERS = frozenset(("Int", "Long", "Float", "BigInt"))
_RESERVED = frozenset(
    (
        "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete", "do", "else", "enum", "export", "extends", "false",
        "finally", "for", "function", "if", "import", "in", "instanceof", "new", "null", "return", "super", "switch", "this", "throw", "true", "try",
        "typeof", "var", "void", "while", "with", "implements", "interface", "let", "package", "private", "protected", "public", "static", "yield",
        "any", "boolean", "never", "number", "object", "string", "symbol", "undefined", "unknown", "void", "bigint",
    )
)  # fmt: skip


@dataclass(frozen=True)
class _TableNames:
    record: str
    data: str
    changes: str
    attributes: str


class _Writer:
    def __init__(self, schema: ApplicationSchema) -> None:
        self._schema = schema
        client = _CLIENT.read_text(encoding="utf-8")
        taken = set(re.findall(r"^(?:export )?(?:abstract )?(?:class|interface|type|function|const) (\w+)", client, re.MULTILINE))
        self._client = client
        self._names = Names(taken | _RESERVED | _GLOBALS | {"Client", "Tables"})
        self._structures: dict[Structure, str] = {}
        self._of: dict[tuple[str, str], _TableNames] = {}
        make = self._names.make
        for definition in schema.definitions:
            start = (
                definition.name
                if definition.database == DEFAULT_DATABASE
                else capitalized(definition.database) + capitalized(definition.name)
            )
            self._of[definition.database, definition.name] = _TableNames(
                make(start), *(make(start + suffix) for suffix in ("Data", "Changes", "Attributes"))
            )
        for definition in schema.definitions:
            for structure in definition.structures:
                if structure not in self._structures:
                    self._structures[structure] = make(structure.name)

    def text(self) -> Iterator[str]:
        yield HEAD
        yield self._client.rstrip()
        yield ""
        yield "// --- the tables of the application " + "-" * 110
        yield ""
        for structure, name in self._structures.items():
            owner = next(each for each in self._schema.definitions if structure in each.structures)
            yield from _interface(
                name, ((each, self._written(owner, each), _may_miss(each)) for each in structure.attributes), structure.description
            )
        for definition in self._schema.definitions:
            yield from self._table(definition)
        yield from self._class()

    def _table(self, definition: TableDefinition) -> Iterator[str]:
        names = self._of[definition.database, definition.name]
        key = definition.primary_key

        def is_shown(attribute: Attribute) -> bool:
            return attribute.name == key or (attribute.required and attribute.stored)

        rows = ((each, self._read(definition, each), not is_shown(each)) for each in definition.attributes)
        yield from _interface(names.record, rows, definition.description or f"A record of {definition.name}, as it is read.")
        stored = [each for each in definition.attributes if each.stored]
        data = ((each, self._written(definition, each), each.name == key or _may_miss(each)) for each in stored)
        yield from _interface(names.data, data, f"What is stored as a record of {definition.name}.")
        changes = ((each, self._written(definition, each, increment=True), True) for each in stored if each.name != key)
        yield from _interface(names.changes, changes, f"Changes of a record of {definition.name}.")
        compared = ((each, self._compared(definition, each), False) for each in definition.attributes if each.relationship is None)
        yield from _interface(names.attributes, compared, f"What the attributes of {definition.name} are compared with.")

    # --- types -------------------------------------------------------------------------------------------------------------------------

    def _key(self, definition: TableDefinition) -> str:
        if definition.split_segments:
            return "string | number | readonly (string | number)[]"
        kind = key_type(definition)
        enum = key_enum(definition)
        return "string | number" if kind in ("Any", "BigInt") else _READ[kind] if enum is None else _union(enum)

    def _nested(self, definition: TableDefinition, attribute: Attribute) -> str:
        return next(
            (
                name
                for structure, name in self._structures.items()
                if structure.name == attribute.type and structure in definition.structures
            ),
            "any",
        )

    def _read(self, definition: TableDefinition, attribute: Attribute) -> str:
        if attribute.relationship is not None:
            related = self._schema.related(definition, attribute)
            kind = "any" if related is None else self._of[related.database, related.name].record
            return f"{kind}[]" if attribute.elements else _nullable(kind)
        if attribute.name == definition.primary_key:
            return self._key(definition).replace("readonly (string | number)[]", "(string | number)[]")
        kind = _scalar(_READ, attribute) or self._nested(definition, attribute)
        if attribute.elements:
            kind = f"({kind if attribute.element_required else _nullable(kind)})[]"
        return kind if attribute.required else _nullable(kind)

    def _written(self, definition: TableDefinition, attribute: Attribute, *, increment: bool = False) -> str:
        if attribute.name == definition.primary_key:
            return self._key(definition)
        kind = _scalar(_WRITTEN, attribute) or self._nested(definition, attribute)
        if attribute.elements:
            kind = f"readonly ({kind if attribute.element_required else _nullable(kind)})[]"
        elif increment and attribute.type in _NUMBERS:
            kind = f"{kind} | Increment"
        return kind if attribute.required else _nullable(kind)

    def _compared(self, definition: TableDefinition, attribute: Attribute) -> str:
        if attribute.name == definition.primary_key:
            return self._key(definition)
        return _scalar(_COMPARED, attribute) or "any"

    # --- the client ----------------------------------------------------------------------------------------------------------------------

    def _address(self, definition: TableDefinition) -> str | None:
        """The path of the table's resource; None if it is not exported to REST."""
        export = definition.export
        if export is None or dict(export.protocols).get("rest") is False:
            return None
        return f"/{self._schema.prefix}{export.path}"

    def _class(self) -> Iterator[str]:
        yield "/** The types of each table, by `database.table`, or the name of the table in the default database. */"
        yield "export interface Tables {"
        members = []
        for definition in self._schema.definitions:
            names = self._of[definition.database, definition.name]
            shown = definition.name if definition.database == DEFAULT_DATABASE else f"{definition.database}.{definition.name}"
            members.append((definition, shown))
            yield (
                f"  {_member(shown)}: {{ key: {self._key(definition)}; record: {names.record}; data: {names.data}; changes: {names.changes};"
                f" attributes: {names.attributes} }}"
            )
        yield "}"
        yield ""
        yield '/** A client of the application: `new Client({ baseUrl: "http://localhost:9926" }).Product.get("42")`. */'
        yield "export class Client extends Connection {"
        for definition, shown in members:
            address = self._address(definition)
            if address is None:
                continue
            if definition.description:
                yield f"  /** {_comment(definition.description, '   ')} */"
            name = shown if shown not in _OF_CLIENT else f"{shown}_"
            yield f"  readonly {_member(name)} = this.table<{json.dumps(shown)}>({json.dumps(address)})"
        yield ""
        yield "  /** The records of a table at any address: of a class of the application that is derived from it. */"
        yield "  table<Name extends keyof Tables>(address: string): Collection<"
        yield '    Tables[Name]["key"], Tables[Name]["record"], Tables[Name]["data"], Tables[Name]["changes"], Tables[Name]["attributes"]'
        yield "  > {"
        yield "    return new Collection(this, address)"
        yield "  }"
        yield "}"


_GLOBALS = frozenset(
    (
        "Array", "Boolean", "Date", "Error", "EventSource", "Headers", "Map", "Number", "Object", "Partial", "Promise", "Readonly", "Record",
        "Request", "RequestInit", "Response", "Set", "String", "Symbol", "URL", "AbortController", "AbortSignal", "JSON", "Math", "TextDecoder",
        "ReadableStream", "RegExp", "Required", "Pick", "Omit", "Exclude", "Extract", "globalThis", "fetch",
    )
)  # fmt: skip
_OF_CLIENT = frozenset(
    ("constructor", "table", "request", "options", "send", "address", "toString", "valueOf", "__proto__", "hasOwnProperty", "prototype")
)


def typescript(schema: ApplicationSchema) -> str:
    """The text of the file."""
    return "\n".join(_Writer(schema).text()).rstrip() + "\n"


def _scalar(types: Mapping[str, str], attribute: Attribute) -> str | None:
    return types.get(attribute.type) if attribute.enum is None else _union(attribute.enum)


def _union(enum: Enumeration) -> str:
    """
    >>> _union(Enumeration("Status", ("OPEN", "CLOSED")))
    '"OPEN" | "CLOSED"'
    """
    return " | ".join([json.dumps(value) for value in enum.values])


def _nullable(kind: str) -> str:
    return kind if kind == "any" else f"{kind} | null"


def _may_miss(attribute: Attribute) -> bool:
    """Whether what is stored may do without it."""
    return (
        not attribute.required or attribute.created_time or attribute.updated_time or attribute.embed is not None or bool(attribute.default)
    )


def _member(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) and name != "constructor" else json.dumps(name)


def _comment(text: str, indent: str) -> str:
    lines = text.strip().replace("*/", "*\\/").splitlines()
    return f"\n{indent}".join(line.strip() for line in lines)


def _interface(name: str, members: Iterable[tuple[Attribute, str, bool]], description: str) -> Iterator[str]:
    if description:
        yield f"/** {_comment(description, ' * ')} */"
    yield f"export interface {name} {{"
    for attribute, kind, may_miss in members:
        if attribute.description:
            yield f"  /** {_comment(attribute.description, '   * ')} */"
        yield f"  {_member(attribute.name)}{'?' if may_miss else ''}: {kind}"
    yield "}"
    yield ""
