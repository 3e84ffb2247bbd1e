"""A bounded LRU cache of shapes (`shapes`) and their plans (`shaped_plan`): it plans a query string that was never seen before."""

from __future__ import annotations

from svc.errors import Problem
from svc.query.form import maybe_form
from svc.query.nodes import Query
from svc.query.plan import Plan
from svc.query.shaped_plan import Reader, ShapedPlan, rights_of
from svc.query.shapes import cut, decoded, template_of
from svc.query.tables import AnyTable
from svc.store.schema import TableDefinition

_PLANS = 8  # of one shape: it differs with the rights of who asks, and with the table as different callers see it
_SEEN = 1024  # strings, and shapes, that are known to have come once


class _Shape:
    """`template` None: queries of this shape are not planned by it. The definition is kept, so no other object has its id."""

    __slots__ = ("definition", "plans", "template")

    def __init__(self, definition: TableDefinition, template: Query | None) -> None:
        self.definition = definition
        self.template = template
        self.plans: dict[tuple[int, int, bool | None], ShapedPlan] = {}


class ShapeCache:
    """The least recently used shape goes first. The nodes and plans of a shape take many times its size, so the number of characters is bounded
    as well. A changed definition is another key."""

    __slots__ = ("_characters", "_max_characters", "_max_entries", "_max_length", "_shapes", "_shapes_once", "_strings_once")

    def __init__(self, max_entries: int = 256, max_characters: int = 1 << 15, max_length: int = 1024) -> None:
        self._shapes: dict[tuple[int, str], _Shape] = {}
        self._characters = 0  # of all shapes
        self._max_entries = max_entries
        self._max_characters = max_characters
        self._max_length = max_length  # of a query string
        self._shapes_once: set[int] = set()  # hashes: one that is there by chance only makes a shape be kept at once
        self._strings_once: set[int] = set()  # hashes: one that is there by chance is planned in the ordinary way

    def __len__(self) -> int:
        return len(self._shapes)

    def maybe_plan(self, text: str, table: AnyTable, txn: object, reader: Reader, allow_full_scan: bool | None) -> Plan | None:
        """The plan of the query string `text`, narrowed to what `reader` may read.

        None: it has to be parsed and planned as a whole. So it is with what comes for the second time, because its nodes are worth remembering; with
        what has no values, or a shape that is new or has a say in them; and with every fault, which is told with its position.
        """
        if len(text) > self._max_length:
            return None
        once = hash(text)
        if once in self._strings_once:
            self._strings_once.remove(once)
            return None
        try:
            form = maybe_form(text, table.attributes.__contains__)
        except Problem:
            return None
        if form is not None:
            text = form.text
        found = cut(text)
        if found is None:
            return None
        shape = self._shape(found[0], text, table)
        if shape is None or shape.template is None:
            return None
        try:
            plan = _planned(shape, decoded(found[1]) if "%" in text else found[1], table, txn, reader, allow_full_scan)
        except Problem:
            return None
        if len(self._strings_once) >= _SEEN:
            self._strings_once.clear()
        self._strings_once.add(once)
        return plan

    def shaped_plan(self, text: str, table: AnyTable, reader: Reader, allow_full_scan: bool | None) -> tuple[str, ShapedPlan] | None:
        """The shape of a query string that has just been answered, and its plan; it is kept, though it may have come for the first time.

        None: strings of this shape are not planned by it, or this one is not written as the language has it (`form`).
        """
        if len(text) > self._max_length:
            return None
        try:
            if maybe_form(text, table.attributes.__contains__) is not None:
                return None
            found = cut(text)
            shape = None if found is None else self._shape(found[0], text, table, is_new=False)
            if found is None or shape is None or shape.template is None:
                return None
            return found[0], _shaped(shape, table, reader, allow_full_scan)
        except Problem:
            return None

    def _shape(self, name: str, text: str, table: AnyTable, *, is_new: bool = True) -> _Shape | None:
        """The shape of `text`; None if it is new. Most come once, so what is kept is the second one. `is_new`: it may be one of these."""
        definition = table.definition
        key = (id(definition), name)
        shapes = self._shapes
        shape = shapes.pop(key, None)
        if shape is not None:
            shapes[key] = shape
            return shape
        once = hash(key)
        if is_new and once not in self._shapes_once:
            if len(self._shapes_once) >= _SEEN:
                self._shapes_once.clear()
            self._shapes_once.add(once)
            return None
        self._shapes_once.discard(once)
        shape = shapes[key] = _Shape(definition, template_of(text, table.attributes.__contains__))
        self._characters += len(name)
        while len(shapes) > self._max_entries or self._characters > self._max_characters:
            oldest = next(iter(shapes))
            del shapes[oldest]
            self._characters -= len(oldest[1])
        return shape


def _planned(shape: _Shape, values: list[str], table: AnyTable, txn: object, reader: Reader, allow_full_scan: bool | None) -> Plan:
    return _shaped(shape, table, reader, allow_full_scan).plan(values, table, txn)


def _shaped(shape: _Shape, table: AnyTable, reader: Reader, allow_full_scan: bool | None) -> ShapedPlan:
    place = (id(table), id(rights_of(reader, table)), allow_full_scan)
    made = shape.plans.get(place)
    if made is None or not made.holds(table, reader):
        if len(shape.plans) >= _PLANS:
            shape.plans.clear()
        assert shape.template is not None
        made = shape.plans[place] = ShapedPlan(shape.template, table, reader, allow_full_scan)
    return made
