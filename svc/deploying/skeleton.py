"""The application that `add_component` begins with (spec: operations §7)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FILES: Mapping[str, str] = {
    "config.yaml": "rest: true\ngraphqlSchema:\n  files: '*.graphql'\nresources:\n  files: resources.py\n",
    "schema.graphql": (
        "# Tables of the application; with @export they are served at /Name.\n"
        "type Note @table @export {\n  id: ID @primaryKey\n  text: String\n}\n"
    ),
    "resources.py": (
        '"""Resources of the application, beside its tables."""\n\nfrom svc import Resource\n\n\n'
        'class Hello(Resource):\n    """GET /Hello"""\n\n    def get(self, target=None):\n        return {"message": "Hello from NAME"}\n'
    ),
}


def write_skeleton(directory: Path, name: str) -> None:
    """Write the files into an empty directory."""
    for file, text in FILES.items():
        (directory / file).write_text(text.replace("NAME", name), encoding="utf-8")
