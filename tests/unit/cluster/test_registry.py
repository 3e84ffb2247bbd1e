"""Who is known, by a registry that others have written too."""

from __future__ import annotations

from svc.cluster.registry import trust_of

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
