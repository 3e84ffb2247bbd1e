"""The settings as typed attributes: one class per section of the configuration file, `config.http.max_header_size`.

The attributes are the names of `settings.SETTINGS` in Python's spelling (`corsAccessList` -> `cors_access_list`); their types follow from the
kind of the row: durations are seconds (float), sizes bytes (int), paths absolute. None: the setting is null or not given.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from svc.config.hosts import HostPattern, Network
from svc.config.settings import SETTINGS, attribute_name

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


class NodeSection(Section):
    """`node`"""

    hostname: str
    url: str | None


class HttpSection(Section):
    """`http`"""

    port: int | None
    secure_port: int | None
    host: tuple[str, ...]
    trusted_proxies: tuple[Network, ...]
    cors: bool
    cors_access_list: tuple[str | None, ...] | None
    cors_access_control_allow_headers: str
    compression_threshold: int
    timeout: float
    headers_timeout: float
    keep_alive_timeout: float
    max_header_size: int
    max_request_body_size: int
    request_queue_limit: float
    mtls: Switch
    http2: bool
    logging: Fields | None


class NetworkSection(Section):
    """`operationsApi.network`"""

    port: int | None
    secure_port: int | None
    host: tuple[str, ...]
    cors: bool
    cors_access_list: tuple[str | None, ...] | None
    domain_socket: Path | None
    timeout: float
    headers_timeout: float
    keep_alive_timeout: float
    http2: bool
    mtls: Switch


class ComponentFileSection(Section):
    """`operationsApi.componentFile`"""

    max_size: int


class SystemInformationSection(Section):
    """`operationsApi.sysInfo`"""

    network: bool
    disk: bool


class MetricsSection(Section):
    """`operationsApi.metrics`"""

    access: str
    max_label_sets: int


class OperationsApiSection(Section):
    """`operationsApi`"""

    network: NetworkSection
    tls: Fields | None
    component_file: ComponentFileSection
    sys_info: SystemInformationSection
    import_roots: tuple[Path, ...]
    import_hosts: tuple[HostPattern, ...]
    metrics: MetricsSection


class CookieSection(Section):
    """`authentication.cookie`"""

    domains: tuple[str | None, ...] | None
    expires: float | None


class AuthenticationSection(Section):
    """`authentication`"""

    authorize_local: bool
    cache_ttl: float
    enable_sessions: bool
    operation_token_timeout: float
    refresh_token_timeout: float
    hash_function: str
    password_min_length: int
    cookie: CookieSection
    failure_delay: bool
    logging: Fields | None


class TlsSection(Section):
    """`tls`"""

    certificate: Path
    private_key: Path
    certificate_authority: Path
    host: str | None
    hosts: tuple[str | None, ...] | None
    ciphers: str | None
    uses: tuple[str | None, ...] | None
    logging: Fields | None


class MqttNetworkSection(Section):
    """`mqtt.network`"""

    port: int | None
    secure_port: int | None
    host: tuple[str, ...]
    mtls: Switch


class MqttSection(Section):
    """`mqtt`"""

    network: MqttNetworkSection
    web_socket: bool
    require_authentication: bool
    max_packet_size: int
    logging: Fields | None


class QuerySection(Section):
    """`query`"""

    max_related_rows: int
    max_bytes: int
    max_time: float


class RotationSection(Section):
    """`logging.rotation`"""

    enabled: bool
    compress: bool
    interval: int | None
    max_size: int | None
    path: Path
    retention: float


class AuthEventsSection(Section):
    """`logging.auditAuthEvents`"""

    log_failed: bool
    log_successful: bool


class LoggingSection(Section):
    """`logging`"""

    level: str
    format: str
    file: bool
    root: Path
    path: Path
    std_streams: bool
    console: bool
    colors: bool
    audit_log: bool
    audit_retention: float
    external: Fields | None
    rotation: RotationSection
    audit_auth_events: AuthEventsSection


class ReclamationSection(Section):
    """`storage.reclamation`"""

    threshold: float
    interval: float
    eviction_factor: float


class StorageSection(Section):
    """`storage`"""

    path: Path
    blob_paths: tuple[Path, ...]
    backup_path: Path
    write_async: bool
    max_transaction_queue_time: float
    max_snapshot_age: float
    max_snapshot_growth: int
    caching: bool
    compression: Switch
    compact_on_start: bool
    compact_on_start_keep_backup: bool
    reclamation: ReclamationSection
    debug_long_transactions: bool
    logging: Fields | None


class AnalyticsSection(Section):
    """`analytics`"""

    aggregate_period: float
    storage_interval: int
    replicate: bool
    logging: Fields | None


class TracingSection(Section):
    """`tracing`"""

    enabled: bool
    endpoint: str | None
    sample: float | None
    service_name: str | None


class LocalStudioSection(Section):
    """`localStudio`"""

    enabled: bool


class ReplicationMtlsSection(Section):
    """`replication.mtls`"""

    certificate_verification: Any


class ReplicationSection(Section):
    """`replication`"""

    hostname: str
    url: str | None
    databases: Any
    replicate_to: Any
    routes: tuple[Any, ...]
    port: int | None
    secure_port: int | None
    enable_root_cas: bool
    blob_timeout: float
    blob_send_drain_timeout: float
    fail_over: bool
    shard: Any
    copy_tables_to_catch_up: bool
    mtls: ReplicationMtlsSection
    servers: tuple[str | None, ...] | None
    credentials: Any
    stream_replicas: int | None
    confirm_timeout: float
    logging: Fields | None


SectionType = TypeVar("SectionType", bound=Section)


@cache
def _setting_names() -> dict[str, str]:
    """Path of attributes -> name of the setting: `{"http.cors_access_list": "http.corsAccessList"}`."""
    return {".".join(attribute_name(part) for part in row.name.split(".")): row.name for row in SETTINGS}


def read_section(kind: type[SectionType], path: str, values: Mapping[str, Any]) -> SectionType:
    """The section at a path of attributes (`operations_api.network`). `values`: of all settings, by dotted name."""
    found: dict[str, object] = {}
    for name, annotation in kind.__annotations__.items():
        inner = f"{path}.{name}"
        if isinstance(annotation, type) and issubclass(annotation, Section):
            found[name] = read_section(annotation, inner, values)
        else:
            found[name] = values[_setting_names()[inner]]
    return kind(found)
