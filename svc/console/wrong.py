"""The field of a form that a refusal is about."""

from __future__ import annotations

from collections.abc import Iterable

from svc.errors import Problem
from svc.pages.cells import shortened

_LONGEST = 1000  # characters


def at_fields(fault: Problem | None, fields: Iterable[str], default: str = "") -> dict[str, str]:
    """Field -> what is wrong with it: the first whose name the message has in quotes, without the `_` of fields that are not kept while somebody logs in,
    else `default`.

    >>> at_fields(Problem("'host' is required", 400), ("name", "host"), "name")
    {'host': "'host' is required"}
    """
    if fault is None:
        return {}
    found = next((name for name in fields if f"'{name.removeprefix('_')}'" in fault.message), default)
    return {found: shortened(fault.message, _LONGEST)} if found else {}
