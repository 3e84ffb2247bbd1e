import dataclasses
import enum
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest

from svc.content.values import as_datetime, json_form, unencodable
from svc.errors import NotAcceptable
from svc.store.blobs import create_blob
from svc.store.blobs.blob import DESCRIPTION


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Name(str):
    pass


@dataclasses.dataclass
class Point:
    x: int
    when: datetime


class Struct(msgspec.Struct, rename="camel"):
    first_name: str


class Pair(NamedTuple):
    a: int
    b: str


class Lazy(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        return {"a": 1}[name]

    def __iter__(self) -> Iterator[str]:
        return iter("a")

    def __len__(self) -> int:
        return 1


MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)

CASES = [
    (MOMENT.astimezone(timezone(timedelta(hours=2))), "2024-01-05T20:07:27.955Z"),
    (MOMENT.replace(tzinfo=None), "2024-01-05T20:07:27.955Z"),
    (date(2024, 1, 5), "2024-01-05"),
    (time(20, 7), "20:07:00"),
    (timedelta(seconds=90), "PT90S"),
    (Decimal("49.50"), 49.5),
    (Decimal("1E+3"), 1000),
    (Decimal("1E+999999"), float("inf")),
    (Fraction(1, 4), 0.25),
    (Fraction(8, 4), 2),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Colour.RED, "red"),
    (Level.HIGH, 3),
    (Name("x"), "x"),
    (Point(1, MOMENT), {"x": 1, "when": "2024-01-05T20:07:27.955Z"}),
    (Struct("Ada"), {"firstName": "Ada"}),
    (Pair(1, "b"), [1, "b"]),
    ((1, (2, MOMENT)), [1, [2, "2024-01-05T20:07:27.955Z"]]),
    ((n for n in (1, 2)), [1, 2]),
    (deque([1]), [1]),
    ({"b": 1}.keys(), ["b"]),
    (range(3), [0, 1, 2]),
    (Lazy(), {"a": 1}),
    (MappingProxyType({"a": {1}}), {"a": [1]}),
    ({"b", "a", "c"}, ["a", "b", "c"]),
    (frozenset((2, 1)), [1, 2]),
    ({"a", 1}, [1, "a"]),
    (bytearray(b"a"), b"a"),
    (memoryview(b"a"), b"a"),
    (create_blob("é", type="text/plain"), "é"),
    (create_blob(b"\xff", type="image/png"), {"description": DESCRIPTION, "contentType": "image/png", "size": 1}),
    ({(1, "a"): 1, Colour.RED: 2, b"\xff": 3}, {'[1,"a"]': 1, "red": 2, "/w==": 3}),
]


@pytest.mark.parametrize(("value", "form"), CASES, ids=[str(number) for number in range(len(CASES))])
def test_json_form(value: Any, form: Any) -> None:
    found = json_form(value)
    assert list(found) == form if isinstance(form, list) else found == form
    assert type(found) is type(form) or isinstance(form, list)


def test_plain_values_are_not_copied() -> None:
    plain = {"a": 1, "b": None, "c": b"x"}
    assert json_form(plain) is plain
    rows = [1, 2]
    assert json_form(rows) is rows


def test_moments() -> None:
    assert as_datetime(date(2024, 1, 5)) == datetime(2024, 1, 5, tzinfo=UTC)
    assert as_datetime(MOMENT.replace(tzinfo=None)) == MOMENT
    assert as_datetime(MOMENT) is MOMENT


@pytest.mark.parametrize("value", [object(), 1j, int, len, ...], ids=lambda value: type(value).__name__)
def test_what_has_no_form(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be encoded"):
        json_form(value)


def test_deep_values_and_values_that_refer_to_themselves_are_told_apart() -> None:
    deep: list[Any] = []
    shared = [1]
    assert isinstance(unencodable([shared, shared], "a/b"), NotAcceptable)
    cycle: list[Any] = [[1], (2,)]
    cycle.append({"a": cycle})
    assert isinstance(unencodable(cycle, "a/b"), TypeError)
    for _ in range(5000):
        deep = [deep]
    assert isinstance(unencodable(deep, "a/b"), NotAcceptable)
