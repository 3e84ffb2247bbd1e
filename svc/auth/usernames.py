"""Names of users: how they are written, and which look alike (spec: security §5.1).

One name has one form: Unicode's NFC, in which `e` with an accent is one character. What is looked up is brought to it, so that a name typed on one
machine is that of another. Names that only look alike, `admin` with a Cyrillic a for example, are different users: adding the second one gives a warning.
"""

from __future__ import annotations

import unicodedata

MOST_CHARACTERS = 2 * 659  # of a text that may become a name: composing makes it shorter

_LOOKS_LIKE = str.maketrans(
    {
        # Cyrillic
        "а": "a", "в": "b", "е": "e", "к": "k", "м": "m", "н": "h", "о": "o", "р": "p", "с": "c", "т": "t", "у": "y", "х": "x", "ѕ": "s", "і": "i",
        "ј": "j", "ԁ": "d", "ԛ": "q", "ԝ": "w", "һ": "h", "ѵ": "v", "ӏ": "l", "г": "r", "п": "n",
        # Greek
        "α": "a", "β": "b", "ε": "e", "η": "n", "ι": "i", "κ": "k", "ν": "v", "ο": "o", "ρ": "p", "τ": "t", "υ": "u", "χ": "x", "γ": "y", "σ": "o",
        "ς": "c", "ω": "w",
        # Armenian, Latin
        "օ": "o", "ս": "u", "հ": "h", "ո": "n", "ց": "g", "ı": "i", "ɑ": "a", "ɡ": "g", "ł": "l", "ø": "o", "đ": "d", "ħ": "h",
        # digits and signs
        "0": "o", "1": "l", "|": "l", "\N{HYPHEN}": "-", "\N{NON-BREAKING HYPHEN}": "-", "\N{EN DASH}": "-", "\N{MINUS SIGN}": "-", "’": "'",
    }
)  # fmt: skip


def canonical_username(name: str) -> str:
    """The form in which the name of a user is stored.

    >>> canonical_username("Rene\u0301") == "Ren\u00e9"
    True
    """
    return name if name.isascii() or len(name) > MOST_CHARACTERS else unicodedata.normalize("NFC", name)


def username_fault(name: str) -> str | None:
    """What is wrong with the name of a new user, which begins with 'must'; None: nothing."""
    if ":" in name:
        return "must not contain ':', which ends the name in Basic credentials"
    return None if name.isprintable() else "must not contain control characters"


def skeleton(name: str) -> str:
    """What names that look alike have in common.

    >>> skeleton("Admin ") == skeleton("\u0430dm\u00edn") != skeleton("adman")
    True
    >>> skeleton("bill") == skeleton("biIl") == skeleton("bi1l")
    True
    """
    plain = "".join(character for character in unicodedata.normalize("NFKD", name) if not unicodedata.combining(character))
    return "".join(plain.replace("I", "l").casefold().translate(_LOOKS_LIKE).split())
