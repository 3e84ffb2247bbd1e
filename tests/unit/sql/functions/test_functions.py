"""The table of functions, beside what SQLite has and what the specification lists."""

from __future__ import annotations

import re
from collections import defaultdict

import apsw
import pytest

from svc.sql.functions import FUNCTIONS, WorkMeter, find_cast, register
from svc.sql.functions.built_in import BUILT_IN
from tests.unit.sql.functions.conftest import Value

SPECIFIED = """
    AVG COUNT MAX MIN SUM GROUP_CONCAT ARRAY DISTINCT_ARRAY MEAN MEDIAN MODE PROD MAD IF IIF IFNULL NULLIF COALESCE ABS CEIL EXP FLOOR RANDOM ROUND SQRT CONCAT
    CONCAT_WS INSTR LEN LOWER UPPER REPLACE SUBSTRING TRIM REGEXP_LIKE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP NOW GETDATE GET_SERVER_TIME DATE DATE_ADD
    DATE_SUB DATE_DIFF DATEDIFF DATE_FORMAT EXTRACT OFFSET_UTC YEAR MONTH DAY DAYOFWEEK HOUR MINUTE SECOND SEARCH_JSON GEOAREA GEOLENGTH GEODISTANCE GEONEAR
    GEOCONTAINS GEOEQUAL GEOCROSSES GEODIFFERENCE GEOCIRCLE GEOCONVERT
"""

REFUSED = """
    -> ->> bm25 changes current_date current_time current_timestamp date fts3_tokenizer fts5 fts5_get_locale fts5_insttoken fts5_locale fts5_source_id
    geopoly_area geopoly_bbox geopoly_blob geopoly_ccw geopoly_contains_point geopoly_debug geopoly_group_bbox geopoly_json geopoly_overlap geopoly_regular
    geopoly_svg geopoly_within geopoly_xform glob highlight instr json_patch jsonb jsonb_array jsonb_array_insert jsonb_extract jsonb_group_array
    jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set last_insert_rowid like likelihood load_extension lower ltrim
    match matchinfo offsets optimize randomblob replace rtreecheck rtreedepth rtreenode rtrim snippet sqlite_compileoption_get sqlite_compileoption_used
    sqlite_log sqlite_source_id sqlite_version subtype total_changes trim unistr unistr_quote upper zeroblob
"""
"""What SQLite has and statements may not call under that name: new functions are added here, or to `built_in`."""

SAME = {"ceiling": "ceil", "power": "pow", "substring": "substr", "if": "iif", "printf": "format"}
"""Names that are others' as well."""


@pytest.fixture(scope="module")
def listed() -> dict[str, list[int]]:
    """The functions of SQLite: how many arguments they take, as it says it."""
    found = defaultdict(list)
    connection = apsw.Connection(":memory:")
    for name, count in connection.execute("select name, narg from pragma_function_list"):
        found[name].append(count)
    connection.close()
    return found


def test_what_is_specified_is_there() -> None:
    assert set(SPECIFIED.split()) - set(FUNCTIONS) == set()
    for type in ["INT", "NUMBER", "FLOAT", "DECIMAL", "STRING", "VARCHAR", "BOOLEAN", "DATE"]:
        assert find_cast(type) is not None


def test_rows_are_well_formed() -> None:
    for key, function in FUNCTIONS.items():
        assert key == function.name.upper() and function.summary and re.fullmatch(r"[a-z0-9_]+", function.sqlite)
        assert function.high is None or 0 <= function.low <= function.high
        assert all(place < function.low for place in function.takes_exact)


def test_each_function_of_sqlite_is_known_or_refused(listed: dict[str, list[int]]) -> None:
    called = {function.sqlite for function in BUILT_IN}
    assert set(listed) - {name for name in listed if SAME.get(name, name) in called} == set(REFUSED.split())
    assert called - set(listed) == {"json_each", "json_tree"}


