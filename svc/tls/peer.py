"""The certificate that a client has shown and that was verified: `request.peer_certificate` (spec: security §4)."""

from __future__ import annotations

import ssl
from hashlib import sha256
from math import inf
from typing import Any

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "domainComponent": "DC",
    "userId": "UID",
    "streetAddress": "STREET",
}


class PeerCertificate:
    """The client certificate of one connection. Names are strings such as `O=Example, CN=ann`, the most general part first."""

    __slots__ = (
        "chain",
        "common_name",
        "crl_urls",
        "der",
        "fingerprint",
        "issuer",
        "logged_in",
        "not_after",
        "ocsp_urls",
        "serial",
        "subject",
        "verdict",
    )

    def __init__(self, fields: dict[str, Any], der: bytes, chain: tuple[bytes, ...] = ()) -> None:
        """`fields`: as `ssl` reads them. `chain`: DER of its issuers as far as they are known, the nearest first."""
        self.der = der
        self.chain = chain
        self.fingerprint = sha256(der).digest().hex(":").upper()
        """SHA-256, as `openssl x509 -fingerprint -sha256` shows it."""
        self.subject = _text(fields.get("subject", ()))
        self.issuer = _text(fields.get("issuer", ()))
        self.serial: str = fields.get("serialNumber", "")
        """The serial number in hexadecimal digits."""
        names = [value for part in fields.get("subject", ()) for key, value in part if key == "commonName"]
        self.common_name: str | None = names[0] if len(names) == 1 else None
        """None also if there are several, which would be ambiguous."""
        self.not_after: float = ssl.cert_time_to_seconds(fields["notAfter"]) if "notAfter" in fields else inf
        """When it expires, seconds since the epoch."""
        self.verdict: Any = None  # of `revocation`, where that is looked up
        self.logged_in: str | None = None  # the user whose login by it has been logged
        self.ocsp_urls: tuple[str, ...] = tuple(fields.get("OCSP", ()))
        self.crl_urls: tuple[str, ...] = tuple(fields.get("crlDistributionPoints", ()))

    @classmethod
    def of(cls, session: ssl.SSLObject, *, with_chain: bool = False) -> PeerCertificate | None:
        """The certificate of the peer of this connection; None without one. `with_chain` costs some microseconds more."""
        der = session.getpeercert(True)
        if der is None:
            return None
        return cls(session.getpeercert() or {}, der, _issuers(session) if with_chain else ())

    def __repr__(self) -> str:
        return f"<PeerCertificate {self.subject}>"


def _text(name: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    return ", ".join(f"{_SHORT.get(key, key)}={value}" for part in name for key, value in part)


def _issuers(session: ssl.SSLObject) -> tuple[bytes, ...]:
    """The verified chain without its first. Empty for a resumed session, whose ticket does not contain it, and where the library does not provide it."""
    chain = getattr(session, "get_verified_chain", None)
    if chain is not None:  # Python 3.13
        return tuple(chain() or ())[1:]
    inner = getattr(getattr(session, "_sslobj", None), "get_verified_chain", None)
    if inner is None:
        return ()
    return tuple(ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in inner() or ())[1:]
