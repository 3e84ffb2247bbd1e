"""Tables, attributes, and what a table accepts (contract: schema-and-store §2, §3, §5)."""

from __future__ import annotations

from dataclasses import dataclass, field

SCALAR_TYPES = ("ID", "String", "Int", "Long", "Float", "BigInt", "Boolean", "Date", "Bytes", "Blob", "Any")


@dataclass(frozen=True, slots=True)
class Relationship:
    """`from_` / `to`: names of the foreign key attribute in this table / in the other one (schema-and-store §4). `table` is the target."""

    table: str
    from_: str | None = None
    to: str | None = None


@dataclass(frozen=True, slots=True)
class Attribute:
    """One declared attribute. `type` is one of SCALAR_TYPES, or the name of a structure in `TableDefinition.structures`,
    or, for a relationship, the name of the related table's type. `elements`: it is a list of `type`."""

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

    @property
    def stored(self) -> bool:
        """Whether records hold a value for it."""
        return self.relationship is None and self.computed_from is None


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
    dynamic: bool = False  # learns attributes from data (schema-and-store §6.10)
    expiration: float | None = None  # seconds
    eviction: float = 0.0  # seconds
    scan_interval: float | None = None  # seconds
    audit: bool | None = None  # None: as configured
    replicate: bool = True
    split_segments: bool = False
    hidden: bool = False
    description: str = ""
    export: Export | None = field(default=None)

    def attribute(self, name: str) -> Attribute | None:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        return None
