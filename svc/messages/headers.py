"""HeaderBlock and Headers: the header fields of a head, as received and as handlers change them (architecture §11)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

HeaderPairs = list[tuple[str, str]]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class HeaderBlock:
    """The header fields of one request head: immutable, shared by all requests that repeat it.

    `fields`: lower-case name -> value, repeated fields joined with `, ` (`Cookie` with `; `, RFC 9110 §5.3, RFC 6265 §5.4).
    `memo`: for values that layers above derive from these fields (negotiated types, identified user). Each layer owns its own key;
    a value that depends on more than the fields (a user's rights, a configuration) must carry its own check of validity.
    """

    __slots__ = ("fields", "memo", "pairs")

    def __init__(self, pairs: HeaderPairs) -> None:
        """`pairs`: names in lower case, in the order received."""
        self.pairs = pairs
        fields: dict[str, str] = {}
        for name, value in pairs:
            if name in fields:
                fields[name] += ("; " if name == "cookie" else ", ") + value
            else:
                fields[name] = value
        self.fields = fields
        self.memo: dict[str, Any] = {}

    def get(self, name: str) -> str | None:
        """The value of a field by its lower-case name."""
        return self.fields.get(name)


class Headers:
    """Mutable header fields of a request (a copy of its block) or a response; names are case-insensitive, order is kept."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[str, str]] | dict[str, str] | None = None) -> None:
        self._pairs: HeaderPairs = []
        if pairs:
            for name, value in pairs.items() if isinstance(pairs, dict) else pairs:
                self.append(name, value)

    @classmethod
    def trusted(cls, pairs: HeaderPairs) -> Headers:
        """Take over a list of valid names and values, without a copy or a check."""
        headers = cls.__new__(cls)
        headers._pairs = pairs
        return headers

    def get(self, name: str, default: str | None = None) -> str | None:
        """The value of the field `name`, or `default`; of several with a comma between them."""
        lower = name.lower()
        values = [value for key, value in self._pairs if key.lower() == lower]
        return ", ".join(values) if values else default

    def set(self, name: str, value: object) -> None:
        """Replace the field `name` by one with `value`; `Set-Cookie` accumulates (architecture §11)."""
        if name.lower() != "set-cookie":
            self.delete(name)
        self.append(name, value)

    def append(self, name: str, value: object) -> None:
        """Add a field. Raises ValueError for what cannot be sent: a `name` that is no token, a `value` with control characters or beyond latin-1 (RFC 9110
        §5.5)."""
        text = str(value)
        if _TOKEN.fullmatch(name) is None or ((not text.isascii() or not text.isprintable()) and _FIELD_VALUE.fullmatch(text) is None):
            raise ValueError(f"not a header field: {name!r}: {text!r}")
        self._pairs.append((name, text))

    def has(self, name: str) -> bool:
        """Whether there is a field `name`."""
        lower = name.lower()
        return any(key.lower() == lower for key, _ in self._pairs)

    def delete(self, name: str) -> None:
        """Remove all fields `name`."""
        lower = name.lower()
        self._pairs[:] = [pair for pair in self._pairs if pair[0].lower() != lower]

    def pairs(self) -> HeaderPairs:
        return self._pairs

    __contains__ = has
    __setitem__ = set
    __delitem__ = delete

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __repr__(self) -> str:
        return f"Headers({self._pairs!r})"
