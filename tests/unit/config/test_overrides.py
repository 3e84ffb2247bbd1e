"""The environment and the command line over the file."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from svc.clock import FakeClock
from svc.config import Config, Document, load_config, reread
from svc.config.document import read_document, write_document
from svc.config.overrides import copy_before_writing, with_singles
from svc.config.settings import LOOPBACK_ORIGINS
from svc.errors import ConfigError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_document(tmp_path / "svc-config.yaml", {"rootPath": str(tmp_path), "http": {"port": 9926}})
    return tmp_path


def load(root: Path, environ: Mapping[str, str] = {}, options: Mapping[str, str] = {}, dev: bool = False) -> Config:
    return load_config(root, environ=environ, options=options, dev=dev)


def copies(root: Path) -> list[Path]:
    return sorted((root / "backup").glob("*.bak")) if (root / "backup").exists() else []


def test_overrides_hold_for_their_run_and_are_not_written(root: Path) -> None:
    before = (root / "svc-config.yaml").read_bytes()
    config = load(root, {"HTTP_PORT": "8080"}, {"LOGGING_LEVEL": "debug"})
    assert (config.http.port, config.logging.level) == (8080, "debug")
    assert config.document["http"]["port"] == 8080
    assert config.overrides == {"http.port": 8080, "logging.level": "debug"}
    assert (root / "svc-config.yaml").read_bytes() == before and not copies(root)
    assert load(root).http.port == 9926


def test_overrides_hold_when_the_file_is_read_again(root: Path) -> None:
    config = load(root, {"LOGGING_LEVEL": "debug"})
    write_document(root / "svc-config.yaml", {"logging": {"level": "error", "file": False}})
    again = reread(config)
    assert (again.logging.level, again.logging.file) == ("debug", False)
    assert reread(again).logging.level == "debug"


def test_the_command_line_beats_the_environment(root: Path) -> None:
    assert load(root, {"HTTP_PORT": "8080"}, {"HTTP_PORT": "8081"}).http.port == 8081


def test_names_may_be_in_any_case_and_foreign_ones_do_not_match(root: Path) -> None:
    config = load(
        root, {"OperationsApi_Network_Port": "7000", "PATH": "/bin", "PORT": "1", "HTTP": "1"}, {"logging_ROTATION_enabled": "false"}
    )
    assert config.operations_api.network.port == 7000
    assert config.logging.rotation.enabled is False
    assert not config.notes


def test_a_bad_value_stops_and_writes_nothing(root: Path) -> None:
    before = (root / "svc-config.yaml").read_bytes()
    with pytest.raises(ConfigError, match=r"'logging\.level' must be one of"):
        load(root, {"LOGGING_LEVEL": "loud", "HTTP_PORT": "1"})
    assert (root / "svc-config.yaml").read_bytes() == before
    assert not copies(root)


def test_example_6(root: Path) -> None:
    write_document(root / "svc-config.yaml", {"http": {"port": 9927}})
    with pytest.raises(ConfigError) as caught:
        load(root)
    assert str(caught.value) == "http.port and http.securePort cannot be the same value (svc-config.yaml line 2)"


@pytest.mark.parametrize(
    ("environ", "options", "place"),
    [
        ({"INSTANCES": "0"}, {}, "environment variable INSTANCES"),
        ({"THREADS_COUNT": "-1"}, {}, "environment variable THREADS_COUNT"),
        ({}, {"instances": "1000"}, "option --instances"),
        ({}, {}, "svc-config.yaml line 3"),
    ],
)
def test_a_number_of_processes_that_cannot_be(root: Path, environ: dict[str, str], options: dict[str, str], place: str) -> None:
    if not environ and not options:
        (root / "svc-config.yaml").write_text("http:\n  port: 9926\ninstances: two\n")
    before = (root / "svc-config.yaml").read_bytes()
    with pytest.raises(ConfigError) as caught:
        load(root, environ, options)
    assert "'instances' must be" in str(caught.value) and place in str(caught.value)
    assert (root / "svc-config.yaml").read_bytes() == before
    assert load(root, {"INSTANCES": "3"}).instances == 3


def test_former_names_set_todays(root: Path) -> None:
    config = load(
        root, {"LOG_LEVEL": "debug", "HTTPS_ON": "true", "DISABLE_TRANSACTION_LOG": "true", "NODE_ENV": "production", "THREADS_COUNT": "1"}
    )
    assert config.logging.level == "debug"
    assert config.operations_api.network.secure_port == 9925
    assert config.operations_api.network.port is None
    assert config.logging.audit_log is False
    assert config.instances == 1
    assert config.document["logging"] == {"level": "debug", "auditLog": False}
    assert "log_level" not in config.overrides


def test_todays_name_beats_a_former_one(root: Path) -> None:
    assert load(root, {"LOG_LEVEL": "debug", "LOGGING_LEVEL": "info"}).logging.level == "info"


def test_replication_hostname_names_the_node_of_a_cluster_of_one(root: Path) -> None:
    config = load(root, {"REPLICATION_HOSTNAME": "n1"})
    assert config.node.hostname == "n1"
    assert config.replication is None


def test_the_root_is_written_as_it_was_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root.parent))
    load_config(Path("~") / root.name, environ={"ROOTPATH": f"~/{root.name}"})
    assert read_document(root / "svc-config.yaml")["rootPath"] == str(root)
    assert not copies(root)


def test_development_values_hold_for_this_run_and_are_not_written(root: Path) -> None:
    config = load(root, {"LOGGING_LEVEL": "error"}, dev=True)
    assert config.dev
    assert config.authentication.authorize_local is True
    assert config.http.cors_access_list == tuple(LOOPBACK_ORIGINS)
    assert config.logging.std_streams is True
    assert config.logging.level == "error"  # what is said explicitly wins
    assert config.http.host == config.operations_api.network.host == ("127.0.0.1",)
    document = read_document(root / "svc-config.yaml")
    assert "authentication" not in document
    assert load(root).authentication.authorize_local is False


def test_addresses_that_are_given_win_in_development(root: Path) -> None:
    config = load(root, {"HTTP_HOST": "10.0.0.7, ::1"}, {"OPERATIONSAPI_NETWORK_HOST": '["*"]'}, dev=True)
    assert (config.http.host, config.operations_api.network.host) == (("10.0.0.7", "::1"), ("*",))


def test_development_lists_loopback_origins_besides_those_of_the_file(root: Path) -> None:
    write_document(root / "svc-config.yaml", {"http": {"corsAccessList": ["https://shop.example", "*"]}})
    config = load(root, dev=True)
    assert config.http.cors_access_list == (*LOOPBACK_ORIGINS, "https://shop.example")
    assert config.operations_api.network.cors_access_list == tuple(LOOPBACK_ORIGINS)


def test_reread_takes_the_file_and_keeps_development(root: Path) -> None:
    config = load(root, dev=True)
    write_document(root / "svc-config.yaml", {"logging": {"level": "debug", "file": False}})
    again = reread(config)
    assert again.logging.level == "info"
    assert again.logging.file is False
    assert again.authentication.authorize_local is True


def faults(root: Path, environ: Mapping[str, str] = {}, options: Mapping[str, str] = {}) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(root, environ, options)
    return caught.value.faults


FAULTY = """\
rootPath: /srv/svc
http:
  port: 9926
  cors: sometimes   # line 4

