"""Certificates: the authority and the server certificate of a new installation, signing requests, and what a PEM says (spec: security §4).

    keys/ca.pem, keys/caPrivateKey.pem            CN=svc-Certificate-Authority-<id>, signed by itself
    keys/certificate.pem, keys/privateKey.pem     CN=<host name>, signed by it; also for localhost, 127.0.0.1 and ::1

Keys are on the curve P-256: made in a fraction of a millisecond, so that no start waits for them, and every TLS client of today takes them. All files
have mode 0600. Nothing that exists is written over, except by `renew_certificates`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from uuid import uuid4

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from svc.auth.token_keys import exclusive
from svc.clock import SYSTEM_CLOCK, Clock
from svc.config.document import write_private
from svc.errors import ClientError

CA_FILE = "ca.pem"
CA_KEY_FILE = "caPrivateKey.pem"
CERTIFICATE_FILE = "certificate.pem"
KEY_FILE = "privateKey.pem"

_FAULTS = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    InvalidSignature,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""Exceptions of `cryptography` for invalid input."""

MAX_NAMES = 100  # of a certificate: those of one more are not looked at
LIFE = datetime.timedelta(days=3652)  # ten years
_EARLIER = datetime.timedelta(hours=1)  # for clients whose clocks are slow
_MAX_NAME = 64  # characters of a common name (RFC 5280, ub-common-name)
_LOCAL = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(?!-)[A-Za-z0-9_*-]{1,63}(?<!-)(?:\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*")

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey


# --- files of an installation ---------------------------------------------------------------------------------------------------------


def ensure_certificates(directory: Path, host: str, *, clock: Clock = SYSTEM_CLOCK) -> bool:
    """Make a server certificate in `directory`, and what it needs, if there is none. True if it did.

    Blocks for some milliseconds. Raises OSError, and ClientError for files that cannot be read.
    """
    if (directory / CERTIFICATE_FILE).exists():
        return False
    renew_certificates(directory.parent, host, directory=directory, clock=clock)
    return True


def ensure_local_certificate(directory: Path, host: str, *, clock: Clock = SYSTEM_CLOCK) -> bool:
    """See to it that `directory` has a server certificate that clients on this machine can use. True if a new one was made: there was none, or one of
    our own authority that has run out or is for other names. What is of another authority stays.

    Blocks for some milliseconds. Raises OSError, and ClientError for files that cannot be read.
    """
    if ensure_certificates(directory, host, clock=clock):
        return True
    file = directory / CERTIFICATE_FILE
    certificate = read_certificate(file.read_bytes(), str(file))
    authority = read_authority(directory)
    if authority is None or certificate.issuer != authority[0].subject:
        return False
    soon = datetime.datetime.fromtimestamp(clock.wall(), datetime.UTC) + _EARLIER
    wanted = {name.lower() for name in (host, *_LOCAL) if _is_host(name)}
    if certificate.not_valid_after_utc > soon and wanted <= {name.lower() for name in hosts_of(certificate)}:
        return False
    renew_certificates(directory.parent, host, directory=directory, clock=clock)
    return True


def with_authority(directory: Path) -> str:
    """The server certificate in `directory`, PEM, with the local authority behind it if that has signed it. Raises OSError, ClientError. Blocks."""
    text = (directory / CERTIFICATE_FILE).read_text()
    leaf = read_certificate(text.encode(), str(directory / CERTIFICATE_FILE))
    try:
        authority = read_certificate((directory / CA_FILE).read_bytes(), str(directory / CA_FILE))
        leaf.verify_directly_issued_by(authority)
    except (OSError, ClientError, *_FAULTS):
        return text
    return text.rstrip() + "\n" + to_pem(authority).decode()


def renew_certificates(
    root: Path, host: str, *, also: Sequence[str] = (), directory: Path | None = None, clock: Clock = SYSTEM_CLOCK
) -> Path:
    """Write a new server certificate, signed by the authority in `<root>/keys`, which is made if it cannot sign. Returns the certificate's file.

    `also`: further names. An existing key stays, so that certificate and key always fit together. Raises OSError, and ClientError for files that cannot be
    read.
    """
    directory = root / "keys" if directory is None else directory
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with exclusive(directory):
        authority = read_authority(directory)
        if authority is None:
            authority = make_authority(clock)
            write_private(directory / CA_KEY_FILE, key_to_pem(authority[1]))
            write_private(directory / CA_FILE, to_pem(authority[0]))
        key_file = directory / KEY_FILE
        if key_file.exists():
            key = read_key(key_file.read_bytes(), str(key_file))
        else:
            key = ec.generate_private_key(ec.SECP256R1())
            write_private(key_file, key_to_pem(key))
        names = x509.SubjectAlternativeName([_general_name(name) for name in dict.fromkeys((host, *also, *_LOCAL)) if _is_host(name)])
        certificate = sign(_common_name(host), key.public_key(), names, authority, clock)
        write_private(directory / CERTIFICATE_FILE, to_pem(certificate))
    return directory / CERTIFICATE_FILE


def read_authority(directory: Path) -> tuple[x509.Certificate, PrivateKey] | None:
    """The local authority; None if its certificate or key is missing. Raises ClientError if they cannot be read or do not fit together."""
    certificate_file, key_file = directory / CA_FILE, directory / CA_KEY_FILE
    if not certificate_file.exists() or not key_file.exists():
        return None
    certificate = read_certificate(certificate_file.read_bytes(), str(certificate_file))
    key = read_key(key_file.read_bytes(), str(key_file))
    if not fits(certificate, key):
        raise ClientError(f"The key in {key_file} does not belong to {certificate_file}")
    return certificate, key


def make_authority(clock: Clock) -> tuple[x509.Certificate, PrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _common_name(f"svc-Certificate-Authority-{uuid4().hex[:12]}")
    builder = (
        _builder(name, name, key.public_key(), clock)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return builder.sign(key, hashes.SHA256()), key


def sign(
    subject: x509.Name,
    public: Any,
    names: x509.SubjectAlternativeName | None,
    authority: tuple[x509.Certificate, PrivateKey],
    clock: Clock,
) -> x509.Certificate:
    """A certificate for servers and clients, never for an authority."""
    issuer, key = authority
    builder = (
        _builder(subject, issuer.subject, public, clock)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(_supported(issuer.public_key())), critical=False)
    )
    if names is not None and len(list(names)):
        builder = builder.add_extension(names, critical=False)
    return builder.sign(key, _hash_for(key))


def make_request(key: PrivateKey, host: str) -> str:
    """A signing request (PEM) for this key and host name."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_common_name(host))
    if _is_host(host):
        builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
    return builder.sign(key, _hash_for(key)).public_bytes(Encoding.PEM).decode()


def sign_request(text: str, authority: tuple[x509.Certificate, PrivateKey], clock: Clock) -> x509.Certificate:
    """The certificate for a signing request: its subject and alternative names, nothing else of it. Raises ClientError."""
    try:
        request = x509.load_pem_x509_csr(text.encode(errors="replace"))
        if not request.is_signature_valid:
            raise ClientError("'csr' is not signed with the key it names", code="VALIDATION")
        public = _supported(request.public_key())
        try:
            names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            names = None
        return sign(request.subject, public, names, authority, clock)
    except _FAULTS:
        raise ClientError("'csr' is not a valid certificate signing request in PEM format", code="VALIDATION") from None


def _builder(subject: x509.Name, issuer: x509.Name, public: Any, clock: Clock) -> x509.CertificateBuilder:
    now = datetime.datetime.fromtimestamp(int(clock.wall()), datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_MAX_NAME] or "localhost")])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _is_host(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return _HOST.fullmatch(name) is not None and len(name) <= 253
    return True


def _hash_for(key: PrivateKey) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else hashes.SHA256()


# --- PEM ------------------------------------------------------------------------------------------------------------------------------


def read_chain(data: bytes, what: str) -> list[x509.Certificate]:
    """The certificates of a PEM text, the one in question first. Raises ClientError."""
    try:
        return x509.load_pem_x509_certificates(data)
    except _FAULTS:
        raise ClientError(f"{what} is not a valid certificate in PEM format", code="VALIDATION") from None


def read_certificate(data: bytes, what: str) -> x509.Certificate:
    return read_chain(data, what)[0]


def read_key(data: bytes, what: str) -> PrivateKey:
    """A private key without pass phrase. Raises ClientError; its text holds nothing of the key."""
    try:
        key = serialization.load_pem_private_key(data, None)
    except _FAULTS:  # TypeError: it has a pass phrase
        key = None
    if not isinstance(key, PrivateKey):
        raise ClientError(f"{what} is not a valid private key in PEM format, without pass phrase", code="VALIDATION")
    return key


def fits(certificate: x509.Certificate, key: PrivateKey) -> bool:
    """Whether the certificate is for this key."""
    try:
        return _spki(certificate.public_key()) == _spki(key.public_key())
    except _FAULTS:
        return False


def to_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def key_to_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _spki(public: Any) -> bytes:
    found: bytes = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return found


def _supported(public: Any) -> Any:
    """A public key of a kind that certificates are made for. Raises ValueError for others."""
    if not isinstance(public, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        raise ValueError("a key of this kind cannot be certified")
    return public


def details_of(certificate: x509.Certificate) -> dict[str, Any]:
    """The fields of a certificate that `list_certificates` returns. Raises ClientError for one whose fields cannot be read."""
    try:
        details = {
            "issuer": _shown_name(certificate.issuer),
            "subject": _shown_name(certificate.subject),
            "serial_number": f"{certificate.serial_number:X}",
            "valid_from": certificate.not_valid_before_utc.strftime("%b %d %H:%M:%S %Y GMT"),
            "valid_to": certificate.not_valid_after_utc.strftime("%b %d %H:%M:%S %Y GMT"),
        }
        names = alternative_names(certificate)
    except _FAULTS:
        raise ClientError("'certificate' has fields that cannot be read", code="VALIDATION") from None
    if names:
        details["subject_alt_name"] = ", ".join(names)
    return details


def alternative_names(certificate: x509.Certificate) -> list[str]:
    """`DNS:name` and `IP Address:address` of the alternative names."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    found = []
    for name in names:
        if isinstance(name, x509.DNSName):
            found.append(f"DNS:{name.value}")
        elif isinstance(name, x509.IPAddress):
            found.append(f"IP Address:{name.value}")
    return found


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """The host names and addresses a certificate is for: its alternative names, else its common name."""
    names = [name.partition(":")[2] for name in alternative_names(certificate)]
    if not names:
        names = [str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return names


def names_of(certificate: x509.Certificate) -> list[str]:
    """The common name and the alternative names, MAX_NAMES at most. Empty if they cannot be read."""
    try:
        common = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        return list(dict.fromkeys((*common, *hosts_of(certificate))))[:MAX_NAMES]
    except _FAULTS:
        return []


def is_self_signed(certificate: x509.Certificate) -> bool:
    if certificate.subject != certificate.issuer:
        return False
    try:
        certificate.verify_directly_issued_by(certificate)
    except _FAULTS:
        return False
    return True


def _shown_name(name: x509.Name) -> str:
    """The parts of a name, the most general first, as `C=DE, O=..., CN=...`."""
    return ", ".join(f"{attribute.rfc4514_attribute_name}={attribute.value!s}" for attribute in name)


def find_key(directory: Path, certificate: x509.Certificate, wanted: Sequence[str] = ()) -> str | None:
    """Name of the file in `directory` with the key of a certificate; None if there is none. Files in `wanted` are tried first. Blocks."""
    files = sorted(path.name for path in directory.glob("*.pem") if not path.name.startswith("."))
    for name in dict.fromkeys((*wanted, *files)):
        try:
            data = (directory / name).read_bytes()
            if b"PRIVATE KEY" in data and fits(certificate, read_key(data, name)):
                return name
        except (OSError, ClientError):
            continue
    return None
