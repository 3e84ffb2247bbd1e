from typing import Any

import pytest

from svc.errors import ClientError
from svc.resources.target import RequestTarget, id_path, parse_target

PROPERTIES: dict[str, Any] = {"price": 1, "name": 1}


def target(relative_url: str, query: str | None = None) -> RequestTarget:
    return parse_target(relative_url, query, PROPERTIES)


def test_root_collection_and_record() -> None:
    assert target("").is_root
    assert target("", "x=1").is_collection
    assert target("", "").is_root
    assert target("/").is_collection
    assert target("/42").id_text == "42"
    assert target("/a/b/c").id_text == "a/b/c"
    assert target("/a%2Fb").id_text == "a/b"
    assert target("/%C3%A9").id_text == "\u00e9"


def test_prefix_collection() -> None:
    found = target("/a/b/")
    assert (found.is_collection, found.prefix, found.id_text) == (True, "a/b/", None)


def test_extension_first_then_property() -> None:
    assert target("/42.price").property == "price"
    assert target("/42.price").id_text == "42"
    assert target("/42.json").extension == "application/json"
    assert target("/42.json").id_text == "42"
    assert target("/42.price.csv").extension == "text/csv"
    assert target("/42.price.csv").property == "price"
    assert target("/.msgpack").is_collection
    assert target("/.msgpack").extension == "application/x-msgpack"
    assert target(".csv").is_root


def test_an_unknown_or_encoded_dot_is_part_of_the_id() -> None:
    assert target("/a.b").id_text == "a.b"
    assert target("/42%2Eprice").id_text == "42.price"
    assert target("/42%2Ejson").id_text == "42.json"
    assert target("/a.price/b").id_text == "a.price/b"
    assert target("/.price").id_text == ".price"


@pytest.mark.parametrize("path", ["/%", "/%4", "/%zz", "/%ff", "/a//b", "//", "//a", "/a%2"])
def test_bad_paths(path: str) -> None:
    with pytest.raises(ClientError) as caught:
        target(path)
    assert caught.value.status_code == 400


def test_an_extension_is_a_way_of_reading_only() -> None:
    for text in ("report.csv", "a/report.json", "a.ndjson", "42.price.csv", ".csv", "a/.json"):
        found = parse_target(f"/{text}", None, PROPERTIES, False)
        assert (found.id_text, found.extension, found.property, found.is_collection) == (text, None, None, False)
    assert parse_target("/42.price", None, PROPERTIES, False).property == "price"


def test_what_stands_before_a_property_is_a_record() -> None:
    found = target("/a/.price")
    assert (found.id_text, found.property, found.is_collection) == ("a/.price", None, False)
    found = target("/a/.price.csv")
    assert (found.id_text, found.property, found.extension) == ("a/.price", None, "text/csv")


def test_the_raw_path_is_kept_for_what_is_detected_in_it() -> None:
    assert target("/u2%2Fname").raw == "u2%2Fname"
    assert target("/u2/name.csv").raw == "u2/name"
    assert target("/").raw == ""
    assert target("").raw is None
    assert target(".csv").raw is None


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("42", "42"),
        ("a/b", "a/b"),
        (7, "7"),
        (("a", 5), "a/5"),
        ("a b", "a%20b"),
        ("a:b", "a%3Ab"),
        ("x.csv", "x%2Ecsv"),
        ("x.ndjson", "x%2Endjson"),
        ("v1.2", "v1.2"),
        ("42.price", "42%2Eprice"),
        ("a.price/b", "a.price/b"),
        ("u2/name", "u2%2Fname"),
        ("a//b", "a%2F%2Fb"),
        ("/a", "%2Fa"),
        ("a/", "a%2F"),
        ("..", "%2E%2E"),
        ("a/../b", "a%2F..%2Fb"),
        ("a%b", "a%25b"),
    ],
)
def test_the_path_of_a_record(key: Any, path: str) -> None:
    assert id_path(key, PROPERTIES) == path
