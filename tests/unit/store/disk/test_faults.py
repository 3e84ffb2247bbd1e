"""svc.store.disk.faults: what an error of LMDB means for a request, and for the log."""

from pathlib import Path

import lmdb
import pytest

from svc.clock import FakeClock
from svc.errors import NoSpace, StoreFailure
from svc.seldom import SECOND, Seldom
from svc.store.disk import faults
from svc.store.disk.faults import store_problem


def test_an_error_that_every_request_meets_is_logged_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(faults, "_seldom", Seldom(clock.monotonic, SECOND))
    for _ in range(1000):
        assert isinstance(store_problem(lmdb.ReadersFullError("all taken"), tmp_path), StoreFailure)
    assert [record.getMessage() for record in caplog.records] == [f"database {tmp_path}: ReadersFullError: all taken"]
    assert isinstance(store_problem(lmdb.MapFullError("full"), tmp_path), NoSpace)
    assert len(caplog.records) == 2, "another one is not hidden by it"
    clock.advance(SECOND)
    store_problem(lmdb.ReadersFullError("all taken"), tmp_path)
    assert caplog.records[-1].getMessage() == f"database {tmp_path}: ReadersFullError: all taken (1000 times since it was said)"
