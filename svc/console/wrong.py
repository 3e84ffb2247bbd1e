"""The fields of a form that a refusal is about."""

from __future__ import annotations

from collections.abc import Collection

from svc.errors import Problem
from svc.pages.cells import shortened

_LONGEST = 1000  # characters


def at_fields(fault: Problem | None, fields: Collection[str], default: str = "") -> dict[str, str]:
    """Field -> what is wrong with it: of each sentence the first whose name it has in quotes, without the `_` of fields that are not kept while somebody
    logs in, else `default`.

    >>> at_fields(Problem("'host' is required", 400), ("name", "host"), "name")
    {'host': "'host' is required"}
    """
    found: dict[str, str] = {}
    for text in () if fault is None else fault.errors or (fault.message,):
        name = next((name for name in fields if f"'{name.removeprefix('_')}'" in text), default)
        if name:
            found.setdefault(name, shortened(text, _LONGEST))
    return found