logging: {level: loud, rotation: {maxSize: 10X}}
tls:
  - certificate: 5
  - privateKey: [1]
shop:
  logging:
    level: 3
log_to_file: perhaps
storage:
  logging:
    level: quiet
    rotation: 7
"""


def test_each_fault_names_its_line(root: Path) -> None:
    (root / "svc-config.yaml").write_text(FAULTY)
    levels = "must be one of [trace, debug, info, warn, error, fatal, notify]"
    assert sorted(faults(root)) == sorted(
        [
            "'http.cors' must be a boolean (svc-config.yaml line 4)",
            f"'logging.level' {levels} (svc-config.yaml line 6)",
            "Invalid logging.rotation.maxSize unit. Available units are G, M or K (svc-config.yaml line 6)",
            "'tls[0].certificate' must be a path (svc-config.yaml line 8)",
            "'tls[1].privateKey' must be a path (svc-config.yaml line 9)",
            f"'shop.logging.level' {levels} (svc-config.yaml line 12)",
            "'logging.file' must be a boolean (svc-config.yaml line 13)",
            f"'storage.logging.level' {levels} (svc-config.yaml line 16)",
            "'storage.logging.rotation' must be a mapping (svc-config.yaml line 17)",
        ]
    )


def test_faults_of_overrides_name_what_set_them(root: Path) -> None:
    assert faults(root, {"HTTP_PORT": "x", "Log_Level": "loud"}, {"MQTT_WEBSOCKET": "5"}) == [
        "'http.port' must be a port: a number from 0 to 65535 (environment variable HTTP_PORT)",
        "'mqtt.webSocket' must be a boolean (option --MQTT_WEBSOCKET)",
        "'logging.level' must be one of [trace, debug, info, warn, error, fatal, notify] (environment variable Log_Level)",
    ]
    assert faults(root, {"HTTP_PORT": "x"}, {"http_port": "y"})[0].endswith("(option --http_port)")
    assert faults(root, {"SVC_CONFIG_JSON": '{"http": {"cors": 1}}'}) == ["'http.cors' must be a boolean (SVC_CONFIG_JSON)"]
    assert faults(root, {"HTTP_PORT": "9927", "HTTP_SECUREPORT": "9927"}) == [
        "http.port and http.securePort cannot be the same value (environment variable HTTP_PORT, environment variable HTTP_SECUREPORT)"
    ]
    assert faults(root, {"HTTP_PORT": "9927"}) == [
        "http.port and http.securePort cannot be the same value (environment variable HTTP_PORT)"
    ]


def test_unknown_keys_name_their_line_and_the_nearest_setting(root: Path) -> None:
    (root / "svc-config.yaml").write_text(
        "htpp:\n  port: 1\nhttp:\n  prot: 2\n  nonsense: 3\nlogging_level: debug\nthread: 4\nhttpd:\n  own: 1\nmqtt:\n  logging: {lvel: info}\n"
        "databases:\n  data: {pth: /x}\n"
    )
    assert [sentence for level, sentence in load(root).notes if level == "warn"] == [
        "Unknown setting 'htpp' is taken for a component, did you mean 'http'? (svc-config.yaml line 1)",
        "Unknown setting 'logging_level' is ignored, did you mean 'logging.level'? (svc-config.yaml line 6)",
        "Unknown setting 'thread' is ignored, did you mean 'instances'? (svc-config.yaml line 7)",
        "Unknown setting 'databases.data.pth' is ignored, did you mean 'databases.data.path'? (svc-config.yaml line 13)",
        "Unknown setting 'http.prot' is ignored, did you mean 'http.port'? (svc-config.yaml line 4)",
        "Unknown setting 'http.nonsense' is ignored (svc-config.yaml line 5)",
        "Unknown setting 'mqtt.logging.lvel' is ignored, did you mean 'mqtt.logging.level'? (svc-config.yaml line 11)",
    ]


def test_former_and_doubled_names_are_noted_with_their_lines(root: Path) -> None:
    (root / "svc-config.yaml").write_text("http: {port: 1}\nlog_level: debug\nhttp:\n  port: 2\n  port: 3\n")
    config = load(root)
    assert config.http.port == 3
    assert [sentence for _, sentence in config.notes] == [
        "'http' is in svc-config.yaml twice, in lines 1 and 3; the last one counts",
        "'http.port' is in svc-config.yaml twice, in lines 4 and 5; the last one counts",
        "'log_level' is now called 'logging.level' (svc-config.yaml line 2)",
    ]


def test_a_misspelt_variable_is_noted_and_foreign_ones_are_not(root: Path) -> None:
    foreign = {"HTTP_PROXY": "x", "MQTT_SERVICE_PORT": "1", "HTTP_PORT_9926_TCP_ADDR": "x", "LOGGINGX": "1", "HTTP_USER_AGENT": "x"}
    config = load(root, {"LOGGING_LEVL": "debug", "OPERATIONSAPI_NETWORK_PROT": "1", **foreign})
    assert [sentence for _, sentence in config.notes] == [
        "The environment variable LOGGING_LEVL is not a setting and is ignored, did you mean LOGGING_LEVEL?",
        "The environment variable OPERATIONSAPI_NETWORK_PROT is not a setting and is ignored, did you mean OPERATIONSAPI_NETWORK_PORT?",
    ]


def test_reread_names_lines_too(root: Path) -> None:
    config = load(root)
    (root / "svc-config.yaml").write_text("\nlogging:\n  level: loud\n")
    with pytest.raises(ConfigError, match=r"\(svc-config\.yaml line 3\)$"):
        reread(config)


def test_copies_of_one_moment_do_not_overwrite_each_other(root: Path) -> None:
    clock = FakeClock()
    assert copy_before_writing(root / "svc-config.yaml", root, clock) == []
    assert copy_before_writing(root / "svc-config.yaml", root, clock) == []
    assert [path.name for path in copies(root)] == [
        "2026-01-01T00-00-00.000Z-1-svc-config.yaml.bak",
        "2026-01-01T00-00-00.000Z-svc-config.yaml.bak",
    ]
    assert copy_before_writing(root / "none", root, clock)[0][0] == "error"


def test_the_first_document_with_the_options_of_its_installation(root: Path) -> None:
    first: Document = {"rootPath": str(root), "http": {"port": 9926}}
    kept = with_singles(first, root, {"HTTP_PORT": "8080", "ROOTPATH": "elsewhere"}, {"LOG_LEVEL": "info"})
    assert kept == {"rootPath": str(root), "http": {"port": 8080}, "logging": {"level": "info"}}
    for environ in ({"HTTP_PORT": "9927"}, {"INSTANCES": "0"}, {"SVC_CONFIG_JSON": '{"http": {"port": 9927}}'}):
        with pytest.raises(ConfigError):
            with_singles(first, root, environ, {})


def test_an_empty_variable_is_as_if_absent(root: Path) -> None:
    config = load(root, {"HTTP_PORT": "", "LOGGING_LEVEL": "", "OPERATIONSAPI_NETWORK_PORT": "", "OPERATIONSAPI_PORT": ""})
    assert (config.http.port, config.logging.level, config.operations_api.network.port) == (9926, "warn", 9925)
    assert not config.notes and not config.overrides


def test_the_link_of_a_container_is_no_port(root: Path) -> None:
    config = load(root, {"HTTP_PORT": "tcp://10.0.0.7:80", "MQTT_NETWORK_PORT": "udp://10.0.0.8:1883"})
    assert (config.http.port, config.overrides) == (9926, {})
    assert [(level, text.split(" is ")[0]) for level, text in config.notes] == [
        ("warn", "The environment variable HTTP_PORT"),
        ("warn", "The environment variable MQTT_NETWORK_PORT"),
    ]
    with pytest.raises(ConfigError):
        load(root, {}, {"HTTP_PORT": "tcp://10.0.0.7:80"})


def test_operations_are_for_this_machine_whatever_applications_listen_on(root: Path) -> None:
    assert load(root, {"HTTP_HOST": "10.0.0.7"}).operations_api.network.host == ("127.0.0.1",)


def test_variables_and_options_without_effect_are_told_of(root: Path) -> None:
    notes = load(root, {"STORAGE_ENGINE": "x", "NODE_ENV": "production"}, {"LICENSE_mode": "x"}).notes
    assert [note for note in notes if "no effect" in note[1]] == [
        ("warn", "The option --LICENSE_mode has no effect: There are no licences."),
        ("warn", "The environment variable STORAGE_ENGINE has no effect: The engine is fixed."),
    ]
