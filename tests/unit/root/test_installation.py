"""Which root, the first run, the lock, the pid, the initial password."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from svc.clock import FakeClock
from svc.config import Config, load_config
from svc.config.document import read_document, write_document
from svc.config.settings import LOOPBACK_ORIGINS
from svc.errors import ConfigError
from svc.root.installation import (
    DIRECTORIES,
    AlreadyRunning,
    Installation,
    RootLock,
    WrongUser,
    boot_file,
    check_user,
    end_installation,
    find_installation,
    initial_password_notice,
    install,
    keep_initial_password,
    make_directories,
    make_keys,
    read_boot_file,
    record_socket,
    recorded_socket,
    remove_initial_password,
    require_database,
    root_of,
    running_pid,
    take_administrator,
    write_boot_file,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), **more}


# which root


def test_the_root_is_found_in_the_contracts_order(home: Path) -> None:
    one, two, three = home / "one", home / "two", home / "three"
    env = environ(home)
    assert find_installation(env, {}) == Installation(home / "svc", home / "svc" / "svc-config.yaml", False)
    install(find_installation(env, {"ROOTPATH": str(three)}), env, {})
    assert find_installation(env, {}) == Installation(three, three / "svc-config.yaml", True)
    assert find_installation(environ(home, rootpath=str(two)), {}).root == two
    assert find_installation(environ(home, ROOTPATH=str(two)), {"RootPath": str(one)}).root == one
    assert find_installation(environ(home, ROOTPATH="~/four/../two"), {}).root == two


def test_a_root_with_a_configuration_is_installed_without_boot_file(home: Path) -> None:
    root = home / "r"
    root.mkdir()
    write_document(root / "svc-config.yaml", {})
    assert find_installation(environ(home, ROOTPATH=str(root)), {}).installed
    assert not boot_file(environ(home)).exists()


def test_a_boot_file_that_points_nowhere_does_not_count(home: Path) -> None:
    boot = boot_file(environ(home))
    boot.parent.mkdir()
    boot.write_text("settings_path=/nowhere/svc-config.yaml\ninstall_user=ann\n")
    assert find_installation(environ(home), {}).root == home / "svc"
    boot.write_bytes(b"\xff\xfe")
    assert not find_installation(environ(home), {}).installed


def test_svc_config_is_a_template_first_and_then_what_runs(home: Path) -> None:
    own = home / "mine.yaml"
    write_document(own, {"rootPath": str(home / "r"), "http": {"port": 7000}, "shop": {"package": "x"}})
    env = environ(home, SVC_CONFIG=str(own))
    installation = find_installation(env, {})
    assert (installation.root, installation.installed, installation.template) == (home / "r", False, own)
    installed = install(installation, env, {})
    document = read_document(installed.file)
    assert document["http"]["port"] == 7000
    assert document["http"]["securePort"] == 9927
    assert document["shop"] == {"package": "x"}
    assert find_installation(env, {}) == Installation(home / "r", own, True)
    with pytest.raises(ConfigError, match=r"SVC_CONFIG: the file .*none\.yaml does not exist"):
        find_installation(environ(home, SVC_CONFIG=str(home / "none.yaml")), {})


# first run


def test_an_installation_makes_private_directories_a_configuration_and_the_boot_file(home: Path) -> None:
    env = environ(home)
    installation = install(find_installation(env, {}), env, {}, clock=FakeClock())
    root = home / "svc"
    assert installation == Installation(root, root / "svc-config.yaml", True)
    for directory in (root, *(root / name for name in DIRECTORIES)):
        assert directory.stat().st_mode & 0o777 == 0o700
    assert installation.file.stat().st_mode & 0o777 == 0o600
    assert read_boot_file(env)["settings_path"] == str(installation.file)
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
        "http": {"port": 9926, "securePort": 9927, "http2": True, "cors": True, "corsAccessList": [None], "mtls": False},
        "operationsApi": {
            "network": {
                "port": 9925,
                "securePort": None,
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


def test_a_configuration_belongs_to_the_root_that_it_lies_in(home: Path) -> None:
    env = environ(home)
    installation = install(find_installation(env, {}), env, {})
    copy = home / "copy"
    shutil.copytree(installation.root, copy)
    assert root_of(copy / "svc-config.yaml") == copy
    assert find_installation(environ(home, SVC_CONFIG=str(copy / "svc-config.yaml")), {}).root == copy
    own = home / "etc" / "svc-config.yaml"
    own.parent.mkdir()
    write_document(own, {"rootPath": str(installation.root)})
    assert root_of(own) == installation.root
    write_document(own, {})
    assert root_of(own) == own.parent


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


# lock and pid


def test_one_server_at_a_time(tmp_path: Path) -> None:
    with RootLock(tmp_path):
        assert (tmp_path / "svc.pid").read_text() == f"{os.getpid()}\n"
        assert (tmp_path / "svc.pid").stat().st_mode & 0o777 == 0o600
        with pytest.raises(AlreadyRunning) as caught:
            RootLock(tmp_path)
        assert str(caught.value) == f"svc is already running (pid: {os.getpid()})"
    assert not (tmp_path / "svc.pid").exists()
    lock = RootLock(tmp_path)
    lock.release()
    lock.release()


def test_a_pid_left_behind_does_not_hinder_a_start(tmp_path: Path) -> None:
    (tmp_path / "svc.pid").write_text("1\n")
    RootLock(tmp_path).release()


def test_a_root_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"svc\.lock cannot be opened"):
        RootLock(tmp_path / "none")


@pytest.mark.parametrize("text", ["", "x", "999999999"])
def test_no_process_behind_the_pid(tmp_path: Path, text: str) -> None:
    (tmp_path / "svc.pid").write_text(text)
    assert running_pid(tmp_path) is None


def test_the_pid_must_be_of_our_command(tmp_path: Path) -> None:
    wait = "import sys; print(flush=True); sys.stdin.read()"
    for arguments, running in ((["svc"], True), (["other"], False)):
        with subprocess.Popen([sys.executable, "-c", wait, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            (tmp_path / "svc.pid").write_text(f"{process.pid}\n")
            assert running_pid(tmp_path) == (process.pid if running else None)
            process.communicate()
    (tmp_path / "svc.pid").write_text(f"{os.getpid()}\n")
    assert running_pid(tmp_path) is None  # a number given again, to us


# the first super user


def test_the_password_leaves_the_environment_and_the_options() -> None:
    env = {"svc_admin_password": "one", "SVC_ADMIN_USERNAME": "ann", "PATH": "/bin"}
    options = {"SVC_ADMIN_PASSWORD": "two"}
    administrator = take_administrator(env, options)
    assert (administrator.username, administrator.password) == ("ann", "two")
    assert env == {"SVC_ADMIN_USERNAME": "ann", "PATH": "/bin"}
    assert options == {}
    assert "two" not in repr(administrator)


def test_no_or_a_blank_password_is_none() -> None:
    assert take_administrator({}, {}).password is None
    assert take_administrator({"SVC_ADMIN_PASSWORD": "  "}, {}).password is None


def test_the_initial_password_is_shown_once_and_kept(tmp_path: Path) -> None:
    terminal = io.StringIO()
    keep_initial_password(tmp_path, "admin", "s3cret", terminal)
    file = tmp_path / "initial-admin-password"
    assert file.read_text() == "s3cret\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert terminal.getvalue().count("s3cret") == 1
    assert str(file) in (initial_password_notice(tmp_path) or "")
    assert "s3cret" not in (initial_password_notice(tmp_path) or "")
    remove_initial_password(tmp_path)
    remove_initial_password(tmp_path)
    assert initial_password_notice(tmp_path) is None


def test_the_boot_file_knows_a_socket_whose_path_was_too_long(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    configured, used = tmp_path / "operations-server", tmp_path / "elsewhere" / "0123.sock"
    record_socket(environ, configured, configured)
    assert not boot_file(environ).exists()
    write_boot_file(environ, tmp_path / "svc-config.yaml")
    record_socket(environ, configured, used)
    assert read_boot_file(environ)["settings_path"] == str(tmp_path / "svc-config.yaml")
    assert recorded_socket(environ, tmp_path / "here" / "0123.sock") == used
    assert recorded_socket(environ, tmp_path / "here" / "4567.sock") == tmp_path / "here" / "4567.sock"  # of another root
    assert recorded_socket(environ, configured) == configured


def test_a_lock_without_a_server_is_no_running_server(tmp_path: Path) -> None:
    with RootLock(tmp_path, is_server=False):
        assert not (tmp_path / "svc.pid").exists()
        with pytest.raises(AlreadyRunning, match=r"^svc is already running$"):
            RootLock(tmp_path)
    RootLock(tmp_path).release()


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
