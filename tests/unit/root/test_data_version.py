"""The versions of the program that have worked on the data."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from svc import __version__
from svc.clock import FakeClock
from svc.errors import ConfigError, StoreFailure
from svc.root.data_version import data_version, ensure_version, parsed
from svc.store import Store
from svc.store.definitions import FORMAT_KEY
from svc.store.schema import Attribute
from svc.store.system import ensure_system


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path, clock=FakeClock())
    ensure_system(store)
    yield store
    store.close()


def test_new_data_gets_the_version_of_the_program(store: Store) -> None:
    assert data_version(store) is None
    assert ensure_version(store, store.clock) is None
    assert data_version(store) == __version__
    before = store.databases["system"].log.last_version
    assert ensure_version(store, store.clock) is None
    assert store.databases["system"].log.last_version == before  # nothing is written at the usual start


def test_a_newer_program_takes_over_and_an_older_one_refuses(store: Store) -> None:
    ensure_version(store, store.clock, "1.2.0")
    assert ensure_version(store, store.clock, "1.10.0") == "1.2.0"
    assert data_version(store) == "1.10.0"
    for older in ("1.9.9", "1.2.0", "0.1"):
        with pytest.raises(ConfigError, match=rf"written by svc 1\.10\.0, which is newer than this svc {older}"):
            ensure_version(store, store.clock, older)
    assert data_version(store) == "1.10.0"


def test_an_older_program_changes_nothing_before_it_refuses(store: Store) -> None:
    ensure_version(store, store.clock, "2.0")
    database = store.databases["system"]
    users = database.tables["svc_user"]
    newer = replace(users.definition, attributes=(*users.definition.attributes, Attribute("of_2_0", "String", indexed=True)))
    database.define_table(newer)
    with pytest.raises(ConfigError, match="newer than this svc"):
        ensure_version(store, store.clock, "1.0")
    assert users.definition == newer and "of_2_0" in users.indexes


def test_a_layout_of_another_version_is_named(store: Store, tmp_path: Path) -> None:
    database = store.databases["system"]
    database.writer().put(FORMAT_KEY, b"99", True, True, False, database.definitions)
    database.env.touch()
    store.commit_turn()
    store.close()
    with pytest.raises(
        StoreFailure, match=r"system was written by another version of svc: its format is 99, and this version of svc reads 1 to 3"
    ):
        Store(tmp_path)


@pytest.mark.parametrize(("older", "newer"), [("1.9", "1.10"), ("1.0", "1.0.1"), ("", "0.1"), ("0.9.9", "1")])
def test_versions_compare_as_numbers(older: str, newer: str) -> None:
    assert parsed(older) < parsed(newer)
