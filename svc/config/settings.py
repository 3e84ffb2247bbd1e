"""SETTINGS: all settings by their names in the file, and what else is known of names: former ones, those without effect, those of overrides.

Spec: configuration §2.
"""

from collections.abc import Mapping
from functools import cache

from svc.config.sections import Settings, declared
from svc.config.setting import LOOPBACK, From, Setting

DATABASE_PATH = Setting(
    "databases.<db>.path", "path", From("storage.path"), "Directory of this database; set it before the database exists."
)

SETTINGS: tuple[Setting, ...] = (*declared(Settings), DATABASE_PATH)

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

UNSERVED = frozenset({"replication.replicateTo", "replication.mtls.certificateVerification"})
"""Sections and settings of parts that this version does not have."""

SECRETS = frozenset({"mail.password", "replication.credentials"})
"""Settings that no operation shows, and no application sees."""

HIDDEN = "***"

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
