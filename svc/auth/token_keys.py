"""The pair of keys that tokens are signed with (spec: security §2).

Three files of mode 0600, replaced together to retire every token that is out:

    .jwtPrivate.key   RSA 4096, PKCS#8 PEM, AES-256-CBC
    .jwtPublic.key    SubjectPublicKeyInfo PEM
    .jwtPass          pass phrase of the first, a uuid4

`prepare` makes them if one is missing and reads them. It blocks: to read a pair half a millisecond, to make one a quarter of a second to some
seconds, as the search for primes goes. Making leaves the interpreter to others, so a helper thread does it beside the start of the server, and
a request that needs a token before that waits. The public file is written last and removed first: files that belong to two pairs are never complete.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from uuid import uuid4

from svc.config import Config
from svc.config.document import write_private
from svc.errors import ServerError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

PRIVATE_FILE = ".jwtPrivate.key"
PUBLIC_FILE = ".jwtPublic.key"
PASS_FILE = ".jwtPass"
RSA_BITS = 4096

DIRECTORY = "keys"
SHARED_DIRECTORY = ".keys"

NO_KEYS = "unable to generate JWT as there are no encryption keys.  please contact your administrator"


def keys_directory(config: Config) -> Path:
    """Where they lie: below the root; or, for databases elsewhere, which several roots may share, beside these, unless the root has some of its own."""
    own, storage = config.root / DIRECTORY, config.storage.path
    return own if storage.is_relative_to(config.root) or (own / PUBLIC_FILE).exists() else storage / SHARED_DIRECTORY


class TokenKeys:
    """The keys in one directory. `bits`: of a pair that is made here; tests cannot wait for long ones."""

    def __init__(self, directory: Path, *, bits: int = RSA_BITS) -> None:
        self._directory = directory
        self._bits = bits
        self._lock = Lock()
        self._pair: tuple[RSAPrivateKey, RSAPublicKey] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the keys are in memory: then nothing here blocks."""
        return self._pair is not None

    @property
    def exist(self) -> bool:
        """Whether all files are there."""
        return all((self._directory / name).exists() for name in (PRIVATE_FILE, PUBLIC_FILE, PASS_FILE))

    def prepare(self) -> None:
        """Make the files if one is missing, and read them. On any thread. Raises ServerError if that is impossible; to be tried again."""
        with self._lock:
            if self._pair is not None:
                return
            try:
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                with exclusive(self._directory):
                    if not self.exist:
                        self._make()
                self._pair = self._read()
            except (
                OSError,
                ValueError,
                TypeError,
            ) as error:  # the latter two: of `cryptography`, for an invalid key or another pass phrase
                raise ServerError(NO_KEYS) from error

    @property
    def private(self) -> RSAPrivateKey:
        return self._loaded()[0]

    @property
    def public(self) -> RSAPublicKey:
        return self._loaded()[1]

    def _loaded(self) -> tuple[RSAPrivateKey, RSAPublicKey]:
        if self._pair is None:
            self.prepare()
        assert self._pair is not None
        return self._pair

    def _make(self) -> None:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        directory = self._directory
        (directory / PUBLIC_FILE).unlink(missing_ok=True)
        phrase = str(uuid4()).encode()
        private = rsa.generate_private_key(65537, self._bits)
        write_private(
            directory / PRIVATE_FILE,
            private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(phrase),  # AES-256-CBC
            ),
        )
        write_private(directory / PASS_FILE, phrase)
        public = private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        write_private(directory / PUBLIC_FILE, public)

    def _read(self) -> tuple[RSAPrivateKey, RSAPublicKey]:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

        phrase = (self._directory / PASS_FILE).read_bytes().strip()
        # The key is ours: testing whether its numbers are primes takes a quarter of a second at each start.
        private = serialization.load_pem_private_key(
            (self._directory / PRIVATE_FILE).read_bytes(), phrase or None, unsafe_skip_rsa_key_validation=True
        )
        public = serialization.load_pem_public_key((self._directory / PUBLIC_FILE).read_bytes())
        if not isinstance(private, RSAPrivateKey) or private.public_key() != public:
            raise ValueError("the key files do not belong together")
        return private, private.public_key()


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Alone among the processes that write keys into this directory. Blocks."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # the lock goes with it
