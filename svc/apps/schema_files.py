"""Schema files of an application -> table definitions (contract: schema-and-store §1-§4).

All files are parsed first, references are resolved over the union of their types, and the definitions come in sorted path order (§1.4).
A file with a syntax error fails as a whole (§1.7). Any other error fails the declaration it is in, so that this table stays as it was;
other declarations go on. What this version keeps in the definition but does not act on yet is a warning that names the directive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

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
from svc.apps.schema_syntax import FieldDeclaration, Position, TypeDeclaration, parse_schema
from svc.errors import SchemaError
from svc.store.schema import SCALAR_TYPES, Attribute, Embed, Export, Relationship, Structure, TableDefinition, may_be_key, unite
from svc.store.values.computed import fault_of
from svc.store.values.conversion import printable
from svc.store.values.expression import Expression, compile_expression

KnownTypes = Mapping[str, Mapping[str, TableDefinition]]
"""Database -> type name -> definition, of the applications loaded before."""

DEFAULT_DATABASE = "data"
SYSTEM_DATABASE = "system"

_IN_STRUCTURES = frozenset(("hidden", "enumerable", "allow"))  # directives that also mean something for members of nested objects


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """Something about a schema file that its author should know. `str()` names file, line and column."""

    path: str
    message: str
    position: Position
    error: bool

    def __str__(self) -> str:
        return f"{self.path}:{self.position.line}:{self.position.column}: {self.message}"


@dataclass(slots=True)
class SchemaResult:
    """`definitions`: what may be applied. `faults`: in order of the files' paths and of the phases of reading."""

    definitions: list[TableDefinition] = field(default_factory=list)
    faults: list[SchemaFault] = field(default_factory=list)

    @property
    def warnings(self) -> list[str]:
        return [str(fault) for fault in self.faults if not fault.error]

    @property
    def errors(self) -> list[str]:
        return [str(fault) for fault in self.faults if fault.error]


def load_schema_files(
    files: Iterable[tuple[str, str]], known_types: KnownTypes | None = None, url_directory: str | Mapping[str, str] = ""
) -> SchemaResult:
    """Read `files`: (path, text). Never raises for what they hold.

    `known_types` serves references to types that these files do not declare, and declarations of the same table are united with it.
    `url_directory`: put in front of the addresses of exported tables; one for all files, or by path (applications §10.4).
    """
    result = SchemaResult()
    drafts: list[_Draft] = []
    for path, text in sorted(files):
        try:
            declarations = parse_schema(text)
        except SchemaError as error:
            result.faults.append(SchemaFault(path, error.message, Position(error.line, error.column), True))
            continue
        directory = url_directory if isinstance(url_directory, str) else url_directory.get(path, "")
        for declaration in declarations:
            if isinstance(declaration, TypeDeclaration):
                draft = _Draft(path, declaration, directory, result.faults)
                draft.read()
                drafts.append(draft)
            else:
                message = f"{declaration.kind} {declaration.name}".rstrip() + " declares no table or structure and was ignored"
                result.faults.append(SchemaFault(path, message, declaration.position, False))
    _Resolver(drafts, known_types or {}, result).resolve()
    return result


