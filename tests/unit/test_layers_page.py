"""docs/architecture.md names each layer that import-linter checks, and in their order."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_layers_are_those_that_are_checked() -> None:
    checks = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(check["layers"] for check in checks if check["type"] == "layers")
    wanted = [sorted(re.findall(r"\w+", layer)) for layer in layers if layer != "__main__"]
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("## 12. Layers")[2].partition("\n## ")[0]
    rows = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in page.splitlines() if row.startswith("| `")]
    assert sorted(name for row in rows for name in row) == sorted(name for layer in wanted for name in layer)
    order = [name for row in rows for name in row]
    place = {name: number for number, layer in enumerate(wanted) for name in layer}
    assert [place[name] for name in order] == sorted(place[name] for name in order)
