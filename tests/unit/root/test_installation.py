"""The first run: directories, configuration, keys."""

import os
import shutil
from pathlib import Path

import pytest

from svc.clock import FakeClock
from svc.config import Config, load_config
from svc.config.document import read_document
from svc.config.settings import LOOPBACK_ORIGINS
from svc.errors import ConfigError
from svc.root.installation import (
    DIRECTORIES,
    WrongUser,
    check_user,
    end_installation,
    install,
    make_directories,
    make_keys,
    require_database,
)
from svc.root.known_roots import known_roots
from svc.root.location import (
    Installation,
    find_installation,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), **more}


def test_an_installation_makes_private_directories_a_configuration_and_the_boot_file(home: Path) -> None:
    env = environ(home)
    installation = install(find_installation(env, {}), env, {}, clock=FakeClock())
    root = home / "svc"
    assert installation == Installation(root, root / "svc-config.yaml", True)
    for directory in (root, *(root / name for name in DIRECTORIES)):
        assert directory.stat().st_mode & 0o777 == 0o700
    assert installation.file.stat().st_mode & 0o777 == 0o600
    assert [each.file for each in known_roots(env)] == [installation.file]
    assert (root / "log" / "install.log").read_text().startswith("2026-01-01T00:00:00.000Z [main/0] [notify]: svc ")


def test_the_written_configuration_is_the_contracts(home: Path) -> None:
    env = environ(home, NODE_HOSTNAME="n1")
    file = install(find_installation(env, {}), env, {}).file
    root = home / "svc"
    assert read_document(file) == {
        "rootPath": str(root),
        "componentsRoot": "components",
        "node": {"hostname": "n1"},
        "instances": 1,
        "http": {"port": 9926, "securePort": 9927, "host": "*", "http2": True, "cors": True, "corsAccessList": [None], "mtls": False},
        "operationsApi": {
            "network": {
                "port": 9925,
                "securePort": None,
                "host": "127.0.0.1",
                "cors": True,
                "corsAccessList": ["*"],
                "domainSocket": "operations-server",
            }
        },
        "authentication": {
            "authorizeLocal": False,
            "cacheTTL": 30000,
            "enableSessions": True,
            "operationTokenTimeout": "1d",
            "refreshTokenTimeout": "30d",
        },
        "mqtt": {"network": {"port": 1883, "securePort": 8883, "mtls": False}, "webSocket": True, "requireAuthentication": True},
        "logging": {
            "level": "warn",
            "root": "log",
            "file": True,
            "stdStreams": False,
            "auditLog": True,
            "auditRetention": "3d",
            "rotation": {"enabled": True, "compress": False, "interval": None, "maxSize": "64M", "path": "log"},
            "auditAuthEvents": {"logFailed": False, "logSuccessful": False},
        },
        "storage": {"path": "database", "writeAsync": False, "caching": True, "compression": True},
        "analytics": {"aggregatePeriod": 60, "replicate": False},
        "tls": {
            "certificate": "keys/certificate.pem",
            "certificateAuthority": "keys/ca.pem",
            "privateKey": "keys/privateKey.pem",
        },
        "localStudio": {"enabled": True},
    }
    assert not load_config(root).notes


def test_an_installed_root_needs_its_database(home: Path) -> None:
    env = environ(home)
    config = load_config(install(find_installation(env, {}), env, {}).root)
    require_database(config)  # the first start makes it, also when one was interrupted before
    end_installation(config.root)
    for database in ("missing", "empty", "another"):
        shutil.rmtree(config.storage.path, ignore_errors=True)
        if database != "missing":
            (config.storage.path / ("data" if database == "another" else "")).mkdir(parents=True)
        with pytest.raises(ConfigError) as raised:
            require_database(config)
        assert f"no system database in {config.storage.path}" in str(raised.value)
        assert "svc install --new-database" in str(raised.value)
    (config.storage.path / "system").mkdir()
    (config.storage.path / "system" / "data.mdb").touch()
    require_database(config)


