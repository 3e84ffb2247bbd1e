"""One type declaration of a schema file while it is read: directives and fields become attributes (spec: schema-and-store §1-§4)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from svc.apps.schema_directives import (
    FIELD_DIRECTIVES,
    MAX_NAME,
    PROTOCOLS,
    TYPE_DIRECTIVES,
    VECTOR_ARGUMENTS,
    Arguments,
    read_directives,
    vector_index,
)
from svc.apps.schema_rules import ALLOW, DeclaredRule, is_rule, read_rules
from svc.apps.schema_syntax import Directive, FieldDeclaration, SourcePosition, TypeDeclaration
from svc.errors import SchemaError
from svc.query.rule_form import ARGUMENTS
from svc.store.schema import DEFAULT_DATABASE, SCALAR_TYPES, Attribute, Check, Embed, Export, Relationship, TableDefinition, VectorIndex
from svc.store.values.checks import fault_of_check
from svc.store.values.computed import fault_of
from svc.store.values.conversion import printable
from svc.store.values.expression import Expression, compile_expression

SYSTEM_DATABASE = "system"

_IN_STRUCTURES = frozenset(("hidden", "enumerable", "allow"))  # directives that also mean something for members of nested objects


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """Something about a schema file that its author should know. `str()` names file, line and column. `unknown`: a name that is not known.
    `ends_load`: an error after which nothing of the application is applied, since a rule about rows would be missing."""

    path: str
    message: str
    position: SourcePosition
    error: bool
    unknown: bool = False
    ends_load: bool = False

    def __str__(self) -> str:
        return f"{self.path}:{self.position.line}:{self.position.column}: {self.message}"


class DeclaredType:
    """One type declaration while it is read. `attributes` have the type names as written until the resolver has seen them."""

    def __init__(self, path: str, declaration: TypeDeclaration, url_directory: str, faults: list[SchemaFault]) -> None:
        self.path = path
        self.declaration = declaration
        self.name = declaration.name
        self.is_table = False
        self.rejected = False
        self.database = DEFAULT_DATABASE
        self.attributes: list[Attribute] = []
        self.positions: dict[str, SourcePosition] = {}
        self.default_positions: dict[str, SourcePosition] = {}
        self.sealed = False
        self.rules: tuple[DeclaredRule, ...] = ()
        self.account: SourcePosition | None = None  # of `@account`
        self.definition: TableDefinition | None = None
        self._expressions: dict[str, tuple[Expression, SourcePosition]] = {}
        self._checks: list[tuple[str, Expression, SourcePosition]] = []
        self._url_directory = url_directory
        self._faults = faults

    def warn(self, message: str, position: SourcePosition, *, unknown: bool = False) -> None:
        self._faults.append(SchemaFault(self.path, message, position, False, unknown))

    def fail(self, message: str, position: SourcePosition) -> None:
        self.rejected = True
        self._faults.append(SchemaFault(self.path, message, position, True))

    def fail_rule(self, message: str, position: SourcePosition) -> None:
        self.rejected = True
        self._faults.append(SchemaFault(self.path, message, position, True, ends_load=True))

    @property
    def fault_count(self) -> int:
        """How many faults were found so far, in all drafts of the application."""
        return len(self._faults)

    def read(self) -> None:
        declaration = self.declaration
        self.rules = read_rules(self.name, declaration.directives, self)
        others = [directive for directive in declaration.directives if not is_rule(directive)]
        found = read_directives(others, TYPE_DIRECTIVES, FIELD_DIRECTIVES, self)
        if "account" in found:
            self.account = next(directive.position for directive in others if directive.name == "account")
        if self.name in SCALAR_TYPES:
            self.fail(f"{self.name} is a built-in type and cannot be declared", declaration.position)
        if len(self.name) > MAX_NAME:
            self.fail(f"{printable(self.name)} is longer than {MAX_NAME} characters", declaration.position)
        self.is_table = "table" in found
        self.sealed = "sealed" in found
        for item in declaration.fields:
            if item.name in self.positions:
                self.fail(f"{self.name}.{item.name} is declared twice", item.position)
            else:
                self.positions[item.name] = item.position
                self.attributes.append(self._attribute(item))
        check = self._rule(self.name, declaration.directives, found["check"]) if "check" in found else None
        self._check_expressions()
        self._check_former_names()
        if not self.is_table:
            for name in ("export", "splitSegments", "check", "renamedFrom"):
                if name in found:
                    self.warn(f"@{name} has no effect on {self.name}, which has no @table", declaration.position)
            for rule in self.rules:
                self.fail_rule(f"@allow of {self.name} needs @table: rules are for the records of a table", rule.position())
            if self.account is not None:
                self.fail_rule(f"@account of {self.name} needs @table: accounts are the records of a table", self.account)
            return
        self._read_table(found, check)

    def _read_table(self, found: dict[str, Arguments], check: Check | None) -> None:
        declaration = self.declaration
        table = found["table"]
        if "database" in table and "schema" in table and table["database"] != table["schema"]:
            self.fail(f"@table of {self.name} names two databases, {table['database']} and {table['schema']}", declaration.position)
        self.database = table.get("database") or table.get("schema") or DEFAULT_DATABASE
        if self.database == SYSTEM_DATABASE:
            self.fail(f"{self.name} cannot be in the database {SYSTEM_DATABASE}, which belongs to svc", declaration.position)
        key = self._primary_key()
        former = found.get("renamedFrom", {}).get("name")
        if "renamedFrom" in found and former is None:
            self.fail(f"@renamedFrom of {self.name} needs name:, the name that the table had", declaration.position)
        self.definition = TableDefinition(
            name=table.get("table", self.name),
            database=self.database,
            type_name=self.name,
            primary_key=key,
            sealed=self.sealed,
            expiration=table.get("expiration"),
            eviction=table.get("eviction", 0.0),
            scan_interval=table.get("scanInterval"),
            audit=table.get("audit"),
            replicate=table.get("replicate", True),
            split_segments="splitSegments" in found,
            hidden="hidden" in found,
            description=declaration.description,
            export=self._export(found["export"]) if "export" in found else None,
            renamed_from=former,
            check=check,
            allow=tuple([rule.allow for rule in self.rules]),
            account=self.account is not None,
        )

    def _export(self, arguments: Arguments) -> Export:
        segments = f"{self._url_directory}/{arguments.get('name', self.name)}".split("/")
        flags = tuple([(name, arguments[name]) for name in PROTOCOLS if name in arguments])
        return Export("/".join([segment for segment in segments if segment]), flags)

    def _primary_key(self) -> str:
        """The name of the key attribute: the one that is marked, else `id`, which is added if it is missing (§3)."""
        marked = [attribute.name for attribute in self.attributes if attribute.primary_key]
        for name in marked[1:]:
            self.warn(f"@primaryKey is ignored here, the primary key of {self.name} is {marked[0]}", self.positions[name])
        key = marked[0] if marked else "id"
        if key not in self.positions:
            self.attributes.insert(0, Attribute(key))
        self.attributes = [replace(attribute, primary_key=attribute.name == key) for attribute in self.attributes]
        return key

    # -- fields

    def _attribute(self, item: FieldDeclaration) -> Attribute:
        position = item.position
        found = read_directives(self._without_rules(item), FIELD_DIRECTIVES, TYPE_DIRECTIVES, self)
        if not self.is_table:
            for name in found:
                if name not in _IN_STRUCTURES:
                    self.warn(f"@{name} has no effect on {self.name}.{item.name}: {self.name} has no @table", position)
            found = {name: arguments for name, arguments in found.items() if name in _IN_STRUCTURES}
        if len(item.name) > MAX_NAME:
            self.fail(f"{printable(item.name)} is longer than {MAX_NAME} characters", position)
        type_name = item.type
        if item.has_arguments:
            self.warn(f"the arguments of {self.name}.{item.name} have no meaning and were ignored", position)
        if item.lists > 1:
            self.warn(f"the lists inside the list {self.name}.{item.name} are not checked: [[{item.type}]] is taken as [Any]", position)
            type_name = "Any"
        relationship = self._relationship(item, found["relationship"]) if "relationship" in found else None
        computed_from, computed_version = self._computed(item, found["computed"]) if "computed" in found else (None, None)
        if relationship is not None and computed_from is not None:
            self.fail(f"{self.name}.{item.name} cannot be both @relationship and @computed", position)
        if "enumerable" in found and self.is_table and relationship is None and computed_from is None:
            self.warn(f"@enumerable has no effect on {self.name}.{item.name}, which is stored and always shown", position)
        is_relationship = relationship is not None
        vector = self._vector_index(item, type_name, found["indexed"], is_relationship) if "indexed" in found else None
        embed = self._embed(item, found["embed"]) if "embed" in found else None
        default = self._default(item, found) if "default" in found else ""
        if "unique" in found:
            self._check_unique(item, found, vector)
        check = self._field_check(item, found) if "check" in found else None
        self._check_times(item, found)
        return Attribute(
            name=item.name,
            type=type_name,
            elements=item.lists > 0,
            required=item.required,
            element_required=item.element_required and item.lists == 1,
            indexed=("indexed" in found or "expiresAt" in found or "unique" in found) and vector is None,
            primary_key="primaryKey" in found,
            created_time="createdTime" in found,
            updated_time="updatedTime" in found,
            expires_at="expiresAt" in found,
            relationship=relationship,
            computed_from=computed_from,
            computed_version=computed_version,
            enumerable="enumerable" in found,
            hidden="hidden" in found,
            description=item.description,
            vector=vector,
            embed=embed,
            allow=found.get("allow", {}).get("role", ()),
            default=default,
            unique="unique" in found and "primaryKey" not in found,
            check=check,
            renamed_from=self._former_name(item, found) if "renamedFrom" in found else None,
        )

    def _without_rules(self, item: FieldDeclaration) -> list[Directive]:
        """The directives of a field, without those that would be a rule if they were on its type."""
        kept = []
        for directive in item.directives:
            misplaced = [name for name in directive.arguments if name in ARGUMENTS] if directive.name == ALLOW else []
            if misplaced:
                where = f"{self.name}.{item.name}"
                self.fail_rule(
                    f"@allow({misplaced[0]}:) of {where}: rules are for whole records, put it on a type with @table", directive.position
                )
            else:
                kept.append(directive)
        return kept

    def _vector_index(self, item: FieldDeclaration, type_name: str, arguments: Arguments, is_relationship: bool) -> VectorIndex | None:
        """The vector index that `@indexed` declares, None for an ordinary index."""
        where = f"{self.name}.{item.name}"
        if is_relationship:
            self.fail(f"@indexed cannot be on the relationship {where}: index the foreign key", item.position)
        if arguments.get("type", "").upper() != "HNSW":
            if "type" in arguments:
                self.warn(f'@indexed of {where} knows the type "HNSW" only: an ordinary index is made', item.position)
            elif any(argument in arguments for argument in VECTOR_ARGUMENTS):
                self.warn(f'the arguments of @indexed of {where} have a meaning only with type: "HNSW"', item.position)
            return None
        if (type_name, item.lists) not in (("Float", 1), ("Any", 1), ("Any", 0)):
            self.fail(f"a vector index needs the type [Float], {where} has another", item.position)
        self.warn(f"@indexed of {where}: this version has no vector indexes, the attribute is not indexed", item.position)
        return vector_index(arguments)

    def _relationship(self, item: FieldDeclaration, arguments: Arguments) -> Relationship:
        if not arguments:
            self.fail(f"@relationship of {self.name}.{item.name} needs from: or to:", item.position)
        if "onDelete" in arguments and ("to" in arguments or "from" not in arguments):
            self.fail(
                f"onDelete: of {self.name}.{item.name} needs from: alone: it belongs to the relationship that begins at the foreign key",
                item.position,
            )
        return Relationship(item.type, arguments.get("from"), arguments.get("to"), arguments.get("onDelete"))

    def _computed(self, item: FieldDeclaration, arguments: Arguments) -> tuple[str, str | None]:
        text = arguments.get("from", "").strip()
        if text:
            directive = next(directive for directive in item.directives if directive.name == "computed")
            source = directive.positions["from"]
            try:
                self._expressions[item.name] = compile_expression(arguments["from"]), source.position
            except SchemaError as error:
                inside = "" if source.plain else f" (line {error.line}, column {error.column} of the expression)"
                self.fail(f"@computed of {self.name}.{item.name}: {printable(error.message)}{inside}", source.at(error.column))
        return text, arguments.get("version")

    def _check_expressions(self) -> None:
        names = {attribute.name for attribute in self.attributes}
        for attribute in self.attributes:
            found = self._expressions.get(attribute.name)
            if found is None:
                continue
            expression, position = found
            fault = fault_of(attribute, expression, self.attributes)
            if fault is not None:
                self.fail(f"@computed of {self.name}.{attribute.name}: {fault}", position)
            elif self.sealed and not names.issuperset(expression.names):
                unknown = ", ".join([name for name in expression.names if name not in names])
                self.warn(f"@computed of {self.name}.{attribute.name}: {self.name} is sealed and has no attribute {unknown}", position)
        for where, expression, position in self._checks:
            fault = fault_of_check(expression, self.attributes)
            if fault is not None:
                self.fail(f"@check of {where}: {fault}", position)
            elif not names.issuperset(expression.names):
                unknown = ", ".join([name for name in expression.names if name not in names])
                self.warn(f"@check of {where}: {self.name} declares no attribute {unknown}", position)

    def _default(self, item: FieldDeclaration, found: dict[str, Arguments]) -> str:
        """The JSON of the value; whether it fits the type is known when that is resolved."""
        where = f"{self.name}.{item.name}"
        if "value" not in found["default"]:
            self.fail(f"@default of {where} needs value:, which is not null", item.position)
            return ""
        for directive in ("relationship", "computed", "primaryKey", "createdTime", "updatedTime", "embed"):
            if directive in found:
                self.fail(f"@default of {where} has no place beside @{directive}", item.position)
        if item.type == "Blob":
            self.fail(f"@default of {where}: a Blob has none", item.position)
        declared = next(directive for directive in item.directives if directive.name == "default")
        self.default_positions[item.name] = declared.positions["value"].position
        return json.dumps(found["default"]["value"], ensure_ascii=False)

    def _former_name(self, item: FieldDeclaration, found: dict[str, Arguments]) -> str | None:
        where = f"@renamedFrom of {self.name}.{item.name}"
        if "name" not in found["renamedFrom"]:
            self.fail(f"{where} needs name:, the name that the attribute had", item.position)
        if "relationship" in found or "computed" in found:
            self.fail(f"{where} has nothing to move: the attribute is not stored", item.position)
        if "primaryKey" in found:
            self.fail(f"{where}: the primary key cannot be renamed", item.position)
        return found["renamedFrom"].get("name")

    def _check_former_names(self) -> None:
        taken: dict[str, str] = {}
        for attribute in self.attributes:
            former = attribute.renamed_from
            if former is None:
                continue
            where = f"@renamedFrom of {self.name}.{attribute.name}"
            if former in self.positions:
                self.fail(f"{where}: {former} is still declared, remove it", self.positions[attribute.name])
            elif former in taken:
                self.fail(f"{where}: the values of {former} go to {taken[former]} already", self.positions[attribute.name])
            taken[former] = attribute.name

    def _check_unique(self, item: FieldDeclaration, found: dict[str, Arguments], vector: VectorIndex | None) -> None:
        where = f"{self.name}.{item.name}"
        if "relationship" in found:
            self.fail(f"@unique cannot be on the relationship {where}: it belongs to the foreign key", item.position)
        if "computed" in found and not found["computed"].get("from"):
            self.fail(f"@unique of {where}: the computed attribute needs from:, an expression", item.position)
        if vector is not None:
            self.fail(f"@unique of {where} has no place beside a vector index", item.position)
        if "primaryKey" in found:
            self.warn(f"@unique has no effect on {where}: a key is unique without", item.position)

    def _field_check(self, item: FieldDeclaration, found: dict[str, Arguments]) -> Check | None:
        where = f"{self.name}.{item.name}"
        for directive in ("relationship", "computed"):
            if directive in found:
                self.fail(f"@check of {where}: it is not stored, put the check on the type {self.name}", item.position)
        return self._rule(where, item.directives, found["check"])

    def _rule(self, where: str, directives: tuple[Directive, ...], arguments: Arguments) -> Check | None:
        """The check of a field, or of the type."""
        declared = next(directive for directive in directives if directive.name == "check")
        if "expr" not in arguments:
            self.fail(f"@check of {where} needs expr:, an expression", declared.position)
            return None
        source = declared.positions["expr"]
        try:
            self._checks.append((where, compile_expression(arguments["expr"]), source.position))
        except SchemaError as error:
            inside = "" if source.plain else f" (line {error.line}, column {error.column} of the expression)"
            self.fail(f"@check of {where}: {printable(error.message)}{inside}", source.at(error.column))
        return Check(arguments["expr"], arguments.get("message", ""))

    def _embed(self, item: FieldDeclaration, arguments: Arguments) -> Embed | None:
        if "source" not in arguments:
            self.fail(f"@embed of {self.name}.{item.name} needs source:, the name of a String attribute", item.position)
            return None
        self.warn(
            f"@embed of {self.name}.{item.name}: this version does not compute vectors, the attribute is stored as it is given",
            item.position,
        )
        return Embed(arguments["source"], arguments.get("model"))

    def _check_times(self, item: FieldDeclaration, found: dict[str, Arguments]) -> None:
        times = [name for name in ("createdTime", "updatedTime", "expiresAt") if name in found]
        if not times:
            return
        if len(times) > 1:
            self.fail(f"{self.name}.{item.name} can have only one of {', '.join('@' + name for name in times)}", item.position)
        if "relationship" in found or "computed" in found or "primaryKey" in found:
            self.fail(f"@{times[0]} needs an attribute of its own, {self.name}.{item.name} has another meaning", item.position)
        allowed = ("Date", "Long", "Float", "BigInt", "Any") + (() if times[0] == "expiresAt" else ("String",))
        if item.lists or item.type not in allowed:
            self.fail(f"@{times[0]} of {self.name}.{item.name} needs one of the types {', '.join(allowed)}", item.position)
