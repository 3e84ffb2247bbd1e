"""Passwords: made into hashes, and compared with them (spec: security §1.3).

Stored forms, distinguished by their first characters:

    $argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>      argon2id, PHC text
    pbkdf2_sha256$<rounds>$<salt b64>$<hash b64>      sha256
    <salt><md5(password + salt), 32 hex digits>       md5, only where the user's `hash_function` says so: imported, verify only

Everything here is pure and slow on purpose: call it on a helper thread. The work itself runs outside the interpreter lock.
"""

from __future__ import annotations

import re
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from hashlib import md5, pbkdf2_hmac
from hmac import compare_digest

from argon2 import PasswordHasher, Type
from argon2.exceptions import Argon2Error, InvalidHashError

DEFAULT_HASH_FUNCTION = "argon2id"
DEFAULT_MIN_LENGTH = 8  # characters

# OWASP's minimum for argon2id: 25 ms on the machines measured, and 19 MiB that an attacker needs once per guess.
_ARGON2 = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1, hash_len=32, salt_len=16, type=Type.ID)

_PBKDF2 = "pbkdf2_sha256"
_PBKDF2_ROUNDS = 600_000
_MD5_TAIL = re.compile(r"[0-9a-fA-F]{32}\Z")


@dataclass(frozen=True, slots=True)
class Verification:
    """`matches`: the password is the right one. `replacement`: a better hash of it, to be stored instead; None = the stored one will do."""

    matches: bool
    replacement: str | None = None


NO_MATCH = Verification(False)


def is_acceptable(password: object) -> bool:
    """Whether it is an acceptable password: any string that is not only white space, and can be encoded."""
    if not isinstance(password, str) or not password.strip():
        return False
    try:
        password.encode()
    except UnicodeEncodeError:
        return False
    return True


def length_fault(password: str, min_length: int) -> str | None:
    """What is wrong with the length of a new password, None if it is long enough. Those that are stored already are not asked.

    >>> length_fault("s3cret", 8), length_fault("p\u00e4ssw\u00f6rd", 8)
    ('password must have at least 8 characters', None)
    """
    return None if len(password) >= min_length else f"password must have at least {min_length} characters"


def hash_password(password: str, function: str = DEFAULT_HASH_FUNCTION) -> str:
    """The stored form. Blocks for tens of milliseconds."""
    if function == "argon2id":
        return _ARGON2.hash(password)
    if function != "sha256":
        raise ValueError(f"unknown hash function: {function}")
    salt = secrets.token_bytes(16)
    digest = pbkdf2_hmac("sha256", password.encode(), salt, _PBKDF2_ROUNDS)
    return f"{_PBKDF2}${_PBKDF2_ROUNDS}${b64encode(salt).decode()}${b64encode(digest).decode()}"


def hash_function_of(stored: str) -> str:
    """`hash_function` of a user with this hash."""
    return "argon2id" if stored.startswith("$argon2id$") else "sha256" if stored.startswith(_PBKDF2 + "$") else "md5"


def verify_password(password: str, stored: str | None, function: str | None = None, preferred: str = DEFAULT_HASH_FUNCTION) -> Verification:
    """Compare a password with a stored hash, in constant time. Blocks for tens of milliseconds.

    `stored` None (no such user): takes as long as a wrong password and never matches. `function` is the user's `hash_function`; it only matters
    for md5. `preferred` is what new hashes are made with: a hash that is weaker than today's form comes back with a replacement.
    """
    if stored is None:
        _matches(password, _DUMMIES[preferred])
        return NO_MATCH
    if function == "md5":
        if not _matches_md5(password, stored):
            return NO_MATCH
        return Verification(True, hash_password(password, preferred))
    if not _matches(password, stored):
        return NO_MATCH
    return Verification(True, hash_password(password, preferred) if _is_weak(stored) else None)


def _matches(password: str, stored: str) -> bool:
    if stored.startswith("$argon2"):
        try:
            return _ARGON2.verify(stored, password)
        except (Argon2Error, InvalidHashError):
            return False
    parts = stored.split("$")
    if len(parts) != 4 or parts[0] != _PBKDF2:
        return False
    try:
        rounds, salt, expected = int(parts[1]), b64decode(parts[2], validate=True), b64decode(parts[3], validate=True)
        digest = pbkdf2_hmac("sha256", password.encode(), salt, rounds)
    except (ValueError, OverflowError, Base64Error):
        return False
    return compare_digest(digest, expected)


def _matches_md5(password: str, stored: str) -> bool:
    if _MD5_TAIL.search(stored) is None:
        return False
    salt, expected = stored[:-32], stored[-32:].lower()
    digest = md5((password + salt).encode(), usedforsecurity=False).hexdigest()
    return compare_digest(digest, expected)


def _is_weak(stored: str) -> bool:
    """Made with lower costs than a new hash of the same function would be."""
    if stored.startswith("$argon2"):
        return _ARGON2.check_needs_rehash(stored)
    return int(stored.split("$")[1]) < _PBKDF2_ROUNDS


def _dummy_argon2() -> str:
    """A well-formed hash of an unknown password: 48 random bytes, made without hashing."""

    def text(size: int) -> str:
        return b64encode(secrets.token_bytes(size)).decode().rstrip("=")

    return f"$argon2id$v=19$m={_ARGON2.memory_cost},t={_ARGON2.time_cost},p={_ARGON2.parallelism}${text(16)}${text(32)}"


def _dummy_pbkdf2() -> str:
    return f"{_PBKDF2}${_PBKDF2_ROUNDS}${b64encode(secrets.token_bytes(16)).decode()}${b64encode(secrets.token_bytes(32)).decode()}"


_DUMMIES = {"argon2id": _dummy_argon2(), "sha256": _dummy_pbkdf2()}
