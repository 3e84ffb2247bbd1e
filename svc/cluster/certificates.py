"""TLS of connections to engines."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from cryptography import x509

from svc.cluster.client import ConnectFailed
from svc.cluster.identity import NodeRefused, Trust


def engine_context(certificate: Path, key: Path, anchors: str) -> ssl.SSLContext:
    """For connections to an engine that shows one of these certificates, or one that they have signed. Names are checked by `certificate_check`.

    Blocks for some milliseconds. Raises ConnectFailed.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # a node's address need not be its name
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a stored certificate is trusted as it is, whoever has signed it
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConnectFailed(f"the certificate {certificate} of this node cannot be used: {error}") from None
    if not anchors:
        raise ConnectFailed("no certificate of it is known")
    try:
        context.load_verify_locations(cadata=anchors)
    except (OSError, ValueError) as error:
        raise ConnectFailed(f"its certificate that is stored cannot be used: {error}") from None
    return context


def certificate_check(trust: Trust, name: str) -> Callable[[bytes | None], None]:
    """For `Address.check`: that the other end is node `name`."""

    def check(certificate: bytes | None) -> None:
        try:
            trust.check_server(name, x509.load_der_x509_certificate(certificate or b""))
        except NodeRefused as error:
            raise ConnectFailed(str(error)) from None
        except ValueError:
            raise ConnectFailed("its certificate cannot be read") from None

    return check


def public_authorities() -> str:
    """PEM of the public authorities that this system trusts; "" if it has none."""
    paths = ssl.get_default_verify_paths()
    for path in (paths.cafile, paths.openssl_cafile, "/etc/ssl/certs/ca-certificates.crt"):
        try:
            if path is not None:
                return Path(path).read_text("utf-8", errors="replace")
        except OSError:
            continue
    return ""
