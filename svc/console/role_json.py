"""The JSON view of a role: written for people, and read back with the position of what is wrong (spec: console §11)."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, NoReturn

from svc.console.page import ConsolePage
from svc.errors import ClientError

MOST_BYTES = 8 << 20  # of what is read


async def written_json(page: ConsolePage, value: Any) -> str:
    """Empty for None. On a helper thread: a role may name thousands of attributes."""
    if value is None:
        return ""
    return await page.node.loop.run_in_executor(page.node.executor, partial(json.dumps, value, indent=2, ensure_ascii=False, default=str))


async def read_json(page: ConsolePage, text: str) -> Any:
    """Raises ClientError with line and column."""
    if len(text) > MOST_BYTES:
        raise ClientError(f"This is more than {MOST_BYTES >> 20} MiB", 413)
    return await page.node.loop.run_in_executor(page.node.executor, parsed, text)


def parsed(text: str) -> Any:
    """Strict JSON without a name that is there twice, of which one would be lost. Raises ClientError.

    >>> parsed('{"a": [1]}')
    {'a': [1]}
    >>> parsed('{"a":\\n 1,}')
    Traceback (most recent call last):
    svc.errors.ClientError: Expecting property name enclosed in double quotes, in line 2, column 4
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except json.JSONDecodeError as fault:
        raise ClientError(f"{fault.msg}, in line {fault.lineno}, column {fault.colno}") from None
    except (RecursionError, ValueError):  # the latter: a number with thousands of digits
        raise ClientError("This is nested too deep, or has a number that is too long") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ClientError(f"The name {json.dumps(next(name for name in found if names.count(name) > 1))} is there twice in one object")
    return found


def _refuse(name: str) -> NoReturn:
    raise ClientError(f"{name} is no JSON")
