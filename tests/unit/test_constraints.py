"""`.ci/constraints.txt` has a release for each direct dependency, on each Python that svc runs on."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIRECT = [Requirement(text) for text in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"])]
PINNED = [Requirement(line) for line in (ROOT / ".ci" / "constraints.txt").read_text().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_each_direct_dependency_has_one_release_that_may_be_installed(python: str) -> None:
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    pins = [pin for pin in PINNED if pin.marker is None or pin.marker.evaluate(environment)]
    names = [canonicalize_name(pin.name) for pin in pins]
    assert len(names) == len(set(names))
    releases = {name: next(iter(pin.specifier)).version for name, pin in zip(names, pins, strict=True)}
    for direct in DIRECT:
        release = releases.get(canonicalize_name(direct.name))
        assert release is not None, f"{direct.name} has no release in .ci/constraints.txt: python .ci/pin.py"
        assert direct.specifier.contains(release), f"{direct}: .ci/constraints.txt has {release}"


def test_each_release_is_exact() -> None:
    assert all([specifier.operator for specifier in pin.specifier] == ["=="] for pin in PINNED)
