"""Operations for certificates (spec: operations §11)."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from svc.errors import Problem
from svc.store.system import CERTIFICATE_TABLE, SYSTEM
from svc.store.values.records import decode
from svc.tls.certificates import ensure_certificates, fits, key_to_pem, make_request, read_certificate, read_key, to_pem
from tests.support.operations import OperationsNode

OWN_FILES = {"ca.pem", "caPrivateKey.pem", "certificate.pem", "privateKey.pem"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as found:
        ensure_certificates(tmp_path / "keys", "localhost", clock=found.clock)
        yield found


def make(name: str = "shop.example") -> tuple[str, str]:
    """A certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(255)
        .not_valid_before(datetime.datetime(2026, 1, 1))
        .not_valid_after(datetime.datetime(2027, 1, 1))
        .sign(key, hashes.SHA256())
    )
    return to_pem(certificate).decode(), key_to_pem(key).decode()


def stored(node: OperationsNode) -> list[dict[str, Any]]:
    table = node.store.databases[SYSTEM].tables[CERTIFICATE_TABLE]
    found = [decode(raw) for _, raw in table.scan(table.database.snapshot())]
    node.store.end_turn()
    return found


def files(node: OperationsNode) -> set[str]:
    return {path.name for path in (node.root / "keys").iterdir() if not path.name.startswith(".jwt")} - OWN_FILES


def refused(node: OperationsNode, operation: str, status: int = 400, **fields: Any) -> str:
    before = stored(node), files(node)
    with pytest.raises(Problem) as caught:
        node.run(operation, **fields)
    assert caught.value.status_code == status
    assert (stored(node), files(node)) == before
    return caught.value.message


# --- add, list, remove -------------------------------------------------------------------------------------------------------------------


def test_add_list_and_remove(node: OperationsNode) -> None:
    certificate, key = make()
    body = {"name": "shop.example", "certificate": certificate, "private_key": key, "is_authority": False}
    assert node.run("add_certificate", **body, hosts=["shop.example", "*.shop.example"], uses=["https"], ciphers="HIGH") == {
        "message": "Successfully added certificate: shop.example"
    }
    assert node.run("list_certificates")[-1] == {
        "name": "shop.example",
        "certificate": certificate,
        "private_key_name": "shop.example.pem",
        "is_authority": False,
        "details": {
            "issuer": "CN=shop.example",
            "subject": "CN=shop.example",
            "serial_number": "FF",
            "valid_from": "Jan 01 00:00:00 2026 GMT",
            "valid_to": "Jan 01 00:00:00 2027 GMT",
        },
        "is_self_signed": True,
        "hosts": ["shop.example", "*.shop.example"],
        "uses": ["https"],
        "ciphers": "HIGH",
    }
    file = node.root / "keys" / "shop.example.pem"
    assert file.read_text() == key and file.stat().st_mode & 0o777 == 0o600
    assert "PRIVATE KEY" not in str(stored(node))
    assert node.run("remove_certificate", name="shop.example") == {"message": "Successfully removed shop.example"}
    assert stored(node) == [] and not file.exists()
    assert refused(node, "remove_certificate", 404, name="shop.example") == "shop.example not found"


def test_list_of_a_new_installation(node: OperationsNode) -> None:
    server, authority = node.run("list_certificates")
    assert (server["name"], server["private_key_name"], server["is_authority"], server["is_self_signed"], server["uses"]) == (
        "certificate.pem",
        "privateKey.pem",
        False,
        False,
        ["https", "operations", "mqtt"],
    )
    assert server["details"]["subject_alt_name"] == "DNS:localhost, IP Address:127.0.0.1, IP Address:::1"
    assert (authority["name"], authority["private_key_name"], authority["is_authority"], authority["is_self_signed"]) == (
        "ca.pem",
        "caPrivateKey.pem",
        True,
        True,
    )
    assert server["details"]["issuer"] == authority["details"]["subject"]


def test_list_without_files(node: OperationsNode) -> None:
    for name in OWN_FILES:
        (node.root / "keys" / name).unlink()
    assert node.run("list_certificates") == []


