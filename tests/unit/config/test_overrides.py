"""The environment and the command line over the file, and what is written back."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from svc.config import Config, reread
from svc.config.document import read_document, write_document
from svc.errors import ConfigError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_document(tmp_path / "svc-config.yaml", {"rootPath": str(tmp_path), "http": {"port": 9926}})
    return tmp_path


def load(root: Path, environ: Mapping[str, str] = {}, options: Mapping[str, str] = {}, dev: bool = False) -> Config:
    return Config.load(root, environ=environ, options=options, dev=dev)


def copies(root: Path) -> list[Path]:
    return sorted((root / "backup").glob("*.bak")) if (root / "backup").exists() else []


def test_an_override_is_written_with_one_copy_of_the_file_before(root: Path) -> None:
    before = (root / "svc-config.yaml").read_bytes()
    assert load(root, {"HTTP_PORT": "8080"})["http.port"] == 8080
    assert load(root)["http.port"] == 8080
    assert read_document(root / "svc-config.yaml")["http"]["port"] == 8080
    load(root, {"HTTP_PORT": "8080"})
    (copy,) = copies(root)
    assert copy.read_bytes() == before
    assert copy.name.endswith("Z-svc-config.yaml.bak")
    assert ":" not in copy.name
    assert copy.stat().st_mode & 0o777 == 0o600


def test_the_command_line_beats_the_environment(root: Path) -> None:
    assert load(root, {"HTTP_PORT": "8080"}, {"HTTP_PORT": "8081"})["http.port"] == 8081


def test_names_may_be_in_any_case_and_foreign_ones_do_not_match(root: Path) -> None:
    config = load(
        root, {"OperationsApi_Network_Port": "7000", "PATH": "/bin", "PORT": "1", "HTTP": "1"}, {"logging_ROTATION_enabled": "false"}
    )
    assert config["operationsApi.network.port"] == 7000
    assert config["logging.rotation.enabled"] is False
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
    assert str(caught.value) == "http.port and http.securePort cannot be the same value"


def test_former_names_write_todays(root: Path) -> None:
    config = load(
        root, {"LOG_LEVEL": "debug", "HTTPS_ON": "true", "DISABLE_TRANSACTION_LOG": "true", "NODE_ENV": "production", "THREADS_COUNT": "2"}
    )
    assert config["logging.level"] == "debug"
    assert config["operationsApi.network.securePort"] == 9925
    assert config["operationsApi.network.port"] is None
    assert config["logging.auditLog"] is False
    assert config["instances"] == 2
    document = read_document(root / "svc-config.yaml")
    assert document["logging"] == {"level": "debug", "auditLog": False}
    again = load(root, {"HTTPS_ON": "true"})
    assert again["operationsApi.network.securePort"] == 9925
    assert len(copies(root)) == 1


def test_todays_name_beats_a_former_one(root: Path) -> None:
    assert load(root, {"LOG_LEVEL": "debug", "LOGGING_LEVEL": "info"})["logging.level"] == "info"


def test_replication_hostname_names_the_node_of_a_cluster_of_one(root: Path) -> None:
    config = load(root, {"REPLICATION_HOSTNAME": "n1"})
    assert config["node.hostname"] == "n1"
    assert config.replication is None


def test_the_root_is_written_as_it_was_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root.parent))
    Config.load(Path("~") / root.name, environ={"ROOTPATH": f"~/{root.name}"})
    assert read_document(root / "svc-config.yaml")["rootPath"] == str(root)
    assert not copies(root)


def test_a_copy_that_cannot_be_made_is_noted(root: Path) -> None:
    (root / "backup").write_text("in the way")
    config = load(root, {"HTTP_PORT": "8080"})
    assert config.notes[0][0] == "error"
    assert "could not be copied" in config.notes[0][1]
    assert read_document(root / "svc-config.yaml")["http"]["port"] == 8080


def test_development_values_hold_for_this_run_and_are_not_written(root: Path) -> None:
    config = load(root, {"LOGGING_LEVEL": "error"}, dev=True)
    assert config.dev
    assert config["authentication.authorizeLocal"] is True
    assert config["http.corsAccessList"] == ("*",)
    assert config["logging.stdStreams"] is True
    assert config["logging.level"] == "error"  # what is said explicitly wins
    document = read_document(root / "svc-config.yaml")
    assert "authentication" not in document
    assert load(root)["authentication.authorizeLocal"] is False


def test_reread_takes_the_file_and_keeps_development(root: Path) -> None:
    config = load(root, dev=True)
    write_document(root / "svc-config.yaml", {"logging": {"level": "debug", "file": False}})
    again = reread(config)
    assert again["logging.level"] == "info"
    assert again["logging.file"] is False
    assert again["authentication.authorizeLocal"] is True
