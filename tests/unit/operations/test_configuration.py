"""get_configuration and set_configuration: names, casts, faults, what is written and what waits for a restart."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.config import load_config
from svc.config.document import read_document, write_document
from svc.content.json_type import encode_json
from svc.errors import Problem
from svc.operations.configuration import CHANGED, MAX_DEPTH, json_value, value_fault
from tests.support.operations import OperationsNode

LEVELS = "must be one of [trace, debug, info, warn, error, fatal, notify]"


class ConfigNode(OperationsNode):
    """A node with a configuration file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file = path / "svc-config.yaml"
        write_document(self.file, {"rootPath": str(path), "http": {"port": 9926, "securePort": 9927}, "shop": {"package": "x"}})
        self.node.config = load_config(path)

    @property
    def document(self) -> dict[str, Any]:
        return read_document(self.file)

    @property
    def copies(self) -> list[Path]:
        return sorted((self.root / "backup").glob("*.bak")) if (self.root / "backup").exists() else []

    def set(self, **settings: Any) -> None:
        assert self.run("set_configuration", **settings) == {"message": CHANGED}

    def refuse(self, **settings: Any) -> str:
        """The message of the 400; nothing has changed."""
        before = self.file.read_bytes()
        with pytest.raises(Problem) as caught:
            self.run("set_configuration", **settings)
        assert caught.value.status_code == 400
        assert self.file.read_bytes() == before
        assert not self.copies
        assert not self.node.status.restart_required
        return caught.value.message


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ConfigNode]:
    with ConfigNode(tmp_path) as node:
        yield node


def test_what_is_in_effect_and_what_the_start_has_set(node: ConfigNode) -> None:
    mail = {"MAIL_HOST": "smtp.example", "MAIL_FROM": "a@b.example", "MAIL_USERNAME": "u", "MAIL_PASSWORD": "x"}
    node.node.config = load_config(node.root, environ={"HTTP_PORT": "8080", **mail})
    node.set(logging_level="debug")
    assert node.run("get_configuration", source="start") == {
        "http": {"port": 8080},
        "mail": {"from": "a@b.example", "host": "smtp.example", "username": "u", "password": "***"},
    }
    found = node.run("get_configuration", source="run")
    assert found["http"] == {"port": 8080, "securePort": 9927} and found["mail"]["password"] == "***" and "logging" not in found
    assert node.run("get_configuration")["http"]["port"] == 9926
    with pytest.raises(Problem, match="must be one of"):
        node.run("get_configuration", source="other")


def test_the_file_is_read_as_it_is(node: ConfigNode) -> None:
    assert node.run("get_configuration") == node.document
    node.file.write_text("a: 1\n")
    assert node.run("get_configuration") == {"a": 1}


def test_the_password_of_the_mail_server_is_not_shown(node: ConfigNode) -> None:
    node.file.write_text("mail: {host: smtp.example.org, from: a@b.c, username: a, password: x}\n")
    assert node.run("get_configuration") == {"mail": {"host": "smtp.example.org", "from": "a@b.c", "username": "a", "password": "***"}}


def test_what_json_does_not_have_is_text() -> None:
    value = {"day": datetime.date(2026, 1, 2), "raw": b"\xff", "set": {1}, "far": float("inf"), 1: [float("nan"), 1.5]}
    assert json_value(value) == {"day": "2026-01-02", "raw": "/w==", "set": [1], "far": "inf", "1": ["nan", 1.5]}


def test_a_file_that_cannot_be_read_is_said(node: ConfigNode) -> None:
    node.file.write_text("a: [\n")
    with pytest.raises(Problem) as caught:
        node.run("get_configuration")
    assert caught.value.status_code == 500
    assert "not valid YAML" in caught.value.message


