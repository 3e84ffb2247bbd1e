"""Names that people choose for themselves (spec: rows §2.1). What operators add has fewer limits: `auth.usernames`."""

from __future__ import annotations

import unicodedata

from svc.auth.usernames import canonical_username, username_fault
from svc.errors import ValidationError

LONGEST = 100  # characters
_ALIKE = frozenset(("LATIN", "CYRILLIC", "GREEK", "ARMENIAN"))
"""Scripts that have letters which look like those of another one."""


def chosen_username(value: object, *, beside_addresses: bool = False) -> str:
    """The form in which the name is stored. `beside_addresses`: it must not look like one, for people log in with theirs. Raises ValidationError.

    >>> chosen_username("Rene\u0301") == "Ren\u00e9"
    True
    >>> chosen_username("\u0430dmin")
    Traceback (most recent call last):
    svc.errors.ValidationError: 'username' must not mix letters of several scripts
    """
    if value is None or value == "":
        raise ValidationError("'username' is required")
    if not isinstance(value, str):
        raise ValidationError("'username' must be a string")
    name = canonical_username(value)
    fault = "must not contain '@': it could be taken for an address" if beside_addresses and "@" in name else _fault(name)
    if fault is not None:
        raise ValidationError(f"'username' {fault}")
    return name


def _fault(name: str) -> str | None:
    if len(name) > LONGEST:
        return f"must not be longer than {LONGEST} characters"
    if name != name.strip() or not name.strip():
        return "must not begin or end with a space"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "must be text"
    fault = username_fault(name)
    if fault is not None:
        return fault
    if not name.isascii() and unicodedata.normalize("NFKC", name) != name:  # fullwidth letters, ligatures: `\uff41\uff4e\uff4e`
        return "must not have other forms of letters, such as full-width ones"
    if not name.isascii() and len({script for character in name if (script := _script(character)) in _ALIKE}) > 1:
        return "must not mix letters of several scripts"
    return None


def _script(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""
