"""Names of generated types: what may be written as an attribute, and names that nothing else has."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

PYTHON = frozenset(keyword.kwlist)
"""Words of Python that are no names."""

_OTHER = re.compile(r"[^A-Za-z0-9_]")


def is_plain(name: str) -> bool:
    """Whether Python code can say `x.name`, and means the attribute by it.

    >>> [is_plain(name) for name in ("price", "class", "my-name", "_hidden", "2nd", "größe")]
    [True, False, False, False, False, True]
    """
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")


class Names:
    """Gives out names of types, each once."""

    def __init__(self, taken: Iterable[str]) -> None:
        """`taken`: names that mean something else in the generated text, those of the language among them."""
        self._taken = set(taken)

    def make(self, wanted: str) -> str:
        """`wanted`, or what is most like it and still free.

        >>> names = Names(["Seat", "None"])
        >>> names.make("Seat"), names.make("Seat"), names.make("my-type"), names.make("_x"), names.make("None")
        ('Seat_2', 'Seat_3', 'my_type', 'X_x', 'None_2')
        """
        name = _OTHER.sub("_", wanted)
        if not name or name[0] == "_" or name[0].isdigit():
            name = f"X{name}"
        found, number = name, 1
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found


def capitalized(name: str) -> str:
    return name[:1].upper() + name[1:]
