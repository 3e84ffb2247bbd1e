"""What an application needs, and what of it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc.deploying.requirements import BadRequirements, installed, missing, read_requirements


def test_nothing_is_needed_without_a_file(tmp_path: Path) -> None:
    assert read_requirements(tmp_path) == []


def test_requirements_come_before_the_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["a>=1", "b"]\n')
    assert read_requirements(tmp_path) == ["a>=1", "b"]
    (tmp_path / "requirements.txt").write_text("\ufeffc==2  # why\n\n# no\n-r more.txt\n", encoding="utf-8")
    assert read_requirements(tmp_path) == ["c==2", "-r more.txt"]


@pytest.mark.parametrize(
    "text",
    [
        "[project",
        '[project]\ndependencies = "a"',
        "[project]\ndependencies = [1]",
        '[project]\ndependencies = ["a b c"]',
        "x = " + "[" * 5000,
        "\x00",
    ],
)
def test_a_project_that_cannot_be_read_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(BadRequirements, match=r"pyproject\.toml"):
        read_requirements(tmp_path)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x\n" * 600_000])
def test_requirements_that_cannot_be_read_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes(content)
    with pytest.raises(BadRequirements):
        read_requirements(tmp_path)


def test_what_the_interpreter_has_is_not_missing() -> None:
    lines = [
        "pyyaml",
        "PyYAML>=5",
        "pytest>=8.2,<100",
        "svc-nothing-of-this-name",
        "pyyaml>=9999",
        "no-such; python_version < '3'",
        "--no-index",
        "x @ https://example.com/x",
    ]
    assert missing(lines) == ["svc-nothing-of-this-name", "pyyaml>=9999", "--no-index", "x @ https://example.com/x"]


def test_what_is_in_the_packages_of_the_application_is_not_missing(tmp_path: Path) -> None:
    about = tmp_path / "svc_thing-1.5.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: svc-thing\nVersion: 1.5\nRequires-Dist: svc-other-thing\n")
    assert missing(["svc-thing"], tmp_path) == ["svc-thing"], "what it needs itself is missing"
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: svc-thing\nVersion: 1.5\n")
    assert missing(["svc-thing>1", "svc_thing==1.5"], tmp_path) == []
    assert missing(["svc-thing>2"], tmp_path) == ["svc-thing>2"]


def test_pins_are_of_what_is_installed() -> None:
    assert any(line.startswith("pyyaml==") for line in installed())
