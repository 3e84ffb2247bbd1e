"""The tables of the system database (spec: security §5.1, rows §2.7, analytics §1, http §11.3, operations §4, §7, §11, §12)."""

from __future__ import annotations

import logging

from svc.store import Database, Store
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode

logger = logging.getLogger("svc.store")

SYSTEM = "system"
SYSTEM_WRITE = "The 'system' database, tables and records are used internally by svc and cannot be updated or removed."
USER_TABLE = "svc_user"
ROLE_TABLE = "svc_role"
SESSION_TABLE = "svc_session"
INFO_TABLE = "svc_info"
RAW_ANALYTICS_TABLE = "svc_raw_analytics"
ANALYTICS_TABLE = "svc_analytics"
ANALYTICS_HOST_TABLE = "svc_analytics_hostname"
JOB_TABLE = "svc_job"
NODE_TABLE = "svc_nodes"
CERTIFICATE_TABLE = "svc_certificate"
LICENSE_TABLE = "svc_license"
STATUS_TABLE = "svc_status"
DEPLOYMENT_TABLE = "svc_deployment"
LOADER_TABLE = "svc_dataloader_hash"
SCHEDULER_STATE_TABLE = "svc_scheduler_state"
SCHEDULER_HISTORY_TABLE = "svc_scheduler_history"
DURABLE_SESSION_TABLE = "svc_durable_session"
SESSION_WILL_TABLE = "svc_session_will"
TICKET_TABLE = "svc_ticket"
KEY_TABLE = "svc_key"
KEY_USE_TABLE = "svc_key_use"
IDENTITY_TABLE = "svc_identities"
LOGIN_USE_TABLE = "svc_login_use"
MAIL_TABLE = "svc_mail"
ACCOUNT_CODE_TABLE = "svc_account_code"
ACCOUNT_CHANGE_TABLE = "svc_account_change"

# Never part of any answer, for any caller (spec: security §1.3). `login_epoch` changes with the password and with deactivation, `kept_token` is the id of the
# token that changed the password last (`User.login_id`).
USER_SECRETS = frozenset({"password", "hash_function", "refresh_token", "login_epoch", "kept_token"})
KEY_SECRETS = frozenset({"secret_hash"})
MAIL_SECRETS = frozenset({"body"})  # the texts of mails, which have codes in them
SECRETS = {USER_TABLE: USER_SECRETS, KEY_TABLE: KEY_SECRETS, MAIL_TABLE: MAIL_SECRETS}
"""Of the tables of the system database."""


def node_certificate_name(node: str) -> str:
    """Of the record of `svc_certificate` with what vouches for a node; no certificate that an operator adds has such a name."""
    return f"{node}/replication"


