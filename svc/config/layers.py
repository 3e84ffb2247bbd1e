"""How the file and the overrides become one document (contract: configuration §3.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from svc.config.document import Document, changed


@dataclass
class Merged:
    document: Document
    needs_copy: bool = True

    def save_state(self) -> None:
        pass


def merge(before: Document, singles: Mapping[str, object], environ: Mapping[str, str], root: Path) -> Merged:
    return Merged(changed(before, dict(singles)))
