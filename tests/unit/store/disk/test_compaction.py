"""svc.store.disk.compaction: databases are rewritten without gaps before they are opened."""

from collections.abc import Callable
from pathlib import Path
from random import randbytes

import pytest

from svc.clock import FakeClock
from svc.store import Store
from svc.store.disk.compaction import compact_databases
from svc.store.disk.database_locks import OpenLock
from svc.store.writing.bulk_write import load_records
from tests.unit.store.conftest import SEAT

NONE: frozenset[str] = frozenset()


@pytest.fixture
def path(open_store: Callable[..., Store], tmp_path: Path) -> Path:
    """Two databases, closed, of which each has much free space inside."""
    store = open_store(write_async=True, log_retention=0.0)
    for name in ("data", "other"):
        seats = store.open_database(name).define_table(SEAT)
        for _ in load_records(seats, ({"code": f"s{number}", "place": randbytes(5000).hex()} for number in range(500))):
            pass
        transaction = store.begin()
        for number in range(1, 500):
            transaction.delete(seats, f"s{number}")
        transaction.apply()
        store.commit_turn()
        with seats.database._changing() as writer:
            writer.drop(seats.database._core[1], False)
            seats.database.env.touch()
    store.close()
    return tmp_path / "database"


def size(path: Path, name: str) -> int:
    return (path / name / "data.mdb").stat().st_size


def test_databases_become_small(path: Path, open_store: Callable[..., Store]) -> None:
    before = size(path, "data"), size(path, "other")
    (path / "data" / "data.mdb.part").write_bytes(b"of an interrupted start")
    assert compact_databases(path, frozenset(("other",)), None, FakeClock())
    assert size(path, "data") < before[0] / 5 and size(path, "other") == before[1]
    assert (path / "data" / "data.mdb").stat().st_mode & 0o777 == 0o600 and not (path / "data" / "data.mdb.part").exists()
    store = open_store()
    assert store.databases["data"].tables["Seat"].get_raw("s0") is not None
    transaction = store.begin()
    transaction.put(store.databases["data"].tables["Seat"], "new", {})
    transaction.apply()
    store.commit_turn()
    assert store.databases["data"].tables["Seat"].record_count() == 2


def test_old_files_are_kept_on_demand(path: Path, tmp_path: Path) -> None:
    before = size(path, "data")
    assert compact_databases(path, frozenset(("other",)), tmp_path / "backup", FakeClock())
    (kept,) = (tmp_path / "backup").iterdir()
    assert kept.name.startswith("data-") and kept.suffix == ".mdb" and kept.stat().st_size == before


def test_a_database_that_is_open_is_left_alone(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = size(path, "data")
    open_lock = OpenLock(path / "data")
    assert not compact_databases(path, NONE, None, FakeClock())
    open_lock.close()
    assert size(path, "data") == before and "another process has it open" in caplog.text
    assert size(path, "other") < before / 5


def test_a_database_that_cannot_be_read_is_left_alone(path: Path) -> None:
    (path / "data" / "data.mdb").write_bytes(b"no database" * 10_000)
    assert not compact_databases(path, NONE, None, FakeClock())
    assert (path / "data" / "data.mdb").read_bytes()[:11] == b"no database"


def test_nothing_to_do(tmp_path: Path) -> None:
    assert compact_databases(tmp_path / "none", NONE, None, FakeClock())
