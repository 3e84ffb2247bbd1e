"""Whom a node takes for the engine of another one: handshakes in memory."""

from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from svc.clock import SYSTEM_CLOCK
from svc.cluster.certificates import certificate_check, engine_context
from svc.cluster.client import ConnectFailed
from svc.cluster.identity import KnownNode, Trust
from svc.tls.certificates import make_authority, sign, to_pem

YEAR = 365.25 * 86_400
PAST: Any = SimpleNamespace(wall=lambda: SYSTEM_CLOCK.wall() - 20 * YEAR)  # what was made then has expired
FUTURE: Any = SimpleNamespace(wall=lambda: SYSTEM_CLOCK.wall() + YEAR)


@cache
def signer(name: str) -> Any:
    return make_authority(SYSTEM_CLOCK)


class Shown:
    """A certificate and its key, in files."""

    def __init__(self, directory: Path, name: str, authority: str = "", clock: Any = SYSTEM_CLOCK) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        made = sign(subject, key.public_key(), None, signer(authority or name), clock)
        self.text = to_pem(made).decode()
        self.certificate, self.key = directory / f"{name}.pem", directory / f"{name}.key"
        self.certificate.write_text(self.text)
        self.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        self.serial = made.serial_number


def connect(directory: Path, other: Shown, trust: Trust, name: str = "b") -> None:
    """As `Replication` does it: TLS, then the check. Raises ssl.SSLError, ConnectFailed."""
    own = Shown(directory, "a")
    client_side = engine_context(own.certificate, own.key, trust.anchors(name))
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(other.certificate, other.key)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(back, there)
    server = server_side.wrap_bio(there, back, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
    certificate_check(trust, name)(client.getpeercert(binary_form=True))


def knowing(*texts: str, revoked: frozenset[int] = frozenset()) -> Trust:
    return Trust("a", {"b": KnownNode("b", texts, revoked)})


def test_the_node_that_was_looked_for(tmp_path: Path) -> None:
    b = Shown(tmp_path, "b")
    connect(tmp_path, b, knowing(b.text))
    connect(tmp_path, b, knowing(to_pem(signer("b")[0]).decode()))
    connect(tmp_path, b, Trust("a", {"b": KnownNode("b")}, (to_pem(signer("b")[0]).decode(),)))


def test_certificates_of_another_time(tmp_path: Path) -> None:
    for clock, text in ((PAST, "expired"), (FUTURE, "not yet valid")):
        b = Shown(tmp_path, "b", clock=clock)
        for known in (b.text, to_pem(signer("b")[0]).decode()):
            with pytest.raises(ssl.SSLCertVerificationError, match=text):
                connect(tmp_path, b, knowing(known))


def test_certificates_of_others(tmp_path: Path) -> None:
    b, c = Shown(tmp_path, "b"), Shown(tmp_path, "c")
    both = Trust("a", {"b": KnownNode("b", (b.text,)), "c": KnownNode("c", (c.text,))})
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(tmp_path, c, both)  # what vouches for c vouches for no other
    again = Shown(tmp_path, "b", "c")  # another one of that name
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(tmp_path, again, both)
    neighbour = Shown(tmp_path, "z", "b")
    with pytest.raises(ConnectFailed, match="is of 'z', not of node 'b'"):
        connect(tmp_path, neighbour, knowing(to_pem(signer("b")[0]).decode()))
    with pytest.raises(ConnectFailed, match="is revoked"):
        connect(tmp_path, b := Shown(tmp_path, "b"), knowing(b.text, revoked=frozenset({b.serial})))


def test_what_cannot_be_used(tmp_path: Path) -> None:
    own = Shown(tmp_path, "a")
    with pytest.raises(ConnectFailed, match="no certificate of it is known"):
        engine_context(own.certificate, own.key, "")
    with pytest.raises(ConnectFailed, match="of this node cannot be used"):
        engine_context(own.certificate, Shown(tmp_path, "b").key, own.text)
    with pytest.raises(ConnectFailed, match="cannot be read"):
        certificate_check(knowing(), "b")(None)
    with pytest.raises(ConnectFailed, match="cannot be read"):
        certificate_check(knowing(), "b")(b"nothing")
