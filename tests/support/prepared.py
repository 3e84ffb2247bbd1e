"""What takes long to make, made once and copied: a store that has the system tables and the super user `admin` with the password `password`; and
keys of tokens, which are shorter than those that a server makes in a second or more."""

from __future__ import annotations

import functools
import shutil
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest import mock

from svc.auth import users
from svc.auth.first_super_user import ensure_first_super_user
from svc.auth.token_keys import TokenKeys
from svc.clock import FakeClock
from svc.store import Store, StoreSettings
from svc.store.system import ensure_system

_HASH_PASSWORD = users.hash_password


def open_prepared(path: Path, **options: Any) -> Store:
    """The store in `path`; a new one is a copy of the prepared one."""
    if not path.exists():
        shutil.copytree(prepared_database(), path, ignore=shutil.ignore_patterns("lock.mdb"))
    store = open_with(path, **options)
    ensure_system(store)
    ensure_first_super_user(store, "admin", "password")
    return store


def open_with(path: Path, **options: Any) -> Store:
    """A store, by fields of its settings and by what it takes itself."""
    settings = {name: options.pop(name) for name in {field.name for field in fields(StoreSettings)} & options.keys()}
    return Store(path, StoreSettings(**settings), **options)


@functools.cache
def prepared_database() -> Path:
    """The prepared store, to be copied. The first test that asks for it may have replaced the hashing of passwords: all others have the real one."""
    path = Path(tempfile.mkdtemp(prefix="prepared-")) / "database"
    store = Store(path, clock=FakeClock())
    ensure_system(store)
    with mock.patch.object(users, "hash_password", _HASH_PASSWORD):
        ensure_first_super_user(store, "admin", "password")
    store.close()
    return path


def place_token_keys(root: Path) -> None:
    """Keys of tokens for a server over this root directory, unless it has some."""
    if not (root / "keys").exists():
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copytree(_token_keys(), root / "keys")


@functools.cache
def _token_keys() -> Path:
    path = Path(tempfile.mkdtemp(prefix="token-keys-"))
    TokenKeys(path, bits=2048).prepare()
    return path
