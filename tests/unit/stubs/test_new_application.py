from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from svc.accounts.settings import SettingsReader
from svc.apps.kinds import KINDS
from svc.apps.roles_file import read_roles
from svc.stubs import ApplicationExists, check_name, schema_of, write_application


def test_the_files_of_a_new_application_are_whole(tmp_path: Path) -> None:
    written = write_application(tmp_path / "shop-2", "shop-2")
    assert written == sorted(path for path in (tmp_path / "shop-2").rglob("*") if path.is_file())
    names = {path.relative_to(tmp_path / "shop-2").as_posix() for path in written}
    assert {
        "config.yaml",
        "schema.graphql",
        "resources.py",
        "roles.yaml",
        "web/index.html",
        "tests/test_application.py",
        ".gitignore",
        "README.md",
    } <= names
    for path in written:
        assert "{{" not in path.read_text("utf-8")
    assert "shop-2" in (tmp_path / "shop-2" / "pyproject.toml").read_text()
    schema = schema_of(tmp_path / "shop-2")
    assert [each.name for each in schema.definitions] == ["List", "Task"]
    assert not schema.warnings
    assert [(role.name, role.fault) for role in read_roles(tmp_path / "shop-2" / "roles.yaml")] == [("member", "")]
    config = yaml.safe_load((tmp_path / "shop-2" / "config.yaml").read_text())
    assert config.keys() - {"rest", "login", "static", "dataLoader"} <= KINDS.keys()


def test_accounts_are_in_the_files_that_speak_of_them(tmp_path: Path) -> None:
    written = write_application(tmp_path / "plain", "shop"), write_application(tmp_path / "shop", "shop", accounts=True)
    plain, shop = ({"/".join(path.parts[len(tmp_path.parts) + 1 :]) for path in each} for each in written)
    assert shop - plain == {"tests/test_accounts.py"} and not plain - shop
    for path in written[0] + written[1]:
        text = path.read_text("utf-8")
        assert "#%" not in text and "%#" not in text
        if path.parts[len(tmp_path.parts)] == "plain" and "typings" not in path.parts:
            assert "account" not in text
    schema = schema_of(tmp_path / "shop")
    assert not schema.warnings
    tables = {each.name: each for each in schema.definitions}
    assert tables.keys() == {"List", "Member", "Task"}
    assert tables["Member"].account and tables["Task"].allow and not tables["List"].allow
    config = yaml.safe_load((tmp_path / "shop" / "config.yaml").read_text())
    reader = SettingsReader()
    settings = reader.read(config["accounts"])
    assert settings is not None, reader.faults
    assert (settings.role, settings.identity, settings.verify) == ("member", "email", True)


def test_it_is_written_into_an_empty_directory_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_application(tmp_path / "empty", "empty")
    for name in ("full", "file", "link"):
        path = tmp_path / name
        if name == "full":
            path.mkdir()
            (path / "mine.txt").write_text("mine")
        elif name == "file":
            path.write_text("mine")
        else:
            path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ApplicationExists):
            write_application(path, name)
    assert (tmp_path / "full" / "mine.txt").read_text() == "mine"
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["", "a b", "../x", "a/b", ".", "..", "größe", "a\n", "x" * 101, "a.b", "-\0"])
def test_a_name_has_letters_digits_and_two_signs(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the name of an application"):
        check_name(name)
    with pytest.raises(ValueError, match="the name of an application"):
        write_application(tmp_path / "x", name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "A-b_9", "0", "x" * 100])
def test_names_that_are_fine(name: str) -> None:
    check_name(name)


def test_it_is_there_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr("svc.stubs.new_application.write_stubs", fail)
    with pytest.raises(OSError, match="no room"):
        write_application(tmp_path / "shop", "shop")
    assert list(tmp_path.iterdir()) == []


def test_who_may_read_it_is_as_for_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "file").touch()
    write_application(tmp_path / "shop", "shop")
    assert (tmp_path / "shop").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert {path.stat().st_mode for path in (tmp_path / "shop").rglob("*") if path.is_file()} == {(tmp_path / "file").stat().st_mode}
