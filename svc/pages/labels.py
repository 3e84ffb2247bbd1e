"""What the records are called that the rows of a page lead to, looked up for all rows together (spec: http §7.8.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc.errors import BadValue
from svc.pages.cells import shortened
from svc.pages.collection import foreign_keys, target_table
from svc.pages.links import Links
from svc.store import Table
from svc.store.values.records import projection

MOST_LABELS = 500  # records that are looked up for one page
_LONGEST = 60  # characters


def titles_of(table: Table, links: Links) -> Callable[[str, Any], str]:
    """A function of an attribute of a table and a key that it holds: what the record is called that this leads to, "" if that is not told."""
    labels, targets = Labels(), {name: target_table(table, each) for name, each in foreign_keys(table).items()}
    titles = {name: (target, title) for name, target in targets.items() if target is not None and (title := links.title_of(target))}
    return lambda name, key: labels.of(*titles[name], key) if name in titles else ""


class Labels:
    """Of one page: each record is looked up once, and no more than a page may cost."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Any], str] = {}
        self._readers: dict[str, Callable[[bytes], tuple[Any, ...]]] = {}

    def of(self, table: Table, name: str, key: Any) -> str:
        """What the attribute `name` of the record `key` of a table says; "" if there is no such record, it is no text, or enough were looked up."""
        if type(key) not in (str, int, float):
            return ""
        known = self._found.get((table.name, key))
        if known is None:
            if len(self._found) >= MOST_LABELS:
                return ""
            known = self._found[table.name, key] = self._read(table, name, key)
        return known

    def _read(self, table: Table, name: str, key: Any) -> str:
        try:
            raw = table.get_raw(key)
        except BadValue:  # no key could be so
            return ""
        reader = self._readers.get(name) or self._readers.setdefault(name, projection((name,)))
        value = None if raw is None else reader(raw)[0]
        return shortened(value, _LONGEST) if isinstance(value, str) and value != key else ""
