"""The settings: one class for each section of the configuration file, one line for each setting (spec: configuration §2).

A line declares what the setting is in the file (its kind, default, limits and sentence: `setting`) and what it is in Python:
`config.http.max_header_size`. Parsing, validation, overrides, help and `docs/settings.md` follow from it (`svc.config.settings`).

The attributes are the names of the file in Python's spelling (`corsAccessList` -> `cors_access_list`); their types follow from the kind:
durations are seconds (float), sizes bytes (int), paths absolute. None: the setting is null or not given.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args

from svc.config.hosts import HostPattern, Network
from svc.config.setting import ACCESS_LOG_FIELDS, LEVELS, LOGGING_FIELDS, LOOPBACK, MTLS_FIELDS, From, Setting, setting

Switch = bool | Mapping[str, Any]
"""A setting that is true, false or a mapping of the fields that are given."""

Fields = Mapping[str, Any]
"""The given fields of a mapping, by dotted name: `{"level": "info", "rotation.maxSize": 1024}`."""


class Section:
    """Base of the sections: read-only attributes."""

    def __init__(self, values: Mapping[str, object]) -> None:
        vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("the configuration is read-only")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


SectionType = TypeVar("SectionType", bound=Section)


def _section_in(annotation: object) -> type[Section] | None:
    """The class of the section that an attribute of this type holds; None: it holds a setting."""
    kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Section)), None)


def _name_in_file(attribute: str) -> str:
    """`cors_access_list` -> `corsAccessList`"""
    first, *others = attribute.split("_")
    return first + "".join(map(str.capitalize, others))


def declared(kind: type[Section], prefix: str = "") -> Iterator[Setting]:
    """The settings of a section and of those inside, in the order they are written in, with `prefix` before their names."""
    for attribute, annotation in kind.__annotations__.items():
        inner = _section_in(annotation)
        if inner is not None:
            yield from declared(inner, f"{prefix}{_name_in_file(attribute)}.")
        else:
            row: Setting = vars(kind)[attribute]
            yield replace(row, name=f"{prefix}{row.name or _name_in_file(attribute)}")


def read_section(kind: type[SectionType], values: Mapping[str, Any], prefix: str = "") -> SectionType:
    """A section with its values. `values`: of all settings, by dotted name; `prefix`: the path of the section."""
    return kind(section_values(kind, values, prefix))


def section_values(kind: type[Section], values: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Attribute -> value or section."""
    found: dict[str, object] = {}
    for attribute, annotation in kind.__annotations__.items():
        inner = _section_in(annotation)
        if inner is not None:
            found[attribute] = read_section(inner, values, f"{prefix}{_name_in_file(attribute)}.")
        else:
            found[attribute] = values[f"{prefix}{vars(kind)[attribute].name or _name_in_file(attribute)}"]
    return found


def _own_log(what: str) -> Any:
    return setting("mapping", None, f"Own log of {what}: level, file, tag, rotation.", fields=LOGGING_FIELDS, null=True)


class TlsSection(Section):
    """`tls`"""

    certificate: Path = setting("path", "keys/certificate.pem", "The server's certificate chain, PEM.")
    private_key: Path = setting("path", "keys/privateKey.pem", "Its private key, PEM.")
    certificate_authority: Path = setting("path", "keys/ca.pem", "Authority that client certificates are checked against, PEM.")
    host: str | None = setting("string", None, "Host name this entry serves (SNI); default: the names in the certificate.", null=True)
    hosts: tuple[str | None, ...] | None = setting("strings", None, "Several host names this entry serves.", null=True)
    ciphers: str | None = setting("string", None, "Ciphers in OpenSSL's notation; default: the library's.", null=True)
    uses: tuple[str | None, ...] | None = setting(
        "strings", None, "Purposes of this entry: `https`, `operations`, `mqtt`, `ca`; default: all.", null=True
    )
    logging: Fields | None = setting("mapping", None, "Own log of TLS events.", fields=LOGGING_FIELDS, null=True)


TLS_FIELDS = tuple(declared(TlsSection))


class NodeSection(Section):
    """`node`"""

    hostname: str = setting("string", "localhost", "Name of this node in analytics, certificates and the cluster.")
    url: str | None = setting("string", None, "Address of this node for others.", null=True)


