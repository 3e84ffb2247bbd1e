"""Operations that also work while the server is stopped (contract: configuration §6.2)."""

from __future__ import annotations

from svc.cli.arguments import Arguments, UsageError
from svc.cli.words import Words

OFFLINE: frozenset[str] = frozenset()


def run_offline(arguments: Arguments, row: object, words: Words) -> int:
    raise UsageError("not yet")
