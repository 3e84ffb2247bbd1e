from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

import pytest

from svc.cluster.client import Credentials
from svc.cluster.external import server_address, server_credentials
from svc.errors import ClientError


def seed() -> str:
    raw = bytes((18 << 3 | (20 << 3) >> 5, ((20 << 3) & 31) << 3)) + bytes(range(32))
    return base64.b32encode(raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")).decode().rstrip("=")


def test_addresses() -> None:
    plain, secure, short = (server_address(text) for text in ("nats://a:5", "tls://[::1]:6", "b"))
    assert (plain.url, plain.tls) == ("nats://a:5", None)
    assert (secure.url, short.url) == ("tls://[::1]:6", "tls://b:4222")
    assert secure.tls is not None
    assert secure.tls.check_hostname


@pytest.mark.parametrize(
    "text", ["", "http://a", "tls://", "tls://a:x", "tls://a:99999", "tls://u:p@a", "tls://a/path", "tls://a?x=1", "tls://[::1"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ClientError):
        server_address(text)


def test_credentials(tmp_path: Path) -> None:
    assert server_credentials(None, tmp_path) is None
    assert server_credentials({"username": "u", "password": "p"}, tmp_path) == Credentials(user="u", password="p")
    assert server_credentials({"token": "t"}, tmp_path) == Credentials(token="t")
    found = server_credentials({"seed": seed()}, tmp_path)
    assert found is not None
    assert found.key is not None
    assert found.key.public.startswith("U")
    text = (
        "-----BEGIN NATS USER JWT-----\neyJ0.a-b_c\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed()}\n------END USER NKEY SEED------\n"
    )
    (tmp_path / "svc.creds").write_text(text)
    for value in ("svc.creds", {"file": str(tmp_path / "svc.creds")}):
        read = server_credentials(value, tmp_path)
        assert read is not None
        assert read.key is not None
        assert (read.key.public, read.jwt) == (found.key.public, "eyJ0.a-b_c")


@pytest.mark.parametrize(
    "value", [5, [], {}, {"username": "u"}, {"token": ""}, {"token": 5}, {"seed": "SUA"}, "none.creds", {"file": "."}, {"other": "x"}]
)
def test_what_are_no_credentials(value: Any, tmp_path: Path) -> None:
    with pytest.raises(ClientError):
        server_credentials(value, tmp_path)


def test_a_file_without_them(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff" * 100)
    with pytest.raises(ClientError, match="no credentials"):
        server_credentials("x", tmp_path)
