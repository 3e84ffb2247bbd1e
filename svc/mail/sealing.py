"""The secret part of a row of the outbox, sealed: texts of mails have links and codes that let in whoever reads them.

What is stored stays in the log of the database for days, and goes into its backups. So the texts are encrypted with a key that lies beside the databases, in
the file `.keys/.mail.key`: AES-256-GCM, with a nonce of 12 bytes in front, and bound to the id of the row.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from svc.auth.token_keys import exclusive
from svc.config.document import write_private

KEY_FILE = ".mail.key"
_KEY_BYTES = 32
_NONCE_BYTES = 12


class SealBroken(ValueError):
    """What is to be opened was sealed with another key, for another row, or is damaged."""


class Seal:
    """The key of a node."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    @classmethod
    def from_directory(cls, directory: Path, file: str = KEY_FILE) -> Seal:
        """The key that lies there in this file, made if there is none. Blocks. Raises OSError, and ValueError for a file that is no key."""
        path = directory / file
        try:
            key = path.read_bytes()
        except FileNotFoundError:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with exclusive(directory):
                if not path.exists():
                    write_private(path, os.urandom(_KEY_BYTES))
            key = path.read_bytes()
        if len(key) != _KEY_BYTES:
            raise ValueError(f"{path} is no key of {_KEY_BYTES} bytes")
        return cls(key)

    def close(self, content: bytes, row: str) -> bytes:
        """`content` as it is stored in the row of this id. `row` may be any other text that says what it is for."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, row.encode())

    def open(self, sealed: bytes, row: str) -> bytes:
        """The opposite. Raises SealBroken."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], row.encode())
        except (InvalidTag, ValueError):
            raise SealBroken from None