def test_the_development_mode_is_written(home: Path) -> None:
    env = environ(home, DEFAULTS_MODE="dev")
    config = load_config(install(find_installation(env, {}), env, {}).root)
    assert config.authentication.authorize_local is True
    assert config.logging.level == "info"
    assert config.http.host == config.operations_api.network.host == ("127.0.0.1",)
    assert config.http.cors_access_list == tuple(LOOPBACK_ORIGINS)
    with pytest.raises(ConfigError, match="DEFAULTS_MODE"):
        install(Installation(home / "x", home / "x" / "svc-config.yaml", False), env, {"DEFAULTS_MODE": "test"})


def test_an_installed_root_is_left_alone(home: Path) -> None:
    env = environ(home)
    installation = install(find_installation(env, {}), env, {})
    installation.file.write_text("http: {port: 1}\n")
    assert install(find_installation(env, {}), env, {}) == installation
    assert installation.file.read_text() == "http: {port: 1}\n"


def test_an_interrupted_installation_is_repeated(home: Path) -> None:
    env = environ(home)
    make_directories(home / "svc")
    (home / "svc" / "svc.lock").touch()
    (home / "svc" / ".svc-config.yaml.17.part").touch()
    assert install(find_installation(env, {}), env, {}).installed


@pytest.mark.parametrize("name", ["README.md", "src"])
def test_a_directory_of_something_else_is_refused(home: Path, name: str) -> None:
    (home / "svc").mkdir()
    (home / "svc" / name).touch()
    with pytest.raises(ConfigError, match=f"is not empty \\('{name}'\\)"):
        install(find_installation(environ(home), {}), environ(home), {})
    assert [path.name for path in (home / "svc").iterdir()] == [name]


def test_a_file_in_the_way_is_named(home: Path) -> None:
    (home / "svc").touch()
    with pytest.raises(ConfigError, match="is not a folder"):
        install(find_installation(environ(home), {}), environ(home), {})
    (home / "r").mkdir()
    (home / "r" / "log").touch()
    with pytest.raises(ConfigError, match="log is not a folder"):
        make_directories(home / "r")


def test_configured_directories_are_made(tmp_path: Path) -> None:
    config = Config.from_document({"storage": {"path": "a/b", "blobPaths": ["c", "d"]}, "componentsRoot": "apps"}, tmp_path / "r")
    make_directories(config.root, config)
    for name in ("a/b", "c", "d", "apps", "log"):
        assert (config.root / name).is_dir()


def test_another_users_data_are_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installation = Installation(tmp_path, tmp_path / "svc-config.yaml", True)
    check_user(installation)  # no data yet
    (tmp_path / "database").mkdir()
    check_user(installation)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(WrongUser, match="Must execute as "):
        check_user(installation)


def test_keys_and_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from svc.auth.token_keys import TokenKeys

    monkeypatch.setattr(TokenKeys.__init__, "__kwdefaults__", {"bits": 2048})
    config = Config.from_document({"node": {"hostname": "db1.example"}}, tmp_path)
    certificates = {"ca.pem", "caPrivateKey.pem", "certificate.pem", "privateKey.pem"}
    assert make_keys(config) is None
    assert {path.name for path in (tmp_path / "keys").iterdir()} == certificates
    before = {name: (tmp_path / "keys" / name).read_bytes() for name in certificates}
    assert make_keys(config, tokens=True) is None
    files = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "keys").iterdir()}
    assert files == dict.fromkeys({*certificates, ".jwtPrivate.key", ".jwtPublic.key", ".jwtPass"}, 0o600)
    assert {name: (tmp_path / "keys" / name).read_bytes() for name in certificates} == before


def test_keys_that_cannot_be_made_are_a_warning(tmp_path: Path) -> None:
    config = Config.from_document({}, tmp_path)
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "privateKey.pem").write_text("nonsense")
    warning = make_keys(config)
    assert warning is not None and "privateKey.pem is not a valid private key" in warning
    (tmp_path / "keys" / "privateKey.pem").unlink()
    (tmp_path / "keys" / "ca.pem").unlink()
    (tmp_path / "keys" / "caPrivateKey.pem").unlink()
    (tmp_path / "keys").rmdir()
    (tmp_path / "keys").write_text("a file")
    warning = make_keys(config)
    assert warning is not None and str(tmp_path / "keys") in warning
