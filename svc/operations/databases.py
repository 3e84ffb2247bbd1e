"""Databases, tables, attributes (spec: operations §2). What their descriptions hold: `descriptions`; what `create_table` takes: `table_fields`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, TypeVar

from svc.errors import ClientError, NotFound, SchemaError
from svc.operations.call import Call
from svc.operations.descriptions import describe_table, describe_tables, may_define, rights_of
from svc.operations.fields import DATABASE, IMPERSONATE, MAX_NAME, REPLICATED, TABLE, Field
from svc.operations.operation import ANYONE, STRUCTURE, SUPER_USER, Operation, Permission
from svc.operations.record_writes import CREATED, UPDATED
from svc.operations.system_records import is_system, refuse_system
from svc.operations.table_fields import CREATE_FIELDS, new_definition, refuse_if_ruled
from svc.store import Database, WriterBusy, table_drops
from svc.store.schema import SCALAR_TYPES, Attribute, TableDefinition
from svc.store.slices import SLICE
from svc.store.system import SYSTEM
from svc.store.values.conversion import is_encodable

T = TypeVar("T")


# --- descriptions -----------------------------------------------------------------------------------------------------------------------


def describe_all(call: Call) -> Any:
    return _at_once(call, _describe_all(call))


def _describe_all(call: Call) -> Generator[None, None, dict[str, Any]]:
    found: dict[str, Any] = {}
    call.node.store.refresh()
    for name, database in sorted(call.node.store.databases.items()):
        if name != SYSTEM:
            tables = yield from describe_tables(call, database)
            if tables or may_define(call, name):  # who may is told of it though nothing in it concerns them
                found[name] = tables
    return found


def describe_database(call: Call) -> Any:
    return _at_once(call, describe_tables(call, call.database))


def describe_one(call: Call) -> Any:
    table = call.table
    return _at_once(call, describe_table(call, table, rights_of(call, table.database.name, table.name)))


def _at_once(call: Call, steps: Generator[None, None, T]) -> Any:
    """The result of short steps; an awaitable of it if they take too long for a turn."""
    now = call.node.clock.monotonic
    end = now() + SLICE
    try:
        while now() < end:
            next(steps)
    except StopIteration as done:
        return done.value
    return call.node.store.slices.result(steps)


# --- databases --------------------------------------------------------------------------------------------------------------------------


async def create_database(call: Call) -> str:
    name = call["database"]
    if call.node.store.find_database(name) is not None:
        raise ClientError(f"database '{name}' already exists", code="DATABASE_EXISTS")
    await call.node.store.make_database(name)
    return f"database '{name}' successfully created"


async def _dropped_database(call: Call) -> str:
    name = call["database"]
    await call.node.store.drop_database(name)
    return f"successfully deleted '{name}'"


def drop_database(call: Call) -> Any:
    if is_system(call):
        raise refuse_system()
    _ = call.database
    return _dropped_database(call)


def cleanup_orphan_blobs(call: Call) -> Any:
    name = call["database"]
    database = call.node.store.find_database(name)
    if database is None:
        raise ClientError(f"Unknown database '{name}'", code="NOT_FOUND")
    call.node.store.sweep_blobs(database)
    return "Orphaned blobs cleanup started, check logs for progress"


# --- tables -----------------------------------------------------------------------------------------------------------------------------


def create_table(call: Call) -> Any:
    if is_system(call):
        raise refuse_system()
    definition = new_definition(call)
    name, store = definition.name, call.node.store
    found = store.find_database(definition.database)
    if found is not None and name in found.tables:
        raise _exists(definition.database, name)
    if found is None:
        return _create_both(call, definition)
    return _create_table(call, found, definition)


async def _create_both(call: Call, definition: TableDefinition) -> Any:
    return _create_table(call, await call.node.store.make_database(definition.database), definition)


def _create_table(call: Call, database: Database, definition: TableDefinition) -> Any:
    name = definition.name

    def create() -> str:
        if name in database.tables:
            raise _exists(database.name, name)
        database.define_table(definition)
        return f"table '{database.name}.{name}' successfully created."

    return _change(call, database, create)


def _exists(database: str, table: str) -> ClientError:
    return ClientError(f"Table '{table}' already exists in '{database}'", code="TABLE_EXISTS")


def drop_table(call: Call) -> Any:
    if is_system(call):
        raise refuse_system()
    _ = call.table
    return _dropped_table(call)


async def _dropped_table(call: Call) -> str:
    table = call.table
    await table_drops.drop_table(table, call.username)
    return f"successfully deleted table '{table.database.name}.{table.name}'"


# --- attributes -------------------------------------------------------------------------------------------------------------------------


def create_attribute(call: Call) -> Any:
    if is_system(call):
        raise refuse_system()
    table, name = call.table, call["attribute"]
    place = f"{table.database.name}.{table.name}"

    def create() -> str:
        if table.database.tables.get(table.name) is not table:
            raise NotFound(f"Table '{place}' does not exist")
        if name in table.attributes:
            raise ClientError(f"attribute '{name}' already exists in {place}", code="ATTRIBUTE_EXISTS")
        attribute = Attribute(name, call["type"] or "Any", indexed=call["indexed"])
        table.database.define_table(replace(table.definition, attributes=(*table.definition.attributes, attribute)))
        return f"attribute '{place}.{name}' successfully created."

    return _change(call, table.database, create)


def drop_attribute(call: Call) -> Any:
    if is_system(call):
        raise refuse_system()
    table, name = call.table, call["attribute"]
    if name == table.primary_key:
        raise ClientError("You cannot drop a hash attribute")
    if name in (CREATED, UPDATED):
        raise ClientError(f"cannot drop internal timestamp attribute: {name}")
    if name not in table.attributes:
        raise NotFound(f"Attribute '{name}' does not exist on '{table.database.name}.{table.name}'")
    for other in table.definition.attributes:
        if other.relationship is not None and other.relationship.from_ == name:
            raise ClientError(f"Attribute '{name}' is the foreign key of the relationship '{other.name}'")
    refuse_if_ruled(call, table, name)
    return _dropped_attribute(call)


async def _dropped_attribute(call: Call) -> str:
    await table_drops.drop_attribute(call.table, call["attribute"], call.username)
    return f"successfully deleted attribute '{call['attribute']}'"


def _change(call: Call, database: Database, change: Callable[[], str]) -> Any:
    """Make a short change of the definitions, now or after the long write under way. What the store refuses is a 400."""

    def make() -> str:
        call.node.store.open_writers((database,), wait=False)
        try:
            return change()
        except SchemaError as error:
            raise ClientError(error.message, code="VALIDATION") from None

    try:
        return make()
    except WriterBusy:
        return call.node.store.write_when_free(lambda: (database,), make)


# --- rows -------------------------------------------------------------------------------------------------------------------------------


def _attribute_name(value: Any, field: Field) -> str | None:
    if len(value) > MAX_NAME:
        return f"length must be less than or equal to {MAX_NAME} characters long"
    if not is_encodable(value):
        return "must be text without unpaired surrogates"
    return "names cannot include backticks or forward slashes" if "`" in value or "/" in value else None


def _no_dot(value: Any, field: Field) -> str | None:
    return "names cannot begin with a dot" if value.startswith(".") else None


EXACT_COUNT = Field("exact_count", "bool", "Count all records, however long that takes.", default=False)
INCLUDE_COMPUTED = Field("include_computed", "bool", "Also computed attributes.", default=False)
ATTRIBUTE = Field("attribute", "string", "Attribute.", required=True, check=_attribute_name)
NEW_DATABASE = DATABASE.but(check=_no_dot)
NAMED_DATABASE = DATABASE.but(sentence="Database.", required=True, default=None)

_STRUCTURE_OR_INSERT = Permission("structure", ("insert",))

_PLANT = {
    "schema": "garden",
    "name": "plant",
    "hash_attribute": "id",
    "audit": True,
    "schema_defined": False,
    "attributes": [
        {"attribute": "id", "is_primary_key": True},
        {"attribute": "__createdtime__", "indexed": True},
        {"attribute": "__updatedtime__", "indexed": True},
        {"attribute": "species", "indexed": True},
    ],
    "db_size": 61440,
    "table_size": 8192,
    "db_audit_size": 4096,
    "record_count": 3,
    "last_updated_record": 1761000000123.5,
}

_DESCRIPTION_NOTE = """\\
| Field | Meaning |
|---|---|
| `schema`, `name`, `hash_attribute` | database, table, primary key |
| `audit`, `schema_defined` | whether the log keeps what records were before; whether the attributes were declared |
| `attributes` | `{attribute, type, elements, indexed, is_primary_key, nullable, computed, ...}`, without what does not apply |
| `db_size`, `table_size`, `db_audit_size` | bytes of the database, of the table's records, of the transaction log of the database |
| `record_count`, `estimated_record_range` | number of records; the range only if very many have expired and are not yet removed, and `exact_count` is not set |
| | where rules on rows narrow what the caller may read: absent, or with `exact_count` the number of those; and no sizes, no |
| | `last_updated_record`, no `leftovers` |
| `last_updated_record` | time of the newest write, ms since the epoch; absent if there was none, or none is known |
| these three | absent for others than super users if rules about rows narrow the table, as are `keys` of `leftovers` |
| `expiration`, `replicate`, `sealed` | only where they differ from the default |
| `building` | while indexes are built in the background: their attributes |
| `not_unique_yet` | while values are compared after a start: the attributes that are to be `@unique` and are not yet |
| `moving` | while values move to new names of attributes: `renamed_from`, and the number of `records` that are rewritten |
| `account` | true if the records are those of the users of an application |
| `allow` | rules about rows, as declared, for super users and for roles that may make tables: `{roles, read, create, update, delete}` |
| `leftovers` | what changes of the schema have left in records that does not fit it: when that was `counted`, in how many `records`, whether these were all |
| `leftovers.found` | `kind` (`removed`, `other_type`, `fails_check`), `attribute`, `type` or check, number of `records`, up to 20 `keys` for readers |
| `paths` | addresses on the application port, if the table is exported |
"""

OPERATIONS = (
    Operation(
        name="describe_all",
        category="databases",
        summary="Describe all databases and tables.",
        permission=ANYONE,
        handler=describe_all,
        fields=(EXACT_COUNT, INCLUDE_COMPUTED, IMPERSONATE),
        returns="`{database: {table: description}}`",
        notes="The database `system` is left out. Others than super users see what they hold a right on.",
        example={},
        example_answer={"garden": {"plant": _PLANT}},
        logged=False,
    ),
    Operation(
        name="describe_database",
        category="databases",
        summary="Describe the tables of a database.",
        permission=ANYONE,
        handler=describe_database,
        fields=(DATABASE, EXACT_COUNT, INCLUDE_COMPUTED, IMPERSONATE),
        aliases=("describe_schema",),
        returns="`{table: description}`",
        example={"database": "garden"},
        example_answer={"plant": _PLANT},
        logged=False,
    ),
    Operation(
        name="describe_table",
        category="databases",
        summary="Describe a table.",
        permission=ANYONE,
        handler=describe_one,
        fields=(DATABASE, TABLE, EXACT_COUNT, INCLUDE_COMPUTED, IMPERSONATE),
        returns="The description.",
        notes=_DESCRIPTION_NOTE,
        example={"database": "garden", "table": "plant"},
        example_answer=_PLANT,
        logged=False,
    ),
    Operation(
        name="create_database",
        category="databases",
        summary="Make a database.",
        permission=STRUCTURE,
        handler=create_database,
        fields=(NEW_DATABASE, REPLICATED, IMPERSONATE),
        aliases=("create_schema",),
        returns="A message.",
        example={"database": "dev"},
        example_answer={"message": "database 'dev' successfully created"},
    ),
    Operation(
        name="drop_database",
        category="databases",
        summary="Remove a database with its tables, records, log and blobs.",
        permission=STRUCTURE,
        handler=drop_database,
        fields=(NAMED_DATABASE, REPLICATED, IMPERSONATE),
        aliases=("drop_schema",),
        returns="A message.",
        notes="When it is answered, the database is gone for good, and its name can be used again. Files are removed in the background.",
        example={"database": "dev"},
        example_answer={"message": "successfully deleted 'dev'"},
    ),
    Operation(
        name="create_table",
        category="databases",
        summary="Create a table, and its database if it does not exist.",
        permission=STRUCTURE,
        handler=create_table,
        fields=(NEW_DATABASE, TABLE, *CREATE_FIELDS, REPLICATED, IMPERSONATE),
        returns="A message.",
        notes="""\\
