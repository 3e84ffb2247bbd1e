"""The boot file: which roots an OS user has used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from svc.config.document import write_document
from svc.root.known_roots import KnownRoot, boot_file, known_roots, recorded_socket, remember_root


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def configured(root: Path) -> Path:
    (root / "database").mkdir(parents=True)
    write_document(root / "svc-config.yaml", {})
    return root / "svc-config.yaml"


def test_roots_are_noted_once_and_in_order(environ: dict[str, str], tmp_path: Path) -> None:
    assert known_roots(environ) == []
    one, two = configured(tmp_path / "one"), configured(tmp_path / "two")
    for file in (one, two, one):
        remember_root(environ, file)
    assert known_roots(environ) == [KnownRoot(one), KnownRoot(two)]
    assert [each.root for each in known_roots(environ)] == [one.parent, two.parent]
    assert boot_file(environ).stat().st_mode & 0o777 == 0o600
    before = boot_file(environ).stat().st_ino
    remember_root(environ, two)
    assert boot_file(environ).stat().st_ino == before, "nothing has changed"


def test_roots_that_are_gone_are_forgotten_and_those_out_of_reach_are_not(environ: dict[str, str], tmp_path: Path) -> None:
    one, two, three = (configured(tmp_path / name) for name in ("one", "two", "three"))
    for file in (one, two, three):
        remember_root(environ, file)
    one.unlink()
    two.parent.chmod(0)
    try:
        remember_root(environ, three)
        assert [each.file for each in known_roots(environ)] == [two, three]
    finally:
        two.parent.chmod(0o700)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"", b"settings_path=\n", b"settings_path=here/svc-config.yaml\n", b"operations_socket=/x\n"]
)
def test_a_damaged_file_names_nothing_and_is_replaced(environ: dict[str, str], tmp_path: Path, content: bytes) -> None:
    boot_file(environ).parent.mkdir()
    boot_file(environ).write_bytes(content)
    assert known_roots(environ) == []
    file = configured(tmp_path / "one")
    remember_root(environ, file)
    assert known_roots(environ) == [KnownRoot(file)]


def test_a_file_that_is_no_configuration_has_the_root_it_is_in(tmp_path: Path) -> None:
    file = tmp_path / "svc-config.yaml"
    file.write_text("]")
    assert KnownRoot(file).root == tmp_path


def test_a_home_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / ".svc").touch()
    remember_root({"HOME": str(tmp_path)}, tmp_path / "svc-config.yaml")


def test_a_user_without_a_name_is_noted_by_number(environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", fail)
    remember_root(environ, tmp_path / "svc-config.yaml")
    assert f"install_user={os.getuid()}\n" in boot_file(environ).read_text()


def test_the_sockets_of_roots_with_long_paths_are_found(environ: dict[str, str], tmp_path: Path) -> None:
    one, two = configured(tmp_path / "one"), configured(tmp_path / "two")
    remember_root(environ, one, tmp_path / "elsewhere" / "0123.sock")
    remember_root(environ, two, tmp_path / "elsewhere" / "89ab.sock")
    here = tmp_path / "here"
    for name in ("0123.sock", "89ab.sock"):
        assert recorded_socket(environ, here / name) == tmp_path / "elsewhere" / name
    assert recorded_socket(environ, here / "4567.sock") == here / "4567.sock", "of another root"
    assert recorded_socket(environ, tmp_path / "operations-server") == tmp_path / "operations-server"
    remember_root(environ, one)
    assert recorded_socket(environ, here / "0123.sock") == here / "0123.sock"
