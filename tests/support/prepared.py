"""A store that has the system tables and the super user `admin` with the password `password`, made once and copied: creating it takes as long as
most of the tests that need one."""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

from svc.auth.first_super_user import ensure_first_super_user
from svc.clock import FakeClock
from svc.store import Store
from svc.store.system import ensure_system


def open_prepared(path: Path, **options: Any) -> Store:
    """The store in `path`; a new one is a copy of the prepared one."""
    if not path.exists():
        shutil.copytree(_prepared(), path, ignore=shutil.ignore_patterns("lock.mdb"))
    store = Store(path, **options)
    ensure_system(store)
    ensure_first_super_user(store, "admin", "password")
    return store


@functools.cache
def _prepared() -> Path:
    path = Path(tempfile.mkdtemp(prefix="prepared-")) / "database"
    store = Store(path, clock=FakeClock())
    ensure_system(store)
    ensure_first_super_user(store, "admin", "password")
    store.close()
    return path
