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
_KEYS = frozenset((str, int, float))


LabelOf = Callable[[Any], str]
"""The key of a record -> what the record is called; "" if there is none, it has no text for a name, or enough were looked up."""


class Labels:
    """Of the records that the foreign keys of a table lead to, for one page: each is looked up once, and no more than a page may cost."""

    def __init__(self, table: Table, links: Links) -> None:
        self._targets = {name: target_table(table, each) for name, each in foreign_keys(table).items()}
        self._links = links
        self._of: dict[str, LabelOf | None] = {}
        self._left = MOST_LABELS

    def of(self, name: str) -> LabelOf | None:
        """For the keys that an attribute holds; None if the names of those records are not told."""
        if name not in self._of:
            target = self._targets.get(name)
            title = "" if target is None else self._links.title_of(target)
            self._of[name] = self._reader(target, title) if target is not None and title else None
        return self._of[name]

    def _reader(self, target: Table, title: str) -> LabelOf:
        found: dict[Any, str] = {}
        read = projection((title,))

        def label_of(key: Any) -> str:
            if type(key) not in _KEYS:
                return ""
            known = found.get(key)
            if known is not None:
                return known
            if not self._left:
                return ""
            self._left -= 1
            try:
                raw = target.get_raw(key)
            except BadValue:  # no key could be so
                raw = None
            value = None if raw is None else read(raw)[0]
            label = found[key] = shortened(value, _LONGEST) if type(value) is str and value != key else ""
            return label

        return label_of
