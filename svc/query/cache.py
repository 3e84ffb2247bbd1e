"""A bounded LRU cache of parsed queries: clients repeat queries, and a look-up costs a hundredth of parsing."""

from __future__ import annotations

from svc.query.nodes import Query
from svc.query.shape_cache import ShapeCache
from svc.query.tables import AnyTable
from svc.query.url import parse_query


class QueryCache:
    """The least recently used text goes first. What a text means depends on the attributes that the table declares, so a changed
    definition is another key.

    The nodes of a text take up to 60 times its size, so the number of characters is what bounds the memory.

    `shapes`: for those that differ from earlier ones in their values only.
    """

    __slots__ = ("_characters", "_entries", "_max_characters", "_max_entries", "_max_length", "shapes")

    def __init__(self, max_entries: int = 1024, max_characters: int = 1 << 18, max_length: int = 2048) -> None:
        self._entries: dict[tuple[int, str], tuple[object, Query]] = {}
        self._characters = 0  # of all texts that are remembered
        self._max_entries = max_entries
        self._max_characters = max_characters
        self.shapes = ShapeCache()
        self._max_length = max_length  # a longer text is parsed each time: it is rarely sent twice

    def __len__(self) -> int:
        return len(self._entries)

    def known(self, text: str, table: AnyTable) -> Query | None:
        """What `parse` has made of the same text; None if it is not remembered."""
        key = (id(table.definition), text)
        found = self._entries.pop(key, None)
        if found is None:
            return None
        self._entries[key] = found
        return found[1]

    def parse(self, text: str, table: AnyTable) -> Query:
        """`parse_query` for a query of `table`. Errors are not cached."""
        known = self.known(text, table)
        if known is not None:
            return known
        query = parse_query(text, table.attributes.__contains__)
        if len(text) <= self._max_length:
            entries, definition = self._entries, table.definition
            entries[id(definition), text] = (definition, query)  # as long as the definition is referenced, no other object has its id
            self._characters += len(text)
            while len(entries) > self._max_entries or self._characters > self._max_characters:
                oldest = next(iter(entries))
                del entries[oldest]
                self._characters -= len(oldest[1])
        return query
