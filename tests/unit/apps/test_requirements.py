"""svc.apps.requirements: one version of a package counts for all applications."""

import os
import sys
from pathlib import Path

import pytest

from svc.apps.requirements import unmet_requirements
from tests.support.application import application


def install(directory: Path, name: str, version: str) -> None:
    """As `pip install --target`, without the code."""
    info = directory / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (directory / f"{name}.py").write_text(f"version = '{version}'\n")


def test_nothing_is_said_of_what_fits(tmp_path: Path) -> None:
    assert unmet_requirements(tmp_path) == []
    (tmp_path / "requirements.txt").write_text(
        "# comment\npytest >= 7  # fits\n\n-r more.txt\n--no-index\nno-such-thing; python_version < '3'\nnot a requirement ===\npip @ https://example.com/x.whl\n"
    )
    assert [text for text in unmet_requirements(tmp_path) if "pip" not in text] == []


def test_what_is_missing_comes_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("svc-no-such-thing>=2\n")
    assert unmet_requirements(tmp_path) == [
        "requirements.txt: not installed: svc-no-such-thing>=2."
        " In the directory of the application: pip install --target .packages -r requirements.txt"
    ]
    (tmp_path / "requirements.txt").unlink()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["svc-no-such-thing>=2", 5]\n')
    assert unmet_requirements(tmp_path)[0].endswith("pip install --target .packages 'svc-no-such-thing>=2'")


@pytest.mark.parametrize("text", ["", "[project", "project = 5", "[project]\ndependencies = 5", "\xff"])
def test_files_that_say_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(text.encode("latin-1"))
    assert unmet_requirements(tmp_path) == []


def test_a_pipe_keeps_nothing_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "requirements.txt")
    (tmp_path / "pyproject.toml").symlink_to("/dev/zero")
    assert unmet_requirements(tmp_path) == []


def test_the_version_that_is_found_first_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    install(first / ".packages", "svc_words", "1.0")
    install(second / ".packages", "svc_words", "2.0")
    (second / "requirements.txt").write_text("svc_words>=2\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(first / ".packages"), str(second / ".packages")])
    assert unmet_requirements(first) == []
    assert unmet_requirements(second) == [
        "requirements.txt needs svc_words>=2, but all applications have svc_words 1.0 of the application 'first'"
    ]
    (second / "requirements.txt").unlink()
    assert unmet_requirements(second) == [
        "svc_words 2.0 in .packages is not used: all applications have svc_words 1.0 of the application 'first'"
    ]
    install(second / ".packages", "pytest", "0.1")
    assert any(
        "pytest 0.1 in .packages is not used" in text and "the environment of the service" in text for text in unmet_requirements(second)
    )


def test_a_clash_is_a_warning_of_the_later_application(tmp_path: Path) -> None:
    other = tmp_path / "other"
    install(other / ".packages", "svc_words_of_two", "2.0")
    (other / "requirements.txt").write_text("svc_words_of_two>=2\n")
    with application(tmp_path, "") as app:
        app.node.run(app.node.applications.add(other))
        found = app.node.applications.get("other")
        assert found is not None and found.status == "healthy", found.entries
        install(other / ".packages", "yaml_of_no_use", "1.0")
        (other / "requirements.txt").write_text("svc_words_of_two>=3\n")
        app.node.run(app.node.applications.reload("other"))
        assert found.status == "warning" and "needs svc_words_of_two>=3" in found.entries["packages"].messages[0]
        (other / "requirements.txt").write_text("svc_words_of_two>=2\n")
        app.node.run(app.node.applications.reload("other"))
        assert found.status == "healthy" and "packages" not in found.entries
