"""Tables and attributes: what a declaration says, how it is stored, what changed between two (spec: schema-and-store §2, §3, §7)."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from svc.errors import SchemaError
from svc.store.values.expression import uses_any

SCALAR_TYPES = ("ID", "String", "Int", "Long", "Float", "BigInt", "Boolean", "Date", "Bytes", "Blob", "Any")

# Types a primary key may have, by the kind of the stored key. Keys of two kinds are never converted into each other (§7).
_KEY_KINDS = {"ID": "text", "String": "text", "Int": "number", "Long": "number", "Float": "number", "BigInt": "number", "Any": "any"}

_COMPARED = {
    **_KEY_KINDS,
    "Date": "number",
    "Boolean": "boolean",
    "Bytes": "bytes",
}  # types, by the kind of value that theirs can be equal to

DEFAULT_DATABASE = "data"  # of tables that name none

RESTRICT, CASCADE, SET_NULL = ON_DELETE = ("restrict", "cascade", "setNull")


@dataclass(frozen=True, slots=True)
class Relationship:
    """`from_` / `to`: names of the foreign key attribute in this table / in the other one (spec: schema-and-store §4). `table` is the target.

    `on_delete`: what becomes of the records of this table whose `from_` names a deleted record, one of ON_DELETE; None: nothing.
    """

    table: str
    from_: str | None = None
    to: str | None = None
    on_delete: str | None = None


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """Arguments of `@indexed(type: "HNSW", ...)`; None: grows with the index, or derived from `m`."""

    distance: str = "cosine"
    m: int = 16
    ef_construction: int = 100
    ef_construction_search: int | None = None
    ml: float | None = None
    optimize_routing: float = 0.5
    quantization: str | None = None
    filter_expansion: float = 24


@dataclass(frozen=True, slots=True)
class Embed:
    """`@embed(source:, model:)`: the vector is computed from the text attribute `source`."""

    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """`@check(expr:, message:)`: what a record has to fulfil."""

    expression: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Allow:
    """One `@allow` of a type (spec: rows §1.1): conditions of the query language by action; None: says nothing of the action. `roles`: those it is for, None:
    all that no other one names."""

    roles: tuple[str, ...] | None = None
    read: str | None = None
    create: str | None = None
    update: str | None = None
    delete: str | None = None


ACTIONS = ("read", "create", "update", "delete")  # that the conditions of an `Allow` are for


@dataclass(frozen=True, slots=True)
class Enumeration:
    """An `enum` of a schema file: a type of strings, of which there are no others than `values`."""

    name: str
    values: tuple[str, ...]
    description: str = ""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One declared attribute. `type` is one of SCALAR_TYPES, or the name of a structure in `TableDefinition.structures`,
    or, for a relationship, the name of the related table's type. `elements`: it is a list of `type`. `enum`: the type is String, limited to its values."""

    name: str
    type: str = "Any"
    elements: bool = False
    required: bool = False  # `!`
    element_required: bool = False  # `[T!]`
    indexed: bool = False
    primary_key: bool = False
    created_time: bool = False
    updated_time: bool = False
    expires_at: bool = False
    relationship: Relationship | None = None
    computed_from: str | None = None  # expression; "" = set by code
    computed_version: str | None = None
    enumerable: bool = False
    hidden: bool = False
    description: str = ""
    vector: VectorIndex | None = None
    embed: Embed | None = None
    allow: tuple[str, ...] = ()  # roles of `@allow`: kept, not enforced (spec: schema-and-store §3)
    enum: Enumeration | None = None
    default: str = ""  # JSON: of new records that lack it; "" = none
    unique: bool = False  # no two records have a value in common; such an attribute is `indexed`
    check: Check | None = None
    renamed_from: str | None = None  # the name that its values had

    @property
    def stored(self) -> bool:
        """Whether records hold a value for it."""
        return self.relationship is None and self.computed_from is None

    @property
    def explained(self) -> str:
        """Its description for those who write it, with what is demanded of its values."""
        demands = ["No two records have the same value."] if self.unique else []
        if self.check is not None:
            demands.append(f"Check: {self.check.message or self.check.expression}.")
        return " ".join([self.description, *demands]).strip() if demands else self.description


