"""Which root directory is used, and the boot file."""

import shutil
from pathlib import Path

import pytest

from svc.config.document import read_document, write_document
from svc.errors import ConfigError
from svc.root.installation import (
    install,
)
from svc.root.location import (
    Installation,
    boot_file,
    find_installation,
    read_boot_file,
    record_socket,
    recorded_socket,
    root_of,
    write_boot_file,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), **more}


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
