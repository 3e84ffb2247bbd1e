"""Type names and relationships across the declarations of several schema files (spec: schema-and-store §1.6, §4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from svc.apps.schema_declaration import DeclaredType
from svc.apps.schema_enums import EnumTypes
from svc.apps.schema_syntax import SourcePosition
from svc.config.origins import hint, nearest
from svc.errors import ClientError, SchemaError
from svc.store.schema import (
    SCALAR_TYPES,
    SET_NULL,
    Attribute,
    Enumeration,
    Relationship,
    Structure,
    TableDefinition,
    can_equal,
    may_be_key,
    unite,
)
from svc.store.values.conversion import printable
from svc.store.values.validation import Validator

KnownTypes = Mapping[str, Mapping[str, TableDefinition]]
"""Database -> type name -> definition, of the applications loaded before."""


class Resolver:
    """Resolves the type names of drafts, then checks and unites their definitions."""

    def __init__(self, drafts: list[DeclaredType], enums: EnumTypes, known: KnownTypes) -> None:
        self._drafts = drafts
        self._enums = enums
        self._known = known
        self._by_name: dict[str, list[DeclaredType]] = {}
        for draft in drafts:
            self._by_name.setdefault(draft.name, []).append(draft)

    def resolve(self) -> list[TableDefinition]:
        """The definitions that may be applied."""
        for draft in self._drafts:
            draft.attributes = [self._typed(draft, attribute) for attribute in draft.attributes]
        self._reject_repeated_structures()
        for draft in self._drafts:
            if draft.definition is not None:
                self._complete(draft, draft.definition)
        self._check_accounts()
        tables = [draft for draft in self._drafts if draft.definition is not None]
        for draft in tables:
            for attribute in draft.attributes:
                if attribute.relationship is not None and self._check_relationship(draft, attribute, attribute.relationship):
                    self._check_types(draft, attribute, attribute.relationship)
            if draft.definition is not None and draft.definition.renamed_from is not None:
                self._check_former_name(draft, draft.definition, draft.definition.renamed_from)
        united: dict[tuple[str, str], TableDefinition] = {}
        for draft in tables:
            if draft.definition is not None and not draft.rejected:
                self._unite(draft, draft.definition, united)
        return list(united.values())

    def _check_accounts(self) -> None:
        """The accounts of an application are the records of one table, whose keys are usernames."""
        accounts: dict[tuple[str, str], str] = {}
        for draft in self._drafts:
            definition = draft.definition
            if definition is None or draft.account is None:
                continue
            address = (definition.database, definition.name)
            if accounts and address not in accounts:
                first = next(iter(accounts.values()))
                draft.fail_rule(
                    f"@account of {draft.name}: the accounts of the application are the records of {first} already", draft.account
                )
            accounts.setdefault(address, draft.name)
            key = definition.attribute(definition.primary_key)
            if key is None or key.type not in ("ID", "String") or key.elements or definition.split_segments:
                fault = f"the primary key {definition.primary_key} is a username, so its type must be ID or String"
                draft.fail_rule(f"@account of {draft.name}: {fault}, without @splitSegments", draft.account)

    def _check_former_name(self, draft: DeclaredType, definition: TableDefinition, former: str) -> None:
        others = [other.definition for other in self._drafts if other.definition is not None and other.database == draft.database]
        others += self._known.get(draft.database, {}).values()
        if any(other.name == former for other in others):
            draft.fail(f"@renamedFrom of {draft.name}: the table {former} is still declared", draft.declaration.position)
        elif any(other.renamed_from == former and other.name != definition.name for other in others):
            draft.fail(f"@renamedFrom of {draft.name}: another table is renamed from {former}", draft.declaration.position)

    def _find(self, name: str, database: str) -> DeclaredType | TableDefinition | None:
        """The type of this name that a type in `database` means: a table there, else a structure, else a known type of other applications."""
        drafts = self._by_name.get(name, [])
        for draft in drafts:
            if draft.is_table and draft.database == database:
                return draft
        for draft in drafts:
            if not draft.is_table:
                return draft
        return self._known.get(database, {}).get(name) or (drafts[0] if drafts else None)

    def _enum(self, name: str, database: str) -> Enumeration | None:
        """The enum of this name: of this application, else one that a table of another one in the same database has."""
        if name in self._enums.valid or name in self._enums.rejected or name in self._by_name:
            return self._enums.valid.get(name)
        for definition in self._known.get(database, {}).values():
            for attribute in definition.attributes:
                if attribute.enum is not None and attribute.enum.name == name:
                    return attribute.enum
        return None

    def _typed(self, draft: DeclaredType, attribute: Attribute) -> Attribute:
        """The attribute with what its type name turned out to be: unknown types become `Any`, relationships get their table."""
        relationship = attribute.relationship
        position = draft.positions.get(attribute.name, draft.declaration.position)
        where = f"{draft.name}.{attribute.name}"
        if attribute.type in SCALAR_TYPES:
            if relationship is not None:
                draft.fail(f"the relationship {where} needs a table as its type, {attribute.type} is not a table", position)
            return attribute
        enum = self._enum(attribute.type, draft.database)
        if enum is not None:
            if relationship is not None:
                draft.fail(f"the relationship {where} needs a table as its type, {attribute.type} is an enum", position)
            return replace(attribute, type="String", enum=enum)
        found = self._find(attribute.type, draft.database)
        if found is None and attribute.type in self._enums.rejected:
            draft.fail(f"the type {attribute.type}, which {where} needs, has errors", position)
        elif found is None:
            meant = hint(nearest(attribute.type, [*SCALAR_TYPES, *self._by_name, *self._enums.valid, *self._known.get(draft.database, ())]))
            draft.warn(f"the type {attribute.type} of {where} is not known: any value is accepted{meant}", position, unknown=True)
        if found is None:
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

    def _complete(self, draft: DeclaredType, definition: TableDefinition) -> None:
        """Check the key, add the structures, and make the definition of a draft whole."""
        for attribute in draft.attributes:
            position = draft.positions.get(attribute.name, draft.declaration.position)
            if attribute.primary_key and not may_be_key(attribute):
                kind = f"[{attribute.type}]" if attribute.elements else attribute.type
                draft.fail(f"{draft.name}.{attribute.name} cannot be a primary key with type {kind}: keys are strings or numbers", position)
            if attribute.primary_key and attribute.enum is not None and definition.split_segments:
                draft.fail(f"@splitSegments of {draft.name}: the segments of a key cannot be the values of an enum", position)
            if attribute.unique and (attribute.type == "Blob" or attribute.type not in SCALAR_TYPES):
                draft.fail(f"@unique of {draft.name}.{attribute.name}: values of the type {attribute.type} cannot be compared", position)
            if attribute.embed is not None and not any(other.name == attribute.embed.source for other in draft.attributes):
                draft.fail(f"@embed of {draft.name}.{attribute.name}: {draft.name} has no attribute {attribute.embed.source}", position)
        structures = self._structures(draft)
        draft.definition = replace(definition, attributes=tuple(draft.attributes), structures=tuple(structures.values()))
        self._check_defaults(draft, draft.definition)

    @staticmethod
    def _check_defaults(draft: DeclaredType, definition: TableDefinition) -> None:
        if draft.rejected or not draft.default_positions:
            return
        validator = Validator(
            replace(definition, attributes=tuple([replace(attribute, default="") for attribute in definition.attributes]))
        )
        for attribute in definition.attributes:
            if attribute.default:
                try:
                    validator.record({attribute.name: json.loads(attribute.default)}, complete=False)
                except ClientError as error:
                    position = draft.default_positions[attribute.name]
                    draft.fail(f"@default of {draft.name}.{attribute.name}: {printable(error.message)}", position)

    def _structures(self, draft: DeclaredType) -> dict[str, Structure]:
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

    def _check_relationship(self, draft: DeclaredType, attribute: Attribute, relationship: Relationship) -> bool:
        """The rules of §4.1, once all tables are whole. False: the attributes of its two ends cannot be compared, there is a fault."""
        position = draft.positions.get(attribute.name, draft.declaration.position)
        where = f"{draft.name}.{attribute.name}"
        faults = draft.fault_count
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
            elif relationship.on_delete is not None:
                self._check_on_delete(draft, attribute, source, position)
        if relationship.to is not None:
            definition = self._target(draft, attribute)
            if definition is None:  # reported already
                return False
            foreign = definition.attribute(relationship.to)
            if foreign is None:
                draft.fail(f"the relationship {where} leads to {relationship.to}, which {attribute.type} does not have", position)
            elif not foreign.stored:
                draft.fail(f"the relationship {where} leads to {relationship.to}, which is not stored", position)
            elif not foreign.indexed and not foreign.primary_key:
                draft.fail(f"the relationship {where} leads to {attribute.type}.{relationship.to}, which must be @indexed", position)
        return draft.fault_count == faults

    def _target(self, draft: DeclaredType, attribute: Attribute) -> TableDefinition | None:
        """The table that a relationship leads to; None if that is at fault itself."""
        target = self._find(attribute.type, draft.database)
        return target.definition if isinstance(target, DeclaredType) else target

    def _check_types(self, draft: DeclaredType, attribute: Attribute, relationship: Relationship) -> None:
        """That values of both ends can be equal: "1" and 1 never are, so what is followed would find nothing, and `onDelete:` do nothing."""
        target, definition = self._target(draft, attribute), draft.definition
        if target is None or definition is None or target.database != draft.database or relationship.from_ is relationship.to is None:
            return  # reported already
        here = _end(definition, relationship.from_)
        there = _end(target, relationship.to)
        if here is None or there is None or can_equal(here, there):
            return
        fault = (
            f"the relationship {draft.name}.{attribute.name} can never find a record: {draft.name}.{here.name} is {_type_text(here)}"
            f" and {attribute.type}.{there.name} is {_type_text(there)}, whose values are never equal. Give both the same type;"
            " of records that are there, values of another type have to be written again (svc schema diff counts them)"
        )
        draft.fail(fault, draft.positions.get(attribute.name, draft.declaration.position))

    def _check_on_delete(self, draft: DeclaredType, attribute: Attribute, key: Attribute, position: SourcePosition) -> None:
        """`attribute`: a relationship with `onDelete:`. `key`: its foreign key."""
        where = f"onDelete: of {draft.name}.{attribute.name}"
        if not key.indexed and not key.primary_key:
            draft.fail(f"{where} needs an index to find the records: declare {key.name} @indexed", position)
        assert attribute.relationship is not None
        if attribute.relationship.on_delete == SET_NULL and not key.elements and (key.required or key.primary_key):
            what = "the primary key" if key.primary_key else "required (!)"
            draft.fail(f"{where}: setNull is not possible, {key.name} is {what} and cannot be null", position)
        definition = self._target(draft, attribute)
        if definition is not None and definition.split_segments:
            draft.fail(f"{where} cannot lead to {attribute.type}: its keys are lists (@splitSegments)", position)

    def _unite(self, draft: DeclaredType, definition: TableDefinition, united: dict[tuple[str, str], TableDefinition]) -> None:
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


def _end(definition: TableDefinition, name: str | None) -> Attribute | None:
    """The attribute at an end of a relationship: by default the primary key. None: any value may be there."""
    return definition.attribute(definition.primary_key if name is None else name)


def _type_text(attribute: Attribute) -> str:
    kind = attribute.type if attribute.enum is None else f"the enum {attribute.enum.name}"
    return f"[{kind}]" if attribute.elements else kind
