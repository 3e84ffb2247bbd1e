"""svc.store.writing.published_position: what other nodes have not got stays in the log (spec: replication §5)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.clock import FakeClock
from svc.store.log.table_removal import remove_log_entries
from svc.store.writing.published_position import note_published
from tests.support.copies import CopyNode

DAY = 86_400.0


@pytest.fixture
def node(tmp_path: Path, clock: FakeClock) -> Iterator[CopyNode]:
    node = CopyNode(tmp_path, "a", clock)
    node.store.is_replicated = lambda name: True
    yield node
    node.store.check()
    node.close()


def lsns(node: CopyNode) -> list[int]:
    found = [entry.lsn for entry in node.database.log.read(node.database.snapshot())]
    node.store.end_turn()
    return found


def prune(node: CopyNode) -> None:
    node.clock.advance(10 * DAY)
    while node.store.maintenance(1.0):
        pass
    node.store.end_turn()


def test_the_log_is_shortened_up_to_what_is_published(node: CopyNode, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    for number in range(10):
        node.put(f"k{number}", n=number)
    prune(node)
    prune(node)
    assert lsns(node) == list(range(1, 11)) and caplog.text.count("begins with entry 1") == 1
    node.turns.finish(note_published(node.database, 6))
    prune(node)
    assert lsns(node) == [7, 8, 9, 10]
    node.turns.finish(note_published(node.database, 10))
    prune(node)
    assert lsns(node) == [10]


def test_where_it_is_not_replicated_any_more_nothing_is_kept(node: CopyNode) -> None:
    for number in range(10):
        node.put(f"k{number}", n=number)
    node.store.is_replicated = lambda name: False
    prune(node)
    assert lsns(node) == [10]


def test_what_is_not_published_is_not_removed_on_demand(node: CopyNode) -> None:
    for number in range(10):
        node.put(f"k{number}", n=number)
    node.turns.finish(note_published(node.database, 4))
    assert node.turns.finish(remove_log_entries(node.table, 4e12)) == 4
    assert lsns(node) == [5, 6, 7, 8, 9, 10]
