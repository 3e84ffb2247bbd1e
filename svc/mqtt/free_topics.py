r"""Topics that are no resources, as records of one table (spec: mqtt §9; setting `mqtt.freeTopics`).

The key of a record is the whole topic: `{"id": "tele/plug/STATE", "contentType": "application/json", "data": b"{...}", "updatedTime": ...}`. Payloads are
kept byte for byte, JSON too. Rights are those of the table. An application may declare the table itself, for example to export it: then its declaration
counts, and must have what is needed here.
"""

from __future__ import annotations

import re
from typing import Any

from svc.errors import BadValue, ConfigError, SchemaError
from svc.query import QueryCache
from svc.realtime.realtime import Realtime
from svc.resources import Registration, TableResource, table_resource
from svc.store import Store, Table
from svc.store.schema import Attribute, TableDefinition, key_enum, key_type
from svc.store.values.keys import encode_primary

ID, TYPE, DATA, UPDATED = "id", "contentType", "data", "updatedTime"
ADDRESS = "$free"
"""In place of the path of a resource. No resource that MQTT reaches has it: topics that begin with `$` do not exist."""

DECLARATION = "id: ID @primaryKey  contentType: String  data: Bytes  updatedTime: Date @updatedTime"
LONGEST_TYPE = 1024  # characters of a content type that is passed on
# Besides wildcards and U+0000: control characters and what is no character, for which clients may close their connection (MQTT 5 §1.5.4).
_NOT_IN_TOPICS = re.compile(
    "[+#\0-\x1f\x7f-\x9f\ufdd0-\ufdef" + "".join(chr(plane << 16 | end) for plane in range(17) for end in (0xFFFE, 0xFFFF)) + "]"
)


def is_free_topic(text: str) -> bool:
    """Whether it can be the topic, and the key, of a record. Levels may be empty.

    >>> [is_free_topic(each) for each in ("a/b", "/a//", "/", "a?b%20", "", "$SYS/x", "a/+", "a#", "a" * 700)]
    [True, True, True, True, False, False, False, False, False]
    """
    if not text or text[0] == "$" or _NOT_IN_TOPICS.search(text) is not None:
        return False
    try:
        encode_primary(text)
    except BadValue:
        return False
    return True


def fault_of(definition: TableDefinition) -> str | None:
    """Why a table of this definition cannot hold topics; None: it can."""
    if definition.primary_key != ID or key_type(definition) not in ("ID", "String") or key_enum(definition) is not None:
        return f"its primary key must be '{ID}', of type ID or String"
    if definition.split_segments:
        return "it has @splitSegments, so its keys are no texts"
    for name, kind in ((TYPE, "String"), (DATA, "Bytes")):
        attribute = definition.attribute(name)
        if attribute is None or attribute.type != kind or attribute.elements or attribute.enum is not None or not attribute.stored:
            return f"it must have the attribute '{name}', of type {kind}"
    updated = definition.attribute(UPDATED)
    if updated is None or not updated.updated_time:
        return f"it must have the attribute '{UPDATED}' with @updatedTime"
    for each in definition.attributes:
        if (
            each.required
            and each.stored
            and each.name not in (ID, TYPE, DATA)
            and not (each.default or each.created_time or each.updated_time)
        ):
            return f"its attribute '{each.name}' is required, and no message has it"
    return None


class FreeTopics:
    """The table of one server. `name`: that of its database and its own, with a dot between."""

    def __init__(self, name: str, store: Store, queries: QueryCache, realtime: Realtime) -> None:
        self._database, _, self._table = name.partition(".")
        self._store = store
        self._queries = queries
        self._realtime = realtime
        self._known: tuple[Table, TableDefinition] | None = None
        self._registration: Registration | None = None

    def define(self) -> None:
        """Make the table if it is not there. Raises ConfigError if it cannot hold topics; Problem if it cannot be stored."""
        attributes = (
            Attribute(ID, "ID", primary_key=True),
            Attribute(TYPE, "String"),
            Attribute(DATA, "Bytes"),
            Attribute(UPDATED, "Date", updated_time=True),
        )
        definition = TableDefinition(self._table, self._database, type_name=self._table, attributes=attributes)
        try:
            table = self._store.open_database(self._database).define_table(definition, only_new=True)
        except SchemaError as error:
            raise ConfigError(f"The table {self._database}.{self._table} of 'mqtt.freeTopics' cannot be made: {error}") from None
        fault = fault_of(table.definition)
        if fault is not None:
            raise ConfigError(
                f"The table {self._database}.{self._table} cannot be that of 'mqtt.freeTopics': {fault}. Name another one, or declare: {DECLARATION}"
            )

    @property
    def registration(self) -> Registration | None:
        """The table as a resource, the same one until its definition changes. None: it was dropped, or cannot hold topics any more."""
        database = self._store.databases.get(self._database)
        table = None if database is None else database.tables.get(self._table)
        if table is None:
            return None
        known = self._known
        if known is None or known[0] is not table or known[1] is not table.definition:
            self._known = (table, table.definition)
            self._registration = self._make(table) if fault_of(table.definition) is None else None
        return self._registration

    def _make(self, table: Table) -> Registration:
        resource: type[TableResource] = table_resource(
            table, self._store, self._queries, path=self._table, allow_full_scan=True, realtime=self._realtime
        )
        return Registration(ADDRESS, resource)


def open_free_topics(name: str, store: Store, queries: QueryCache, realtime: Realtime) -> FreeTopics:
    """The table of this name, made if it is not there. Raises what `FreeTopics.define` raises."""
    found = FreeTopics(name, store, queries, realtime)
    found.define()
    return found


def content_of(value: Any) -> tuple[bytes, str] | None:
    """(payload, content type) of a record or a message; None: it has no data."""
    data = value.get(DATA) if isinstance(value, dict) else None
    if not isinstance(data, bytes):
        return None
    kind = value.get(TYPE)
    return data, kind if isinstance(kind, str) and len(kind) <= LONGEST_TYPE and kind.isprintable() else ""
