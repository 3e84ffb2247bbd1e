"""Tests use what other packages document: a release may change the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
IMPORTS = re.compile(r"^ *(?:from|import) (?!svc\b|tests\b|__future__)([\w.]+)(?: import (.+))?$", re.MULTILINE)


def private_names(text: str) -> list[str]:
    """Modules, and names of modules, that other packages keep for themselves."""
    return [
        f"{module} {names}".strip()
        for module, names in IMPORTS.findall(text)
        if "internal" in module.split(".") or re.search(r"(?:^|[., ])_", f"{module} {names}")
    ]


@pytest.mark.parametrize(
    "line", ["from httpx._transports import default", "import _pytest", "from hypothesis.internal import charmap", "from x import a, _b"]
)
def test_they_are_found(line: str) -> None:
    assert private_names(f"import os\n    {line}\nfrom svc.x import _a\nfrom a_b import c_d\n") == [
        line.replace("from ", "").replace("import ", "")
    ]


def test_nothing_private_of_other_packages_is_imported() -> None:
    assert not [(path.name, name) for path in TESTS.rglob("*.py") for name in private_names(path.read_text()) if path != Path(__file__)]