class HttpSection(Section):
    """`http`"""

    port: int | None = setting("port", 9926, "Plain HTTP for applications; null: not opened.", null=True)
    secure_port: int | None = setting(
        "port", 9927, "HTTPS for applications; opened when certificate and key can be loaded; null: not opened.", null=True
    )
    host: tuple[str, ...] = setting(
        "addresses",
        "*",
        "Addresses at which these ports and those of applications are opened, one or a list: `*` (all, IPv4 and IPv6), `localhost`, IPv4 and IPv6"
        " addresses.",
    )
    trusted_proxies: tuple[Network, ...] = setting(
        "networks",
        [],
        "Addresses and networks of proxies whose `Forwarded`, `X-Forwarded-For`, `-Proto` and `-Host` count, on the operations ports too.",
    )
    cors: bool = setting("bool", True, "Answer cross-origin requests of browsers.")
    cors_access_list: tuple[str | None, ...] | None = setting(
        "strings",
        None,
        "Origins whose pages may do so with their visitors' credentials, such as `https://shop.example` or `http://localhost:*`; "
        "null, `[null]` or `*` among them: all others too, without credentials.",
        null=True,
    )
    cors_access_control_allow_headers: str = setting(
        "string",
        "Accept, Authorization, Content-Type, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, Prefer, Range, Idempotency-Key, "
        "Last-Event-ID, X-Requested-With",
        "Request headers a preflight answer allows.",
    )
    compression_threshold: int = setting(
        "size", 1200, "Bodies longer than this, and streamed ones, are compressed if the client accepts it; 0: off.", "bytes", low=0
    )
    timeout: float = setting("duration", 120_000, "To receive a request and start its answer, then 408 or 503.", "ms", low=0)
    headers_timeout: float = setting("duration", 60_000, "To receive all headers.", "ms", low=0)
    keep_alive_timeout: float = setting("duration", 30_000, "After which an idle connection is closed.", "ms", low=0)
    max_header_size: int = setting("size", 16_394, "Longer header sections get 431, longer request lines 414.", "bytes", low=256)
    max_request_body_size: int = setting("size", 1 << 30, "Larger bodies get 413.", "bytes", low=0)
    request_queue_limit: float = setting("duration", 20_000, "Writes that would wait longer than this get 503.", "ms", low=0)
    request_age_limit: float = setting(
        "duration",
        150,
        "Under overload, reads that have waited longer than this get 503, writes from two thirds of it on, SQL and loads from a third; 0: none do.",
        "ms",
        low=0,
    )
    mtls: Switch = setting("switch", False, "Client certificates on the HTTPS port.", fields=MTLS_FIELDS)
    http2: bool = setting("bool", True, "HTTP/2: by ALPN on TLS, by prior knowledge on the plain port.")
    logging: Fields | None = setting("mapping", None, "Access log; its presence switches it on.", fields=ACCESS_LOG_FIELDS, null=True)


class NetworkSection(Section):
    """`operationsApi.network`"""

    port: int | None = setting("port", 9925, "Plain HTTP for operations; null: not opened.", null=True)
    secure_port: int | None = setting("port", None, "HTTPS for operations; null: not opened.", null=True)
    host: tuple[str, ...] = setting(
        "addresses",
        LOOPBACK,
        "As `http.host`, for these ports; administration is for this machine until others are let in: `*`, or an address.",
    )
    cors: bool = setting("bool", True, "Answer cross-origin requests of browsers.")
    cors_access_list: tuple[str | None, ...] | None = setting("strings", ["*"], "As `http.corsAccessList`.", null=True)
    domain_socket: Path | None = setting(
        "path", "operations-server", "Unix socket of the command line, used as super user; null: none.", null=True
    )
    timeout: float = setting("duration", From("http.timeout"), "As `http.timeout`.", "ms", low=0)
    headers_timeout: float = setting("duration", From("http.headersTimeout"), "As `http.headersTimeout`.", "ms", low=0)
    keep_alive_timeout: float = setting("duration", From("http.keepAliveTimeout"), "As `http.keepAliveTimeout`.", "ms", low=0)
    http2: bool = setting("bool", From("http.http2"), "As `http.http2`.")
    mtls: Switch = setting("switch", From("http.mtls"), "As `http.mtls`.", fields=MTLS_FIELDS)


