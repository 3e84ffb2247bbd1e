"""Functions on dates as statements call them. Expected values are computed by hand."""

from __future__ import annotations

from typing import Any

import apsw
import pytest

from svc.errors import QueryError
from svc.sql.functions import WorkMeter
from tests.unit.sql.functions.conftest import Value

DAY = 86_400_000
FEBRUARY = 1_706_745_600_000  # 2024-02-01


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("CURRENT_DATE()", "2024-01-05"),
        ("CURRENT_TIME()", "20:07:27.955"),
        ("CURRENT_TIMESTAMP()", 1_704_485_247_955),
        ("NOW()", 1_704_485_247_955),
        ("GETDATE()", 1_704_485_247_955),
        ("DATE()", "2024-01-05T20:07:27.955+0000"),
        ("DATE('2024-01-05T21:07:27+01:00')", "2024-01-05T20:07:27.000+0000"),
        ("DATE(1704485247955)", "2024-01-05T20:07:27.955+0000"),
        ("DATE('Fri, 05 Jan 2024 21:07:27 +0100')", "2024-01-05T20:07:27.000+0000"),
        ("DATE('+275760-09-13')", "+275760-09-13T00:00:00.000+0000"),
        ("DATE('0000-02-29')", "0000-02-29T00:00:00.000+0000"),
        ("date_add('2024-01-31', 1, 'month')", FEBRUARY + 28 * DAY),
        ("DATE_ADD('2024-01-31', 1, 'M')", FEBRUARY + 28 * DAY),
        ("DATE_ADD('2024-01-31', 1, 'months')", FEBRUARY + 28 * DAY),
        ("DATE_ADD('2024-01-31', 1, 'm')", FEBRUARY - DAY + 60_000),
        ("DATE_ADD('2024-02-01', 1, 'Q')", FEBRUARY + 90 * DAY),
        ("DATE_ADD('2024-02-29', 1, 'YEARS')", FEBRUARY + 393 * DAY),
        ("DATE_ADD('2024-02-01', '2', 'w')", FEBRUARY + 14 * DAY),
        ("DATE_ADD('2024-02-01', 1.5, 'd')", FEBRUARY + 2 * DAY),
        ("DATE_ADD('2024-02-01', -1.5, 'd')", FEBRUARY - 2 * DAY),
        ("DATE_ADD('2024-02-01', 0.5, 'w')", FEBRUARY + 4 * DAY),
        ("DATE_ADD('2024-02-01', 0.5, 'y')", FEBRUARY + 182 * DAY),
        ("DATE_ADD('2024-02-01', 1.5, 'hours')", FEBRUARY + 5_400_000),
        ("DATE_ADD('2024-02-01', 2, 's')", FEBRUARY + 2000),
        ("DATE_ADD('2024-02-01', 2.9, 'ms')", FEBRUARY + 2),
        ("DATE_SUB('2024-02-01', 1, 'day')", FEBRUARY - DAY),
        ("DATE_SUB('2024-03-31', 1, 'month')", FEBRUARY + 28 * DAY),
        ("DATE_ADD('2024-02-01', 1e300, 'ms')", None),
        ("DATE_ADD('2024-02-01', 1e300, 'years')", None),
        ("DATE_ADD('2024-02-01', -1e300, 'weeks')", None),
        ("DATE_ADD('+275760-09-13', 1, 'ms')", None),
        ("DATE_ADD('2024-02-01', 'x', 'd')", None),
        ("DATE_DIFF('2024-02-03', '2024-02-01')", 2 * DAY),
        ("DATE_DIFF('2024-02-03', '2024-02-01', 'days')", 2),
        ("DATE_DIFF('2024-02-01T12:00', '2024-02-01', 'd')", 0.5),
        ("DATE_DIFF('2024-02-01', '2024-02-01T12:00', 'd')", -0.5),
        ("DATE_DIFF('2024-02-15', '2024-02-01', 'weeks')", 2),
        ("DATE_DIFF('2024-02-01T00:00:01.5', '2024-02-01', 's')", 1.5),
        ("DATE_DIFF('2024-03-31', '2024-02-29', 'months')", 1),
        ("DATE_DIFF('2024-02-29', '2024-03-31', 'months')", -1),
        ("DATE_DIFF('2024-01-15', '2024-01-01', 'months')", 14 / 31),
        ("DATE_DIFF('2024-01-01', '2024-01-15', 'months')", -14 / 31),
        ("DATE_DIFF('2024-02-16', '2024-01-01', 'months')", 1 + 15 / 31),
        ("DATE_DIFF('2025-01-01', '2024-01-01', 'years')", 1),
        ("DATE_DIFF('2024-07-01', '2024-01-01', 'years')", 0.5),
        ("DATE_DIFF('2024-07-01', '2024-01-01', 'quarters')", 2),
        ("DATEDIFF('+275760-09-13', '-271821-04-20', 'ms')", 17_280_000_000_000_000),
        ("DATEDIFF(1, 1, 'y')", 0),
        ("DATE_FORMAT('2024-01-05T20:07:27.055Z', 'DD.MM.YYYY HH:mm')", "05.01.2024 20:07"),
        ("DATE_FORMAT(1704485247055, 'x')", "1704485247055"),
        ("DATE_FORMAT('2024-01-05', 2024)", "2024"),
        ("EXTRACT('2024-03-05T06:07:08.009Z', 'month')", "03"),
        ("EXTRACT('2024-03-05T06:07:08.009Z', 'YEAR')", "2024"),
        ("EXTRACT('2024-03-05T06:07:08.009Z', 'days')", "05"),
        ("EXTRACT('2024-03-05T06:07:08.009Z', 'hour')", "06"),
        ("EXTRACT('2024-03-05T06:07:08.009Z', 'minute')", "07"),
        ("EXTRACT('2024-03-05T06:07:08.009Z', 'second')", "08"),
        ("EXTRACT('2024-03-05T06:07:08.009Z', 'millisecond')", "009"),
        ("OFFSET_UTC('2024-01-05T20:07:27.955Z', 2)", "2024-01-05T22:07:27.955+0200"),
        ("OFFSET_UTC('2024-01-05T20:07:27.955Z', -5.5)", "2024-01-05T14:37:27.955-0530"),
        ("OFFSET_UTC('2024-01-05T20:07:27.955Z', 15)", "2024-01-06T11:07:27.955+1500"),
        ("OFFSET_UTC('2024-01-05T20:07:27.955Z', 16)", "2024-01-05T20:23:27.955+0016"),
        ("OFFSET_UTC('2024-01-05T20:07:27.955Z', -16)", "2024-01-05T19:51:27.955-0016"),
        ("OFFSET_UTC('2024-01-05T20:07:27.955Z', '90')", "2024-01-05T21:37:27.955+0130"),
        ("OFFSET_UTC('2024-01-05T20:07:27.955Z', 6000)", None),
        ("OFFSET_UTC('2024-01-05T20:07:27.955Z', 1e300)", None),
        ("YEAR('2024-03-05T06:07:08.009Z')", 2024),
        ("MONTH('2024-03-05T06:07:08.009Z')", 3),
        ("DAY('2024-03-05T06:07:08.009Z')", 5),
        ("DAYOFWEEK('2024-03-03')", 0),
        ("DAYOFWEEK('2024-03-09')", 6),
        ("HOUR('2024-03-05T06:07:08.009Z')", 6),
        ("MINUTE('2024-03-05T06:07:08.009Z')", 7),
        ("SECOND('2024-03-05T06:07:08.009Z')", 8),
        ("YEAR(-1)", 1969),
        ("YEAR('-271821-04-20')", -271821),
    ],
)
def test_results(value: Value, expression: str, expected: object) -> None:
    found = value(expression)
    assert found == expected and (isinstance(found, float) or type(found) is type(expected) or found is None)