class _Draft:
    """One type declaration while it is read. `attributes` have the type names as written until the resolver has seen them."""

    def __init__(self, path: str, declaration: TypeDeclaration, url_directory: str, faults: list[SchemaFault]) -> None:
        self.path = path
        self.declaration = declaration
        self.name = declaration.name
        self.is_table = False
        self.rejected = False
        self.database = DEFAULT_DATABASE
        self.attributes: list[Attribute] = []
        self.positions: dict[str, Position] = {}
        self.sealed = False
        self.definition: TableDefinition | None = None
        self._expressions: dict[str, tuple[Expression, Position]] = {}
        self._url_directory = url_directory
        self._faults = faults

    def warn(self, message: str, position: Position) -> None:
        self._faults.append(SchemaFault(self.path, message, position, False))

    def fail(self, message: str, position: Position) -> None:
        self.rejected = True
        self._faults.append(SchemaFault(self.path, message, position, True))

    def read(self) -> None:
        declaration = self.declaration
        found = read_directives(declaration.directives, TYPE_DIRECTIVES, FIELD_DIRECTIVES, self)
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
        self._check_expressions()
        if not self.is_table:
            for name in ("export", "splitSegments"):
                if name in found:
                    self.warn(f"@{name} has no effect on {self.name}, which has no @table", declaration.position)
            return
        self._read_table(found)

    def _read_table(self, found: dict[str, Arguments]) -> None:
        declaration = self.declaration
        table = found["table"]
        if "database" in table and "schema" in table and table["database"] != table["schema"]:
            self.fail(f"@table of {self.name} names two databases, {table['database']} and {table['schema']}", declaration.position)
        self.database = table.get("database") or table.get("schema") or DEFAULT_DATABASE
        if self.database == SYSTEM_DATABASE:
            self.fail(f"{self.name} cannot be in the database {SYSTEM_DATABASE}, which belongs to svc", declaration.position)
        key = self._primary_key()
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
        found = read_directives(item.directives, FIELD_DIRECTIVES, TYPE_DIRECTIVES, self)
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
        indexed = "indexed" in found or "expiresAt" in found
        vector = None
        if "indexed" in found:
            arguments = found["indexed"]
            if relationship is not None:
                self.fail(f"@indexed cannot be on the relationship {self.name}.{item.name}: index the foreign key", position)
            if arguments.get("type", "").upper() == "HNSW":
                vector = vector_index(arguments)
                if (type_name, item.lists) not in (("Float", 1), ("Any", 1), ("Any", 0)):
                    self.fail(f"a vector index needs the type [Float], {self.name}.{item.name} has another", position)
            elif "type" in arguments:
                self.warn(f'@indexed of {self.name}.{item.name} knows the type "HNSW" only: an ordinary index is made', position)
            elif any(argument in arguments for argument in VECTOR_ARGUMENTS):
                self.warn(f'the arguments of @indexed of {self.name}.{item.name} have a meaning only with type: "HNSW"', position)
        embed = self._embed(item, found["embed"]) if "embed" in found else None
        if vector is not None:
            indexed = False
            self.warn(f"@indexed of {self.name}.{item.name}: this version has no vector indexes, the attribute is not indexed", position)
        self._check_times(item, found)
        return Attribute(
            name=item.name,
            type=type_name,
            elements=item.lists > 0,
            required=item.required,
            element_required=item.element_required and item.lists == 1,
            indexed=indexed,
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
        )

    def _relationship(self, item: FieldDeclaration, arguments: Arguments) -> Relationship:
        if not arguments:
            self.fail(f"@relationship of {self.name}.{item.name} needs from: or to:", item.position)
        return Relationship(item.type, arguments.get("from"), arguments.get("to"))

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