class ComponentFileSection(Section):
    """`operationsApi.componentFile`"""

    max_size: int = setting("size", 5_242_880, "Larger files of applications are not sent by `get_component_file`.", "bytes", low=0)


class SystemInformationSection(Section):
    """`operationsApi.sysInfo`"""

    network: bool = setting("bool", True, "`system_information` includes the network.")
    disk: bool = setting("bool", True, "`system_information` includes the disks.")


class MetricsSection(Section):
    """`operationsApi.metrics`"""

    access: str = setting(
        "choice",
        "authenticated",
        "Who may read `/metrics`: super users and roles whose list of operations has `get_analytics` (`authenticated`), everyone (`open`), no one (`none`).",
        choices=("none", "authenticated", "open"),
    )
    max_label_sets: int = setting(
        "integer",
        2000,
        "Label sets that `/metrics` keeps of all recorded metrics, and tables that it shows; the rest counts as `other`.",
        low=1,
        high=10_000,
    )


class OperationsApiSection(Section):
    """`operationsApi`"""

    network: NetworkSection
    tls: Fields | None = setting("mapping", None, "Certificate and keys of this server; default: `tls`.", fields=TLS_FIELDS, null=True)
    component_file: ComponentFileSection
    sys_info: SystemInformationSection
    import_roots: tuple[Path, ...] = setting(
        "paths",
        ["import"],
        "Directories from which `csv_file_load` may read, and below which `export_local` may write, for callers that are not super users.",
    )
    import_hosts: tuple[HostPattern, ...] = setting(
        "hosts",
        [],
        "Hosts from which `csv_url_load` and S3 may load: names, `*.domain`, addresses, networks, `*` for all public ones, each with a port if need be."
        " Callers that are not super users load from no others; super users from public addresses too.",
    )
    metrics: MetricsSection


class CookieSection(Section):
    """`authentication.cookie`"""

    domains: tuple[str | None, ...] | None = setting("strings", None, "Domains the session cookie is set for.", null=True)
    expires: float | None = setting(
        "duration", None, "Life of a session and its cookie; null: 30 days, renewed by use once a day.", "s", null=True
    )


class AuthenticationSection(Section):
    """`authentication`"""

    authorize_local: bool = setting("bool", False, "Requests from this machine to the application ports are made as super user.")
    cache_ttl: float = setting("duration", 30_000, "How long a verified credential is remembered.", "ms", low=0, name="cacheTTL")
    enable_sessions: bool = setting("bool", True, "Logins by cookie.")
    operation_token_timeout: float = setting("duration", "1d", "Life of an operation token.", "s", low=0)
    refresh_token_timeout: float = setting("duration", "30d", "Life of a refresh token.", "s", low=0)
    hash_function: str = setting("choice", "argon2id", "How new passwords are stored.", choices=("sha256", "argon2id"))
    password_min_length: int = setting("integer", 8, "Characters that a new password has at least.", low=1, high=128)
    cookie: CookieSection
    failure_delay: bool = setting("bool", True, "Repeated failed logins are answered more and more slowly.")
    logging: Fields | None = _own_log("logins")


class MqttNetworkSection(Section):
    """`mqtt.network`"""

    port: int | None = setting(
        "port",
        1883,
        "MQTT over TCP; null: not opened. Where it is not named, and another program has it, the start goes on without.",
        null=True,
    )
    secure_port: int | None = setting("port", 8883, "MQTT over TLS, opened as `http.securePort`; null: not opened.", null=True)
    host: tuple[str, ...] = setting("addresses", From("http.host"), "As `http.host`, for these ports.")
    mtls: Switch = setting("switch", False, "Client certificates on the TLS port.", fields=MTLS_FIELDS)


