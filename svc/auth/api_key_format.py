"""The text of an API key (spec: rows §2.7).

    svc_Zk3vR8aQ1x_Jq0bT5yVwK2mXcN9eLhD4sGfUoP_3kXz9Q        without the last `_`
    ---               constant: whoever finds it knows what it is
        ----------    public id, 59 bits; with `svc_` the *prefix*, which lists and logs show
                   ---------------------------  secret, 160 bits
                                                ------  CRC-32 of all before, base 62

Letters and digits only, but for two `_`: a double click selects all of it. The checksum tells a key that was cut off or mistyped, and what a scanner for
secrets has found, without a look-up; it protects nothing. Of the secret only a hash is kept. A fast one is enough: nobody guesses 160 random bits, and a slow
hash could be used to keep the server busy.
"""

from __future__ import annotations

import re
import secrets
from hashlib import sha256
from zlib import crc32

from svc.auth.users import KEY_START as START

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 10
_SECRET_LENGTH = 27
_CHECK_LENGTH = 6  # 62 ** 6 > 2 ** 32
_PREFIX_LENGTH = len(START) + _ID_LENGTH
_FORM = re.compile(rf"{START}[0-9A-Za-z]{{{_ID_LENGTH}}}_[0-9A-Za-z]{{{_SECRET_LENGTH + _CHECK_LENGTH}}}")
_PREFIX = re.compile(rf"{START}[0-9A-Za-z]{{{_ID_LENGTH}}}")


def new_key() -> str:
    """A new key.

    >>> is_whole(new_key()), len(new_key())
    (True, 48)
    """
    body = f"{START}{_random(_ID_LENGTH)}_{_random(_SECRET_LENGTH)}"
    return body + _checksum(body)


def is_whole(text: str) -> bool:
    """Whether it has the form of a key and the checksum is right: nothing is missing, no character is another.

    >>> key = new_key()
    >>> is_whole(key), is_whole(key[:-1]), is_whole(key + "0"), is_whole("svc_"), is_whole(key.swapcase())
    (True, False, False, False, False)
    """
    return _FORM.fullmatch(text) is not None and text[-_CHECK_LENGTH:] == _checksum(text[:-_CHECK_LENGTH])


def prefix_of(key: str) -> str:
    """The public part of a key, which may be shown.

    >>> prefix_of("svc_Zk3vR8aQ1x_Jq0bT5yVwK2mXcN9eLhD4sGfUoP3kXz9Q")
    'svc_Zk3vR8aQ1x'
    """
    return key[:_PREFIX_LENGTH]


def is_prefix(text: str) -> bool:
    """Whether it has the form of the public part of a key."""
    return _PREFIX.fullmatch(text) is not None


def hash_of(key: str) -> str:
    """What is kept of a key, hexadecimal."""
    return sha256(key.encode()).hexdigest()


def _random(length: int) -> str:
    return "".join(secrets.choice(_DIGITS) for _ in range(length))


def _checksum(text: str) -> str:
    number, digits = crc32(text.encode()), ""
    for _ in range(_CHECK_LENGTH):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits
