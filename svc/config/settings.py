"""SETTINGS: one row per setting of the service. Parsing, validation, overrides, help and `docs/settings.md` follow from it.

Spec: configuration §2.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

LEVELS = ("trace", "debug", "info", "warn", "error", "fatal", "notify")

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class From:
    """A default that is the value of another setting, or a path below it."""

    name: str
    below: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `kind` names the parser in `values.PARSERS`; `default` is written as in the file (`"1d"`, a path below the root)."""

    name: str
    kind: str
    default: object
    sentence: str
    unit: str = ""
    null: bool = False
    """Null is a value of its own (a port that is not opened), not a way to write "unset"."""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    fields: tuple["Setting", ...] = ()

    def within(self, section: str) -> "Setting":
        """The same row with the section in front of its name, for messages about a field of a mapping."""
        return replace(self, name=f"{section}.{self.name}")


def _level(name: str, default: object, sentence: str) -> Setting:
    return Setting(name, "level", default, sentence, choices=LEVELS)


LOGGING_FIELDS = (
    _level("level", From("logging.level"), "Threshold of this log."),
    Setting("path", "path", From("logging.path"), "The log file; wins over `root`."),
    Setting("root", "path", From("logging.root"), "Directory of the log file."),
    Setting("tag", "string", None, "A tag for each line."),
    Setting("stdStreams", "bool", From("logging.stdStreams"), "Also to the standard streams."),
    Setting("rotation.enabled", "bool", From("logging.rotation.enabled"), "Rotation of this file."),
    Setting("rotation.compress", "bool", From("logging.rotation.compress"), "Compress rotated files."),
    Setting("rotation.interval", "rotation interval", From("logging.rotation.interval"), "Rotate at this age."),
    Setting("rotation.maxSize", "rotation size", From("logging.rotation.maxSize"), "Rotate beyond this size."),
    Setting("rotation.path", "path", From("logging.rotation.path"), "Directory of rotated files."),
    Setting("rotation.retention", "duration", From("logging.rotation.retention"), "Rotated files older than this are deleted."),
)
"""Fields of the `logging` section of a subsystem or component; unset ones are taken from the main `logging` section."""

ACCESS_LOG_FIELDS = (
    *LOGGING_FIELDS,
    Setting("timing", "bool", True, "Print the duration of each request."),
    Setting("headers", "bool", False, "Print the request headers, except `authorization` and `cookie`."),
    Setting("id", "bool", True, "Print a running number."),
)

_FAILURE_MODES = ("fail-closed", "fail-open")

VERIFICATION_FIELDS = (
    Setting("failureMode", "choice", "fail-closed", "Whether a client is refused when no answer can be obtained.", choices=_FAILURE_MODES),
    Setting("crl.enabled", "bool", True, "Look into revocation lists."),
    Setting("crl.timeout", "duration", 10_000, "To fetch a list.", "ms", low=0),
    Setting("crl.cacheTtl", "duration", 86_400_000, "How long a list is used before it is fetched again.", "ms", low=0),
    Setting(
        "crl.gracePeriod", "duration", 86_400_000, "How long a list is used beyond its end when no newer one can be fetched.", "ms", low=0
    ),
    Setting("crl.failureMode", "choice", None, "The same for lists alone.", choices=_FAILURE_MODES, null=True),
    Setting("ocsp.enabled", "bool", True, "Ask the authority about certificates that no list covers."),
    Setting("ocsp.timeout", "duration", 5000, "To get an answer.", "ms", low=0),
    Setting("ocsp.cacheTtl", "duration", 3_600_000, "How long an answer is remembered.", "ms", low=0),
    Setting("ocsp.errorCacheTtl", "duration", 300_000, "How long a missing answer is remembered.", "ms", low=0),
    Setting("ocsp.failureMode", "choice", None, "The same for answers alone.", choices=_FAILURE_MODES, null=True),
)
"""Fields of `certificateVerification`."""

MTLS_FIELDS = (
    Setting("user", "string", None, "Name of the user that every client with a valid certificate is.", null=True),
    Setting("required", "bool", False, "Refuse the handshake without a valid client certificate."),
    Setting(
        "certificateVerification",
        "switch",
        False,
        "Check whether client certificates are revoked, by lists (CRL), then by asking (OCSP).",
        fields=VERIFICATION_FIELDS,
    ),
)

TLS_FIELDS = (
    Setting("certificate", "path", "keys/certificate.pem", "The server's certificate chain, PEM."),
    Setting("privateKey", "path", "keys/privateKey.pem", "Its private key, PEM."),
    Setting("certificateAuthority", "path", "keys/ca.pem", "Authority that client certificates are checked against, PEM."),
    Setting("host", "string", None, "Host name this entry serves (SNI); default: the names in the certificate.", null=True),
    Setting("hosts", "strings", None, "Several host names this entry serves.", null=True),
    Setting("ciphers", "string", None, "Ciphers in OpenSSL's notation; default: the library's.", null=True),
    Setting("uses", "strings", None, "Purposes of this entry: `https`, `operations`, `mqtt`, `ca`; default: all.", null=True),
    Setting("logging", "mapping", None, "Own log of TLS events.", fields=LOGGING_FIELDS, null=True),
)


def _log(section: str, what: str) -> Setting:
    return Setting(
        f"{section}.logging", "mapping", None, f"Own log of {what}: level, file, tag, rotation.", fields=LOGGING_FIELDS, null=True
    )


SETTINGS: tuple[Setting, ...] = (
    # top level
    Setting("rootPath", "path", "~/svc", "The directory of this installation."),
    Setting("componentsRoot", "path", "components", "Holds one directory per application."),
    Setting("node.hostname", "string", "localhost", "Name of this node in analytics, certificates and the cluster."),
    Setting("node.url", "string", None, "Address of this node for others.", null=True),
    Setting("instances", "integer", 1, "Processes of this node. This version runs one: it is not started with another value.", low=1),
    # http
    Setting("http.port", "port", 9926, "Plain HTTP for applications; null: not opened.", null=True),
    Setting(
        "http.securePort",
        "port",
        9927,
        "HTTPS for applications; opened when certificate and key can be loaded; null: not opened.",
        null=True,
    ),
    Setting(
        "http.host",
        "addresses",
        "*",
        "Addresses at which these ports and those of applications are opened, one or a list: `*` (all, IPv4 and IPv6), `localhost`, IPv4 and IPv6"
        " addresses.",
    ),
    Setting(
        "http.trustedProxies",
        "networks",
        [],
        "Addresses and networks of proxies whose `Forwarded`, `X-Forwarded-For`, `-Proto` and `-Host` count, on the operations ports too.",
    ),
    Setting("http.cors", "bool", True, "Answer cross-origin requests of browsers."),
    Setting(
        "http.corsAccessList",
        "strings",
        None,
        "Origins whose pages may do so with their visitors' credentials, such as `https://shop.example` or `http://localhost:*`; "
        "null, `[null]` or `*` among them: all others too, without credentials.",
        null=True,
    ),
    Setting(
        "http.corsAccessControlAllowHeaders",
        "string",
        "Accept, Authorization, Content-Type, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, Prefer, Range, Idempotency-Key, "
        "Last-Event-ID, X-Requested-With",
        "Request headers a preflight answer allows.",
    ),
    Setting(
        "http.compressionThreshold",
        "size",
        1200,
        "Bodies longer than this, and streamed ones, are compressed if the client accepts it; 0: off.",
        "bytes",
        low=0,
    ),
    Setting("http.timeout", "duration", 120_000, "To receive a request and start its answer, then 408 or 503.", "ms", low=0),
    Setting("http.headersTimeout", "duration", 60_000, "To receive all headers.", "ms", low=0),
    Setting("http.keepAliveTimeout", "duration", 30_000, "After which an idle connection is closed.", "ms", low=0),
    Setting("http.maxHeaderSize", "size", 16_394, "Longer header sections get 431, longer request lines 414.", "bytes", low=256),
    Setting("http.maxRequestBodySize", "size", 1 << 30, "Larger bodies get 413.", "bytes", low=0),
    Setting("http.requestQueueLimit", "duration", 20_000, "Writes that would wait longer than this get 503.", "ms", low=0),
    Setting("http.mtls", "switch", False, "Client certificates on the HTTPS port.", fields=MTLS_FIELDS),
    Setting("http.http2", "bool", True, "HTTP/2: by ALPN on TLS, by prior knowledge on the plain port."),
    Setting("http.logging", "mapping", None, "Access log; its presence switches it on.", fields=ACCESS_LOG_FIELDS, null=True),
    # operationsApi
    Setting("operationsApi.network.port", "port", 9925, "Plain HTTP for operations; null: not opened.", null=True),
    Setting("operationsApi.network.securePort", "port", None, "HTTPS for operations; null: not opened.", null=True),
    Setting(
        "operationsApi.network.host",
        "addresses",
        LOOPBACK,
        "As `http.host`, for these ports; administration is for this machine until others are let in: `*`, or an address.",
    ),
    Setting("operationsApi.network.cors", "bool", True, "Answer cross-origin requests of browsers."),
    Setting("operationsApi.network.corsAccessList", "strings", ["*"], "As `http.corsAccessList`.", null=True),
    Setting(
        "operationsApi.network.domainSocket",
        "path",
        "operations-server",
        "Unix socket of the command line, used as super user; null: none.",
        null=True,
    ),
    Setting("operationsApi.network.timeout", "duration", From("http.timeout"), "As `http.timeout`.", "ms", low=0),
    Setting("operationsApi.network.headersTimeout", "duration", From("http.headersTimeout"), "As `http.headersTimeout`.", "ms", low=0),
    Setting(
        "operationsApi.network.keepAliveTimeout", "duration", From("http.keepAliveTimeout"), "As `http.keepAliveTimeout`.", "ms", low=0
    ),
    Setting("operationsApi.network.http2", "bool", From("http.http2"), "As `http.http2`."),
    Setting("operationsApi.network.mtls", "switch", From("http.mtls"), "As `http.mtls`.", fields=MTLS_FIELDS),
    Setting("operationsApi.tls", "mapping", None, "Certificate and keys of this server; default: `tls`.", fields=TLS_FIELDS, null=True),
    Setting(
        "operationsApi.componentFile.maxSize",
        "size",
        5_242_880,
        "Larger files of applications are not sent by `get_component_file`.",
        "bytes",
        low=0,
    ),
    Setting("operationsApi.sysInfo.network", "bool", True, "`system_information` includes the network."),
    Setting("operationsApi.sysInfo.disk", "bool", True, "`system_information` includes the disks."),
    Setting(
        "operationsApi.importRoots",
        "paths",
        ["import"],
        "Directories from which `csv_file_load` may read, and below which `export_local` may write, for callers that are not super users.",
    ),
    Setting(
        "operationsApi.importHosts",
        "hosts",
        [],
        "Hosts from which `csv_url_load` and S3 may load: names, `*.domain`, addresses, networks, `*` for all public ones, each with a port if need be."
        " Callers that are not super users load from no others; super users from public addresses too.",
    ),
    Setting(
        "operationsApi.metrics.access",
        "choice",
        "authenticated",
        "Who may read `/metrics`: super users and roles whose list of operations has `get_analytics` (`authenticated`), everyone (`open`), no one (`none`).",
        choices=("none", "authenticated", "open"),
    ),
    Setting(
        "operationsApi.metrics.maxLabelSets",
        "integer",
        2000,
        "Label sets that `/metrics` keeps of all recorded metrics, and tables that it shows; the rest counts as `other`.",
        low=1,
        high=10_000,
    ),
    # authentication
    Setting("authentication.authorizeLocal", "bool", False, "Requests from this machine to the application ports are made as super user."),
    Setting("authentication.cacheTTL", "duration", 30_000, "How long a verified credential is remembered.", "ms", low=0),
    Setting("authentication.enableSessions", "bool", True, "Logins by cookie."),
    Setting("authentication.operationTokenTimeout", "duration", "1d", "Life of an operation token.", "s", low=0),
    Setting("authentication.refreshTokenTimeout", "duration", "30d", "Life of a refresh token.", "s", low=0),
    Setting("authentication.hashFunction", "choice", "argon2id", "How new passwords are stored.", choices=("sha256", "argon2id")),
    Setting("authentication.passwordMinLength", "integer", 8, "Characters that a new password has at least.", low=1, high=128),
    Setting("authentication.cookie.domains", "strings", None, "Domains the session cookie is set for.", null=True),
    Setting(
        "authentication.cookie.expires",
        "duration",
        None,
        "Life of a session and its cookie; null: 30 days, renewed by use once a day.",
        "s",
        null=True,
    ),
    Setting("authentication.failureDelay", "bool", True, "Repeated failed logins are answered more and more slowly."),
    _log("authentication", "logins"),
    # tls: a mapping, or a list of them for several host names
    *(setting.within("tls") for setting in TLS_FIELDS),
    # mqtt
    Setting("mqtt.network.port", "port", 1883, "MQTT over TCP; null: not opened.", null=True),
    Setting("mqtt.network.securePort", "port", 8883, "MQTT over TLS, opened as `http.securePort`; null: not opened.", null=True),
    Setting("mqtt.network.host", "addresses", From("http.host"), "As `http.host`, for these ports."),
    Setting("mqtt.network.mtls", "switch", False, "Client certificates on the TLS port.", fields=MTLS_FIELDS),
    Setting("mqtt.webSocket", "bool", True, "MQTT over WebSocket on the `http` ports."),
    Setting("mqtt.requireAuthentication", "bool", True, "Clients must log in."),
    Setting("mqtt.maxPacketSize", "size", "100M", "Larger packets are refused.", "bytes", low=128),
    _log("mqtt", "MQTT"),
    # query
    Setting("query.maxRelatedRows", "integer", 5_000_000, "Related records that one query may read, or return; more are 400.", low=1),
    Setting(
        "query.maxBytes", "size", 256 << 20, "What one query may hold at one time, to sort or join; more is 400.", "bytes", low=1 << 20
    ),
    Setting("query.maxTime", "duration", 60_000, "Work of the loop on one query that joins, sorts or counts; more is 400.", "ms", low=1),
    # logging
    _level("logging.level", "warn", "Lines below this level are not written; `notify` always is."),
    Setting(
        "logging.format",
        "choice",
        "text",
        "How entries are written: `text`, or `json`, an object a line for programs.",
        choices=("text", "json"),
    ),
    Setting("logging.file", "bool", True, "Write the log file."),
    Setting("logging.root", "path", "log", "Directory of the log files."),
    Setting("logging.path", "path", From("logging.root", "svc.log"), "Full name of the log file; wins over `logging.root`."),
    Setting("logging.stdStreams", "bool", False, "Also to the standard streams; always when `logging.file` is false and in development."),
    Setting("logging.console", "bool", True, "The output of applications goes into the log."),
    Setting("logging.colors", "bool", True, "Colours on a terminal."),
    Setting("logging.auditLog", "bool", True, "Keep the history of tables."),
    Setting("logging.auditRetention", "duration", "3d", "How long that history is kept.", "ms", low=0),
    Setting("logging.external", "mapping", None, "Log of the applications: level, file, tag.", fields=LOGGING_FIELDS, null=True),
    Setting("logging.rotation.enabled", "bool", True, "Rotate log files when `interval` or `maxSize` is set."),
    Setting("logging.rotation.compress", "bool", False, "Compress rotated files with gzip."),
    Setting("logging.rotation.interval", "rotation interval", None, "Rotate at this age: a number and D, H or M (minutes).", null=True),
    Setting("logging.rotation.maxSize", "rotation size", "64M", "Rotate beyond this size: a number and K, M or G.", null=True),
    Setting("logging.rotation.path", "path", "log", "Directory of rotated files."),
    Setting("logging.rotation.retention", "duration", "1M", "Rotated files older than this are deleted.", "s", low=0),
    Setting("logging.auditAuthEvents.logFailed", "bool", False, "Log failed logins."),
    Setting("logging.auditAuthEvents.logSuccessful", "bool", False, "Log successful logins."),
    # storage, databases
    Setting("storage.path", "path", "database", "Directory of the databases."),
    Setting("storage.blobPaths", "paths", ["blobs"], "Directory of large values; several: spread evenly."),
    Setting("storage.backupPath", "path", "backup", "Directory of managed backups."),
    Setting(
        "storage.writeAsync",
        "bool",
        False,
        "Answer writes before they are on the disk: a power failure may lose the last ones, never consistency.",
    ),
    Setting("storage.maxTransactionQueueTime", "duration", "45s", "Writes that would wait longer than this get 503.", "s", low=0),
    Setting(
        "storage.maxSnapshotAge",
        "duration",
        "10m",
        "A result that is read for longer, and hinders the reuse of space, continues with newer records, or ends.",
        "s",
        low=1,
    ),
    Setting(
        "storage.maxSnapshotGrowth",
        "size",
        "512M",
        "The same for a result that keeps so much of the database from being used again.",
        "bytes",
        low=1 << 20,
    ),
    Setting("storage.caching", "bool", True, "Keep recently used records in memory."),
    Setting(
        "storage.compression",
        "switch",
        True,
        "Compress records above `threshold` (4 KB).",
        fields=(Setting("threshold", "size", 4096, "Smaller records are stored as they are."),),
    ),
    Setting("storage.compactOnStart", "bool", False, "Rewrite all databases once at the next start."),
    Setting("storage.compactOnStartKeepBackup", "bool", False, "Keep the old files in `backup/` when doing so."),
    Setting(
        "storage.reclamation.threshold",
        "number",
        0.4,
        "Free share of the volume below which log entries, rotated logs and expired records are kept for a shorter time.",
        low=0,
        high=1,
    ),
    Setting("storage.reclamation.interval", "duration", "1h", "How often it is checked.", "s", low=0),
    Setting(
        "storage.reclamation.evictionFactor",
        "number",
        100_000,
        "How readily records of tables with a source are evicted early then: more evicts more.",
        low=0,
    ),
    Setting("storage.debugLongTransactions", "bool", False, "A `warn` line for each transaction open over 5 seconds."),
    _log("storage", "the store"),
    Setting("databases.<db>.path", "path", From("storage.path"), "Directory of this database; set it before the database exists."),
    # analytics, tracing, localStudio
    Setting(
        "analytics.aggregatePeriod",
        "duration",
        60,
        "Metrics are aggregated this often; 0: raw rows only; -1: nothing is recorded.",
        "s",
        low=-1,
    ),
    Setting(
        "analytics.storageInterval", "integer", 10, "Every n-th aggregation measures table and volume sizes; 0: never.", "periods", low=0
    ),
    Setting("analytics.replicate", "bool", False, "Aggregates travel to the other nodes of a cluster."),
    _log("analytics", "analytics"),
    Setting("tracing.enabled", "bool", False, "OpenTelemetry traces of requests; needs the extra `otel`."),
    Setting(
        "tracing.endpoint",
        "string",
        None,
        "Address of the collector (`http://127.0.0.1:4318`), OTLP over HTTP; default: the environment's `OTEL_EXPORTER_OTLP_ENDPOINT`.",
        null=True,
    ),
    Setting(
        "tracing.sample",
        "number",
        None,
        "Share of the traces that begin here and are recorded, 0 to 1; default: the environment's `OTEL_TRACES_SAMPLER`, else all.",
        low=0,
        high=1,
        null=True,
    ),
    Setting("tracing.serviceName", "string", None, "Name of the service in traces; default: `OTEL_SERVICE_NAME`, else `svc`.", null=True),
    Setting("localStudio.enabled", "bool", True, "Web console at `/` of the operations port."),
    # replication: absent = a cluster of one
    Setting("replication.hostname", "string", From("node.hostname"), "Name of this node in the cluster."),
    Setting("replication.url", "string", From("node.url"), "Address of this node for the others.", null=True),
    Setting(
        "replication.databases", "any", "*", "Databases that are replicated: `*`, names, or mappings with `name`, `replicateTo`, `sharded`."
    ),
    Setting("replication.replicateTo", "any", None, "Number of nodes, or their names, that hold each record.", null=True),
    Setting(
        "replication.routes",
        "list",
        [],
        "The other nodes: addresses, or mappings with `hostname`, `port`, `startTime`, `revokedCertificates`.",
    ),
    Setting("replication.port", "port", None, "Plain exchange port, for development only.", null=True),
    Setting("replication.securePort", "port", 9933, "Exchange port.", null=True),
    Setting("replication.enableRootCAs", "bool", True, "Accept certificates of public authorities."),
    Setting("replication.blobTimeout", "duration", 120_000, "To receive a large value.", "ms", low=0),
    Setting("replication.blobSendDrainTimeout", "duration", 600_000, "To send a large value.", "ms", low=0),
    Setting("replication.failOver", "bool", True, "Fetch over another node when one is unreachable."),
    Setting("replication.shard", "any", None, "Shard of this node.", null=True),
    Setting("replication.copyTablesToCatchUp", "bool", True, "Copy whole tables when the stream no longer reaches back far enough."),
    Setting("replication.mtls.certificateVerification", "any", False, "Check whether certificates of nodes are revoked."),
    Setting(
        "replication.servers",
        "strings",
        None,
        "Addresses of a message engine that runs elsewhere; default: each node runs its own.",
        null=True,
    ),
    Setting("replication.credentials", "any", None, "How to log in there.", null=True),
    Setting("replication.streamReplicas", "integer", None, "Copies of each stream inside the engine.", null=True, low=1),
    Setting("replication.confirmTimeout", "duration", 30_000, "How long a write waits for the confirmations it asks for.", "ms", low=0),
    _log("replication", "replication"),
    # optional systems: absent = off
    Setting("mcp", "mapping", None, "Model Context Protocol server.", null=True),
    Setting("models", "mapping", None, "Models for embedding and generation.", null=True),
    Setting("scheduler", "mapping", None, "Jobs that run at given times.", null=True),
    Setting("waf", "mapping", None, "Filter for requests.", null=True),
)

BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}

WITHOUT_EFFECT: Mapping[str, str] = {
    "ignoreScripts": "Packages run no scripts here.",
    "serialization.bigInt": "Integers keep all their digits.",
    "http.sessionAffinity": "No request depends on the instance that answers it.",
    "storage.engine": "The engine is fixed.",
    "storage.noReadAhead": "Specific to another engine.",
    "storage.prefetchWrites": "Specific to another engine.",
    "storage.pageSize": "Specific to another engine.",
    "storage.overlappingSync": "Specific to another engine.",
    "storage.maxFreeSpaceToLoad": "Specific to another engine.",
    "storage.maxFreeSpaceToRetain": "Specific to another engine.",
    "storage.rocks": "Specific to another engine.",
    "databases.<db>.auditPath": "A database has one directory.",
    "databases.<db>.tables.<t>.path": "A database has one directory.",
    "threads.maxHeapMemory": "Memory is not divided between threads.",
    "threads.heapSnapshotNearLimit": "Memory is not divided between threads.",
    "threads.debug": "Use a Python debugger.",
    "threads.preload": "Use an application instead.",
    "threads.preloadRequire": "Use an application instead.",
    "applications.lockdown": "Applications run in the same interpreter.",
    "applications.moduleLoader": "Applications run in the same interpreter.",
    "applications.dependencyLoader": "Applications run in the same interpreter.",
    "applications.allowedSpawnCommands": "Applications run in the same interpreter.",
    "license.region": "There are no licences.",
    "license.mode": "There are no licences.",
    "storage.compression.dictionary": "Not used.",
    "clustering": "Belongs to a part that no longer exists.",
    "customFunctions_enabled": "Belongs to a part that no longer exists.",
    "ipc_server_port": "Belongs to a part that no longer exists.",
    "run_in_foreground": "Belongs to a part that no longer exists.",
    "node_env": "Belongs to a part that no longer exists.",
}
"""Names that other products, or earlier versions, have -> what became of them. They are told of, and ignored."""

