"""What a database knows of its tables, and under which names it keeps it. Pure: touches no store.

The store `$definitions` of a database holds:

    format              number of the format of the whole database, text (`store_format`)
    generation          8 bytes: grows with every change here, so that other processes see that they must read again
    next table          8 bytes: number of the table that is made next
    blobs               8 random bytes: by this name references in records find the database's blob files
    figures             what is known of the log as a whole (`log.figures`)
    dropped             the database was dropped: it is no longer read or written, its files are to be removed (`database_drops`)
    replication         other nodes take part in the database: it has the store `$replication` (`replication_state`)
    table:<name>        number of the table, 4 bytes, and its definition (`schema.definition_to_bytes`)
    build:<number>:<a>  while the index of attribute a is being built: the stored primary key up to which it is done
    moves:<number>      while values are being moved to new names: which, and the stored primary key up to which it is done (`moves`)
    leftovers:<number>  what changes of the definition may have left in records that does not fit it, and how much of it was counted (`leftovers`)
    keys:<number>       16 bytes: next integer key to hand out and end of the reserved block
    store:<number>:<a>  name of the store that holds the index of attribute a, or the records if a is empty; without it the name is
                        <table>/<a> (`store_names`)
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct as Layout

from svc.errors import SchemaError
from svc.store.schema import Attribute, TableDefinition, definition_from_bytes, definition_to_bytes
from svc.store.values.checks import check_checks
from svc.store.values.computed import check_computed
from svc.store.values.conversion import is_encodable

DEFINITIONS_STORE = "$definitions"
EXPIRY_STORE = "$expiry"
MQTT_STORE = "$mqtt"
REPLICATION_STORE = "$replication"

FORMAT_KEY = b"format"
GENERATION_KEY = b"generation"
NEXT_TABLE_KEY = b"next table"
BLOBS_KEY = b"blobs"
DROPPED_KEY = b"dropped"
FIGURES_KEY = b"figures"
REPLICATION_KEY = b"replication"
TABLE_PREFIX = b"table:"
STORE_PREFIX = b"store:"

MAX_NAME_BYTES = 250  # the log keeps a table's name behind a length of one byte
MAX_INDEXES = 256  # of one table, so that no table uses up the stores of its database

_NUMBER = Layout(">I")


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table as its database knows it. `number` is never given to another table."""

    number: int
    definition: TableDefinition

    def to_bytes(self) -> bytes:
        return _NUMBER.pack(self.number) + definition_to_bytes(self.definition)

    @classmethod
    def from_bytes(cls, data: bytes) -> StoredTable:
        """Raises SchemaError for a damaged definition or one of a later format."""
        return cls(_NUMBER.unpack_from(data)[0], definition_from_bytes(data[_NUMBER.size :]))


def table_key(name: str) -> bytes:
    return TABLE_PREFIX + name.encode()


def build_key(number: int, attribute: str) -> bytes:
    return f"build:{number}:{attribute}".encode()


def moves_key(number: int) -> bytes:
    return f"moves:{number}".encode()


def leftovers_key(number: int) -> bytes:
    return f"leftovers:{number}".encode()


def sequence_key(number: int) -> bytes:
    return f"keys:{number}".encode()


def store_key(number: int, attribute: str) -> bytes:
    return f"store:{number}:{attribute}".encode()


def indexed_attributes(definition: TableDefinition) -> dict[str, Attribute]:
    """The attributes that have a sorted index, by name: those that are indexed and whose values are in the records, or computed from them."""
    return {
        attribute.name: attribute
        for attribute in definition.attributes
        if attribute.indexed and attribute.relationship is None and attribute.name != definition.primary_key
    }


def check_name(name: str, what: str) -> None:
    """Raise SchemaError for a name that cannot name a database, table or attribute."""
    if not is_encodable(name):
        raise SchemaError(f"The name of {what} contains an unpaired surrogate")
    if not name or len(name.encode()) > MAX_NAME_BYTES:
        raise SchemaError(f"The name of {what} must have 1 to {MAX_NAME_BYTES} bytes")
    if "/" in name or "`" in name or "\0" in name:
        raise SchemaError(f'The name "{name}" of {what} contains a slash, a backtick or a null character')


def check_database_name(name: str) -> None:
    """The same for a database, whose name is also that of a directory."""
    check_name(name, "a database")
    if name.startswith("."):
        raise SchemaError(f'The name "{name}" of a database begins with a dot')


def check_definition(definition: TableDefinition) -> None:
    """Raise SchemaError for what no store can hold, whatever was there before."""
    check_name(definition.name, "a table")
    if definition.name.startswith("$"):
        raise SchemaError(f'The name "{definition.name}" of a table begins with $')
    if definition.renamed_from is not None:
        check_name(definition.renamed_from, "a table")
    seen: set[str] = set()
    for attribute in definition.attributes:
        check_name(attribute.name, f'an attribute of "{definition.name}"')
        if attribute.name in seen:
            raise SchemaError(f'The table "{definition.name}" has two attributes "{attribute.name}"')
        seen.add(attribute.name)
    check_computed(definition)
    check_checks(definition)


def check_indexes(definition: TableDefinition, before: int) -> None:
    """Raise SchemaError if it has more than MAX_INDEXES indexes, and more than the `before` that the table had."""
    count = len(indexed_attributes(definition))
    if count > max(MAX_INDEXES, before):
        raise SchemaError(f'The table "{definition.name}" would have {count:,} indexed attributes; the limit is {MAX_INDEXES}')
