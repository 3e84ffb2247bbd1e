"""SQL: any text that is run for a caller with some rights gives rows, the answer of a write, or a Problem of the caller's; in bounded time and memory.

An input is a text. Invariant: the outcome is a list or an object, or a Problem whose status is 400, 403, 404, 409 or 422, without the name of an attribute that
the caller has no right on, unless the text has it; and after it nothing is open, neither a snapshot nor a statement.
"""

from __future__ import annotations

import atexit
import random
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.fuzz_sql import TOKENS, mutate, run
from svc.auth.users import User
from svc.errors import Problem
from svc.sql.options import SqlOptions
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_engine import ALL, SqlStore
from tests.support.sql_texts import COLUMNS, TABLES, TextSource

CORPUS = Path(__file__).parent / "corpus" / "sql_engine"
OPTIONS = SqlOptions(max_time=0.2, max_memory=8 << 20, max_rows=5000)
STATUSES = (400, 403, 404, 409, 422)
TYPES = dict(zip(COLUMNS, ("ID", "Any", "Int", "String", "Any", "Float", "Date", "Any"), strict=True))
HIDDEN = "inapproachable"
RECORDS = [
    {"id": "1", "a": 1, "b": 2, "key": "a", "left": 1.5, HIDDEN: "h1"},
    {"id": "a", "a": "a", "b": None, "key": "é", "order": [1, {"a": 2}], HIDDEN: "h2"},
    {"id": "b", "a": True, "key": "", 'q"x': 2**70},
]


@cache
def store() -> tuple[SqlStore, User]:
    directory = tempfile.TemporaryDirectory(prefix="fuzz-")
    definitions = []
    for table in TABLES:
        attributes = [
            Attribute(name, kind, primary_key=name == "id", indexed=name in ("a", "b", "key", "left")) for name, kind in TYPES.items()
        ]
        attributes.append(Attribute(HIDDEN, "String", indexed=True, unique=True))
        definitions.append(TableDefinition(table, attributes=tuple(attributes), dynamic=False))
    made = SqlStore(Path(directory.name), definitions, OPTIONS)
    atexit.register(directory.cleanup)
    atexit.register(made.close)
    right = {"read": True, "insert": True, "update": True}
    listed = [{"attribute_name": name, **right} for name in COLUMNS]
    return made, made.user({"t": ALL | {"attribute_permissions": listed}, "u": ALL | {"attribute_permissions": listed}})


def refill(made: SqlStore) -> None:
    for table in TABLES:
        found = made.tables[table]
        transaction = made.store.begin()
        for stored in list(found.scan(found.database.snapshot())):
            transaction.delete_stored(found, *stored)
        transaction.apply()
        made.end_turn()
        made.put(table, [{name: value for name, value in record.items() if value is not None} for record in RECORDS])


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if source.random() < 0.2 and corpus:
        return mutate(source, source.choice(corpus), TOKENS)
    text = TextSource(source, dialect=True, depth=source.randint(1, 4)).statement()
    for table in TABLES:  # which need their database; some will have it twice, or in another place
        text = text.replace(f" {table}", f" data.{table}") if source.random() < 0.9 else text
    if source.random() < 0.3:
        text = text.replace(source.choice(COLUMNS), HIDDEN)
    data = text.encode()
    return mutate(source, data, TOKENS) if source.random() < 0.3 else data


def check(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    made, user = store()
    refill(made)
    parameters: Any = None
    for _ in range(2):  # the second time as the first one asks for
        try:
            outcome = made.ask(text, parameters, user)
            assert isinstance(outcome, (list, dict)), outcome
        except Problem as problem:
            assert problem.status_code in STATUSES, problem
            assert HIDDEN in text.lower() or HIDDEN not in problem.message, problem.message
            if "has 0 values" not in problem.message and "by position" not in problem.message:
                break
            parameters = [1] * problem.message.count("?") or [1]
        else:
            break
    assert not made.engine._threads.open and made.store.databases["data"].env.open_snapshots() == 0


if __name__ == "__main__":
    sys.exit(run("sql_engine", generate, check, CORPUS))
