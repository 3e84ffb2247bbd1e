"""Who is known, by a registry that others have written too."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.cluster.registry import names_brought_back, trust_of
from svc.store import Store
from svc.store.log.entries import DELETE, PATCH, PUT
from svc.store.system import NODE_TABLE, SYSTEM, ensure_system
from svc.store.writing.remote_transaction import Origin, RemoteTransaction
from tests.support.remote import START, apply_all, entry, origin, transaction

NODES = [
    {"name": "a", "url": "wss://a:9933"},
    {"name": "b", "revoked_certificates": ["1A", "nonsense", None, "0b:ff"]},
    {"name": "c", "revoked_certificates": 7, "url": ["no"], "replicates": "no"},
    {"name": "d"},
]


def test_what_vouches_for_whom() -> None:
    certificates = [
        {"name": "b/replication", "certificate": "of b"},
        {"name": "b", "certificate": "brought by hand", "is_authority": False},
        {"name": "other", "certificate": "also for b", "hosts": ["b", "x"]},
        {"name": "c/replication", "certificate": None},
        {"name": "d/replication", "certificate": "of d", "hosts": 5},
        {"name": "shared", "certificate": "of an authority", "is_authority": True},
        {"name": "broken", "is_authority": True},
        {"name": "b/replication/d", "certificate": "of nobody"},
    ]
    trust = trust_of("a", NODES, certificates, public="")
    assert {name: node.certificates for name, node in trust.nodes.items()} == {
        "b": ("of b", "brought by hand", "also for b"),
        "c": (),
        "d": ("of d",),
    }
    assert trust.authorities == ("of an authority",)


def test_a_number_that_is_none_leaves_the_others_revoked() -> None:
    trust = trust_of("a", NODES, [], public="")
    assert (trust.nodes["b"].revoked, trust.nodes["c"].revoked) == ({0x1A, 0xBFF}, frozenset())


T = START
NODE_PUT = (PUT, {"url": "wss://c:9933"})
NODE_PATCH = (PATCH, {"url": "wss://c:9934"})


def sent(what: tuple[int, dict[str, Any]], version: int, node: str) -> tuple[Origin, RemoteTransaction]:
    kind, data = what
    return origin(node), transaction(1, T + version, [entry(kind, "c", data if kind != DELETE else None, NODE_TABLE, primary="name")])


REMOVAL = (DELETE, {})
ADDED, REMOVED = sent(NODE_PUT, 0, "a"), sent(REMOVAL, 1, "a")


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        ((ADDED,), False),
        ((ADDED, sent(NODE_PATCH, 1, "c")), False),
        ((ADDED, REMOVED), False),
        ((ADDED, REMOVED, sent(NODE_PATCH, 2, "c")), True),
        ((ADDED, REMOVED, sent(NODE_PATCH, 2, "c"), sent((PATCH, {"start_time": 5.0}), 3, "c")), True),
        ((ADDED, REMOVED, sent(NODE_PATCH, 1, "c")), True),
        ((ADDED, REMOVED, sent(NODE_PATCH, 2, "c"), sent(NODE_PATCH, 3, "b")), False),
        ((ADDED, REMOVED, sent(NODE_PATCH, 2, "b"), sent(NODE_PATCH, 3, "c")), False),
        ((ADDED, sent(NODE_PATCH, 1, "c"), sent(REMOVAL, 2, "a")), False),
    ],
)
def test_a_node_does_not_bring_itself_back_in_whatever_order_it_is_heard(
    tmp_path: Path, writes: tuple[tuple[Origin, RemoteTransaction], ...], expected: bool
) -> None:
    for number, order in enumerate(permutations(writes)):
        store = Store(tmp_path / str(number), node="b", clock=FakeClock())
        ensure_system(store)
        database = store.databases[SYSTEM]
        database.enable_replication()
        apply_all(database, order)
        assert names_brought_back(database, "b", ["c", "unknown"]) == (["c"] if expected else []), order
        assert names_brought_back(database, "b") == (["c"] if expected else [])
        assert names_brought_back(database, "c") == [], "a node says nothing about itself"
        store.close()
