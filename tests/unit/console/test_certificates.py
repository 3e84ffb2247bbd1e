"""The pages of certificates and SSH keys (spec: console §13)."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from svc.tls.certificates import ensure_certificates, key_to_pem, make_request, read_certificate, to_pem
from tests.support.console import ConsoleAnswer, ConsoleSite

HOSTILE = "\"'><img src=x onerror=alert(1)>"
SSH_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ConsoleSite]:
    made = ConsoleSite(tmp_path)
    ensure_certificates(tmp_path / "keys", "localhost", clock=made.node.clock)
    yield made
    made.close()


def make(site: ConsoleSite, name: str, days: float) -> tuple[str, str]:
    """A certificate that lasts this many days from now on, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.fromtimestamp(site.node.clock.wall(), datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(255)
        .not_valid_before(now - datetime.timedelta(days=100))
        .not_valid_after(now + datetime.timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    return to_pem(certificate).decode(), key_to_pem(key).decode()


def row(site: ConsoleSite, name: str) -> list[str]:
    return next(row for row in site.get("/console/certificates").page.rows if row[0].startswith(name))


def control(answer: ConsoleAnswer, name: str) -> dict[str, str]:
    return next(each for tag, each in answer.page.elements if tag in ("input", "textarea") and each.get("name") == name)


def browser(text: str) -> str:
    return text.replace("\n", "\r\n")


# --- certificates ------------------------------------------------------------------------------------------------------------------------


def test_the_certificates_of_an_installation(site: ConsoleSite) -> None:
    server, authority = row(site, "certificate.pem"), row(site, "ca.pem")
    assert "CN=localhost" in server[1] and "DNS:localhost" in server[1] and "days left" in server[3] and server[5] == "of the configuration"
    assert "an authority" in authority[0] and authority[2] == "itself" and authority[4] == "ca"
    pem = (site.node.root / "keys" / "ca.pem").read_bytes()
    assert read_certificate(pem, "ca").fingerprint(hashes.SHA256()).hex() in authority[1]


@pytest.mark.parametrize(("days", "text"), [(29.5, "29 days left"), (1.5, "1 day left"), (-1, "has ended"), (30.5, "30 days left")])
def test_one_that_ends_soon(site: ConsoleSite, days: float, text: str) -> None:
    certificate, key = make(site, f"O={HOSTILE}", days)
    site.node.run("add_certificate", name="soon", certificate=certificate, private_key=key, is_authority=False, hosts=[HOSTILE])
    answer = site.get("/console/certificates")
    found = row(site, "soon")
    assert text in found[3] and HOSTILE in found[1] and b"<img src=x" not in answer.body
    assert (b'<span class="fault">' in answer.body) == (days < 30)


def test_one_is_added_and_removed(site: ConsoleSite) -> None:
    certificate, key = make(site, "shop.example", 100)
    path = "/console/certificates?do=add"
    form = {"name": "shop", "certificate": browser(certificate), "_private_key": browser(key), "hosts": "a.example, b.example\r\nc.example"}
    answer = site.post(path, {**form, "use_https": "true", "ciphers": "HIGH"})
    assert answer.location == "./certificates?note=Successfully+added+certificate%3A+shop", answer.page.text
    stored = site.node.run("list_certificates")[-1]
    assert (
        stored["certificate"] == certificate and stored["hosts"] == ["a.example", "b.example", "c.example"] and stored["uses"] == ["https"]
    )
    assert (site.node.root / "keys" / "shop.pem").read_text() == key
    href = site.get("/console/certificates").page.links["Remove shop"]
    assert href == "./certificates?do=remove&name=shop"
    confirm = site.get("/console/certificates?do=remove&name=shop")
    assert "shop is removed" in confirm.page.text
    assert "Successfully+removed" in site.post("/console/certificates?do=remove&name=shop", {}).location
    gone = site.post("/console/certificates?do=remove&name=shop", {})
    assert gone.status == 404 and "shop not found" in gone.page.text


def test_files_of_pem(site: ConsoleSite) -> None:
    certificate, key = make(site, "shop.example", 100)
    token = control(site.get("/console/certificates?do=add"), "_token")["value"]

    def send(content: bytes) -> ConsoleAnswer:
        parts = [
            f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in (("_token", token), ("name", "f"))
        ]
        files = (("certificate_file", content), ("private_key_file", key.encode()))
        body = "".join(parts).encode()
        for name, data in files:
            body += f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="x"\r\n\r\n'.encode() + data + b"\r\n"
        kind = {"content-type": "multipart/form-data; boundary=x"}
        return site._ask("POST", "/console/certificates?do=add", "admin", body + b"--x--\r\n", kind)

    wrong = send(b"\xff\xfe")
    assert wrong.status == 400 and "must be PEM" in wrong.page.text
    assert send(certificate.encode()).status == 303


@pytest.mark.parametrize(
    ("changes", "text", "at"),
    [
        ({"certificate": HOSTILE}, "'certificate'", "certificate"),
        ({"_private_key": "no key"}, "'private_key'", "_private_key"),
        ({"_private_key": ""}, "A suitable key was not found", "_private_key"),
        ({"name": ".x"}, "'name'", "name"),
        ({"name": "certificate"}, "belongs to the configuration", "name"),
        ({"name": ""}, "'name'", "name"),
        ({"ciphers": HOSTILE}, "'ciphers'", "ciphers"),
    ],
)
def test_what_is_wrong_is_shown_at_its_field(site: ConsoleSite, changes: dict[str, str], text: str, at: str) -> None:
    certificate, key = make(site, "shop.example", 100)
    before = site.node.run("list_certificates")
    form = {"name": "shop", "certificate": certificate, "_private_key": key, **changes}
    answer = site.post("/console/certificates?do=add", form)
    assert answer.status == 400 and text in answer.page.text
    assert control(answer, at)["aria-invalid"] == "true"
    assert "PRIVATE KEY-----" not in answer.page.text and b"<img src=x" not in answer.body
    assert control(answer, "name")["value"] == form["name"]
    assert site.node.run("list_certificates") == before


def test_requests_are_made_and_signed(site: ConsoleSite) -> None:
    assert "BEGIN CERTIFICATE REQUEST" in site.get("/console/certificates?do=request").page.text
    request = make_request(ec.generate_private_key(ec.SECP256R1()), "other.example")
    answer = site.post("/console/certificates?do=sign", {"csr": browser(request)})
    assert answer.status == 200 and answer.page.text.count("BEGIN CERTIFICATE-----") == 2
    wrong = site.post("/console/certificates?do=sign", {"csr": HOSTILE})
    assert wrong.status == 400 and control(wrong, "csr")["aria-invalid"] == "true" and b"<img src=x" not in wrong.body
    (site.node.root / "keys" / "caPrivateKey.pem").unlink()
    assert site.post("/console/certificates?do=sign", {"csr": request}).status == 404


# --- SSH keys ----------------------------------------------------------------------------------------------------------------------------


def test_ssh_keys(site: ConsoleSite) -> None:
    form = {
        "name": "deploy",
        "_key": browser(SSH_KEY),
        "host": "shop.github.com",
        "hostname": "github.com",
        "known_hosts": "github.com ssh-ed25519 AA",
    }
    answer = site.post("/console/ssh-keys?do=add", form)
    assert answer.location == "./ssh-keys?note=Added+ssh+key%3A+deploy", answer.page.text
    key = site.node.root / "ssh" / "deploy.key"
    assert key.read_text() == SSH_KEY
    page = site.get("/console/ssh-keys")
    assert page.page.rows[1][:3] == ["deploy", "shop.github.com", "github.com"] and "github.com ssh-ed25519 AA" in page.page.text
    again = site.post("/console/ssh-keys?do=add", form)
    assert again.status == 409 and control(again, "name")["aria-invalid"] == "true" and "PRIVATE KEY" not in again.page.text
    path = "/console/ssh-keys?do=change&name=deploy"
    opened = site.get(path)
    assert control(opened, "host")["value"] == "shop.github.com" and "PRIVATE KEY" not in opened.page.text
    assert site.post(path, {"host": "other.github.com", "hostname": "github.com"}).status == 303
    assert site.node.run("get_ssh_key", name="deploy")["host"] == "other.github.com" and key.read_text() == SSH_KEY
    assert "deploy is removed" in site.get("/console/ssh-keys?do=remove&name=deploy").page.text
    assert site.post("/console/ssh-keys?do=remove&name=deploy", {}).status == 303 and not key.exists()
    assert site.post("/console/ssh-keys?do=remove&name=deploy", {}).status == 404
    assert site.get("/console/ssh-keys?do=change&name=nosuch").status == 404


@pytest.mark.parametrize(
    ("changes", "at"),
    [({"name": HOSTILE}, "name"), ({"_key": HOSTILE}, "_key"), ({"host": HOSTILE}, "host"), ({"hostname": ""}, "hostname")],
)
def test_wrong_ssh_keys(site: ConsoleSite, changes: dict[str, str], at: str) -> None:
    form = {"name": "deploy", "_key": SSH_KEY, "host": "shop.github.com", "hostname": "github.com", **changes}
    answer = site.post("/console/ssh-keys?do=add", form)
    assert answer.status == 400 and control(answer, at)["aria-invalid"] == "true"
    assert b"<img src=x" not in answer.body and site.node.run("list_ssh_keys") == []
    both = site.post("/console/ssh-keys?do=add", {**form, "host": "a b", "hostname": "c d"})
    assert [control(both, name).get("aria-invalid") for name in ("host", "hostname")] == ["true", "true"]


def test_known_hosts(site: ConsoleSite) -> None:
    assert site.post("/console/ssh-keys", {"known_hosts": "a ssh-ed25519 AA\r\nb ssh-ed25519 BB\r\n"}).status == 303
    assert site.node.run("get_ssh_known_hosts")["known_hosts"] == "a ssh-ed25519 AA\nb ssh-ed25519 BB\n"
    wrong = site.post("/console/ssh-keys", {"known_hosts": f"{HOSTILE}\u202e"})
    assert wrong.status == 400 and control(wrong, "known_hosts")["aria-invalid"] == "true" and b"<img src=x" not in wrong.body
    assert "BB" in site.node.run("get_ssh_known_hosts")["known_hosts"]


# --- rights ------------------------------------------------------------------------------------------------------------------------------


def test_rights(site: ConsoleSite) -> None:
    site.node.run("add_ssh_key", name="deploy", key=SSH_KEY, host="a.example", hostname="b.example")
    reader = site.node.user("reader", {"super_user": False, "operations": ["list_certificates", "list_ssh_keys"]})
    before = site.node.run("list_certificates")
    for path, forbidden in {
        "/console/certificates": ("?do=add", "?do=remove&name=x", "?do=request", "?do=sign"),
        "/console/ssh-keys": ("?do=add", "?do=change&name=deploy", "?do=remove&name=deploy"),
    }.items():
        answer = site.get(path, reader)
        assert answer.status == 200 and not [text for text in answer.page.links if "Remove" in text or text.startswith(("Add", "Sign"))]
        token = control(answer, "_token")["value"]
        assert not any(each.get("method") == "post" and "logout" not in each.get("action", "") for _, each in answer.page.elements)
        for query in forbidden:
            assert site.get(path + query, reader).status == 403
            assert site.post(path + query, {"name": "deploy", "csr": "x"}, reader, token=token).status in (403, 405)
        assert site.post(path, {"known_hosts": "x"}, reader, token=token).status in (403, 405)
        for permission in ({"super_user": False}, {"super_user": False, "structure_user": True}):
            assert site.get(path, site.node.user("ann", permission)).status == 403
        assert site.get(path, None).status == 401
        assert site.post(path + forbidden[0], {}, token="0" * 32).status == 403
    assert site.node.run("list_certificates") == before and site.node.run("list_ssh_keys") == [{"name": "deploy"}]
    assert site.get("/console/certificates/x").status == site.get("/console/ssh-keys/x").status == 404


def test_a_private_key_is_not_kept_while_somebody_logs_in(site: ConsoleSite) -> None:
    form: dict[str, Any] = {"name": "shop", "certificate": "c", "_private_key": "hush-hush"}
    answer = site.post("/console/certificates?do=add", form, None, token="old")
    assert answer.status == 401 and b"hush-hush" not in answer.body
    assert "enter it again after the login" in answer.page.text  # without it the rest would be another certificate