def test_numbers_of_arguments_are_those_of_sqlite(listed: dict[str, list[int]]) -> None:
    for function in BUILT_IN:
        counts = listed[function.sqlite]
        if function.kind == "table" or function.name in ("MIN", "MAX"):
            continue
        if function.high is None:
            # From -2 on it is the least number, and any more.
            assert any(count < 0 and function.low >= max(0, -count - 2 if count < -1 else 0) for count in counts), function
        else:
            assert (
                {count for count in counts if count >= 0} >= set(range(function.low, function.high + 1))
                or min(counts) < 0
                or function.name == "JSON_PRETTY"
            )


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_each_can_be_called(connection: apsw.Connection, name: str) -> None:
    """SQLite knows it, with as many arguments as it says: what it says of the arguments is another matter."""
    function = FUNCTIONS[name]
    for count in {function.low, function.low + 2 if function.high is None else function.high}:
        args = ", ".join(["null"] * count)
        over = " over ()" if function.kind == "window" else ""
        text = f"select * from {function.sqlite}({args})" if function.kind == "table" else f"select {function.sqlite}({args}){over}"
        try:
            connection.execute(text).fetchall()
        except apsw.SQLError as error:
            assert "no such function" not in str(error) and "wrong number" not in str(error)
        except Exception as error:
            assert type(error).__module__ == "svc.errors"


def test_variants_are_known(connection: apsw.Connection) -> None:
    names = set(connection.execute("select name from pragma_function_list").get)
    assert {function.exact for function in FUNCTIONS.values() if function.exact} <= names
    assert {name for name in names if re.fullmatch("svc_.+_exact", name)} == {
        function.exact for function in (*FUNCTIONS.values(), find_cast("INT")) if function is not None and function.exact
    }


def test_what_sqlite_has_is_not_replaced(connection: apsw.Connection, listed: dict[str, list[int]]) -> None:
    names = [row[0] for row in connection.execute("select name from pragma_function_list where builtin = 0")]
    assert {name for name in names if name in listed and not name.startswith("svc_")} <= set(listed)
    assert all(name.startswith("svc_") or name in listed for name in names)


def test_connections_have_meters_of_their_own(connection: apsw.Connection, meter: WorkMeter) -> None:
    other = apsw.Connection(":memory:")
    register(other, WorkMeter(meter._clock))
    assert connection.execute("select svc_now()").get != other.execute("select svc_now()").get
    other.close()


@pytest.mark.parametrize(
    "expression",
    [
        "printf('%1000000000d', 1)", "format('%.*c', 1000000000, 'x')", "hex(format('%.*c', 5000000, 'x'))", "quote(format('%.*c', 8000000, ''''))",
        "length(group_concat(format('%.*c', 1000000, 'x'))) from json_each('[1,2,3,4,5,6,7,8,9]')",
        "length(json_group_array(format('%.*c', 1000000, 'x'))) from json_each('[1,2,3,4,5,6,7,8,9]')",
        "concat(format('%.*c', 5000000, 'x'), format('%.*c', 5000000, 'x'))", "json_array(format('%.*c', 5000000, 'x'), format('%.*c', 5000000, 'x'))",
        "json_set('{}', '$.a', format('%.*c', 5000000, 'x'), '$.b', format('%.*c', 5000000, 'x'))",
        "strftime(replace(format('%.*c', 1000000, 'x'), 'x', '%Y-%m-%d'), 'now')",
    ],
)  # fmt: skip
def test_length_bounds_what_sqlite_makes(value: Value, expression: str) -> None:
    with pytest.raises((apsw.TooBigError, apsw.NoMemError)):
        value(expression)


@pytest.mark.parametrize("name", sorted(name for name, function in FUNCTIONS.items() if function.sqlite.startswith("svc_")))
@pytest.mark.parametrize(
    "argument",
    [
        "null",
        "0",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
        "-0.0",
        "9e999",
        "''",
        "'x'",
        "x'ff'",
        "x'81a161ff'",
        "'[[['",
        "char(0)",
    ],
)
def test_no_argument_is_a_defect(connection: apsw.Connection, name: str, argument: str) -> None:
    """Each gives a value, or says why not in an answer: never anything else."""
    function = FUNCTIONS[name]
    for sqlite in filter(None, (function.sqlite, function.exact)):
        for count in range(function.low, (function.high or function.low) + 1):
            args = [argument] * count
            for place in function.takes_exact:
                args[place] = f"svc_exact({argument})"
            try:
                connection.execute(f"select {sqlite}({', '.join(args)})").fetchall()
            except Exception as error:
                assert type(error).__module__ == "svc.errors", error
                assert getattr(error, "status_code") == 400  # noqa: B009
