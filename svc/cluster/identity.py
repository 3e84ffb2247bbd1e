"""Who is at the other end of a connection between nodes (spec: replication-engine §2).

A node is known by its certificate: one of its names (common name, alternative names) is that of a known node, its serial number is not revoked, and it is
vouched for: it is one of the certificates that are stored for that node, or was signed by one of them, or by an authority that all nodes share. A node
for which none is stored may also have one of a public authority, if these are accepted. What is stored for one node vouches for no other, so a node
whose certificate may sign others cannot appear as its neighbour.

That the chain is valid and that the other end has the key is checked before, by the TLS of the engine or of this process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from svc.errors import ClientError
from svc.tls.certificates import names_of, read_chain, to_pem

MAX_CHAIN = 10
Certificate = x509.Certificate
_FAULTS = (ValueError, TypeError, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)
_SERIAL = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,40}")


class NodeRefused(Exception):
    """Why the other end is not admitted: a sentence for the log."""


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node of the registry. `certificates`: PEM, its own or of authorities that sign for it. `revoked`: serial numbers. `addresses`: from where it
    comes to a plain port. `may_read`: the streams of this node."""

    name: str
    certificates: tuple[str, ...] = ()
    revoked: frozenset[int] = frozenset()
    addresses: frozenset[str] = frozenset()
    may_read: bool = True


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """`expires`: of the certificate, seconds since the epoch; None without one."""

    name: str
    expires: float | None = None


@dataclass(frozen=True)
class Trust:
    """Which nodes are known, and what vouches for them. `authorities`: PEM, of all nodes. `public`: PEM text of the public authorities, "" if they are
    not accepted. Certificates that cannot be read are left out: `faults`."""

    own_name: str
    nodes: Mapping[str, KnownNode] = field(default_factory=dict)
    authorities: tuple[str, ...] = ()
    public: str = ""

    @cached_property
    def _shared(self) -> dict[bytes, Certificate]:
        return _read(self.authorities)[0]

    @cached_property
    def _by_node(self) -> dict[str, dict[bytes, Certificate]]:
        return {name: _read(node.certificates)[0] for name, node in self.nodes.items()}

    @cached_property
    def faults(self) -> tuple[str, ...]:
        """What cannot be read, a sentence each."""
        found = [f"an authority: {fault}" for fault in _read(self.authorities)[1]]
        for name, node in self.nodes.items():
            found += (f"the certificate of node {name!r}: {fault}" for fault in _read(node.certificates)[1])
        return tuple(found)

    def bundle(self, own: str) -> str:
        """PEM of all that the engine is to accept, with `own`, the certificate of this node: it connects to its own engine, too."""
        found: dict[bytes, Certificate] = dict(_read((own,))[0])
        found.update(self._shared)
        for certificates in self._by_node.values():
            found.update(certificates)
        return _pem(found) + self.public

    def anchors(self, name: str) -> str:
        """PEM of what may vouch for one node, when this one connects to it."""
        stored = self._by_node.get(name, {})
        return _pem({**stored, **self._shared}) + ("" if stored else self.public)

    def identify(self, chains: Sequence[Sequence[Certificate]], now: float) -> NodeIdentity:
        """The node of a certificate, the first of each chain. `chains`: as they were verified, to an authority. Raises NodeRefused."""
        if not chains or not chains[0]:
            raise NodeRefused("it shows no certificate")
        leaf = chains[0][0]
        names = names_of(leaf)
        if not names:
            raise NodeRefused("its certificate has no name")
        known = [self.nodes[name] for name in names if name in self.nodes and name != self.own_name]
        if not known:
            if self.own_name in names:
                raise NodeRefused(f"it has the name of this node, {self.own_name!r}")
            raise NodeRefused(f"the node {names[0]!r} is not known")
        try:
            expires = leaf.not_valid_after_utc.timestamp()
            serial = leaf.serial_number
        except _FAULTS:
            raise NodeRefused("its certificate cannot be read") from None
        vouched = [node for node in known if self._vouches(node.name, chains)]
        if not vouched:
            raise NodeRefused(f"its certificate is not that of node {known[0].name!r}, nor signed by what is known of it")
        if len(vouched) > 1:
            raise NodeRefused(f"its certificate is of several nodes: {', '.join(repr(node.name) for node in vouched)}")
        if serial in vouched[0].revoked:
            raise NodeRefused(f"the certificate {serial:X} of node {vouched[0].name!r} is revoked")
        if expires <= now:
            raise NodeRefused(f"the certificate of node {vouched[0].name!r} has expired")
        return NodeIdentity(vouched[0].name, expires)

    def check_server(self, name: str, leaf: Certificate) -> None:
        """That the certificate of an engine this node has connected to is that of node `name`; it is valid by `anchors`. Raises NodeRefused."""
        if name not in names_of(leaf):
            raise NodeRefused(f"its certificate is of {', '.join(map(repr, names_of(leaf)[:3])) or 'nobody'}, not of node {name!r}")
        node = self.nodes.get(name)
        if node is not None and leaf.serial_number in node.revoked:
            raise NodeRefused(f"the certificate {leaf.serial_number:X} of node {name!r} is revoked")

    def identify_address(self, address: str) -> NodeIdentity:
        """The node that comes from an address to a plain port. Raises NodeRefused."""
        found = [name for name, node in self.nodes.items() if address in node.addresses]
        if len(found) != 1:
            raise NodeRefused(f"{'several nodes are' if found else 'no node is'} known at this address")
        return NodeIdentity(found[0])

    def _vouches(self, name: str, chains: Sequence[Sequence[Certificate]]) -> bool:
        stored = self._by_node.get(name, {})
        for chain in chains:
            prints = [_fingerprint(certificate) for certificate in chain[:MAX_CHAIN]]
            if any(each in stored or each in self._shared for each in prints):
                return True
            if self.public and not stored and not any(prints[-1] in other for other in self._by_node.values()):
                return True
        return False


def serial_numbers(texts: Iterable[Any]) -> frozenset[int]:
    """From hexadecimal digits, with colons or without. Raises ClientError.

    >>> sorted(serial_numbers(["0A:ff", "b"]))
    [11, 2815]
    """
    found = set()
    for text in texts:
        digits = str(text).replace(":", "")
        if not _SERIAL.fullmatch(digits):
            raise ClientError(f"{str(text)[:60]!r} is no serial number of a certificate: hexadecimal digits", code="VALIDATION")
        found.add(int(digits, 16))
    return frozenset(found)


def _read(texts: Iterable[str]) -> tuple[dict[bytes, Certificate], list[str]]:
    """Certificates by fingerprint, and why others cannot be read."""
    found: dict[bytes, Certificate] = {}
    faults = []
    for text in texts:
        try:
            found.update((_fingerprint(each), each) for each in read_chain(text.encode(errors="replace"), "it"))
        except ClientError as error:
            faults.append(str(error))
    return found, faults


def _fingerprint(certificate: Certificate) -> bytes:
    return certificate.fingerprint(hashes.SHA256())


def _pem(certificates: Mapping[bytes, Certificate]) -> str:
    return "".join(to_pem(certificates[each]).decode() for each in sorted(certificates))