SESSION_LOGIN = "__login__"
"""Attribute of a session: `User.login_id` at the login."""
SESSION_SINCE = "__since__"
"""Attribute of a session: when it began, ms since the epoch."""

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
    # Sealed, so that an undeclared attribute can neither hold a secret nor leave with one.
    _table(
        USER_TABLE,
        _key("username"),
        Attribute("password", "String"),
        Attribute("role", "String"),
        Attribute("active", "Boolean"),
        Attribute("hash_function", "String"),
        Attribute("refresh_token", "String"),
        Attribute("login_epoch", "String"),
        Attribute("kept_token", "String"),
        *_TIMES,
        sealed=True,
    ),
    _table(ROLE_TABLE, _key("id"), Attribute("role", "String"), Attribute("permission"), Attribute("access"), *_TIMES),
    _table(
        SESSION_TABLE,
        _key("id"),
        Attribute("user", "String"),
        Attribute(SESSION_LOGIN, "String"),
        Attribute(SESSION_SINCE, "Float"),
        audit=False,
    ),
    _table(
        TICKET_TABLE,
        _key("id"),
        Attribute("user", "String", indexed=True),
        Attribute(SESSION_LOGIN, "String"),
        audit=False,
        replicate=False,
    ),
    # API keys. `prefix`: the public part. `role`: id of the role that it has itself; or `user`, whose rights it has, and `account`: when that was made, the
    # first part of `User.login_id`. `expires`: ms since the epoch, null: never. `created_by`: name of a user.
    _table(
        KEY_TABLE,
        _key("name"),
        Attribute("prefix", "String", indexed=True),
        Attribute("secret_hash", "String"),
        Attribute("role", "String"),
        Attribute("user", "String", indexed=True),
        Attribute("account", "String"),
        Attribute("expires", "Float"),
        Attribute("created_by", "String"),
        *_TIMES,
        sealed=True,
    ),
    # Apart from the keys, for a change of these is a change of who may do what. `time`: of the last use, ms since the epoch.
    _table(KEY_USE_TABLE, _key("prefix"), Attribute("time", "Float"), audit=False),
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
    _table(ANALYTICS_HOST_TABLE, _key("id", "Any"), Attribute("hostname", "String"), audit=False),
    _table(
        JOB_TABLE,
        _key("id"),
        Attribute("type", "String"),
        Attribute("status", "String", indexed=True),
        Attribute("user", "String"),
        Attribute("created_datetime", "Float", indexed=True),  # this and the others: ms
        Attribute("start_datetime", "Float"),
        Attribute("end_datetime", "Float"),
        Attribute("message"),
        Attribute("result"),
        Attribute("progress"),
        Attribute("request"),
        Attribute("instance", "Int"),
        audit=False,
        replicate=False,
    ),
    _table(
        NODE_TABLE,
        _key("name"),
        Attribute("url", "String"),
        Attribute("routes"),
        Attribute("shard"),
        Attribute("subscriptions"),
        Attribute("replicates"),
        Attribute("revoked_certificates"),
        Attribute("start_time", "Float"),
        Attribute("system_info"),
        *_TIMES,
    ),
    # Public halves only: private keys are files (spec: operations §11).
    _table(
        CERTIFICATE_TABLE,
        _key("name"),
        Attribute("certificate", "String"),
        Attribute("private_key_name", "String"),
        Attribute("is_authority", "Boolean"),
        Attribute("is_self_signed", "Boolean"),
        Attribute("details"),
        Attribute("hosts"),
        Attribute("uses"),
        Attribute("ciphers", "String"),
        Attribute("owns_key", "Boolean"),  # the key file was made with it, and goes with it
        *_TIMES,
    ),
    _table(LICENSE_TABLE, _key("id")),
    _table(STATUS_TABLE, _key("id"), Attribute("status"), *_TIMES, audit=False, replicate=False),
    _table(
        DEPLOYMENT_TABLE,
        _key("deployment_id"),
        Attribute("project", "String", indexed=True),
        Attribute("package_identifier", "String"),
        Attribute("status", "String", indexed=True),
        Attribute("phase", "String"),
        Attribute("event_log"),
        Attribute("peer_results"),
        Attribute("payload_hash", "String"),
        Attribute("payload_size", "Long"),
        Attribute("started_at", "Float", indexed=True),
        Attribute("completed_at", "Float"),
        Attribute("user", "String"),
        Attribute("rollback_of", "String"),
        Attribute("error"),
        audit=False,
    ),
    # `hash`: of the record in the file. `stored`, `fields`: of what was made of it, in the table; `before`: the two before a change that may not be done.
    _table(
        LOADER_TABLE,
        _key("id"),
        Attribute("hash", "String"),
        Attribute("stored", "String"),
        Attribute("fields"),
        Attribute("before"),
        audit=False,
        replicate=False,
    ),
    # Times in ms; `duration` in seconds.
    _table(
        SCHEDULER_STATE_TABLE,
        _key("id"),
        Attribute("application", "String", indexed=True),
        Attribute("job", "String", indexed=True),
        Attribute("schedule", "String"),
        Attribute("anchor", "Float"),
        Attribute("claimed", "Float"),
        Attribute("status", "String", indexed=True),
        Attribute("owner", "String"),
        Attribute("heartbeat", "Float"),
        Attribute("catch_up", "Boolean"),
        Attribute("by_hand", "Boolean"),
        Attribute("started", "Float"),
        Attribute("ended", "Float"),
        Attribute("duration", "Float"),
        Attribute("error", "String"),
        Attribute("number", "Long"),
        audit=False,
    ),
    _table(
        SCHEDULER_HISTORY_TABLE,
        _key("id"),
        Attribute("application", "String", indexed=True),
        Attribute("job", "String", indexed=True),
        Attribute("number", "Long"),
        Attribute("scheduled_at", "Float"),
        Attribute("catch_up", "Boolean"),
        Attribute("by_hand", "Boolean"),
        Attribute("started", "Float", indexed=True),
        Attribute("ended", "Float"),
        Attribute("duration", "Float"),
        Attribute("status", "String", indexed=True),
        Attribute("error", "String"),
        Attribute("owner", "String"),
        audit=False,
        replicate=False,
    ),
    # `number`: of its rows in `$mqtt`, hexadecimal. `expiry`: seconds that it lasts after its connection; null: for good. `owner`: identity of the process to
    # which its client has connected last; so in the next table.
    _table(
        DURABLE_SESSION_TABLE,
        _key("id"),
        Attribute("user", "String"),
        Attribute("number", "String"),
        Attribute("expiry", "Float"),
        Attribute("owner", "String"),
        Attribute("subscriptions"),
        audit=False,
        replicate=False,
    ),
    _table(
        SESSION_WILL_TABLE,
        _key("id"),
        Attribute("topic", "String"),
        Attribute("data", "Bytes"),
        Attribute("qos", "Int"),
        Attribute("retain", "Boolean"),
        Attribute("user", "String"),
        Attribute("session", "String"),
        Attribute("owner", "String"),
        Attribute("properties", "Bytes"),
        audit=False,
        replicate=False,
    ),
    # `mail.outbox` says what each attribute is. Times in ms.
    _table(
        MAIL_TABLE,
        _key("id"),
        Attribute("message_id", "String"),
        Attribute("application", "String"),
        Attribute("template", "String"),
        Attribute("to", "String"),
        Attribute("recipient", "String", indexed=True),
        Attribute("body", "Bytes"),
        Attribute("status", "String", indexed=True),
        Attribute("created", "Float"),
        Attribute("due", "Float", indexed=True),
        Attribute("attempts", "Int"),
        Attribute("ended", "Float"),
        Attribute("retried", "Float"),
        Attribute("error", "String"),
        audit=False,
        replicate=False,
    ),
)


