"""Definitions of tables that come from another node (spec: replication §3).

They travel before the first entries that need them, and only add: a table that is missing is made as it is there, one that is here gets the attributes and the
indexes that it lacks. What both have and define differently stays as each has it, for its application may be about to change it.

One that was dropped here, and is written to there, is asked for:

    request `definitions`    [database, [name ...]]  ->  {name: definition} of those that there are, and are sent
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import msgspec

from svc.cluster.pieces import RequestRefused
from svc.cluster.wire import WireError
from svc.errors import SchemaError
from svc.store.database import Database
from svc.store.schema import Attribute, TableDefinition, definition_from_bytes, definition_to_bytes
from svc.store.table import Table
from svc.store.writing.unique_proof import UnprovedChange, prove

logger = logging.getLogger("svc.cluster")

DEFINITIONS = "definitions"  # a kind of requests
_decode_request = msgspec.msgpack.Decoder(tuple[str, list[str]]).decode
_decode_answer = msgspec.msgpack.Decoder(dict[str, bytes]).decode
_encode = msgspec.msgpack.Encoder().encode
_TRIES = 3  # to find that values are unique, while others write


def request_definitions(database: str, names: Iterable[str]) -> bytes:
    return _encode((database, list(names)))


def read_definitions(answer: bytes) -> dict[str, bytes]:
    """Raises WireError."""
    try:
        return _decode_answer(answer)
    except (msgspec.MsgspecError, ValueError) as error:
        raise WireError("The definitions of tables cannot be read") from error


class DefinitionAnswers:
    """`databases`: those that are replicated. `is_sent`: whether entries of a table are. `may_read`: whether a node may read our streams."""

    def __init__(
        self,
        databases: Callable[[str], Database | None],
        is_sent: Callable[[Table], bool],
        may_read: Callable[[str], bool] = lambda node: True,
    ) -> None:
        self._databases = databases
        self._is_sent = is_sent
        self._may_read = may_read

    async def answer(self, node: str, data: bytes) -> bytes:
        """A `requests.Answerer`."""
        try:
            name, names = _decode_request(data)
        except (msgspec.MsgspecError, ValueError):
            raise RequestRefused("this is no request for definitions") from None
        database = self._databases(name) if self._may_read(node) else None
        if database is None:
            raise RequestRefused("this node does not have the database")
        database.snapshot()  # what other processes have changed by now
        tables = [table for table in map(database.tables.get, names) if table is not None and self._is_sent(table)]
        return _encode({table.name: definition_to_bytes(table.definition) for table in tables})


async def adopt(database: Database, node: str, definitions: Mapping[str, bytes]) -> None:
    """Add what other definitions have to those of the database. What cannot be added is logged. Raises WireError for what is no definition; Overloaded,
    StoreFailure: try again."""
    for name, data in definitions.items():
        try:
            theirs = definition_from_bytes(data)
        except Exception as error:  # whatever decoding finds: it comes from elsewhere
            raise WireError(f"The definition of table {name} cannot be read") from error
        if theirs.name != name or theirs.database != database.name:
            raise WireError(f"The definition of table {name} is that of another one")
        try:
            await _adopt(database, replace(theirs, renamed_from=None))
        except SchemaError as error:
            logger.error("database %s: the definition of table %s at %s does not fit: %s", database.name, name, node, error)


async def _adopt(database: Database, theirs: TableDefinition) -> None:
    tries_left = _TRIES
    while True:
        tries_left -= 1
        own = database.tables.get(theirs.name)
        wanted = theirs if own is None else with_additions(own.definition, theirs)
        if own is not None and wanted is own.definition:
            return
        await database.store.queue_of(database).wait()
        proof = await prove(database, wanted) if tries_left else None
        try:
            if database.tables.get(theirs.name) is own and (own is None or with_additions(own.definition, theirs) == wanted):
                database.define_table(wanted, proof=proof)
                return
        except UnprovedChange:
            continue
        finally:
            if proof is not None:
                proof.close()


def with_additions(own: TableDefinition, theirs: TableDefinition) -> TableDefinition:
    """`own` with the attributes, indexes and structures that only `theirs` has; `own` itself if there are none.

    Raises SchemaError if records of the other table cannot be stored in this one: the primary key is another attribute, or has another type.
    """
    if own.primary_key != theirs.primary_key:
        raise SchemaError(f"{own.name} has the primary key {own.primary_key} here, and {theirs.primary_key} there")
    known = {attribute.name: attribute for attribute in own.attributes}
    structures = {structure.name: structure for structure in own.structures}
    for attribute in theirs.attributes:
        mine = known.get(attribute.name)
        if mine is None:
            known[attribute.name] = replace(attribute, renamed_from=None)
        elif attribute.name == own.primary_key and mine.type != attribute.type:
            raise SchemaError(f"The primary key of {own.name} is of type {mine.type} here, and {attribute.type} there")
        elif attribute.indexed and not mine.indexed and _has_same_values(mine, attribute):
            known[attribute.name] = replace(mine, indexed=True)
    for structure in theirs.structures:
        structures.setdefault(structure.name, structure)
    attributes = tuple(known.values())
    if attributes == own.attributes and len(structures) == len(own.structures):
        return own
    return replace(own, attributes=attributes, structures=tuple(structures.values()))


def _has_same_values(mine: Attribute, theirs: Attribute) -> bool:
    return (mine.type, mine.elements, mine.relationship) == (theirs.type, theirs.elements, theirs.relationship)