@pytest.mark.parametrize(
    "call",
    [
        "DATE({})", "DATE_ADD({}, 1, 'd')", "DATE_SUB({}, 1, 'd')", "DATE_DIFF({}, '2024-01-01')", "DATE_DIFF('2024-01-01', {}, 'y')",
        "DATE_FORMAT({}, 'YYYY')", "EXTRACT({}, 'year')", "OFFSET_UTC({}, 1)", "YEAR({})", "MONTH({})", "DAY({})", "DAYOFWEEK({})", "HOUR({})", "MINUTE({})",
        "SECOND({})",
    ],
)  # fmt: skip
@pytest.mark.parametrize("argument", [None, "", "x", "2024-02-30", 1e300, b"\xff", "1" * 1_000_000])
def test_what_is_no_date_gives_null(value: Value, call: str, argument: Any) -> None:
    assert value(call.format("?"), argument) is None


@pytest.mark.parametrize(
    "expression", ["DATE_ADD('2024-01-01', null, 'd')", "OFFSET_UTC('2024-01-01', null)", "DATE_FORMAT('2024-01-01', null)"]
)
def test_null_gives_null(value: Value, expression: str) -> None:
    assert value(expression) is None


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("DATE_ADD('2024-01-01', 1, 'fortnights')", 'the unit of a date must be one of years .y., .*, not "fortnights"'),
        ("DATE_ADD(null, 1, null)", "the unit of a date must be one of .*, not null"),
        ("DATE_DIFF('2024-01-01', '2024-01-01', 7)", "the unit of a date must be one of .*, not 7"),
        ("EXTRACT('2024-01-01', 'era')", 'what is extracted of a date must be one of year, .*, not "era"'),
    ],
)
def test_units_that_are_not_known(value: Value, expression: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        value(expression)
    assert (caught.value.status_code, caught.value.code) == (400, "BAD_VALUE")


def test_each_statement_has_its_time(connection: apsw.Connection, meter: WorkMeter) -> None:
    text = "select svc_now(), svc_now() from (values (1), (2))"
    for now in (1000, 2000):
        meter.begin(now, 1.0, 1000)
        assert connection.execute(text).fetchall() == [(now, now)] * 2


def test_server_time_is_the_same_time(value: Value) -> None:
    assert value("DATE(GET_SERVER_TIME())") == value("DATE()")