With `attributes` the table is *declared*: their values are checked, and further properties of records are kept without becoming attributes.
Without, it is *dynamic*: every property that a record brings becomes an indexed attribute, and `__createdtime__` and `__updatedtime__` are set.
A record that would give the table more than 256 indexed attributes is refused.

A table that is made this way has no address on the application port.""",
        example={"database": "dev", "table": "dog", "primary_key": "id"},
        example_answer={"message": "table 'dev.dog' successfully created."},
    ),
    Operation(
        name="drop_table",
        category="databases",
        summary="Remove a table with its records.",
        permission=STRUCTURE,
        handler=drop_table,
        fields=(DATABASE, TABLE, REPLICATED, IMPERSONATE),
        returns="A message.",
        notes="The log keeps its entries for as long as any. Addresses of the table on the application port answer 404 from then on.",
        example={"database": "dev", "table": "dog"},
        example_answer={"message": "successfully deleted table 'dev.dog'"},
    ),
    Operation(
        name="create_attribute",
        category="databases",
        summary="Add an attribute to a table.",
        permission=_STRUCTURE_OR_INSERT,
        handler=create_attribute,
        fields=(
            DATABASE,
            TABLE,
            ATTRIBUTE,
            Field("indexed", "bool", "Whether the attribute is indexed.", default=True),
            Field("type", "choice", "Type of its values; default: any.", choices=SCALAR_TYPES),
            REPLICATED,
            IMPERSONATE,
        ),
        returns="A message.",
        notes="The index of a large table is built in the background; until then searches that need it are answered 503.",
        example={"database": "dev", "table": "dog", "attribute": "color"},
        example_answer={"message": "attribute 'dev.dog.color' successfully created."},
    ),
    Operation(
        name="drop_attribute",
        category="databases",
        summary="Remove an attribute from a table.",
        permission=STRUCTURE,
        handler=drop_attribute,
        fields=(DATABASE, TABLE, ATTRIBUTE, REPLICATED, IMPERSONATE),
        returns="A message.",
        notes="""\\
Of a dynamic table the values are removed from every record. Of a declared one only the definition and the index go: records keep the values as
undeclared properties. 409 while a rule about rows names the attribute.""",
        example={"database": "dev", "table": "dog", "attribute": "color"},
        example_answer={"message": "successfully deleted attribute 'color'"},
    ),
    Operation(
        name="cleanup_orphan_blobs",
        category="databases",
        summary="Search for files of blobs that belong to no record, and remove them.",
        permission=SUPER_USER,
        handler=cleanup_orphan_blobs,
        fields=(NAMED_DATABASE.but(missing='Must provide "database" name for search for orphaned blobs'), IMPERSONATE),
        returns="A message.",
        notes="The same is done about once an hour without being asked for.",
        example={"database": "dev"},
        example_answer={"message": "Orphaned blobs cleanup started, check logs for progress"},
    ),
)
