"""What is packed, and that it comes out again as it was."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from svc.deploying.packing import CannotPack, pack, size_of
from svc.deploying.unpacking import unpack
from svc.store.backup.watch import CopyStopped, Watch


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app"
    (path / "web" / "empty").mkdir(parents=True)
    (path / "web" / "a.txt").write_text("a")
    (path / "run.sh").write_text("x")
    (path / "run.sh").chmod(0o755)
    (path / "link").symlink_to("web/a.txt")
    (path / ".env").write_text("A=1")
    for name in (".git", ".venv", "venv", "__pycache__", "node_modules", ".packages"):
        (path / name).mkdir()
        (path / name / "x").write_text("x" * 1000)
    os.mkfifo(path / "pipe")
    return path


def there_and_back(app: Path, tmp_path: Path, **options: bool) -> list[str]:
    out = io.BytesIO()
    pack(app, out, **options)
    out.seek(0)
    place = tmp_path / "out"
    unpack(out, place)
    assert (place / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (place / "web" / "a.txt").stat().st_mtime == int((app / "web" / "a.txt").stat().st_mtime)
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*"))


OWN = [".env", "link", "run.sh", "web", "web/a.txt", "web/empty"]


def test_what_is_packed(app: Path, tmp_path: Path) -> None:
    assert there_and_back(app, tmp_path) == OWN
    assert size_of(app) == 5


def test_packages_and_links_are_a_choice(app: Path, tmp_path: Path) -> None:
    packages = [".packages", ".packages/x", "node_modules", "node_modules/x"]
    assert there_and_back(app, tmp_path, without_packages=False, without_links=True) == sorted(
        [name for name in OWN if name != "link"] + packages
    )


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "link-to-out"])
def test_links_that_lead_out_are_an_error(app: Path, target: str) -> None:
    (app / "link-to-out").symlink_to("..")
    (app / "bad").symlink_to(target)
    with pytest.raises(CannotPack, match="is a link to"):
        pack(app, io.BytesIO())


@pytest.mark.parametrize("name", ["a\\b", "a\nb", b"a\xff"])
def test_names_that_would_be_refused_are_an_error(app: Path, name: str | bytes) -> None:
    (Path(os.fsdecode(os.path.join(os.fsencode(app), os.fsencode(name))))).write_text("x")
    with pytest.raises(CannotPack, match="rename it"):
        pack(app, io.BytesIO())


def test_it_can_be_stopped(app: Path) -> None:
    watch = Watch()
    watch.stop()
    with pytest.raises(CopyStopped):
        pack(app, io.BytesIO(), watch=watch)
