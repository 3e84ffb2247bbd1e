from __future__ import annotations

from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from svc.clock import FakeClock
from svc.cluster.identity import Certificate, KnownNode, NodeIdentity, NodeRefused, Trust, names_of, serial_numbers
from svc.errors import ClientError
from svc.tls.certificates import PrivateKey, make_authority, sign, to_pem

CLOCK = FakeClock()
NOW = CLOCK.wall()


@cache
def authority(name: str) -> tuple[Certificate, PrivateKey]:
    return make_authority(CLOCK)


@cache
def node(name: str, signer: str | None = None, alternative: tuple[str, ...] = ()) -> Certificate:
    """The certificate of a node, by the authority `signer`, by default one of its own."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    names = x509.SubjectAlternativeName([x509.DNSName(each) for each in alternative]) if alternative else None
    return sign(subject, ec.generate_private_key(ec.SECP256R1()).public_key(), names, authority(signer or name), CLOCK)


def pem(certificate: Certificate) -> str:
    return to_pem(certificate).decode()


def trust(*names: str, **more: object) -> Trust:
    return Trust("a", {name: KnownNode(name, (pem(node(name)),)) for name in names}, **more)  # type: ignore[arg-type]


def refused(tried: Trust, *chain: Certificate, now: float = NOW) -> str:
    with pytest.raises(NodeRefused) as raised:
        tried.identify([chain] if chain else [], now)
    return str(raised.value)


def test_a_node_is_known_by_its_certificate() -> None:
    found = trust("b", "c").identify([[node("b")]], NOW)
    assert (found.name, found.expires) == ("b", node("b").not_valid_after_utc.timestamp())


def test_an_authority_of_a_node_vouches_for_that_node_only() -> None:
    root = authority("b")[0]
    known = Trust("a", {"b": KnownNode("b", (pem(root),)), "c": KnownNode("c", (pem(node("c")),))})
    renewed, forged = node("b", alternative=("b.example.org",)), node("c", signer="b")
    assert known.identify([[renewed, root]], NOW).name == "b"
    assert "not that of node 'c'" in refused(known, forged, root)


def test_alternative_names_count() -> None:
    certificate = node("host", alternative=("b", "other"))
    known = Trust("a", {"b": KnownNode("b", (pem(certificate),))})
    assert known.identify([[certificate]], NOW).name == "b"
    assert names_of(certificate) == ["host", "b", "other"]


def test_who_is_refused() -> None:
    known = trust("b")
    assert refused(known) == "it shows no certificate"
    assert refused(known, node("z")) == "the node 'z' is not known"
    assert refused(known, node("a")) == "it has the name of this node, 'a'"
    assert "not that of node 'b'" in refused(known, node("b", signer="z"))
    assert "has expired" in refused(known, node("b"), now=node("b").not_valid_after_utc.timestamp())
    both = node("host", alternative=("b", "c"))
    several = Trust("a", {name: KnownNode(name, (pem(both),)) for name in "bc"})
    assert "of several nodes: 'b', 'c'" in refused(several, both)
    nameless = sign(x509.Name([]), node("b").public_key(), None, authority("b"), CLOCK)
    assert refused(known, nameless) == "its certificate has no name"


def test_revoked_numbers() -> None:
    serial = node("b").serial_number
    known = Trust("a", {"b": KnownNode("b", (pem(node("b")),), frozenset({serial}))})
    assert refused(known, node("b")) == f"the certificate {serial:X} of node 'b' is revoked"
    with pytest.raises(NodeRefused, match="is revoked"):
        known.check_server("b", node("b"))


def test_public_authorities_vouch_for_nodes_without_a_certificate() -> None:
    root = authority("public")[0]
    nodes = {"b": KnownNode("b"), "c": KnownNode("c", (pem(node("c")),)), "d": KnownNode("d", (pem(authority("d")[0]),))}
    known = Trust("a", nodes, public=pem(root))
    assert known.identify([[node("b", signer="public"), root]], NOW).name == "b"
    assert "not that of node 'c'" in refused(known, node("c", signer="public"), root)  # its own is stored
    assert "not that of node 'b'" in refused(known, node("b", signer="d"), authority("d")[0])  # what is stored for another node
    assert "not that of node 'b'" in refused(Trust("a", nodes), node("b", signer="public"), root)


def test_a_shared_authority_vouches_for_all() -> None:
    root = authority("shared")[0]
    known = Trust("a", {"b": KnownNode("b"), "c": KnownNode("c", (pem(node("c")),))}, (pem(root),))
    assert known.identify([[node("b", signer="shared"), root]], NOW).name == "b"
    assert known.identify([[node("c", signer="shared"), root]], NOW).name == "c"


def test_addresses() -> None:
    known = Trust(
        "a", {"b": KnownNode("b", addresses=frozenset({"10.0.0.1", "10.0.0.9"})), "c": KnownNode("c", addresses=frozenset({"10.0.0.9"}))}
    )
    assert known.identify_address("10.0.0.1") == NodeIdentity("b")
    for address, text in (("10.0.0.2", "no node"), ("10.0.0.9", "several")):
        with pytest.raises(NodeRefused, match=text):
            known.identify_address(address)


def test_the_server_is_the_node_that_was_looked_for() -> None:
    known = trust("b", "c")
    known.check_server("b", node("b"))
    with pytest.raises(NodeRefused, match="of 'c', not of node 'b'"):
        known.check_server("b", node("c"))


def test_bundle_and_anchors() -> None:
    known = trust("b", "c", public="PUBLIC\n")
    own = pem(node("a"))
    assert all(pem(each) in known.bundle(own) for each in (node("a"), node("b"), node("c")))
    assert known.bundle(own).endswith("PUBLIC\n")
    assert known.anchors("b") == pem(node("b"))
    assert known.anchors("z") == "PUBLIC\n"
    assert known.bundle(own) == trust("c", "b", public="PUBLIC\n").bundle(own + own)


def test_certificates_that_cannot_be_read_are_left_out() -> None:
    known = Trust("a", {"b": KnownNode("b", ("nonsense", pem(node("b")))), "c": KnownNode("c", ("",))}, ("also",))
    assert known.identify([[node("b")]], NOW).name == "b"
    assert [fault.partition(":")[0] for fault in known.faults] == [
        "an authority", "the certificate of node 'b'", "the certificate of node 'c'"
    ]  # fmt: skip


@pytest.mark.parametrize("bad", ["", "xyz", "1" * 41, "0x", "1 2", None])
def test_serial_numbers_that_are_none(bad: str) -> None:
    with pytest.raises(ClientError):
        serial_numbers([bad])