class _Resolver:
    """Gives every type name its meaning, then unites, checks and hands out the definitions."""

    def __init__(self, drafts: list[_Draft], known: KnownTypes, result: SchemaResult) -> None:
        self._drafts = drafts
        self._known = known
        self._result = result
        self._by_name: dict[str, list[_Draft]] = {}
        for draft in drafts:
            self._by_name.setdefault(draft.name, []).append(draft)

    def resolve(self) -> None:
        for draft in self._drafts:
            draft.attributes = [self._typed(draft, attribute) for attribute in draft.attributes]
        self._reject_repeated_structures()
        for draft in self._drafts:
            if draft.definition is not None:
                self._complete(draft, draft.definition)
        tables = [draft for draft in self._drafts if draft.definition is not None]
        for draft in tables:
            for attribute in draft.attributes:
                if attribute.relationship is not None:
                    self._check_relationship(draft, attribute, attribute.relationship)
        united: dict[tuple[str, str], TableDefinition] = {}
        for draft in tables:
            if draft.definition is not None and not draft.rejected:
                self._unite(draft, draft.definition, united)
        self._result.definitions += united.values()

    def _find(self, name: str, database: str) -> _Draft | TableDefinition | None:
        """The type of this name that a type in `database` means: a table there, else a structure, else what is known from before."""
        drafts = self._by_name.get(name, [])
        for draft in drafts:
            if draft.is_table and draft.database == database:
                return draft
        for draft in drafts:
            if not draft.is_table:
                return draft
        return self._known.get(database, {}).get(name) or (drafts[0] if drafts else None)

    def _typed(self, draft: _Draft, attribute: Attribute) -> Attribute:
        """The attribute with what its type name turned out to be: unknown types become `Any`, relationships get their table."""
        relationship = attribute.relationship
        position = draft.positions.get(attribute.name, draft.declaration.position)
        where = f"{draft.name}.{attribute.name}"
        if attribute.type in SCALAR_TYPES:
            if relationship is not None:
                draft.fail(f"the relationship {where} needs a table as its type, {attribute.type} is not a table", position)
            return attribute
        found = self._find(attribute.type, draft.database)
        if found is None:
            draft.warn(f"the type {attribute.type} of {where} is not known: any value is accepted", position)
            return replace(attribute, type="Any", relationship=None)
        if relationship is None:
            return attribute
        if isinstance(found, TableDefinition):
            return replace(attribute, relationship=replace(relationship, table=found.name))
        if found.definition is None:
            if not found.is_table:
                draft.fail(f"the relationship {where} needs a table as its type, {found.name} has no @table", position)
            return attribute
        if found.database != draft.database:
            draft.fail(f"the relationship {where} leads to {found.name} in another database, {found.database}", position)
        return replace(attribute, relationship=replace(relationship, table=found.definition.name))

    def _reject_repeated_structures(self) -> None:
        for drafts in self._by_name.values():
            structures = [draft for draft in drafts if not draft.is_table]
            for draft in structures[1:]:
                if draft.attributes != structures[0].attributes or draft.sealed != structures[0].sealed:
                    draft.fail(f"the type {draft.name} is declared differently in {structures[0].path}", draft.declaration.position)

    def _complete(self, draft: _Draft, definition: TableDefinition) -> None:
        """Check the key, add the structures, and make the definition of a draft whole."""
        for attribute in draft.attributes:
            position = draft.positions.get(attribute.name, draft.declaration.position)
            if attribute.primary_key and not may_be_key(attribute):
                kind = f"[{attribute.type}]" if attribute.elements else attribute.type
                draft.fail(f"{draft.name}.{attribute.name} cannot be a primary key with type {kind}: keys are text or numbers", position)
            if attribute.embed is not None and not any(other.name == attribute.embed.source for other in draft.attributes):
                draft.fail(f"@embed of {draft.name}.{attribute.name}: {draft.name} has no attribute {attribute.embed.source}", position)
        structures = self._structures(draft)
        draft.definition = replace(definition, attributes=tuple(draft.attributes), structures=tuple(structures.values()))

    def _structures(self, draft: _Draft) -> dict[str, Structure]:
        """The types of nested objects that the attributes reach, each once; a type may reach itself."""
        structures: dict[str, Structure] = {}
        waiting = [(attribute, attribute.name) for attribute in draft.attributes]
        while waiting:
            attribute, origin = waiting.pop(0)
            if attribute.relationship is not None or attribute.type in SCALAR_TYPES or attribute.type in structures:
                continue
            found = self._find(attribute.type, draft.database)
            if isinstance(found, TableDefinition):
                for structure in (Structure(attribute.type, found.attributes, found.sealed, found.description), *found.structures):
                    structures.setdefault(structure.name, structure)
                continue
            assert found is not None
            if found.rejected and found is not draft:
                position = draft.positions.get(origin, draft.declaration.position)
                draft.fail(f"the type {found.name}, which {draft.name}.{origin} needs, has errors", position)
            structures[found.name] = Structure(found.name, tuple(found.attributes), found.sealed, found.declaration.description)
            waiting += [(nested, origin) for nested in found.attributes]
        return structures

    def _check_relationship(self, draft: _Draft, attribute: Attribute, relationship: Relationship) -> None:
        """The rules of §4.1, once all tables are whole."""
        position = draft.positions.get(attribute.name, draft.declaration.position)
        where = f"{draft.name}.{attribute.name}"
        if relationship.to is not None and not attribute.elements:
            draft.fail(f"the relationship {where} leads to many records: its type must be [{attribute.type}]", position)
        if relationship.from_ is not None:
            source = next((other for other in draft.attributes if other.name == relationship.from_), None)
            if source is None:
                draft.fail(f"the relationship {where} starts from {relationship.from_}, which {draft.name} does not have", position)
            elif not source.stored:
                draft.fail(f"the relationship {where} starts from {relationship.from_}, which is not stored", position)
            elif relationship.to is None and source.type != "Any" and source.elements != attribute.elements:
                expected = f"[{attribute.type}]" if source.elements else attribute.type
                draft.fail(f"the relationship {where} starts from {relationship.from_}, so its type must be {expected}", position)
        if relationship.to is not None:
            target = self._find(attribute.type, draft.database)
            definition = target.definition if isinstance(target, _Draft) else target
            if definition is None:  # said before
                return
            foreign = definition.attribute(relationship.to)
            if foreign is None:
                draft.fail(f"the relationship {where} leads to {relationship.to}, which {attribute.type} does not have", position)
            elif not foreign.stored:
                draft.fail(f"the relationship {where} leads to {relationship.to}, which is not stored", position)
            elif not foreign.indexed and not foreign.primary_key:
                draft.fail(f"the relationship {where} leads to {attribute.type}.{relationship.to}, which must be @indexed", position)

    def _unite(self, draft: _Draft, definition: TableDefinition, united: dict[tuple[str, str], TableDefinition]) -> None:
        """Add the definition to those that may be applied (§1.6)."""
        address = (definition.database, definition.name)
        try:
            if address in united:
                united[address] = unite(united[address], definition)
                return
            for known in self._known.get(definition.database, {}).values():
                if known.name == definition.name:
                    # Each application exports the table on its own.
                    both = unite(replace(known, export=None), replace(definition, export=None))
                    definition = replace(both, type_name=definition.type_name, export=definition.export)
            united[address] = definition
        except SchemaError as error:
            draft.fail(error.message, draft.declaration.position)
