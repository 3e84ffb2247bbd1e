"""What the record of a job keeps of the request that it was started with: neither secrets, nor what is bulky."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# What a request brings to be stored elsewhere, too large for the record of a job.
BULKY = frozenset({"data", "records", "payload"})
_SECRET = re.compile(r"secret|password|passphrase|token|authorization|cookie|credential|private|header|access_key", re.IGNORECASE)
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*://)(?:[^/@\s]*@)?([^?#\s]*)\S*", re.IGNORECASE)
_LONGEST_TEXT = 1000  # characters of a value
_MOST_ITEMS = 50  # of an object or a list
_DEEPEST = 4


def kept_request(body: Mapping[str, Any], secrets: frozenset[str]) -> dict[str, Any]:
    """What is stored of a request: neither secrets nor what is bulky; long texts are cut.

    >>> kept_request({"operation": "csv_data_load", "data": "id\\n1", "s3": {"aws_secret_access_key": "x", "key": "a.csv"}}, frozenset())
    {'operation': 'csv_data_load', 's3': {'key': 'a.csv'}}
    >>> kept_request({"csv_url": "https://me:word@example.com/a.csv?signature=1"}, frozenset())
    {'csv_url': 'https://example.com/a.csv'}
    """
    return {
        str(name): _kept(value, 0)
        for name, value in body.items()
        if name not in secrets and name not in BULKY and not _SECRET.search(str(name))
    }


def _kept(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        if "://" in value:
            value = _ADDRESS.sub(r"\1\2", value)
        return value[:_LONGEST_TEXT]
    if isinstance(value, dict):
        if depth > _DEEPEST:
            return None
        return {str(name): _kept(item, depth + 1) for name, item in list(value.items())[:_MOST_ITEMS] if not _SECRET.search(str(name))}
    if isinstance(value, list | tuple):
        return None if depth > _DEEPEST else [_kept(item, depth + 1) for item in value[:_MOST_ITEMS]]
    return value if isinstance(value, int | float | bool) or value is None else str(value)[:_LONGEST_TEXT]
