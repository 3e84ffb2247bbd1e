"""Certificates for tests: an authority of their own, in files, made once for all tests of a process."""

from __future__ import annotations

import datetime
import ssl
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)
_made: list[TemporaryDirectory[str]] = []


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


class Pair:
    """A certificate and its key, also as files `<directory>/<stem>.pem` and `<stem>.key`."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, directory: Path, stem: str) -> None:
        self.certificate = certificate
        self.key = key
        self.pem = certificate.public_bytes(Encoding.PEM)
        self.key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self.file = directory / f"{stem}.pem"
        self.key_file = directory / f"{stem}.key"
        self.file.write_bytes(self.pem)
        self.key_file.write_bytes(self.key_pem)

    @property
    def fingerprint(self) -> str:
        return self.certificate.fingerprint(hashes.SHA256()).hex()


class Authority:
    """Signs certificates. `ocsp`, `crl`: addresses that they name."""

    def __init__(self, directory: Path, common_name: str = "Test Authority") -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            self._builder(common_name, common_name, key.public_key(), now() + DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        self.pair = Pair(certificate, key, directory, "authority")
        self._made = 0

    @property
    def file(self) -> Path:
        return self.pair.file

    @staticmethod
    def _builder(subject: str, issuer: str, public: ec.EllipticCurvePublicKey, end: datetime.datetime) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name(issuer))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now(), end) - DAY)
            .not_valid_after(end)
        )

    def make(
        self,
        common_name: str,
        hosts: tuple[str, ...] = (),
        *,
        end: datetime.datetime | None = None,
        ocsp: tuple[str, ...] = (),
        crl: tuple[str, ...] = (),
        signs_ocsp: bool = False,
    ) -> Pair:
        """A certificate for servers and clients."""
        self._made += 1
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self.pair.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        builder = self._builder(common_name, str(issuer), key.public_key(), now() + DAY if end is None else end)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.OCSP_SIGNING] if signs_ocsp else usages), critical=False
        )
        builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.pair.key.public_key()), critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        if ocsp:
            method = AuthorityInformationAccessOID.OCSP
            access = [x509.AccessDescription(method, x509.UniformResourceIdentifier(url)) for url in ocsp]
            builder = builder.add_extension(x509.AuthorityInformationAccess(access), critical=False)
        if crl:
            points = [x509.DistributionPoint([x509.UniformResourceIdentifier(url)], None, None, None) for url in crl]
            builder = builder.add_extension(x509.CRLDistributionPoints(points), critical=False)
        return Pair(builder.sign(self.pair.key, hashes.SHA256()), key, self.directory, f"{self._made}")


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


@cache
def authority() -> Authority:
    directory = TemporaryDirectory(prefix="svc-test-tls-")
    _made.append(directory)
    return Authority(Path(directory.name))


@cache
def localhost() -> Pair:
    return authority().make("localhost", ("localhost", "127.0.0.1"))


def client_context(
    version: ssl.TLSVersion | None = None, *, alpn: tuple[str, ...] = (), certificate: Pair | None = None, ciphers: str | None = None
) -> ssl.SSLContext:
    """Of a client that trusts the authority of the tests."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority().file)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if certificate is not None:
        context.load_cert_chain(certificate.file, certificate.key_file)
    if ciphers is not None:
        context.set_ciphers(ciphers)
    return context


@cache
def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(localhost().file, localhost().key_file)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


class TlsClient:
    """A client's end without a socket: `receive` what the server sent, `take` what is to be sent to it."""

    def __init__(self, context: ssl.SSLContext, host: str | None = "localhost", session: ssl.SSLSession | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        if host is None:
            context.check_hostname = False
        self.session = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host, session=session)
        self.done = False
        self.received = b""
        self.ended = False
        self._go_on()

    def receive(self, data: bytes) -> None:
        if data:
            self._incoming.write(data)
        self._go_on()

    def receive_eof(self) -> None:
        self._incoming.write_eof()

    def _go_on(self) -> None:
        try:
            if not self.done:
                self.session.do_handshake()
                self.done = True
            while not self.ended:
                data = self.session.read(1 << 16)
                self.received += data
                self.ended = not data
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True

    def write(self, data: bytes) -> None:
        place = 0
        while place < len(data):
            place += self.session.write(data[place:])

    def say_goodbye(self) -> None:
        try:
            self.session.unwrap()
        except ssl.SSLError:
            pass

    def take(self) -> bytes:
        return self._outgoing.read()
