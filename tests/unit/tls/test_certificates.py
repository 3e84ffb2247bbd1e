"""Certificates: those of an installation, requests, PEM (spec: security §4, operations §11)."""

import datetime
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from svc.clock import FakeClock
from svc.errors import ClientError
from svc.tls.certificates import (
    CA_FILE,
    CA_KEY_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    details_of,
    ensure_certificates,
    ensure_local_certificate,
    find_key,
    fits,
    hosts_of,
    is_self_signed,
    key_to_pem,
    make_request,
    read_authority,
    read_certificate,
    read_chain,
    read_key,
    renew_certificates,
    sign_request,
    to_pem,
)

FILES = {CA_FILE, CA_KEY_FILE, CERTIFICATE_FILE, KEY_FILE}
CLOCK = FakeClock()


def load(directory: Path, name: str = CERTIFICATE_FILE) -> x509.Certificate:
    return read_certificate((directory / name).read_bytes(), name)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    assert ensure_certificates(tmp_path / "keys", "db1.example.com", clock=CLOCK)
    return tmp_path / "keys"


# --- of an installation ----------------------------------------------------------------------------------------------------------------


def test_files(directory: Path) -> None:
    assert {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()} == dict.fromkeys(FILES, 0o600)
    assert directory.stat().st_mode & 0o777 == 0o700


def test_names_and_lives(directory: Path) -> None:
    authority, server = load(directory, CA_FILE), load(directory)
    (name,) = authority.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert str(name.value).startswith("svc-Certificate-Authority-") and is_self_signed(authority)
    assert server.issuer == authority.subject and not is_self_signed(server)
    assert server.subject.rfc4514_string() == "CN=db1.example.com"
    assert hosts_of(server) == ["db1.example.com", "localhost", "127.0.0.1", "::1"]
    for certificate in (authority, server):
        life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert datetime.timedelta(days=3652) <= life <= datetime.timedelta(days=3653)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_a_client_that_trusts_the_authority_accepts_it(directory: Path) -> None:
    now = datetime.datetime.fromtimestamp(CLOCK.wall(), datetime.UTC)
    store = Store([load(directory, CA_FILE)])
    for host in (x509.DNSName("db1.example.com"), x509.DNSName("localhost")):
        verifier = PolicyBuilder().store(store).time(now).build_server_verifier(host)
        assert len(verifier.verify(load(directory), [])) == 2


def test_python_serves_with_it(directory: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / CERTIFICATE_FILE, directory / KEY_FILE)
    context.load_verify_locations(directory / CA_FILE)


def test_made_once(directory: Path) -> None:
    before = {name: (directory / name).read_bytes() for name in FILES}
    assert not ensure_certificates(directory, "other")
    assert {name: (directory / name).read_bytes() for name in FILES} == before


def test_what_exists_is_used(tmp_path: Path) -> None:
    """An installation that was interrupted before its certificate was written, or a key of the operator's."""
    keys = tmp_path / "keys"
    keys.mkdir()
    key = ec.generate_private_key(ec.SECP384R1())
    (keys / KEY_FILE).write_bytes(key_to_pem(key))
    assert ensure_certificates(keys, "a.example")
    assert (keys / KEY_FILE).read_bytes() == key_to_pem(key) and fits(load(keys), key)


@pytest.mark.parametrize(
    ("host", "names"),
    [
        ("localhost", ["localhost", "127.0.0.1", "::1"]),
        ("10.1.2.3", ["10.1.2.3", "localhost", "127.0.0.1", "::1"]),
        ("fe80::1", ["fe80::1", "localhost", "127.0.0.1", "::1"]),
        ("not a host!", ["localhost", "127.0.0.1", "::1"]),
        ("ü.example", ["localhost", "127.0.0.1", "::1"]),
        ("h" * 63 + ".example.com", ["h" * 63 + ".example.com", "localhost", "127.0.0.1", "::1"]),
    ],
)
def test_any_host_name_gets_a_certificate(tmp_path: Path, host: str, names: list[str]) -> None:
    ensure_certificates(tmp_path / "keys", host, clock=CLOCK)
    assert hosts_of(load(tmp_path / "keys")) == names


