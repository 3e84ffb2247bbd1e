"""Which root directory is used."""

import shutil
from pathlib import Path

import pytest

from svc.config.document import read_document, write_document
from svc.errors import ConfigError
from svc.root.installation import install
from svc.root.known_roots import boot_file, known_roots
from svc.root.location import Installation, find_installation, root_of


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), **more}


def chosen(environ: dict[str, str], options: dict[str, str]) -> tuple[Path, str]:
    found = find_installation(environ, options)
    return found.root, found.chosen


def test_the_root_is_found_in_the_contracts_order(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, project = home / "one", home / "two", home / "project"
    local = project / ".svc"
    local.mkdir(parents=True)
    monkeypatch.chdir(project)
    env = environ(home)
    assert find_installation(env, {}) == Installation(home / "svc", home / "svc" / "svc-config.yaml", False)
    assert chosen(env, {}) == (home / "svc", "the default root"), "an empty .svc does not count"
    install(find_installation(env, {"ROOTPATH": ".svc"}), env, {})
    assert find_installation(env, {}) == Installation(local, local / "svc-config.yaml", True)
    assert chosen(env, {}) == (local, "the .svc of this directory")
    assert chosen(environ(home, rootpath=str(two)), {}) == (two, "named by the environment variable ROOTPATH")
    assert chosen(environ(home, ROOTPATH=str(two)), {"RootPath": str(one)}) == (one, "named by --ROOTPATH")
    assert chosen(environ(home, ROOTPATH="~/four/../two"), {})[0] == two
    own = home / "own.yaml"
    write_document(own, {"rootPath": str(one)})
    assert chosen(environ(home, SVC_CONFIG=str(own)), {}) == (one, "named by SVC_CONFIG")
    monkeypatch.chdir(home)
    assert chosen(env, {}) == (home / "svc", "the default root")


def test_no_root_is_taken_from_the_boot_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    env = environ(home)
    install(find_installation(env, {"ROOTPATH": str(home / "other")}), env, {})
    assert [each.root for each in known_roots(env)] == [home / "other"]
    assert find_installation(env, {}).root == home / "svc"


def test_a_user_without_a_home_directory_names_the_root(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.chdir(home)
    monkeypatch.setattr(Path, "expanduser", fail)
    with pytest.raises(ConfigError, match="no home directory; name a root with --ROOTPATH"):
        find_installation({}, {})


def test_a_root_with_a_configuration_is_installed_without_boot_file(home: Path) -> None:
    root = home / "r"
    root.mkdir()
    write_document(root / "svc-config.yaml", {})
    assert find_installation(environ(home, ROOTPATH=str(root)), {}).installed
    assert not boot_file(environ(home)).exists()


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
