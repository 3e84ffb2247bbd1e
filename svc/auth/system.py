"""The tables of the system database (contract: security §5.1, analytics §1, http §11.3)."""

from __future__ import annotations

from svc.store import Database, Store
from svc.store.schema import Attribute, TableDefinition

SYSTEM = "system"
USER_TABLE = "svc_user"
ROLE_TABLE = "svc_role"
SESSION_TABLE = "svc_session"
INFO_TABLE = "svc_info"
RAW_ANALYTICS_TABLE = "svc_raw_analytics"
ANALYTICS_TABLE = "svc_analytics"

# Never part of any answer, whoever asks (security §1.3).
USER_SECRETS = frozenset({"password", "hash_function", "refresh_token"})

_TIMES = (
    Attribute("__createdtime__", "Float", created_time=True),
    Attribute("__updatedtime__", "Float", updated_time=True),
)


def _table(
    name: str, key: Attribute, *attributes: Attribute, sealed: bool = False, audit: bool | None = None, replicate: bool = True
) -> TableDefinition:
    return TableDefinition(
        name, SYSTEM, type_name=name, attributes=(key, *attributes), primary_key=key.name, sealed=sealed, audit=audit, replicate=replicate
    )


def _key(name: str, type_: str = "String") -> Attribute:
    return Attribute(name, type_, primary_key=True)


SYSTEM_TABLES: tuple[TableDefinition, ...] = (
    # Sealed, so that an attribute nobody thought of can neither hold a secret nor leave with one.
    _table(
        USER_TABLE,
        _key("username"),
        Attribute("password", "String"),
        Attribute("role", "String"),
        Attribute("active", "Boolean"),
        Attribute("hash_function", "String"),
        Attribute("refresh_token", "String"),
        *_TIMES,
        sealed=True,
    ),
    _table(ROLE_TABLE, _key("id"), Attribute("role", "String"), Attribute("permission"), Attribute("access"), *_TIMES),
    _table(SESSION_TABLE, _key("id"), Attribute("user", "String"), audit=False),
    _table(INFO_TABLE, _key("id"), Attribute("version", "String"), Attribute("time", "Float"), replicate=False),
    _table(
        RAW_ANALYTICS_TABLE,
        _key("id", "Float"),
        Attribute("time", "Long"),
        Attribute("period", "Float"),
        Attribute("metrics", elements=True),
        Attribute("threadId", "Int"),
        Attribute("totalBytesProcessed", "Float"),
        audit=False,
        replicate=False,
    ),
    # Its other attributes depend on the metric; the table is open and takes them all.
    _table(
        ANALYTICS_TABLE,
        _key("id", "Float"),
        Attribute("time", "Long"),
        Attribute("period", "Long"),
        Attribute("metric", "String"),
        Attribute("path", "String"),
        Attribute("method", "String"),
        Attribute("type", "String"),
        Attribute("node", "String"),
        replicate=False,
    ),
)


def ensure_system(store: Store) -> Database:
    """Open the system database and bring its tables to the definitions above. Idempotent; run at every start."""
    database = store.open_database(SYSTEM)
    for definition in SYSTEM_TABLES:
        database.define_table(definition)
    return database