@dataclass(frozen=True, slots=True)
class Structure:
    """A type without `@table`: the shape of a nested object."""

    name: str
    attributes: tuple[Attribute, ...]
    sealed: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """`path`: address without slashes at the ends, "" = root. `protocols`: flags given explicitly; absent means visible."""

    path: str
    protocols: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class TableDefinition:
    name: str
    database: str = "data"
    type_name: str = ""
    attributes: tuple[Attribute, ...] = ()
    structures: tuple[Structure, ...] = ()  # all that its attributes reach
    primary_key: str = "id"
    sealed: bool = False
    dynamic: bool = False  # learns attributes from data (spec: schema-and-store §6.10)
    expiration: float | None = None  # seconds
    eviction: float = 0.0  # seconds
    scan_interval: float | None = None  # seconds
    audit: bool | None = None  # None: as configured
    replicate: bool = True
    split_segments: bool = False
    hidden: bool = False
    description: str = ""
    export: Export | None = field(default=None)
    renamed_from: str | None = None  # the name that the table had
    check: Check | None = None
    allow: tuple[Allow, ...] = ()  # which records callers may read and write; (): all that their role may (spec: rows §1)
    account: bool = False  # its records are those of an application's users (spec: rows §2.2)

    def attribute(self, name: str) -> Attribute | None:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        return None


# A program that does not know a field leaves it out when it reads. What nobody may leave out has another format, which such a program refuses.
_PLAIN_FORMAT, _GUARDED_FORMAT = b"\x01", b"\x02"  # without and with rules about rows (`allow`, `account`)
_decoder = msgspec.msgpack.Decoder(TableDefinition)


def definition_to_bytes(definition: TableDefinition) -> bytes:
    """The stored form of a definition: a format byte, then a MessagePack map by field name, so that later fields can be added."""
    return (_GUARDED_FORMAT if definition.allow or definition.account else _PLAIN_FORMAT) + msgspec.msgpack.encode(definition)


def definition_from_bytes(data: bytes) -> TableDefinition:
    """Opposite of `definition_to_bytes`. Raises SchemaError for a damaged definition or one of a later format."""
    if data[:1] not in (_PLAIN_FORMAT, _GUARDED_FORMAT):
        raise SchemaError(
            "the stored table definition has an unknown format: it was written by a newer version of svc, or is damaged; start that version"
        )
    try:
        return _decoder.decode(data[1:])
    except msgspec.MsgspecError as error:
        raise SchemaError(f"the stored table definition is damaged: {error}") from None


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """What has to be done in the store when one definition replaces another: names of attributes, in the order of the new definition."""

    build: tuple[str, ...] = ()  # indexes that do not exist yet
    rebuild: tuple[str, ...] = ()  # indexes whose entries are outdated: drop, then build
    drop: tuple[str, ...] = ()  # indexes to remove
    moves: tuple[tuple[str, str], ...] = ()  # attributes whose values get another name: (old, new)
    definition: bool = False  # anything at all differs, so the definition must be stored again
    unique: tuple[str, ...] = ()  # attributes of which it is not known yet that no two records share a value
    keepable: tuple[
        tuple[str, str], ...
    ] = ()  # of the moves, those whose index stays as it is if no record has a value under the new name yet