def test_names_are_flat_and_in_any_case(node: ConfigNode) -> None:
    before = node.file.read_bytes()
    node.set(LOGGING_level="debug", http_Port=8080, logging_rotation_maxSize="10M")
    document = node.document
    assert document["logging"] == {"level": "debug", "rotation": {"maxSize": "10M"}}
    assert document["http"] == {"port": 8080, "securePort": 9927}
    (copy,) = node.copies
    assert copy.read_bytes() == before
    assert copy.name == "2026-01-01T00-00-00.000Z-svc-config.yaml.bak"
    assert node.file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "value", "path", "stored"),
    [
        ("http_port", "8080", ("http", "port"), 8080),
        ("http_cors", "false", ("http", "cors"), False),
        ("http_corsAccessList", '["https://a.example"]', ("http", "corsAccessList"), ["https://a.example"]),
        ("http_mtls", '{"required": true}', ("http", "mtls"), {"required": True}),
        ("http_securePort", "undefined", ("http", "securePort"), None),
        ("http_securePort", "null", ("http", "securePort"), None),
        ("http_securePort", None, ("http", "securePort"), None),
        ("node_hostname", "12", ("node", "hostname"), "12"),
        ("logging_auditRetention", "1d", ("logging", "auditRetention"), "1d"),
        ("http_timeout", 5000.5, ("http", "timeout"), 5000.5),
        ("log_level", "debug", ("logging", "level"), "debug"),
        ("disable_transaction_log", "true", ("logging", "auditLog"), False),
        ("max_http_threads", "2", ("instances",), 2),
        ("customFunctions_network_port", 7000, ("http", "port"), 7000),
        ("shop_port", "7001", ("shop", "port"), 7001),
        ("SHOP_PACKAGE", "acme/shop#v2", ("shop", "package"), "acme/shop#v2"),
        ("blog_package", "acme/blog", ("blog", "package"), "acme/blog"),
        ("replication_routes", ["a", {"hostname": "b"}], ("replication", "routes"), ["a", {"hostname": "b"}]),
    ],
)
def test_values_are_cast(node: ConfigNode, name: str, value: Any, path: tuple[str, ...], stored: Any) -> None:
    node.set(**{name: value})
    found: Any = node.document
    for part in path:
        found = found[part]
    assert found == stored and type(found) is type(stored)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"logging_level": "loud"}, f"svc config file validation error: 'logging.level' {LEVELS}"),
        ({"http_cors": "maybe"}, "svc config file validation error: 'http.cors' must be a boolean"),
        ({"http_port": 70000}, "svc config file validation error: 'http.port' must be a port: a number from 0 to 65535"),
        ({"http_port": {}}, "svc config file validation error: 'http.port' must be a port: a number from 0 to 65535"),
        ({"http_port": 9925}, "svc config file validation error: http.port and operationsApi.network.port cannot be the same value"),
        ({"http_port": 9927}, "svc config file validation error: http.port and http.securePort cannot be the same value"),
        (
            {"http_cors": 1, "logging_level": 2},
            f"svc config file validation error: 'http.cors' must be a boolean; 'logging.level' {LEVELS}",
        ),
        ({"shop_port": "x"}, "svc config file validation error: 'shop.port' must be a port: a number from 0 to 65535"),
        ({"shop_package": 5}, "svc config file validation error: 'shop.package' must be a string"),
        ({"logging_root": "a\0b"}, "'logging_root' contains characters that cannot be stored"),
        ({"logging_root": "\ud800"}, "'logging_root' contains characters that cannot be stored"),
        ({"x": 1}, "Unrecognized config parameter: x"),
        ({"htpp_port": 1}, "Unrecognized config parameter: htpp_port, did you mean 'http_port'?"),
        ({"logging.level": "info"}, "Unrecognized config parameter: logging.level, did you mean 'logging_level'?"),
        ({"logging": {"level": "info"}}, "Unrecognized config parameter: logging; parameters are flat, such as 'logging_level'"),
        ({"http_package": "x"}, "Unrecognized config parameter: http_package"),
        ({"htp_port": 1}, "Unrecognized config parameter: htp_port, did you mean 'http_port'?"),
        ({"PATH": "/bin"}, "Unrecognized config parameter: PATH"),
        ({"../x_package": "y"}, "Unrecognized config parameter: ../x_package"),
        ({"rootPath": "/elsewhere"}, None),
        ({}, "No configuration parameter was given; name at least one, such as logging_level"),
        ({"replicated": False}, "No configuration parameter was given; name at least one, such as logging_level"),
        ({"replicated": "yes"}, "'replicated' must be a boolean"),
        ({f"x{number}": 1 for number in range(501)}, "More than 500 configuration parameters were given"),
    ],
)
def test_faults(node: ConfigNode, settings: dict[str, Any], message: str | None) -> None:
    found = node.refuse(**settings)
    assert message is None or found.startswith(message)
    if message is not None and "'" not in message and "Unrecognized" in message:
        assert found.partition(",")[0] == message


def test_one_bad_name_among_good_ones_changes_nothing(node: ConfigNode) -> None:
    node.refuse(logging_level="info", nonsense=1)


def test_former_names_without_effect_are_accepted(node: ConfigNode) -> None:
    before = node.file.read_bytes()
    node.set(storage_engine="x", ignoreScripts=True, clustering_enabled=True, node_env="x")
    node.set(ipc_server_port=1, run_in_foreground=False, customFunctions_enabled=True)
    assert node.file.read_bytes() == before
    assert not node.copies


def test_todays_name_beats_a_former_one(node: ConfigNode) -> None:
    node.set(logging_level="info", log_level="debug")
    assert node.document["logging"]["level"] == "info"


