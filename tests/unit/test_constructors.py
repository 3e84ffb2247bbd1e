"""No constructor takes so much that nobody can say what it is about: what belongs together has a name of its own."""

from __future__ import annotations

import ast
from pathlib import Path

MOST = 8  # parameters, besides self
SOURCE = Path(__file__).resolve().parents[2] / "svc"


def test_constructors_are_short() -> None:
    too_long = [
        f"{path.relative_to(SOURCE)}:{node.lineno} takes {count}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        if (count := len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs) - 1) > MOST
    ]
    assert too_long == []
