"""A document becomes a Config: defaults, former names, faults, notes."""

from pathlib import Path
from typing import Any

import pytest

from svc.config import Config
from svc.config.settings import SETTINGS
from svc.errors import ConfigError

ROOT = Path("/srv/svc")


def config_of(**document: Any) -> Config:
    return Config.from_document(document, ROOT)


def faults_of(**document: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config_of(**document)
    return caught.value.faults


def test_an_empty_document_has_the_contracts_defaults() -> None:
    config = config_of()
    assert config.http.port == config.values["http.port"] == 9926
    assert config.http.timeout == 120  # seconds, though the file says milliseconds
    assert config.authentication.cache_ttl == 30
    assert config.authentication.refresh_token_timeout == 30 * 86_400
    assert config.logging.audit_retention == 3 * 86_400
    assert config.http.max_request_body_size == 1 << 30
    assert config.mqtt.max_packet_size == 100 << 20
    assert config.mqtt.free_topics is None
    assert config.storage.path == ROOT / "database"
    assert config.logging.path == ROOT / "log" / "svc.log"
    assert config.operations_api.network.timeout == 120
    assert config.operations_api.network.cors_access_list == ("*",)
    assert config.http.cors_access_list is None
    assert config.values["replication.hostname"] == "localhost"
    assert config.replication is None
    assert config.values["rootPath"] == config.root == ROOT
    assert not config.notes


def test_every_setting_has_a_value() -> None:
    config = config_of()
    assert {setting.name for setting in SETTINGS if "<" not in setting.name} == set(config.values)


def test_defaults_follow_the_settings_they_come_from() -> None:
    config = config_of(http={"timeout": 5000, "http2": False}, logging={"root": "/var/log/svc"}, node={"hostname": "n1"}, replication={})
    assert config.operations_api.network.timeout == 5
    assert config.operations_api.network.http2 is False
    assert config.logging.path == Path("/var/log/svc/svc.log")
    assert config.replication is not None
    assert config.replication.hostname == "n1"


def test_null_closes_a_port_and_means_unset_elsewhere() -> None:
    config = config_of(http={"port": None, "timeout": None}, operationsApi={"network": {"domainSocket": None}})
    assert config.http.port is None
    assert config.http.timeout == 120
    assert config.operations_api.network.domain_socket is None


def test_sections_name_what_they_have_and_are_read_only() -> None:
    config = config_of()
    with pytest.raises(AttributeError, match=r"HttpSection.*nonsense"):
        config.http.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="read-only"):
        config.http.port = 1
    with pytest.raises(TypeError):
        config.values["http.port"] = 1  # type: ignore[index]


def test_all_faults_are_reported_at_once() -> None:
    assert faults_of(http={"cors": "yes", "port": "x"}, logging={"level": "loud"}) == [
        "'http.port' must be a port: a number from 0 to 65535",
        "'http.cors' must be a boolean",
        "'logging.level' must be one of [trace, debug, info, warn, error, fatal, notify]",
    ]


def test_a_section_must_be_a_mapping() -> None:
    assert faults_of(http=5) == ["'http' must be a mapping"]
    assert faults_of(operationsApi={"network": []}) == ["'operationsApi.network' must be a mapping"]
    assert faults_of(databases=[1]) == ["'databases' must be a mapping"]


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"http": {"port": 9927}}, "http.port and http.securePort cannot be the same value"),
        (
            {"operationsApi": {"network": {"port": 7, "securePort": 7}}},
            "operationsApi.network.port and operationsApi.network.securePort cannot be the same value",
        ),
        ({"http": {"port": 1883}}, "http.port and mqtt.network.port cannot be the same value"),
        ({"replication": {"securePort": 9925}}, "operationsApi.network.port and replication.securePort cannot be the same value"),
    ],
)
def test_ports_differ_pairwise(document: dict[str, Any], fault: str) -> None:
    assert faults_of(**document) == [fault]


def test_null_and_any_port_may_repeat() -> None:
    config = config_of(http={"port": 0, "securePort": None}, operationsApi={"network": {"port": 0, "securePort": None}})
    assert config.http.port == 0


def test_the_replication_port_counts_only_with_its_section() -> None:
    assert config_of(http={"port": 9933}).http.port == 9933


def test_routes_alone_do_not_switch_replication_on() -> None:
    config = config_of(replication={"routes": ["two"]}, http={"port": 9933})
    assert config.replication is None
    assert config.values["replication.routes"] == ("two",)
    assert [level for level, _ in config.notes] == ["info"]
    assert config_of(replication={"routes": []}).notes == ()
    assert config_of(replication={"routes": ["two"], "hostname": "one"}).replication is not None


def test_unknown_keys_are_noted_and_components_are_not() -> None:
    config = config_of(
        shop={"package": "x", "own": 1}, studio=True, colour="red", http={"prot": 1, "mtls": {"usr": 1}}, logging={"rotation": {"x": 1}}
    )
    assert dict(config.components) == {"shop": {"package": "x", "own": 1}, "studio": True}
    assert sorted(config.notes) == [
        ("warn", "Unknown setting 'colour' is ignored"),
        ("warn", "Unknown setting 'http.mtls.usr' is ignored, did you mean 'http.mtls.user'?"),
        ("warn", "Unknown setting 'http.prot' is ignored, did you mean 'http.port'?"),
        ("warn", "Unknown setting 'logging.rotation.x' is ignored"),
    ]