class MqttSection(Section):
    """`mqtt`"""

    network: MqttNetworkSection
    web_socket: bool = setting("bool", True, "MQTT over WebSocket on the `http` ports.")
    require_authentication: bool = setting("bool", True, "Clients must log in.")
    max_packet_size: int = setting("size", "100M", "Larger packets are refused.", "bytes", low=128)
    max_catch_up: int | None = setting(
        "integer",
        None,
        "Changes in the log that a session reads when its client comes back; of those before it gets the current records. null: all that the log has.",
        null=True,
        low=0,
    )
    free_topics: str | None = setting(
        "table",
        None,
        "The table, `data.Topic`, whose records are the topics that are no resources; made if it is not there. null: there are no such topics.",
        null=True,
    )
    logging: Fields | None = setting(
        "mapping",
        None,
        "Log of clients and of the messages that are refused; its presence switches it on.",
        fields=LOGGING_FIELDS,
        null=True,
    )


class QuerySection(Section):
    """`query`"""

    max_related_rows: int = setting("integer", 5_000_000, "Related records that one query may read, or return; more are 400.", low=1)
    max_bytes: int = setting("size", 256 << 20, "What one query may hold at one time, to sort or join; more is 400.", "bytes", low=1 << 20)
    max_time: float = setting("duration", 60_000, "Work of the loop on one query that joins, sorts or counts; more is 400.", "ms", low=1)


class SqlSection(Section):
    """`sql`"""

    access: str = setting(
        "choice",
        "super_users",
        "Who may use `/sql` on the `http` ports: super users, everyone by the rights of their role (`roles`), no one (`none`). It reads and writes all"
        " tables, also those that no application exports, and asks no code of an application.",
        choices=("none", "super_users", "roles"),
    )
    max_time: float = setting("duration", 10_000, "Work on one statement; more is 400.", "ms", low=1)
    max_memory: int = setting("size", 64 << 20, "What one statement may hold at one time; more is 400.", "bytes", low=1 << 20)
    max_rows: int = setting("integer", 100_000, "Rows of an answer to a statement that is not streamed; more are 400.", low=1)
    max_length: int = setting("integer", 65_536, "Characters of a statement; more are 400.", low=1, high=1 << 20)


class RotationSection(Section):
    """`logging.rotation`"""

    enabled: bool = setting("bool", True, "Rotate log files when `interval` or `maxSize` is set.")
    compress: bool = setting("bool", False, "Compress rotated files with gzip.")
    interval: int | None = setting("rotation interval", None, "Rotate at this age: a number and D, H or M (minutes).", null=True)
    max_size: int | None = setting("rotation size", "64M", "Rotate beyond this size: a number and K, M or G.", null=True)
    path: Path = setting("path", "log", "Directory of rotated files.")
    retention: float = setting("duration", "1M", "Rotated files older than this are deleted.", "s", low=0)


class AuthEventsSection(Section):
    """`logging.auditAuthEvents`"""

    log_failed: bool = setting("bool", False, "Log failed logins.")
    log_successful: bool = setting("bool", False, "Log successful logins.")


class LoggingSection(Section):
    """`logging`"""

    level: str = setting("level", "warn", "Lines below this level are not written; `notify` always is.", choices=LEVELS)
    format: str = setting(
        "choice", "text", "How entries are written: `text`, or `json`, an object a line for programs.", choices=("text", "json")
    )
    file: bool = setting("bool", True, "Write the log file.")
    root: Path = setting("path", "log", "Directory of the log files.")
    path: Path = setting("path", From("logging.root", "svc.log"), "Full name of the log file; wins over `logging.root`.")
    std_streams: bool = setting("bool", False, "Also to the standard streams; always when `logging.file` is false and in development.")
    console: bool = setting("bool", True, "The output of applications goes into the log.")
    colors: bool = setting("bool", True, "Colours on a terminal.")
    audit_log: bool = setting("bool", True, "Keep the history of tables.")
    audit_retention: float = setting("duration", "3d", "How long that history is kept.", "ms", low=0)
    external: Fields | None = setting("mapping", None, "Log of the applications: level, file, tag.", fields=LOGGING_FIELDS, null=True)
    rotation: RotationSection
    audit_auth_events: AuthEventsSection


