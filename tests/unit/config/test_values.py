"""Kinds of values: durations, sizes, rotation texts, casts of text."""

from pathlib import Path

import pytest

from svc.config.settings import BY_NAME
from svc.config.values import SettingFault, cast_text, parse, parse_duration, parse_size

ROOT = Path("/srv/svc")


def test_a_path_below_a_home_directory_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="begins with ~, and there is no such home directory"):
        parse("~nobody-of-that-name/x", BY_NAME["storage.path"], ROOT)


@pytest.mark.parametrize(
    ("value", "unit", "seconds"),
    [
        (30, "s", 30),
        (0.5, "s", 0.5),
        (-1, "s", -1),
        (120_000, "ms", 120),
        (1, "ms", 0.001),
        ("45s", "s", 45),
        ("5m", "s", 300),
        ("5m", "ms", 300),
        ("2h", "s", 7200),
        ("1d", "s", 86_400),
        ("2w", "s", 1_209_600),
        ("1M", "s", 2_592_000),
        ("1.5 h", "s", 5400),
        ("250", "ms", 0.25),
    ],
)
def test_durations_are_seconds(value: object, unit: str, seconds: float) -> None:
    assert parse_duration(value, unit) == seconds


@pytest.mark.parametrize("value", ["", "d", "1x", "1 day", "-3s", True, None, [1], "١s", float("inf"), float("nan")])
def test_what_is_no_duration(value: object) -> None:
    with pytest.raises(ValueError, match=r"duration|unit of time"):
        parse_duration(value)


@pytest.mark.parametrize(("value", "size"), [(1200, 1200), ("1200", 1200), ("1K", 1024), ("64M", 64 << 20), ("2G", 2 << 30), ("0.5K", 512)])
def test_sizes_are_bytes(value: object, size: int) -> None:
    assert parse_size(value) == size


@pytest.mark.parametrize("value", ["", "K", "1T", "1MB", False, None, {}, float("inf")])
def test_what_is_no_size(value: object) -> None:
    with pytest.raises(ValueError, match="must be a size"):
        parse_size(value)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("logging.rotation.maxSize", "10X", "Invalid logging.rotation.maxSize unit. Available units are G, M or K"),
        ("logging.rotation.maxSize", "10", "Invalid logging.rotation.maxSize unit. Available units are G, M or K"),
        ("logging.rotation.maxSize", "M", "Invalid logging.rotation.maxSize value. Value should be a number followed by unit e.g. '10M'"),
        ("logging.rotation.interval", "10s", "Invalid logging.rotation.interval unit. Available units are D, H or M (minutes)"),
        ("logging.rotation.interval", "D", "Invalid logging.rotation.interval value. Value should be a number followed by unit e.g. '10D'"),
    ],
)
def test_rotation_texts_are_the_contracts(name: str, value: str, sentence: str) -> None:
    with pytest.raises(SettingFault) as caught:
        parse(value, BY_NAME[name], ROOT)
    assert str(caught.value) == sentence


def test_m_means_minutes_in_an_interval_and_months_in_a_retention() -> None:
    assert parse("2M", BY_NAME["logging.rotation.interval"], ROOT) == 120
    assert parse("1M", BY_NAME["logging.rotation.retention"], ROOT) == 30 * 86_400
    assert parse("1M", BY_NAME["logging.rotation.maxSize"], ROOT) == 1 << 20


def test_paths_start_at_the_root_or_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    row = BY_NAME["storage.path"]
    assert parse("data", row, ROOT) == Path("/srv/svc/data")
    assert parse("/data", row, ROOT) == Path("/data")
    assert parse("~/data", row, ROOT) == Path("/home/ann/data")
    assert parse("one", BY_NAME["storage.blobPaths"], ROOT) == (ROOT / "one",)
    assert parse(["one", "/two"], BY_NAME["storage.blobPaths"], ROOT) == (ROOT / "one", Path("/two"))


@pytest.mark.parametrize(
    ("name", "value", "predicate"),
    [
        ("http.cors", "yes", "must be a boolean"),
        ("http.port", "9926", "must be a port"),
        ("http.port", 65536, "must be a port"),
        ("http.port", True, "must be a port"),
        ("instances", 0, "must be larger than or equal to 1"),
        ("sql.maxTime", 0, "must be larger than or equal to 1$"),
        ("sql.maxTime", "0.5", "must be larger than or equal to 1$"),
        ("instances", 1.5, "must be a whole number"),
        ("instances", float("nan"), "must be a whole number"),
        ("storage.reclamation.threshold", 2, "must be less than or equal to 1"),
        ("logging.level", "loud", "must be one of"),
        ("node.hostname", 5, "must be a string"),
        ("http.corsAccessList", "x", "must be a list"),
        ("storage.path", 5, "must be a path"),
        ("mcp", "x", "must be a mapping"),
        ("http.mtls", "x", "must be a boolean or a mapping"),
        ("mqtt.freeTopics", "Topic", "must be the name of a database and of a table with a dot between them: data.Topic"),
        ("mqtt.freeTopics", "data.", "must be the name of a database and of a table"),
        ("mqtt.freeTopics", "a.b.c", "must be the name of a database and of a table"),
        ("mqtt.freeTopics", "data.a/b", "must be the name of a database and of a table"),
        ("mqtt.freeTopics", True, "must be the name of a database and of a table"),
        ("mqtt.freeTopics", "system.svc_user", "must not be a table of the database system"),
    ],
)
def test_each_kind_says_what_it_wants(name: str, value: object, predicate: str) -> None:
    with pytest.raises(ValueError, match=predicate):
        parse(value, BY_NAME[name], ROOT)


def test_limits_are_in_the_unit_of_the_setting() -> None:
    """Of numbers in ms, too: `low` of this one is 1."""
    assert parse(1, BY_NAME["sql.maxTime"], ROOT) == 0.001
    assert parse("1s", BY_NAME["query.maxTime"], ROOT) == 1


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("true", "bool", True),
        ("False", "bool", False),
        ("8080", "port", 8080),
        ("0.4", "number", 0.4),
        ("-1", "duration", -1),
        ("1d", "duration", "1d"),
        ("null", "port", None),
        ("undefined", "string", None),
        ('["a", null]', "strings", ["a", None]),
        ('{"user": "x"}', "switch", {"user": "x"}),
        ("{broken", "switch", "{broken"),
        ("0123", "string", "0123"),
        ("12", "string", "12"),
        ("data.Topic", "table", "data.Topic"),
        ("1e5", "any", "1e5"),
    ],
)
def test_text_is_cast_to_what_it_says(text: str, kind: str, value: object) -> None:
    assert cast_text(text, kind) == value
    assert type(cast_text(text, kind)) is type(value)