def test_settings_without_effect_are_noted_and_left_out() -> None:
    config = config_of(storage={"pageSize": 4096}, threads={"maxHeapMemory": 5}, ignoreScripts=True, databases={"d": {"auditPath": "/x"}})
    assert sorted(config.notes) == [
        ("warn", "'databases.d.auditPath' has no effect: A database has one directory."),
        ("warn", "'ignoreScripts' has no effect: Packages run no scripts here."),
        ("warn", "'storage.pageSize' has no effect: Specific to another engine."),
        ("warn", "'threads.maxHeapMemory' has no effect: Memory is not divided between threads."),
    ]
    assert not {"storage.pageSize", "threads.maxHeapMemory", "ignoreScripts"} & config.values.keys()


def test_a_section_can_be_switched_off() -> None:
    config = config_of(mqtt=False, localStudio=False, analytics=False)
    assert config.mqtt.network.port is None
    assert config.mqtt.web_socket is False
    assert config.local_studio.enabled is False
    assert config.analytics.aggregate_period == -1


def test_a_logging_section_holds_the_given_fields() -> None:
    config = config_of(
        http={"logging": {"level": "info", "headers": True, "rotation": {"maxSize": "1K"}}}, shop={"logging": {"level": "DEBUG"}}
    )
    assert config.http.logging == {"level": "info", "headers": True, "rotation.maxSize": 1024}
    assert config.values["shop.logging"] == {"level": "debug"}
    assert config.mqtt.logging is None
    assert faults_of(http={"logging": {"level": "loud"}})[0].startswith("'http.logging.level' must be one of")
    assert faults_of(shop={"logging": {"rotation": {"maxSize": "1"}}})[0].startswith("Invalid shop.logging.rotation.maxSize unit")


def test_switches_take_a_mapping() -> None:
    assert config_of(http={"mtls": {"user": None, "required": True}}).http.mtls == {"user": None, "required": True}
    assert config_of(storage={"compression": {"threshold": "8K"}}).storage.compression == {"threshold": 8192}
    assert faults_of(http={"mtls": {"required": 1}}) == ["'http.mtls.required' must be a boolean"]


def test_tls_is_a_mapping_or_a_list() -> None:
    assert [entry.certificate for entry in config_of().tls_entries] == [ROOT / "keys/certificate.pem"]
    config = config_of(tls=[{"certificate": "a.pem", "host": "a.example"}, {"certificate": "b.pem", "hosts": ["b.example"]}])
    assert [entry.certificate for entry in config.tls_entries] == [ROOT / "a.pem", ROOT / "b.pem"]
    assert config.tls_entries[1].hosts == ("b.example",)
    assert config.tls.certificate == ROOT / "a.pem"
    assert config.operations_tls_entries == config.tls_entries
    own = config_of(operationsApi={"tls": {"certificate": "o.pem"}})
    assert own.operations_tls_entries[0].certificate == ROOT / "o.pem"
    assert own.tls_entries[0].certificate == ROOT / "keys/certificate.pem"
    assert faults_of(tls=[{"certificate": 5}]) == ["'tls[0].certificate' must be a path"]


def test_a_database_may_live_elsewhere() -> None:
    config = config_of(databases={"logs": {"path": "/fast"}})
    assert config.database_path("logs") == Path("/fast")
    assert config.database_path("data") == ROOT / "database"


@pytest.mark.parametrize(
    ("document", "name", "value"),
    [
        ({"server_port": 7000}, "operationsApi.network.port", 7000),
        ({"operationsApi_port": 7000}, "operationsApi.network.port", 7000),
        ({"log_level": "debug"}, "logging.level", "debug"),
        ({"disable_transaction_log": True}, "logging.auditLog", False),
        ({"threads": 3}, "instances", 3),
        ({"threads": {"count": 3}}, "instances", 3),
        ({"threads": {"count": {"count": 3}}}, "instances", 3),
        ({"max_http_threads": 2}, "instances", 2),
        ({"customFunctions": {"network": {"port": 7001}, "enabled": True}}, "http.port", 7001),
        ({"customFunctions_network_port": 7001}, "http.port", 7001),
        ({"private_key": "/k.pem"}, "tls.privateKey", Path("/k.pem")),
        ({"operation_token_timeout": "2d"}, "authentication.operationTokenTimeout", 172_800),
        ({"https_on": True}, "operationsApi.network.securePort", 9925),
        ({"https_on": True, "server_port": 7000}, "operationsApi.network.securePort", 7000),
        ({"https_on": True}, "operationsApi.network.port", None),
        ({"https_on": False}, "operationsApi.network.port", 9925),
        ({"log_level": "debug", "logging": {"level": "error"}}, "logging.level", "error"),
    ],
)
def test_former_names_still_work(document: dict[str, Any], name: str, value: object) -> None:
    config = config_of(**document)
    assert config.values[name] == value
    assert config.notes[0][0] == "warn"


def test_former_names_without_effect_are_only_noted() -> None:
    config = config_of(clustering={"enabled": True}, node_env="production", ipc_server_port=1)
    assert not config.components
    assert [sentence for _, sentence in config.notes] == [
        f"'{name}' has no effect: Belongs to a part that no longer exists." for name in ("clustering", "node_env", "ipc_server_port")
    ]