def test_renewal(directory: Path) -> None:
    before = {name: (directory / name).read_bytes() for name in FILES}
    clock = FakeClock(wall=CLOCK.wall() + 9 * 365 * 86_400)
    assert renew_certificates(directory.parent, "db2.example.com", clock=clock) == directory / CERTIFICATE_FILE
    changed = {name for name in FILES if (directory / name).read_bytes() != before[name]}
    assert changed == {CERTIFICATE_FILE}  # so that it fits the key at any moment
    server = load(directory)
    assert hosts_of(server)[0] == "db2.example.com" and server.not_valid_after_utc.year == 2044
    assert server.issuer == load(directory, CA_FILE).subject


def test_renewal_without_a_key_for_the_authority(directory: Path) -> None:
    (directory / CA_KEY_FILE).unlink()
    renew_certificates(directory.parent, "db1")
    server, authority = load(directory), load(directory, CA_FILE)
    server.verify_directly_issued_by(authority)


@pytest.mark.parametrize("name", [CA_FILE, CA_KEY_FILE, KEY_FILE])
def test_renewal_with_unreadable_files(directory: Path, name: str) -> None:
    (directory / name).write_text("nonsense")
    with pytest.raises(ClientError):
        renew_certificates(directory.parent, "db1")
    assert (directory / name).read_text() == "nonsense"


# --- requests --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["node2.example", "not a host!", "10.0.0.7"])
def test_sign_a_request(directory: Path, host: str) -> None:
    authority = read_authority(directory)
    assert authority is not None
    key = ec.generate_private_key(ec.SECP256R1())
    made = sign_request(make_request(key, host), authority, CLOCK)
    made.verify_directly_issued_by(authority[0])
    assert fits(made, key) and hosts_of(made) == [host]


def test_a_request_for_an_authority_does_not_become_one(directory: Path) -> None:
    authority = read_authority(directory)
    assert authority is not None
    key = rsa.generate_private_key(65537, 2048)
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "evil")]))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    made = sign_request(request.public_bytes(Encoding.PEM).decode(), authority, CLOCK)
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not made.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_bad_requests(directory: Path) -> None:
    authority = read_authority(directory)
    assert authority is not None
    good = make_request(ec.generate_private_key(ec.SECP256R1()), "x.example")
    lines = good.splitlines()
    middle = len(lines[2]) // 2
    spoiled = "\n".join([*lines[:2], lines[2][:middle] + "AAAA" + lines[2][middle + 4 :], *lines[3:]])
    weak = dsa.generate_private_key(1024)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    of_a_weak_kind = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(weak, hashes.SHA256())
    for text in ("", "nonsense", good.replace("REQUEST", "OTHER"), spoiled, "\n".join(lines[:3]), "é\0" + good[:40]):
        with pytest.raises(ClientError) as caught:
            sign_request(text, authority, CLOCK)
        assert caught.value.message.startswith("'csr' is ")
    with pytest.raises(ClientError):
        sign_request(of_a_weak_kind.public_bytes(Encoding.PEM).decode(), authority, CLOCK)


def test_no_authority(directory: Path, tmp_path: Path) -> None:
    assert read_authority(tmp_path) is None
    other = tmp_path / "other" / "keys"
    ensure_certificates(other, "x")
    (directory / CA_KEY_FILE).write_bytes((other / CA_KEY_FILE).read_bytes())
    with pytest.raises(ClientError):
        read_authority(directory)


# --- PEM -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"x", b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----", b"\xff" * 100])
def test_no_certificate(data: bytes) -> None:
    with pytest.raises(ClientError) as caught:
        read_certificate(data, "'certificate'")
    assert caught.value.message == "'certificate' is not a valid certificate in PEM format"


def test_chain(directory: Path) -> None:
    both = (directory / CERTIFICATE_FILE).read_bytes() + (directory / CA_FILE).read_bytes()
    assert read_chain(both, "x") == [load(directory), load(directory, CA_FILE)]


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")),
        dsa.generate_private_key(1024).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    ],
    ids=["empty", "damaged", "with pass phrase", "dsa"],
)
def test_no_key(key: bytes) -> None:
    with pytest.raises(ClientError) as caught:
        read_key(key, "'private_key'")
    assert caught.value.message == "'private_key' is not a valid private key in PEM format, without pass phrase"


