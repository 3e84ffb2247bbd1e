from typing import Any

import pytest

from svc.errors import ClientError
from svc.resources.target import RequestTarget, parse_target

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