class ReclamationSection(Section):
    """`storage.reclamation`"""

    threshold: float = setting(
        "number",
        0.4,
        "Free share of the volume below which log entries, rotated logs and expired records are kept for a shorter time.",
        low=0,
        high=1,
    )
    interval: float = setting("duration", "1h", "How often it is checked.", "s", low=0)
    eviction_factor: float = setting(
        "number", 100_000, "How readily records of tables with a source are evicted early then: more evicts more.", low=0
    )


class StorageSection(Section):
    """`storage`"""

    path: Path = setting("path", "database", "Directory of the databases.")
    blob_paths: tuple[Path, ...] = setting("paths", ["blobs"], "Directory of large values; several: spread evenly.")
    backup_path: Path = setting("path", "backup", "Directory of managed backups.")
    write_async: bool = setting(
        "bool", False, "Answer writes before they are on the disk: a power failure may lose the last ones, never consistency."
    )
    max_transaction_queue_time: float = setting("duration", "45s", "Writes that would wait longer than this get 503.", "s", low=0)
    max_snapshot_age: float = setting(
        "duration",
        "10m",
        "A result that is read for longer, and hinders the reuse of space, continues with newer records, or ends.",
        "s",
        low=1,
    )
    max_snapshot_growth: int = setting(
        "size", "512M", "The same for a result that keeps so much of the database from being used again.", "bytes", low=1 << 20
    )
    caching: bool = setting("bool", True, "Keep recently used records in memory.")
    compression: Switch = setting(
        "switch",
        True,
        "Compress records above `threshold` (4 KB).",
        fields=(Setting("threshold", "size", 4096, "Smaller records are stored as they are."),),
    )
    compact_on_start: bool = setting("bool", False, "Rewrite all databases once at the next start.")
    compact_on_start_keep_backup: bool = setting("bool", False, "Keep the old files in `backup/` when doing so.")
    reclamation: ReclamationSection
    debug_long_transactions: bool = setting("bool", False, "A `warn` line for each transaction open over 5 seconds.")
    logging: Fields | None = _own_log("the store")


class AnalyticsSection(Section):
    """`analytics`"""

    aggregate_period: float = setting(
        "duration", 60, "Metrics are aggregated this often; 0: raw rows only; -1: nothing is recorded.", "s", low=-1
    )
    storage_interval: int = setting("integer", 10, "Every n-th aggregation measures table and volume sizes; 0: never.", "periods", low=0)
    replicate: bool = setting("bool", False, "The other nodes get the aggregates of this one.")
    logging: Fields | None = _own_log("analytics")


class TracingSection(Section):
    """`tracing`"""

    enabled: bool = setting("bool", False, "OpenTelemetry traces of requests; needs the extra `otel`.")
    endpoint: str | None = setting(
        "string",
        None,
        "Address of the collector (`http://127.0.0.1:4318`), OTLP over HTTP; default: the environment's `OTEL_EXPORTER_OTLP_ENDPOINT`.",
        null=True,
    )
    sample: float | None = setting(
        "number",
        None,
        "Share of the traces that begin here and are recorded, 0 to 1; default: the environment's `OTEL_TRACES_SAMPLER`, else all.",
        low=0,
        high=1,
        null=True,
    )
    service_name: str | None = setting(
        "string", None, "Name of the service in traces; default: `OTEL_SERVICE_NAME`, else `svc`.", null=True
    )


class LocalStudioSection(Section):
    """`localStudio`"""

    enabled: bool = setting("bool", True, "Web console at `/` of the operations port.")


class ReplicationMtlsSection(Section):
    """`replication.mtls`"""

    certificate_verification: Any = setting(
        "any", False, "Certificates of nodes are always checked against the serial numbers that the registry has as revoked."
    )


