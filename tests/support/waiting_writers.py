"""Another process over a database, whose writers wait at all times and never write."""

from __future__ import annotations

from typing import Any

import pytest

from svc.store import Database, env
from svc.store.disk.writer_gate import WriterGate
from svc.store.writing import bulk_batch, long_write


class WaitingWriters:
    """From the first moment on a long write has had its share of time. `begun`: long writes since."""

    def __init__(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self._gate = WriterGate(database.env.path)
        self._gate.announce()
        self.begun = 0
        database.env._head_start = 0  # its table is not new
        monkeypatch.setattr(long_write, "SHARE", 0.0)
        monkeypatch.setattr(long_write.LongWrite, "_begin", self._counting(long_write.LongWrite._begin))
        monkeypatch.setattr(bulk_batch, "CHUNK", 4)
        monkeypatch.setattr(env, "MOST_YIELDED", 1)
        monkeypatch.setattr(env.Environment, "has_siblings", lambda env: True)

    def _counting(self, begin: Any) -> Any:
        async def count(write: Any) -> Any:
            self.begun += 1
            return await begin(write)

        return count

    def leave(self) -> None:
        self._gate.withdraw()

    def close(self) -> None:
        self._gate.close()