def test_the_plain_port_is_closed_when_the_secure_one_takes_its_number(node: ConfigNode) -> None:
    node.set(http_securePort=9926, operationsApi_network_securePort="9925")
    assert node.document["http"] == {"port": None, "securePort": 9926}
    assert node.document["operationsApi"]["network"] == {"securePort": 9925, "port": None}


def test_a_plain_port_given_with_it_is_kept(node: ConfigNode) -> None:
    node.set(http_securePort=9926, http_port=80)
    assert node.document["http"] == {"port": 80, "securePort": 9926}


def test_https_on_moves_the_port(node: ConfigNode) -> None:
    node.set(https_on=True)
    assert node.document["operationsApi"]["network"] == {"securePort": 9925, "port": None}


def test_the_root_may_be_named_as_it_is(node: ConfigNode) -> None:
    node.set(rootPath=str(node.root), logging_level="info")


def test_a_list_in_the_way_is_not_lost(node: ConfigNode) -> None:
    node.file.write_text("tls:\n- certificate: a.pem\n- certificate: b.pem\n")
    assert node.refuse(tls_ciphers="x").startswith("'tls.ciphers' cannot be set, because 'tls' is a list")


def test_comments_are_kept(node: ConfigNode) -> None:
    text = node.file.read_text() + "# at the end\n"
    node.file.write_text(text)
    node.set(http_port=80)
    assert node.file.read_text() == text.replace("9926", "80")


def test_what_waits_for_a_restart_is_told(node: ConfigNode) -> None:
    node.set(logging_level="debug")
    assert node.run("get_status")["restartRequired"] is False  # the watcher takes it over
    node.set(http_port=80)
    node.set(blog_package="x")
    found = node.run("get_status")
    assert found["restartRequired"] is True
    assert found["restartReasons"] == ["http.port", "blog"]
    node.set(http_port=9926)
    assert node.run("get_status")["restartReasons"] == ["blog"]


def test_a_fault_in_the_file_is_placed(node: ConfigNode) -> None:
    node.file.write_text("http:\n  cors: 5\n")
    assert node.refuse(logging_level="info") == ("svc config file validation error: 'http.cors' must be a boolean (svc-config.yaml line 2)")


def test_a_file_that_cannot_be_written_is_said(node: ConfigNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("svc.config.editing.write_text", fail)
    with pytest.raises(Problem) as caught:
        node.run("set_configuration", http_port=80)
    assert caught.value.status_code == 500
    assert caught.value.message == "The configuration could not be written to svc-config.yaml: Read-only file system"


def test_without_a_file_there_is_nothing_to_change(tmp_path: Path) -> None:
    with OperationsNode(tmp_path, settings={"http": {"port": 1}}) as node:
        assert node.run("get_configuration")["http"] == {"port": 1}
        with pytest.raises(Problem) as caught:
            node.run("set_configuration", http_port=2)
        assert caught.value.status_code == 501


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (None, None),
        ({"a": [1, 2.5, True, "x", None]}, None),
        (deep(MAX_DEPTH), None),
        (deep(MAX_DEPTH + 1), "is nested too deeply"),
        (deep(100_000), "is nested too deeply"),
        ("x" * 65536, None),
        ("x" * 65537, "is too long"),
        (["x"] * 100_000, "is too long"),
        ({"a": "x" * 70_000}, "is too long"),
        (float("nan"), "must be a JSON value"),
        (b"x", "must be a JSON value"),
        ({1: 2}, "must be a JSON value"),
        ([datetime.date(2026, 1, 1)], "must be a JSON value"),
        (10**400, "is too large a number"),
        (["\ud800"], "contains characters that cannot be stored"),
        ({"\0": 1}, "contains characters that cannot be stored"),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, list | dict | str) else type(value).__name__,
)
def test_values_are_plain_json_of_a_sensible_size(value: Any, fault: str | None) -> None:
    assert value_fault(value) == fault


@pytest.mark.parametrize("text", ["[" * 60_000, "{" * 60_000, "1" * 5000, "[1", '{"a": NaN}', "1e999", " "])
def test_hostile_texts_are_texts_or_faults(node: ConfigNode, text: str) -> None:
    for name in ("http_corsAccessList", "http_port", "http_mtls", "replication_databases", "http_timeout", "instances"):
        try:
            node.run("set_configuration", **{name: text})
        except Problem as problem:
            assert problem.status_code == 400
    encode_json(node.run("get_configuration"))


def test_only_super_users(node: ConfigNode) -> None:
    user = node.user("ann", {"super_user": False})
    for operation in ("get_configuration", "set_configuration"):
        with pytest.raises(Problem) as caught:
            node.run(operation, user, logging_level="info")
        assert caught.value.status_code == 403
