from __future__ import annotations

import base64

import pytest

from svc.cluster.signing import ACCOUNT, MAX_TOKEN, SERVER, USER, BadToken, SigningKey, decode_key, encode_key, read_claims


def test_claims_come_back() -> None:
    key = SigningKey(ACCOUNT)
    claims = read_claims(key.sign_claims({"sub": "x", "nats": {"a": [1, "ü"]}}, 5.9).encode())
    assert claims.pop("jti")
    assert claims == {"sub": "x", "nats": {"a": [1, "ü"]}, "iss": key.public, "iat": 5}
    assert (key.public[0], len(key.public)) == ("A", 56)


def test_no_change_of_a_token_is_accepted() -> None:
    token = SigningKey(SERVER).sign_claims({"sub": "x"}, 5).encode()
    for end in range(len(token)):
        with pytest.raises(BadToken):
            read_claims(token[:end])
    for at in range(0, len(token) - 2, 7):  # the last letters have bits that mean nothing
        with pytest.raises(BadToken):
            read_claims(token[:at] + (b"A" if token[at : at + 1] != b"A" else b"B") + token[at + 1 :])
    for other in (
        b"",
        b".",
        b"..",
        b"a.b.c",
        b"\xff" * 50,
        b"e30.e30.e30",
        b"." * (MAX_TOKEN + 1),
        b"W10.W10.W10",
        b"bnVsbA.bnVsbA.bnVsbA",
    ):
        with pytest.raises(BadToken):
            read_claims(other)


def test_the_name_of_another_key_does_not_help() -> None:
    mine, other = SigningKey(SERVER), SigningKey(SERVER)
    header, body, _ = mine.sign_claims({"sub": "x"}, 5).split(".")
    swapped = base64.urlsafe_b64encode(
        base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).replace(mine.public.encode(), other.public.encode())
    ).decode()
    signature = base64.urlsafe_b64encode(mine.sign(f"{header}.{swapped.rstrip('=')}".encode())).decode()
    with pytest.raises(BadToken):
        read_claims(f"{header}.{swapped.rstrip('=')}.{signature.rstrip('=')}".encode())


def test_keys_as_text() -> None:
    raw = bytes(range(32))
    text = encode_key(USER, raw)
    assert decode_key(text) == raw
    for bad in ("", "U", text[:-1], text[:-1] + ("A" if text[-1] != "A" else "B"), text.lower(), "=" * 8, "ü" * 56, text + "AAAAAAAA"):
        with pytest.raises(ValueError, match="it is no"):
            decode_key(bad)


def test_seeds() -> None:
    # made with `nk -gen user`, which shows UCJ...: the public key follows from the seed
    seed_of_zeros = bytes((18 << 3 | (20 << 3) >> 5, ((20 << 3) & 31) << 3)) + bytes(32)
    import binascii

    text = base64.b32encode(seed_of_zeros + binascii.crc_hqx(seed_of_zeros, 0).to_bytes(2, "little")).decode().rstrip("=")
    assert text.startswith("SU")
    key = SigningKey.from_seed(text)
    assert key.public.startswith("U")
    assert len(base64.urlsafe_b64decode(key.sign_nonce("abc") + b"==")) == 64
    for bad in ("", key.public, text[:-2], "SU"):
        with pytest.raises(ValueError, match="it is no"):
            SigningKey.from_seed(bad)