def test_authority_needs_no_key(node: OperationsNode) -> None:
    certificate, _ = make("Root")
    node.run("add_certificate", name="root", certificate=certificate, is_authority=True)
    found = node.run("list_certificates")[-1]
    assert (found["private_key_name"], found["uses"]) == (None, ["ca"]) and files(node) == set()


def test_a_key_on_the_node_is_found(node: OperationsNode) -> None:
    certificate, key = make()
    body = {"name": "shop", "certificate": certificate, "is_authority": False}
    assert refused(node, "add_certificate", **body) == "A suitable key was not found for this certificate"
    (node.root / "keys" / "of-the-operator.pem").write_text(key)
    node.run("add_certificate", **body)
    assert node.run("list_certificates")[-1]["private_key_name"] == "of-the-operator.pem"
    node.run("remove_certificate", name="shop")
    assert files(node) == {"of-the-operator.pem"}


def test_replace(node: OperationsNode) -> None:
    for name in ("one.example", "two.example"):
        certificate, key = make(name)
        node.run("add_certificate", name="shop", certificate=certificate, private_key=key, is_authority=False)
    (record,) = stored(node)
    assert record["details"]["subject"] == "CN=two.example" and (node.root / "keys" / "shop.pem").read_text() == key
    node.run("add_certificate", name="shop", certificate=certificate, is_authority=False)  # renewed for the same key
    assert files(node) == {"shop.pem"}
    other, _ = make()
    assert refused(node, "add_certificate", name="shop", certificate=other, is_authority=False)
    node.run("add_certificate", name="shop", certificate=other, is_authority=True)
    assert files(node) == set()  # nobody has the old key any more


def test_a_key_that_another_certificate_has_stays(node: OperationsNode) -> None:
    certificate, key = make()
    node.run("add_certificate", name="first", certificate=certificate, private_key=key, is_authority=False)
    node.run("add_certificate", name="second", certificate=certificate, is_authority=False)
    node.run("remove_certificate", name="first")
    assert files(node) == {"first.pem"} and stored(node)[0]["private_key_name"] == "first.pem"


# --- bad input ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["certificate", "privateKey", "ca", "caPrivateKey"])
def test_names_of_the_nodes_own_files(node: OperationsNode, name: str) -> None:
    certificate, key = make()
    before = {file: (node.root / "keys" / file).read_bytes() for file in OWN_FILES}
    for body in ({"private_key": key}, {}):
        text = refused(node, "add_certificate", name=name, certificate=certificate, is_authority=True, **body)
        assert text.startswith("'name' is not allowed to be")
    assert {file: (node.root / "keys" / file).read_bytes() for file in OWN_FILES} == before


def test_names_of_other_files(tmp_path: Path) -> None:
    settings = {"tls": [{"privateKey": "keys/special.pem"}, {"certificate": "keys/web.pem"}]}
    with OperationsNode(tmp_path, settings=settings) as node:
        (tmp_path / "keys").mkdir()
        (tmp_path / "keys" / "mine.pem").write_text("an operator's")
        certificate, key = make()
        for name in ("special", "web", "mine"):
            assert refused(node, "add_certificate", name=name, certificate=certificate, private_key=key, is_authority=False)
        assert (tmp_path / "keys" / "mine.pem").read_text() == "an operator's"