@pytest.mark.parametrize("make", [lambda: rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate])
def test_other_kinds_of_key(make: Any, directory: Path) -> None:
    key = make()
    assert fits(self_signed(key), read_key(key_to_pem(key), "k")) and is_self_signed(self_signed(key))
    authority = read_authority(directory)
    assert authority is not None
    assert fits(sign_request(make_request(key, "x.example"), authority, CLOCK), key)


def self_signed(key: Any, name: str = "x.example") -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"), x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(0xABC)
        .not_valid_before(datetime.datetime(2026, 1, 1))
        .not_valid_after(datetime.datetime(2027, 2, 3, 4, 5, 6))
        .sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    )


def test_details(directory: Path) -> None:
    certificate = self_signed(ec.generate_private_key(ec.SECP256R1()))
    assert details_of(certificate) == {
        "issuer": "C=DE, CN=x.example",
        "subject": "C=DE, CN=x.example",
        "serial_number": "ABC",
        "valid_from": "Jan 01 00:00:00 2026 GMT",
        "valid_to": "Feb 03 04:05:06 2027 GMT",
    }
    assert hosts_of(certificate) == ["x.example"]
    assert details_of(load(directory))["subject_alt_name"] == "DNS:db1.example.com, DNS:localhost, IP Address:127.0.0.1, IP Address:::1"


def test_find_key(directory: Path) -> None:
    (directory / "broken.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
    (directory / "folder.pem").mkdir()
    assert find_key(directory, load(directory)) == KEY_FILE
    assert find_key(directory, load(directory, CA_FILE)) == CA_KEY_FILE
    assert find_key(directory, self_signed(ec.generate_private_key(ec.SECP256R1()))) is None
    assert load_pem_private_key((directory / KEY_FILE).read_bytes(), None)
    assert to_pem(load(directory)) == (directory / CERTIFICATE_FILE).read_bytes()


# --- for the machine of a developer ---------------------------------------------------------------------------------------------------


def test_a_local_certificate_is_made_once(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    assert ensure_local_certificate(keys, "localhost", clock=CLOCK)
    made = (keys / CERTIFICATE_FILE).read_bytes()
    assert not ensure_local_certificate(keys, "localhost", clock=CLOCK)
    assert (keys / CERTIFICATE_FILE).read_bytes() == made


def test_a_local_certificate_that_has_run_out_is_renewed(tmp_path: Path) -> None:
    keys, clock = tmp_path / "keys", FakeClock()
    ensure_local_certificate(keys, "localhost", clock=clock)
    made, authority = (keys / CERTIFICATE_FILE).read_bytes(), (keys / CA_FILE).read_bytes()
    clock.advance(11 * 365 * 86_400)
    assert ensure_local_certificate(keys, "localhost", clock=clock)
    assert (keys / CERTIFICATE_FILE).read_bytes() != made
    assert (keys / CA_FILE).read_bytes() == authority, "which clients trust"


def test_a_local_certificate_for_other_names_is_renewed(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    ensure_local_certificate(keys, "old.example", clock=CLOCK)
    assert not ensure_local_certificate(keys, "old.example", clock=CLOCK)
    assert ensure_local_certificate(keys, "new.example", clock=CLOCK)
    assert {"new.example", "localhost", "127.0.0.1"} <= set(hosts_of(load(keys)))


def test_a_certificate_of_another_authority_stays(tmp_path: Path) -> None:
    keys, other = tmp_path / "keys", tmp_path / "other" / "keys"
    for directory in (keys, other):
        ensure_certificates(directory, "shop.example", clock=CLOCK)
    theirs = (other / CERTIFICATE_FILE).read_bytes()
    (keys / CERTIFICATE_FILE).write_bytes(theirs)
    assert not ensure_local_certificate(keys, "localhost", clock=CLOCK)
    assert (keys / CERTIFICATE_FILE).read_bytes() == theirs