def compare(old: TableDefinition, new: TableDefinition, *, empty: bool = False) -> DefinitionChange:
    """The consequences of replacing `old` by `new` (spec: schema-and-store §7). `empty`: the table has no records.

    Raises SchemaError for what cannot be done with the keys that are there: the key attribute renamed, or keys of another kind.
    """
    if old.primary_key != new.primary_key:
        raise SchemaError(f"the primary key of {new.name} cannot be changed from {old.primary_key} to {new.primary_key}")
    old_kind, new_kind = key_kind(old), key_kind(new)
    if old_kind != new_kind and ({old_kind, new_kind} == {"text", "number"} or not (empty or (old_kind, new_kind) == ("number", "any"))):
        raise SchemaError(f"the primary key of {new.name} cannot be changed from type {key_type(old)} to {key_type(new)}")
    if old.split_segments != new.split_segments and not empty:
        raise SchemaError(f"@splitSegments of {new.name} cannot be changed while the table has records")
    before = {attribute.name: attribute for attribute in old.attributes if attribute.indexed}
    moves = () if empty else _moves(old, new)
    moved = _moved(new, moves)
    build, rebuild = [], []
    for attribute in new.attributes:
        if attribute.indexed:
            previous = before.pop(attribute.name, None)
            if previous is None:
                build.append(attribute.name)
            elif _index_identity(previous) != _index_identity(attribute) or attribute.name in moved:
                rebuild.append(attribute.name)
    unique = () if empty else _unproved(old, new, moved)
    keepable = tuple(
        [(former, name) for former, name in moves if name in build and former in before and _is_same_index(old, former, new, name)]
    )
    return DefinitionChange(tuple(build), tuple(rebuild), tuple(before), moves, old != new, unique, keepable)


def _is_same_index(old: TableDefinition, former: str, new: TableDefinition, name: str) -> bool:
    """Whether the index of an attribute has the entries that it would have under its new name. A name that was declared before may be in records."""
    before, after = old.attribute(former), new.attribute(name)
    is_stored = before is not None and after is not None and before.stored and after.stored
    return is_stored and old.attribute(name) is None and _index_identity(before) == _index_identity(after)  # type: ignore[arg-type]


def _unproved(old: TableDefinition, new: TableDefinition, moved: Set[str]) -> tuple[str, ...]:
    """The names of attributes that are unique now, and were not, or had other values. `moved`: those that get some from other names."""
    proved = {
        attribute.name: _index_identity(attribute) for attribute in old.attributes if attribute.unique and attribute.name not in moved
    }
    return tuple(
        [attribute.name for attribute in new.attributes if attribute.unique and proved.get(attribute.name) != _index_identity(attribute)]
    )


def _moved(new: TableDefinition, moves: Sequence[tuple[str, str]]) -> Set[str]:
    """The names of attributes whose values change if values get other names: those that get them, and those computed from what had or gets them."""
    if not moves:
        return frozenset()
    names = {name for pair in moves for name in pair}
    computed = [each.name for each in new.attributes if each.computed_from is not None and uses_any(each.computed_from, names)]
    return {to for _, to in moves}.union(computed)


def _moves(old: TableDefinition, new: TableDefinition) -> tuple[tuple[str, str], ...]:
    """The names that `@renamedFrom` changes, where it was not declared before: (old, new)."""
    known = {(attribute.renamed_from, attribute.name) for attribute in old.attributes}
    pairs = [(attribute.renamed_from, attribute.name) for attribute in new.attributes if attribute.renamed_from is not None]
    return tuple([pair for pair in pairs if pair not in known])


def key_type(definition: TableDefinition) -> str:
    """Declared type of the primary key, `Any` if untyped."""
    attribute = definition.attribute(definition.primary_key)
    return attribute.type if attribute is not None else "Any"


def can_equal(attribute: Attribute, other: Attribute) -> bool:
    """Whether a value of one, or of its list, can be equal to one of the other (spec: schema-and-store §10.1): values are never converted where a
    relationship is followed."""
    kinds = {_COMPARED.get(each.type, "nothing") for each in (attribute, other)}
    if "nothing" in kinds:  # objects and files
        return False
    if attribute.enum is not None and other.enum is not None:
        return not set(attribute.enum.values).isdisjoint(other.enum.values)
    return "any" in kinds or len(kinds) == 1


