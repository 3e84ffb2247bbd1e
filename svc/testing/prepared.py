"""A root directory that has what takes long to make: the system tables, a super user, certificates and keys. Made once in a process, and copied."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svc.auth.first_super_user import ensure_first_super_user
from svc.auth.token_keys import TokenKeys
from svc.clock import SYSTEM_CLOCK, Clock
from svc.config import Config
from svc.config.document import changed
from svc.config.settings import override_names
from svc.root.data_version import ensure_version
from svc.root.installation import make_directories, make_keys
from svc.store import Store

SUPER_USER = "admin"
PASSWORD = "password"
KEY_BITS = 2048
MEMORY = Path("/dev/shm")
ROOM = 1 << 30  # bytes that must be free there

SETTINGS: dict[str, object] = {
    "http.port": None,
    "http.securePort": None,
    "operationsApi.network.port": None,
    "operationsApi.network.securePort": None,
    "operationsApi.network.domainSocket": None,
    "authentication.authorizeLocal": False,
    "logging.level": "info",
    "logging.console": False,
    "node.hostname": "localhost",
    "storage.writeAsync": True,
}
"""What differs from the defaults."""


def make_directory(prefix: str) -> Path:
    """A temporary directory, in memory if there is room: a commit then does not wait for a disk."""
    parent = None
    if "TMPDIR" not in os.environ:
        try:
            if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM:
                parent = MEMORY
        except OSError:
            pass
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))


def make_config(root: Path, settings: Mapping[str, Any]) -> Config:
    """`settings`: by their names with `_` for the dots. Raises TypeError for an unknown setting, ConfigError for an invalid value."""
    known = override_names()
    values = dict(SETTINGS)
    for given, value in settings.items():
        name = known.get(given.replace(".", "_").lower())
        if name is None:
            raise TypeError(f"svc.testing: {given!r} is not a setting; settings are named as in docs/settings.md, with _ for the dot")
        values[name] = value
    values["rootPath"] = str(root)
    return Config.from_document(changed({}, values), root)


def place_root(root: Path, clock: Clock = SYSTEM_CLOCK) -> None:
    """Copy the prepared root to `root`. `clock`: for the versions of what is in it."""
    copy_root(prepare_root(clock), root)


def copy_root(source: Path, root: Path) -> None:
    """All of it but what belongs to the processes that use it."""
    shutil.copytree(source, root, ignore=shutil.ignore_patterns("lock.mdb"))


@functools.cache
def prepare_root(clock: Clock = SYSTEM_CLOCK) -> Path:
    """The prepared root, which is made once for each clock."""
    base = make_directory("svc-prepared-")
    atexit.register(_remove, base, os.getpid())
    root = base / "root"
    config = make_config(root, {})
    make_directories(root, config)
    TokenKeys(root / "keys", bits=KEY_BITS).prepare()
    make_keys(config)
    store = Store(config.storage.path, node=config.node.hostname, clock=clock)
    try:
        ensure_version(store, clock)
        ensure_first_super_user(store, SUPER_USER, PASSWORD)
    finally:
        store.close()
    return root


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:  # and not a fork of it
        shutil.rmtree(path, ignore_errors=True)


def text_of(value: object) -> str:
    """The same text for the same value."""
    return json.dumps(value, sort_keys=True, default=str)