SECTIONS = frozenset(name.partition(".")[0] for name in (*BY_NAME, *WITHOUT_EFFECT) if name in BY_NAME or "." in name)
"""The top-level names that are ours; any other that holds a mapping is a component."""

OPTIONAL_SECTIONS = frozenset({"replication"})
"""Sections that open nothing as long as they are absent."""

UNSERVED = frozenset({"mqtt", "replication", "localStudio", "analytics.replicate", "node.url"})
"""Sections and settings of parts that this version does not have."""

PORTS = tuple(setting.name for setting in SETTINGS if setting.kind == "port")

SWITCHED_OFF: dict[str, dict[str, object]] = {
    "mqtt": {"mqtt.network.port": None, "mqtt.network.securePort": None, "mqtt.webSocket": False},
    "localStudio": {"localStudio.enabled": False},
    "analytics": {"analytics.aggregatePeriod": -1},
    "tracing": {"tracing.enabled": False},
}
"""The values that `<section>: false` sets for a built-in section."""

LOOPBACK_ORIGINS = [f"{scheme}://{host}:*" for scheme in ("http", "https") for host in ("localhost", "127.0.0.1", "[::1]")]

ACCESS_LISTS = frozenset({"http.corsAccessList", "operationsApi.network.corsAccessList"})

