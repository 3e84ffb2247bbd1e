"""What holds for any text that a user who may not read all gives to the engine of SQL."""

from __future__ import annotations

import atexit
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from svc.errors import Problem, QueryTooLarge
from svc.sql.nodes import Insert, Query
from svc.sql.options import SqlOptions
from svc.sql.parameters import Parameters
from svc.sql.parser import parse
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_rights import Twins, told
from tests.support.sql_texts import COLUMNS, DATABASE, TABLES, TextSource

_TYPES = ("ID", "Int", "String", "Any", "Float", "Any", "Boolean", "Date")
_READ, _WRITTEN = ("a", "key", "order", "end"), ("b",)
_OPTIONS = SqlOptions(max_time=0.5, max_memory=4 << 20, max_rows=1000)
_CHANGING = re.compile("random|now|current|date|time|unixepoch|julian|uuid", re.IGNORECASE)  # with answers that are never the same

_KEY = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class EngineSource(TextSource):
    """Statements whose tables have their database."""

    def _table(self) -> str:
        return self.name(DATABASE) + "." + self.name(self._source.choice(TABLES))


@cache
def _twins() -> Twins:
    """Of the first table some may be read, of the second nothing, of the third all."""
    attributes = tuple(
        [Attribute(name, kind, primary_key=name == "id", indexed=name in "abk") for name, kind in zip(COLUMNS, _TYPES, strict=True)]
    )
    some = [{"attribute_name": name, "read": True, "insert": True, "update": True} for name in _READ]
    some += [{"attribute_name": name, "read": False, "insert": True, "update": True} for name in _WRITTEN]
    rights = dict.fromkeys(("read", "insert", "update", "delete"), True)
    permissions = {TABLES[0]: rights | {"attribute_permissions": some}, TABLES[2]: rights | {"attribute_permissions": []}}
    hidden: dict[str, Any] = {TABLES[0]: [name for name in COLUMNS if name not in ("id", *_READ, *_WRITTEN)], TABLES[1]: ...}
    folder = tempfile.TemporaryDirectory(prefix="svc-sql-")
    made = Twins(
        Path(folder.name), [TableDefinition(name, attributes=attributes, dynamic=False) for name in TABLES], hidden, permissions, _OPTIONS
    )
    atexit.register(folder.cleanup)
    atexit.register(made.close)
    stored = [_records(number) for number in (1, 2)]
    made.fill(stored[0], {name: stored[0 if name == TABLES[2] else 1][name] for name in TABLES})
    return made


def _records(number: int) -> dict[str, list[dict[str, Any]]]:
    def record(place: int) -> dict[str, Any]:
        turned = (place * 3 + number) % 5
        known = {"id": f"{place}", "a": place % 3, "key": [None, "x", 5, True, {"a": 1}][place], "order": place / 2}
        return known | {"b": f"b{turned}", 'q"x': turned, "left": turned % 2 == 0, "end": "2024-01-05T00:00:00.000Z"}

    return {name: [record(place) for place in range(5 if name == TABLES[0] else 4 + number % 2)] for name in TABLES}


def check_engine(text: str) -> None:
    """It has rows, or is refused, and that does not depend on what is hidden."""
    try:
        statement = parse(text)
    except Problem:
        return
    names = Parameters(statement).names
    numbered = [name for name in names if isinstance(name, int)]
    parameters = [1] * max(numbered) if numbered else dict.fromkeys(names, 1) if names else None
    twins = _twins()
    try:
        found = twins.answers(text, parameters)
    finally:
        if not isinstance(statement, Query):
            twins.restore()
    for answer in found.values():
        assert not isinstance(answer, Problem) or answer.status_code < 500, (text, answer)
    has_new_keys = isinstance(statement, Insert) and bool(statement.returning)
    if not (_CHANGING.search(text) or has_new_keys or any(isinstance(answer, QueryTooLarge) for answer in found.values())):
        shown = [told(answer) if isinstance(answer, Problem) else _KEY.sub("new", repr(answer)) for answer in found.values()]
        assert shown[0] == shown[1] == shown[2], (text, shown)