@pytest.mark.parametrize("name", ["../evil", "a/b", "a\\b", ".jwtPass", "..", "", "x" * 201, "x" * 300, "a\0b", "ü", None, 5, ["a"]])
def test_bad_names(node: OperationsNode, name: Any) -> None:
    certificate, key = make()
    text = refused(node, "add_certificate", name=name, certificate=certificate, private_key=key, is_authority=False)
    assert text.startswith("'name' ")
    if isinstance(name, str) and name:
        refused(
            node,
            "remove_certificate",
            404 if len(name) <= 250 and name.isascii() and "/" not in name and "\0" not in name else 400,
            name=name,
        )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"certificate": None}, "'certificate' is required"),
        ({"certificate": 5}, "'certificate' must be a string"),
        ({"certificate": ""}, "'certificate' is not allowed to be empty"),
        ({"certificate": "nonsense"}, "'certificate' is not a valid certificate in PEM format"),
        ({"certificate": "\ud800"}, "'certificate' must be a well-formed Unicode string"),
        (
            {"certificate": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"},
            "'certificate' is not a valid certificate in PEM format",
        ),
        ({"private_key": "nonsense"}, "'private_key' is not a valid private key in PEM format, without pass phrase"),
        ({"private_key": "\ud800"}, "'private_key' must be a well-formed Unicode string"),
        ({"private_key": 5}, "'private_key' must be a string"),
        ({"private_key": make()[1]}, "'private_key' does not belong to 'certificate'"),
        ({"is_authority": None}, "'is_authority' is required"),
        ({"is_authority": "yes"}, "'is_authority' must be a boolean"),
        ({"hosts": "shop.example"}, "'hosts' must be an array"),
        ({"hosts": [5]}, "'hosts' must be an array of strings"),
        ({"uses": {}}, "'uses' must be an array"),
        ({"ciphers": "no such cipher"}, "'ciphers' must be ciphers in OpenSSL's notation"),
        ({"ciphers": "\ud800"}, "'ciphers' must be a well-formed Unicode string"),
        ({"ciphers": "HIGH\0"}, "'ciphers' must be ciphers in OpenSSL's notation"),
        ({"ciphers": 5}, "'ciphers' must be a string"),
    ],
)
def test_bad_fields(node: OperationsNode, changes: dict[str, Any], text: str) -> None:
    certificate, key = make()
    body = {"name": "shop", "certificate": certificate, "private_key": key, "is_authority": False, **changes}
    assert refused(node, "add_certificate", **body) == text


def test_texts_that_cannot_be_stored(node: OperationsNode) -> None:
    certificate, key = make()
    body = {"name": "shop", "certificate": certificate, "private_key": key, "is_authority": False}
    refused(node, "add_certificate", **{**body, "certificate": certificate + "\ud800"})
    refused(node, "add_certificate", **body, hosts=["\ud800"])
    assert files(node) == set()
    node.run("add_certificate", **{**body, "certificate": "# Müller\n" + certificate})


def test_only_for_super_users(node: OperationsNode) -> None:
    for operation in ("add_certificate", "remove_certificate", "list_certificates", "create_csr", "sign_certificate"):
        with pytest.raises(Problem) as caught:
            node.run(operation, node.user("ann", {}))
        assert caught.value.status_code == 403


# --- requests ----------------------------------------------------------------------------------------------------------------------------


def test_request_and_signature(node: OperationsNode) -> None:
    csr = node.run("create_csr")["csr"]
    assert csr.startswith("-----BEGIN CERTIFICATE REQUEST-----")
    signed = node.run("sign_certificate", csr=csr)
    assert set(signed) == {"certificate", "signingCA"}
    assert signed["signingCA"] == (node.root / "keys" / "ca.pem").read_text()
    certificate = read_certificate(signed["certificate"].encode(), "x")
    assert fits(certificate, read_key((node.root / "keys" / "privateKey.pem").read_bytes(), "x"))
    certificate.verify_directly_issued_by(read_certificate(signed["signingCA"].encode(), "x"))
    node.run("add_certificate", name="signed", certificate=signed["certificate"], is_authority=False)
    assert node.run("list_certificates")[-1]["private_key_name"] == "privateKey.pem"


@pytest.mark.parametrize(
    "csr", [None, 5, "", "nonsense", "\ud800", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----"]
)
def test_bad_requests(node: OperationsNode, csr: Any) -> None:
    assert refused(node, "sign_certificate", csr=csr).startswith("'csr' ")


def test_without_files(node: OperationsNode) -> None:
    (node.root / "keys" / "caPrivateKey.pem").unlink()
    csr = make_request(ec.generate_private_key(ec.SECP256R1()), "x.example")
    assert refused(node, "sign_certificate", 404, csr=csr) == "This node has no certificate authority that could sign"
    (node.root / "keys" / "privateKey.pem").unlink()
    assert refused(node, "create_csr", 404) == "The private key of this node, privateKey.pem, cannot be read"