# Where an application has accounts: `accounts.codes` and `accounts.pairs` say what each attribute is.
ACCOUNT_TABLES: tuple[TableDefinition, ...] = (
    _table(
        ACCOUNT_CODE_TABLE,
        _key("id"),
        Attribute("sealed", "Bytes"),
        audit=False,
    ),
    _table(
        ACCOUNT_CHANGE_TABLE,
        _key("id"),
        Attribute("kind", "String"),
        Attribute("username", "String"),
        Attribute("login_epoch", "String"),
        Attribute("table", "String"),
        Attribute("record", "Bytes"),
        Attribute("owner", "String"),
        audit=False,
        replicate=False,
    ),
    # Who is whom at providers of OpenID Connect: `svc.accounts.openid.identities`.
    _table(
        IDENTITY_TABLE,
        _key("id"),
        Attribute("issuer", "String"),
        Attribute("subject", "String"),
        Attribute("provider", "String"),
        Attribute("user", "String", indexed=True),
        Attribute("account", "String"),
        Attribute("email", "String"),
        *_TIMES,
        sealed=True,
    ),
    _table(LOGIN_USE_TABLE, _key("id"), sealed=True, audit=False, replicate=False),
)


def ensure_account_tables(store: Store) -> None:
    """Bring the tables that accounts need to the definitions above. Idempotent. Commits."""
    for definition in ACCOUNT_TABLES:
        store.databases[SYSTEM].define_table(definition)


def ensure_system(store: Store) -> Database:
    """Open the system database and bring its tables to the definitions above. Idempotent; run at every start. Commits.

    Sessions of versions that did not bind them to an account are removed: they would never expire, and their cookies are not read any more.
    """
    database = store.open_database(SYSTEM)
    known = database.tables.get(SESSION_TABLE)
    has_unbound = known is not None and SESSION_LOGIN not in known.attributes
    for definition in SYSTEM_TABLES:
        database.define_table(definition)
    if has_unbound:
        _remove_unbound_sessions(store, database)
    return database


def _remove_unbound_sessions(store: Store, database: Database) -> None:
    table = database.tables[SESSION_TABLE]
    transaction = store.begin()
    count = 0
    for _, raw in table.scan(database.snapshot()):
        record = decode(raw)
        if record.get(SESSION_LOGIN) is None:
            transaction.delete(table, record[table.primary_key])
            count += 1
    store.commit_now(transaction)
    if count:
        logger.warning(
            "%d sessions of a former version of svc have ended, since they belong to no account: their users log in again", count
        )
