"""What of a directory git would keep."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from svc.deploying import ignored
from svc.deploying.ignored import GitMissing, kept_files
from svc.deploying.packing import pack, size_of

FILES = (
    "config.yaml",
    "a.log",
    ".env",
    "web/index.html",
    "web/build/x.js",
    "web/build/keep.txt",
    "deep/er/b.log",
    "deep/er/c.txt",
    "ä.txt",
    "x y.txt",
)
KEPT = {".gitignore", "config.yaml", "web", "web/index.html", "deep", "deep/er", "deep/er/.gitignore", "deep/er/c.txt", "ä.txt", "x y.txt"}


pytestmark = [pytest.mark.programs, pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")]


@pytest.fixture
def application(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / "app" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "app" / name).write_text(name)
    (tmp_path / "app" / "empty").mkdir()
    return tmp_path / "app"


def with_rules(directory: Path) -> Path:
    (directory / ".gitignore").write_text("*.log\n.env\nbuild/\n")
    (directory / "deep" / "er" / ".gitignore").write_text("!c.txt\n")
    return directory


def test_without_rules_nothing_is_ignored(application: Path) -> None:
    assert kept_files(application) is None


def test_rules_hold_without_a_repository(application: Path) -> None:
    assert kept_files(with_rules(application)) == KEPT


def test_rules_of_a_repository_above_hold_and_what_is_tracked_is_kept(application: Path) -> None:
    above = application.parent
    subprocess.run(["git", "init", "--quiet", str(above)], check=True)
    (above / ".gitignore").write_text("*.txt\n")
    with_rules(application)
    subprocess.run(["git", "-C", str(above), "add", "--force", "app/a.log"], check=True)
    assert kept_files(application) == KEPT - {"ä.txt", "x y.txt"} | {"a.log"}
    (application / "a.log").unlink()
    with open("/dev/null", "wb") as out:
        assert pack(application, out, only=kept_files(application)) == len(KEPT) - 2, "what is tracked and gone is not packed"


def test_files_of_a_repository_within_are_those_that_it_keeps(application: Path) -> None:
    with_rules(application)
    for name in ("deep", "web"):
        subprocess.run(["git", "init", "--quiet", str(application / name)], check=True)
    (application / "web" / ".gitignore").write_text("*.html\n")
    assert kept_files(application) == KEPT - {"web/index.html"} | {
        "web/.gitignore",
        "web/build",
        "web/build/x.js",
        "web/build/keep.txt",
        "deep/er/b.log",
    }


def test_a_repository_runs_nothing(application: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(application)], check=True)
    marker = application.parent / "ran"
    config = application / ".git" / "config"
    config.write_text(f"{config.read_text()}[core]\n\tfsmonitor = touch {marker}\n")
    assert kept_files(application)
    assert not marker.exists()


def test_without_git_rules_cannot_be_read(application: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert kept_files(application) is None
    with pytest.raises(GitMissing):
        kept_files(with_rules(application))


def test_caches_are_left_out_without_rules(application: Path) -> None:
    before = size_of(application)
    for name in ignored.CACHES:
        (application / name).mkdir()
        (application / name / "x").write_text("x" * 100)
    assert size_of(application) == size_of(application, without_packages=False) == before


def test_a_directory_that_is_ignored_itself_is_whole(application: Path, tmp_path: Path) -> None:
    """As what a build makes: that a repository does not keep it does not mean that it is empty."""
    subprocess.run(("git", "init", "--quiet", str(tmp_path)), check=True)
    (tmp_path / ".gitignore").write_text("app/\n")
    assert kept_files(application) is None
    (application / ".gitignore").write_text("*.log\n")
    kept = kept_files(application)
    assert kept is not None and {"config.yaml", "web/build/x.js"} <= kept and "a.log" not in kept


def test_a_hook_of_another_repository_deploys(application: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    subprocess.run(("git", "init", "--quiet", str(other)), check=True)
    (other / ".git" / "info" / "exclude").write_text("config.yaml\n")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert kept_files(application) is None
    (application / ".gitignore").write_text("*.log\n")
    kept = kept_files(application)
    assert kept is not None and "config.yaml" in kept and "a.log" not in kept
