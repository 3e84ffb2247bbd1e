"""The codes that mails carry: 128 bits, for one use, for a time, bound to the account (spec: rows §2.4).

A row of `system.svc_account_code`:

    id       a digest of the code: who reads the table has no code
    sealed   what the code is for, encrypted with a key that is made of the code: who reads the table learns neither addresses nor what they wait for

It expires with the code. A use is the removal of the row, in the transaction of what it lets do: of two processes that are shown the same code one finds it
gone. A request that must not tell whether an address is known leaves a row in either case, of the same length; that of an unknown one is of no code.

What is sealed: kind, user, `User.login_id` of the account at that time, so that a new password or another account of the same name makes the code void, and
content, by kind:

    confirm   a sign-up that waits for its address: the record, the stored hash of the password
    reset     nothing
    email     the new address
"""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from svc.auth.writes import MUST_EXIST
from svc.errors import ClientError, Overloaded
from svc.store.system import ACCOUNT_CODE_TABLE, SYSTEM
from svc.store.values.records import decode, decode_payload, encode_payload

if TYPE_CHECKING:
    from svc.store import Store, Table, Transaction
    from svc.store.env import Txn

CONFIRM, RESET, EMAIL = "confirm", "reset", "email"

_BYTES = 16
_TEXT = 22  # characters of a code
_NONCE = bytes(12)  # each code is the key of one text
MAX_ROWS = 100_000  # outstanding; more are refused
MAX_CONTENT = 16 << 10  # bytes of what a code is for
_LENGTH = Struct(">I")
_STEP = 512  # bytes: texts are filled up to a multiple, so that their length tells nothing


@dataclass(frozen=True, slots=True)
class AccountCode:
    """What a code is for. `kind`: CONFIRM, RESET or EMAIL."""

    kind: str
    username: str = ""
    login_id: str = ""
    content: Mapping[str, Any] = field(default_factory=dict)


def invalid_code() -> ClientError:
    return ClientError(
        "The code is not valid (any more): it was used, or has expired, or another one was meant. Ask for a new one", code="INVALID_CODE"
    )


class Codes:
    """Those of one node. Used on the thread of the loop."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def table(self) -> Table:
        return self._store.databases[SYSTEM].tables[ACCOUNT_CODE_TABLE]

    def add(self, transaction: Transaction, code: AccountCode, life: float) -> str:
        """Add a code to what a transaction writes, for `life` seconds. Returns it, as text. Raises Overloaded when too many are outstanding, and
        ClientError 413."""
        table = self.table
        if table.entry_count(table.database.snapshot()) >= MAX_ROWS:
            raise Overloaded("Too many requests about accounts at the same time")
        secret = secrets.token_bytes(_BYTES)
        plain = encode_payload({"kind": code.kind, "user": code.username, "login": code.login_id, "content": dict(code.content)})
        if len(plain) > MAX_CONTENT:
            raise ClientError(f"What waits for a confirmation has {MAX_CONTENT} bytes at most: leave the rest for later", 413)
        plain = _LENGTH.pack(len(plain)) + plain
        plain += bytes(-len(plain) % _STEP)
        key = _digest(secret)
        record = {"id": key, "sealed": AESGCM(_key(secret)).encrypt(_NONCE, plain, None)}
        transaction.put(table, key, record, expires_at=(self._store.clock.wall() + life) * 1000)
        return urlsafe_b64encode(secret).decode().rstrip("=")

    def maybe_read(self, text: object, txn: Txn | None = None) -> AccountCode | None:
        """What a code is for; None if there is no such code (any more). Default: as of this turn."""
        secret = _secret(text)
        raw = None if secret is None else self.table.get_raw(_digest(secret), txn)
        if secret is None or raw is None:
            return None
        try:
            plain = AESGCM(_key(secret)).decrypt(_NONCE, decode(raw)["sealed"], None)
        except InvalidTag:
            return None
        (length,) = _LENGTH.unpack_from(plain)
        found = decode_payload(plain[_LENGTH.size : _LENGTH.size + length])
        return AccountCode(found["kind"], found["user"], found["login"], found["content"])

    def take(self, text: str, transaction: Transaction, txn: Txn) -> AccountCode:
        """Use a code within the transaction that does what it is for. `txn`: the writer, whose holder decides. Raises ClientError `INVALID_CODE`."""
        code, secret = self.maybe_read(text, txn), _secret(text)
        if code is None or secret is None:
            raise invalid_code()
        transaction.delete(self.table, _digest(secret), MUST_EXIST)
        return code


def _secret(text: object) -> bytes | None:
    """The bytes of a code; None for what is none."""
    if not isinstance(text, str) or len(text) != _TEXT or not text.isascii():
        return None
    try:
        secret = urlsafe_b64decode(f"{text}==")
    except (Base64Error, ValueError):
        return None
    return secret if len(secret) == _BYTES else None


def _digest(secret: bytes) -> str:
    return blake2b(secret, digest_size=32, person=b"svc account id").hexdigest()


def _key(secret: bytes) -> bytes:
    return blake2b(secret, digest_size=32, person=b"svc account key").digest()
