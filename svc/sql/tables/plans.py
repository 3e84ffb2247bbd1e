"""Plans: which way a cursor takes through a table. SQLite keeps them for us, as texts (spec: sql §9).

The text of a plan is what EXPLAIN shows, `index rank: range, in order, about 20 rows`, then `\\x1f` and the plan itself as JSON, so that nothing has to be kept
here for as long as a prepared statement may need it.
"""

from __future__ import annotations

import re
from enum import IntEnum

import msgspec

from svc.sql.tables.spans import EQ, GLOB, IS, IS_NULL, LIKE, NOT_NULL


class Way(IntEnum):
    """How records are found."""

    SCAN = 0  # all of them
    KEY = 1  # by ranges of the primary key
    INDEX = 2  # by ranges of an index


class Order(IntEnum):
    """In which order they come, as was promised to SQLite."""

    ANY = 0
    COLUMN = 1  # of the values of the plan's column; equal ones in key order
    KEY = 2  # of the primary key


class Plan(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`column`: place in the view of the column that the way goes by, the key's for SCAN. `terms`: operators of the comparisons of this column whose values
    come first in the arguments of a cursor. `used`: places of the faces that are used. `has_limit`, `has_offset`: these are the last arguments;
    the cursor skips as many rows as OFFSET says. `is_index_only`: what is used is in the entries of the index. `is_left_to_us`: SQLite
    does not test the terms (`comparing`).
    """

    way: Way
    column: int
    used: tuple[int, ...]
    terms: tuple[int, ...] = ()
    order: Order = Order.ANY
    is_descending: bool = False
    is_index_only: bool = False
    has_limit: bool = False
    has_offset: bool = False
    is_left_to_us: bool = False


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Plan).decode


def plan_text(plan: Plan, index: str, rows: int | None) -> str:
    """`index`: the attribute. `rows` None: the number is not told.

    >>> plan_text(Plan(Way.INDEX, 4, (3,), (32, 16), Order.COLUMN), "rank", 20).partition("\\x1f")[0]
    'index rank: range, in order, about 20 rows'
    """
    words = ["scan"] if plan.way is Way.SCAN else [f"{f'index {index}' if plan.way is Way.INDEX else 'key'}: {_how(plan)}"]
    if plan.is_index_only:
        words.append("without records")
    if plan.order is not Order.ANY:
        words.append("in descending order" if plan.is_descending else "in order")
    if rows is not None:
        words.append(f"about {rows:,} row{'' if rows == 1 else 's'}")
    return f"{', '.join(words)}\x1f{_encode(plan).decode()}"


def _how(plan: Plan) -> str:
    operators = set(plan.terms)
    if not operators:
        return "all"
    if operators & {EQ, IS}:
        return "equal"
    if IS_NULL in operators:
        return "null"
    if operators & {LIKE, GLOB}:
        return "prefix"
    return "not null" if operators == {NOT_NULL} else "range"


def read_plan(text: str) -> Plan:
    return _decode(text.rpartition("\x1f")[2])


_IN_DETAIL = re.compile(r" VIRTUAL TABLE INDEX [0-9]+:(?:(.*?)\x1f\[.*\])?", re.DOTALL)


def explained(detail: str) -> str:
    """A line of SQLite's EXPLAIN QUERY PLAN, with the words of a plan only.

    >>> explained("SCAN i VIRTUAL TABLE INDEX 0:" + plan_text(Plan(Way.SCAN, 0, (1,)), "", 7))
    'SCAN i: scan, about 7 rows'
    """
    return _IN_DETAIL.sub(lambda match: f": {match[1]}" if match[1] else "", detail)