def enums_of(definition: TableDefinition) -> tuple[Enumeration, ...]:
    """Those that its attributes use, those of nested objects included, each once."""
    places = (definition.attributes, *[structure.attributes for structure in definition.structures])
    return tuple(dict.fromkeys([found.enum for attributes in places for found in attributes if found.enum is not None]))


def key_enum(definition: TableDefinition) -> Enumeration | None:
    """The values that keys are limited to."""
    attribute = definition.attribute(definition.primary_key)
    return None if attribute is None else attribute.enum


def key_kind(definition: TableDefinition) -> str:
    """`text`, `number` or `any`."""
    return _KEY_KINDS.get(key_type(definition), "any")


def may_be_key(attribute: Attribute) -> bool:
    """Whether keys of this type exist: text and numbers (spec: schema-and-store §6.2)."""
    return attribute.type in _KEY_KINDS and not attribute.elements and attribute.stored


def _index_identity(attribute: Attribute) -> tuple[object, ...]:
    """What the entries of an ordinary index depend on besides the records. Without a version, the expression is the version."""
    version = attribute.computed_from if attribute.computed_version is None else attribute.computed_version
    computed = attribute.computed_from is not None
    # What does not fit the declaration is null where it is computed.
    values = attribute.enum.values if computed and attribute.enum is not None else ()
    return attribute.type, attribute.elements, computed, version, computed and attribute.element_required, values


def unite(first: TableDefinition, second: TableDefinition) -> TableDefinition:
    """One definition from two declarations of the same table (spec: schema-and-store §1.6): `first`, with the attributes only `second` has.

    Raises SchemaError when they disagree about an attribute, a structure or an argument of the table that both of them set.
    """
    attributes = {attribute.name: attribute for attribute in first.attributes}
    for attribute in second.attributes:
        known = attributes.setdefault(attribute.name, attribute)
        if not _same_attribute(known, attribute):
            raise SchemaError(f"{second.name}.{attribute.name} is declared differently by another declaration of the table")
        if known.renamed_from is None and attribute.renamed_from is not None:
            attributes[attribute.name] = replace(known, renamed_from=attribute.renamed_from)
    for attribute in attributes.values():
        if attribute.renamed_from in attributes:
            raise SchemaError(
                f"{second.name}.{attribute.name} is renamed from {attribute.renamed_from}, which another declaration of the table still has"
            )
    structures = {structure.name: structure for structure in first.structures}
    for structure in second.structures:
        if structures.setdefault(structure.name, structure) != structure:
            raise SchemaError(f"type {structure.name}, used by {second.name}, is declared differently by another declaration of the table")
    if first.primary_key != second.primary_key:
        raise SchemaError(f"{second.name} has the primary key {second.primary_key} here, and {first.primary_key} in another declaration")
    merged: dict[str, Any] = {}
    for name in _UNITED:
        ours, theirs, default = getattr(first, name), getattr(second, name), getattr(_DEFAULTS, name)
        if ours != theirs and default not in (ours, theirs):
            raise SchemaError(f"{second.name} is declared differently by another declaration of the table: {name}")
        merged[name] = theirs if ours == default else ours
    return replace(first, attributes=tuple(attributes.values()), structures=tuple(structures.values()), **merged)


_DEFAULTS = TableDefinition("")
_UNITED = (
    "sealed", "dynamic", "expiration", "eviction", "scan_interval", "audit", "replicate", "split_segments", "hidden", "export", "check",
    "renamed_from", "allow", "account",
)  # fmt: skip


def _same_attribute(first: Attribute, second: Attribute) -> bool:
    plain = {"description": "", "renamed_from": None}
    return first == second or replace(first, **plain) == replace(second, **plain)  # type: ignore[arg-type]