class ReplicationSection(Section):
    """`replication`"""

    hostname: str = setting("string", From("node.hostname"), "Name of this node among the others: one of the names of its certificate.")
    url: str | None = setting(
        "string",
        From("node.url"),
        "Address of this node for the others, such as `wss://server-two:9933`; default: `wss://<hostname>:<port>`.",
        null=True,
    )
    databases: Any = setting("any", "*", "Databases that are replicated: `*`, or names.")
    replicate_to: Any = setting("any", None, "Number of nodes that hold each record: every node holds all.", null=True)
    routes: tuple[Any, ...] = setting(
        "list",
        [],
        "Other nodes, beside those that `add_node` makes known: their names, or mappings with `hostname`, `port`, `name`, `revokedCertificates`.",
    )
    port: int | None = setting("port", None, "Plain exchange port, for development only: nodes are known by their address.", null=True)
    secure_port: int | None = setting("port", 9933, "Exchange port, with TLS.", null=True)
    enable_root_cas: bool = setting("bool", True, "Accept certificates of public authorities.", name="enableRootCAs")
    blob_timeout: float = setting("duration", 120_000, "To receive a large value.", "ms", low=0)
    blob_send_drain_timeout: float = setting("duration", 600_000, "To send a large value.", "ms", low=0)
    fail_over: bool = setting("bool", True, "Fetch over another node when one is unreachable.")
    shard: Any = setting(
        "any", None, "Number of the shard of this node, 0 to 65535: it is registered, and applications see it among the shards.", null=True
    )
    copy_tables_to_catch_up: bool = setting("bool", True, "Copy whole tables when the stream no longer reaches back far enough.")
    mtls: ReplicationMtlsSection
    program: Path | None = setting(
        "path", None, "The engine's program; default: `nats-server` of the installed packages, or in `PATH`.", null=True
    )
    servers: tuple[str | None, ...] | None = setting(
        "strings", None, "Addresses of a message engine that runs elsewhere; default: each node runs its own.", null=True
    )
    credentials: Any = setting("any", None, "How to log in there.", null=True)
    stream_replicas: int | None = setting("integer", None, "Copies of each stream inside the engine.", null=True, low=1)
    confirm_timeout: float = setting("duration", 30_000, "How long a write waits for the confirmations it asks for.", "ms", low=0)
    logging: Fields | None = _own_log("replication")


class MailSection(Section):
    """`mail`"""

    host: str | None = setting(
        "string", None, "The SMTP server that takes mails; null: there is none, which `svc dev` allows: it keeps mails instead.", null=True
    )
    port: int | None = setting(
        "integer", None, "Its port; default: 587 with `starttls`, 465 with `implicit`, 25 with `none`.", null=True, low=1, high=65_535
    )
    tls: str = setting(
        "choice",
        "starttls",
        "`starttls`: the connection becomes one of TLS, or no mail is sent; `implicit`: it is one from the start; `none`: it stays plain.",
        choices=("starttls", "implicit", "none"),
    )
    certificate_authority: Path | None = setting(
        "path", None, "Authorities that the certificate of the server is checked against, PEM; null: those of the system.", null=True
    )
    username: str | None = setting("string", None, "To log in there; null: without.", null=True)
    password: str | None = setting("string", None, "Its password; no operation shows it.", null=True)
    sender: tuple[str, str] | None = setting(
        "mailbox", None, "The sender of mails: an address, or `Name <address>`.", null=True, name="from"
    )
    hourly_limit: int | None = setting(
        "integer",
        20,
        "Mails that code of applications may send to one address in an hour; more are 429. null: any number.",
        null=True,
        low=1,
    )

    def __repr__(self) -> str:
        return f"MailSection(host={self.host!r}, sender={self.sender!r})"


class Settings(Section):
    """The whole file."""

    root_path: Path = setting("path", "~/svc", "The directory of this installation.")
    components_root: Path = setting("path", "components", "Holds one directory per application.")
    node: NodeSection
    instances: int = setting("integer", 1, "Processes of this node, each with an event loop of its own: one for each core.", low=1, high=64)
    http: HttpSection
    operations_api: OperationsApiSection
    authentication: AuthenticationSection
    tls: TlsSection
    mqtt: MqttSection
    query: QuerySection
    sql: SqlSection
    logging: LoggingSection
    storage: StorageSection
    analytics: AnalyticsSection
    tracing: TracingSection
    local_studio: LocalStudioSection
    replication: ReplicationSection | None
    mail: MailSection | None
    mcp: Fields | None = setting("mapping", None, "Model Context Protocol server.", null=True)
    models: Fields | None = setting("mapping", None, "Models for embedding and generation.", null=True)
    scheduler: Fields | None = setting("mapping", None, "Jobs that run at given times.", null=True)
    waf: Fields | None = setting("mapping", None, "Filter for requests.", null=True)