DEVELOPMENT: dict[str, object] = {
    "authentication.authorizeLocal": True,
    "logging.level": "info",
    "logging.stdStreams": True,
    "http.corsAccessList": LOOPBACK_ORIGINS,
    "operationsApi.network.corsAccessList": LOOPBACK_ORIGINS,
    "http.host": LOOPBACK,
    "operationsApi.network.host": LOOPBACK,
    "instances": 1,
}
"""The values that `svc dev` sets for its run, and an installation with `DEFAULTS_MODE=dev` writes into the file (spec: configuration §4)."""

LEGACY: dict[str, str] = {
    "server_port": "operationsApi.network.port",
    "operationsApi_port": "operationsApi.network.port",
    "cors_on": "operationsApi.network.cors",
    "cors_accesslist": "operationsApi.network.corsAccessList",
    "cors_whitelist": "operationsApi.network.corsAccessList",
    "server_timeout_ms": "operationsApi.network.timeout",
    "server_keep_alive_timeout": "operationsApi.network.keepAliveTimeout",
    "server_headers_timeout": "operationsApi.network.headersTimeout",
    "local_studio_on": "localStudio.enabled",
    "log_level": "logging.level",
    "log_path": "logging.root",
    "log_to_file": "logging.file",
    "log_to_stdstreams": "logging.stdStreams",
    "operation_token_timeout": "authentication.operationTokenTimeout",
    "refresh_token_timeout": "authentication.refreshTokenTimeout",
    "custom_functions_port": "http.port",
    "custom_functions_directory": "componentsRoot",
    "customFunctions_root": "componentsRoot",
    "certificate": "tls.certificate",
    "private_key": "tls.privateKey",
    "certificate_authority": "tls.certificateAuthority",
    "operationsapi_root": "rootPath",
    "threads": "instances",
    "threads_count": "instances",
    "max_http_threads": "instances",
    "max_svc_processes": "instances",
    "http_threads": "instances",
    "disable_transaction_log": "logging.auditLog",
    "https_on": "operationsApi.network.securePort",
    **{
        f"customFunctions_network_{setting.name.removeprefix('http.')}": setting.name
        for setting in SETTINGS
        if setting.name.startswith("http.") and "." not in setting.name.removeprefix("http.")
    },
}
"""Former names -> today's (spec: configuration §2.12). `disable_transaction_log` is inverted, `https_on` moves the port."""


@cache
def override_names() -> dict[str, str]:
    """Lower-case name with underscores -> dotted name or legacy name: what the environment and the command line may set."""
    names = {old.lower(): old for old in LEGACY}
    names.update((setting.name.replace(".", "_").lower(), setting.name) for setting in SETTINGS if "<" not in setting.name)
    return names


@cache
def without_effect() -> dict[str, str]:
    """Lower-case name with underscores -> what became of the setting of that name (`WITHOUT_EFFECT`)."""
    return {name.replace(".", "_").lower(): sentence for name, sentence in WITHOUT_EFFECT.items() if "<" not in name}


def attribute_name(part: str) -> str:
    """The Python name of one part of a setting's name.

    >>> attribute_name("corsAccessList"), attribute_name("cacheTTL"), attribute_name("http2")
    ('cors_access_list', 'cache_ttl', 'http2')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part).lower()
