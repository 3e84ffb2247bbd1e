"""Copies of tables with `audit: false`, whose log says what was written, and not what the record was before (spec: replication-apply §3)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from svc.clock import FakeClock
from tests.support.copies import ITEM, CopyNode, act

pytestmark = pytest.mark.programs


@pytest.fixture
def nodes(tmp_path: Path, clock: FakeClock) -> Iterator[list[CopyNode]]:
    found = [CopyNode(tmp_path, name, clock) for name in "abc"]
    for node in found:
        node.database.define_table(replace(ITEM, audit=False))
    yield found
    for node in found:
        node.store.check()
        node.close()


@pytest.mark.parametrize("seed", range(12))
def test_own_late_writes_end_equal_everywhere(nodes: list[CopyNode], seed: int) -> None:
    chance = random.Random(seed)
    added = 0
    for _ in range(50):
        node, other = chance.sample(nodes, 2)
        node.clock.advance(chance.random() / 100)
        what = chance.random()
        if what < 0.7:
            act(chance, node, ["x", "y"])
            if chance.random() < 0.3:
                node.add("c", 1)
                added += 1
        elif what < 0.85:
            node.hear(other)
        else:
            assert node.database.replication is not None
            if other.applied(node) >= node.database.replication.copied(node.database.snapshot()):
                node.copy(other)
            node.store.end_turn()
    for _ in range(2):
        for node in nodes:
            for other in nodes:
                if other is not node:
                    node.hear(other)
    first, *others = [node.records() for node in nodes]
    assert others == [first, first]
    assert first.get("c", (0, {"n": 0}))[1]["n"] == added
    assert all(not node.table.audit for node in nodes)
