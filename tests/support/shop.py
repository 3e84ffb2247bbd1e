"""Tables in memory with the interface that queries use of `svc.store.Table`."""

from __future__ import annotations

from bisect import bisect_left
from itertools import groupby, islice
from operator import itemgetter
from types import SimpleNamespace

from svc.store.schema import Attribute, Relationship, TableDefinition
from svc.store.values.computed import computed_attributes
from svc.store.values.keys import encode_key, index_keys, storage_key
from svc.store.values.records import are_plain, encode


class FakeIndex:
    def __init__(self, attribute: Attribute) -> None:
        self.attribute = attribute.name
        self.multi = attribute.elements or attribute.type == "Any"
        self.ready = True
        self.entries: list[tuple[bytes, bytes]] = []
        self.scanned = 0  # entries handed out

    def _slice(self, low, high):
        start = 0 if low is None else bisect_left(self.entries, (low,))
        end = len(self.entries) if high is None else bisect_left(self.entries, (high,))
        return self.entries[start:end]

    def scan(self, txn, low=None, high=None, *, reverse=False, behind=None):
        found = self._slice(low, high)
        for entry in reversed(found) if reverse else found:
            if behind is not None and (entry >= behind if reverse else entry <= behind):
                continue
            self.scanned += 1
            yield entry

    def primaries(self, txn, low=None, high=None, *, reverse=False, behind=None):
        entries = self.scan(txn, low, high, reverse=reverse, behind=behind)
        return lambda count: [primary for _, primary in islice(entries, count)]

    def few(self, txn, low, high, most):
        found = [primary for _, primary in self._slice(low, low + b"\0" if high is None else high)]
        return found if len(found) <= most else None

    def count_of(self, txn, key):
        return len(self._slice(key, key + b"\0"))

    def values(self, txn, low=None, high=None):
        for key, entries in groupby(self._slice(low, high), key=itemgetter(0)):
            yield key, len(list(entries))

    def count(self, txn, low, high, most=None):
        return len(self._slice(low, high))

    exact_count = count


class FakeTable:
    def __init__(self, definition: TableDefinition, database=None, records=()) -> None:
        self.name = definition.name
        self.definition = definition
        self.primary_key = definition.primary_key
        self.attributes = {attribute.name: attribute for attribute in definition.attributes}
        self.computed = computed_attributes(definition, {}, self.name)
        self.indexes = {a.name: FakeIndex(a) for a in definition.attributes if a.indexed}
        self.database = (
            SimpleNamespace(tables={}, tables_version=0, store=SimpleNamespace(anonymous_role=lambda: None))
            if database is None
            else database
        )
        self.database.tables[self.name] = self
        self.database.tables_version += 1
        self.raws: dict[bytes, bytes] = {}
        self.keys: list[bytes] = []
        self.scanned = 0
        self.load(records)

    def load(self, records) -> None:
        for number, record in enumerate(records):
            stored = storage_key(encode_key(record[self.primary_key]))
            self.raws[stored] = encode(record, 1000.5 + number, number, None)
            for name, index in self.indexes.items():
                index.entries += [(key, stored) for key in index_keys(record.get(name))]
        self.keys = sorted(self.raws)
        for index in self.indexes.values():
            index.entries.sort()

    def get_many(self, keys, txn):
        return [(key, raw) for key in keys if (raw := self.get_by(key, txn)) is not None]

    def get_many_plain(self, keys, txn):
        found = [self.raws.get(key) for key in keys]
        return None if None in found or not are_plain(found) else found

    def get_by(self, key, txn):
        return self.raws.get(key) or self.raws.get(storage_key(key))

    def expired(self, txn, limit):
        return []

    def scan(self, txn, low=None, high=None, *, reverse=False, behind=None):
        start = 0 if low is None else bisect_left(self.keys, low)
        end = len(self.keys) if high is None else bisect_left(self.keys, high)
        keys = self.keys[start:end]
        for key in reversed(keys) if reverse else keys:
            if behind is not None and (key >= behind if reverse else key <= behind):
                continue
            self.scanned += 1
            yield key, self.raws[key]

    def record_count(self, txn=None):
        return len(self.raws)

    entry_count = record_count


def product_definition() -> TableDefinition:
    """The sample schema of http.md, and an attribute of each further type."""
    return TableDefinition(
        "Product",
        attributes=(
            Attribute("id", "ID", primary_key=True),
            Attribute("name", "String", indexed=True),
            Attribute("price", "Float", indexed=True),
            Attribute("inStock", "Boolean"),
            Attribute("tags", "String", elements=True, indexed=True),
            Attribute("listDate", "Date", indexed=True),
            Attribute("stock", "Int"),
            Attribute("specs", "Any"),
            Attribute("any", "Any", indexed=True),
            Attribute("image", "Bytes"),
            Attribute("brandId", "ID", indexed=True),
            Attribute("brand", "Brand", relationship=Relationship("Brand", from_="brandId")),
            Attribute("resellerIds", "ID", elements=True, indexed=True),
            Attribute("resellers", "Brand", elements=True, relationship=Relationship("Brand", from_="resellerIds")),
        ),
    )


def brand_definition() -> TableDefinition:
    return TableDefinition(
        "Brand",
        attributes=(
            Attribute("id", "ID", primary_key=True),
            Attribute("name", "String", indexed=True),
            Attribute("country", "String"),
            Attribute("products", "Product", elements=True, relationship=Relationship("Product", to="brandId")),
            Attribute("resold", "Product", elements=True, relationship=Relationship("Product", to="resellerIds")),
            Attribute("namesakes", "Product", elements=True, relationship=Relationship("Product", from_="name", to="name")),
        ),
    )


def shop(products=(), brands=()) -> tuple[FakeTable, FakeTable]:
    database = SimpleNamespace(tables={}, tables_version=0, store=SimpleNamespace(anonymous_role=lambda: None))
    return FakeTable(product_definition(), database, products), FakeTable(brand_definition(), database, brands)
