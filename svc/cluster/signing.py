"""Keys and signed tokens of the engine: Ed25519 keys in its text form, and JWTs signed with them.

A key is written as base32 of: a byte for its kind (the first letter of the text), its 32 bytes, and CRC-16/XMODEM of both, the low byte first.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ACCOUNT, SERVER, USER = "A", "N", "U"
_KINDS = {ACCOUNT: 0 << 3, SERVER: 13 << 3, USER: 20 << 3}
_HEADER = b'{"typ":"JWT","alg":"ed25519-nkey"}'
_KEY_BYTES = 32
_SEED = 18 << 3
MAX_TOKEN = 1 << 18  # bytes; a request for admission holds the certificates of a client


class BadToken(Exception):
    """It is no token of the engine, or not signed by the one it names."""


class SigningKey:
    """A new key pair, known to this process only. `public`: its text form."""

    def __init__(self, kind: str, private: Ed25519PrivateKey | None = None) -> None:
        self._private = private or Ed25519PrivateKey.generate()
        self.public = encode_key(kind, self._private.public_key().public_bytes_raw())

    @classmethod
    def from_seed(cls, text: str) -> SigningKey:
        """The key of a seed in its text form, `SU...`. Raises ValueError."""
        raw = _decode(text)
        if len(raw) != _KEY_BYTES + 2 or raw[0] & 0xF8 != _SEED:
            raise ValueError("it is no seed of a key")
        kind = (raw[0] & 7) << 5 | raw[1] >> 3
        letter = next((letter for letter, number in _KINDS.items() if number == kind), None)
        if letter is None:
            raise ValueError("it is the seed of a key of another kind")
        return cls(letter, Ed25519PrivateKey.from_private_bytes(raw[2:]))

    def sign(self, data: bytes) -> bytes:
        return self._private.sign(data)

    def sign_nonce(self, nonce: str) -> bytes:
        """What a client answers to show that it has the key."""
        return base64.urlsafe_b64encode(self.sign(nonce.encode())).rstrip(b"=")

    def sign_claims(self, claims: Mapping[str, Any], now: float) -> str:
        """A JWT of this issuer. `now`: seconds since the epoch."""
        filled = {**claims, "iss": self.public, "iat": int(now)}
        digest = hashlib.sha256(msgspec.json.encode(filled)).digest()
        filled["jti"] = base64.b32encode(digest).decode().rstrip("=")
        signed = f"{_to_base64(_HEADER)}.{_to_base64(msgspec.json.encode(filled))}"
        return f"{signed}.{_to_base64(self.sign(signed.encode()))}"


def read_claims(token: bytes) -> dict[str, Any]:
    """The claims of a JWT, which its issuer `iss` has signed. Raises BadToken."""
    if len(token) > MAX_TOKEN:
        raise BadToken("too long")
    try:
        signed, _, signature = token.rpartition(b".")
        header, _, body = signed.partition(b".")
        if msgspec.json.decode(_from_base64(header)).get("alg") != "ed25519-nkey":
            raise BadToken("not signed as the engine does")
        claims: dict[str, Any] = msgspec.json.decode(_from_base64(body), type=dict[str, Any])
        Ed25519PublicKey.from_public_bytes(decode_key(claims["iss"])).verify(_from_base64(signature), signed)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError, InvalidSignature) as error:
        raise BadToken(f"{type(error).__name__}") from None
    return claims


def encode_key(kind: str, public: bytes) -> str:
    """
    >>> encode_key("U", bytes(32))
    'UAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABET7'
    """
    raw = bytes((_KINDS[kind],)) + public
    return base64.b32encode(raw + _checksum(raw)).decode().rstrip("=")


def decode_key(text: str) -> bytes:
    """The 32 bytes of a public key. Raises ValueError."""
    raw = _decode(text)
    if len(raw) != _KEY_BYTES + 1 or raw[0] not in _KINDS.values():
        raise ValueError("it is no public key")
    return raw[1:]


def _decode(text: str) -> bytes:
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError, TypeError):
        raise ValueError("it is no key") from None
    if len(raw) < 3 or _checksum(raw[:-2]) != raw[-2:]:
        raise ValueError("it is no key")
    return raw[:-2]


def _checksum(data: bytes) -> bytes:
    return binascii.crc_hqx(data, 0).to_bytes(2, "little")


def _to_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _from_base64(data: bytes) -> bytes:
    return base64.urlsafe_b64decode(data + b"=" * (-len(data) % 4))
