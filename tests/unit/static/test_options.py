"""Options of an entry `static`."""

from __future__ import annotations

from typing import Any

import pytest

from svc.static import StaticOptions, read_options


def test_defaults() -> None:
    assert read_options({"files": "web/**", "urlPath": "x"}) == StaticOptions()


def test_all_options() -> None:
    found = read_options(
        {
            "index": True,
            "extensions": ["html", ".htm", "html"],
            "fallthrough": False,
            "notFound": "./404.html",
            "before": "rest",
            "after": "graphql",
        }
    )
    assert found == StaticOptions(True, ("html", "htm"), False, "404.html", 404, "rest", "graphql")


def test_after_alone_takes_the_place_of_the_default() -> None:
    found = read_options({"after": "rest"})
    assert (found.before, found.after) == (None, "rest")


def test_a_file_with_a_status() -> None:
    found = read_options({"fallthrough": False, "notFound": {"file": "index.html", "statusCode": 200}})
    assert (found.not_found, found.not_found_status, found.unused) == ("index.html", 200, "")


def test_a_file_for_what_is_not_found_is_unused_where_requests_go_on() -> None:
    assert read_options({"notFound": "404.html"}).unused


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"indexes": True}, "no option 'indexes'; it has files"),
        ({"index": "index.html"}, "index is true or false"),
        ({"fallthrough": 0}, "fallthrough is true or false"),
        ({"extensions": "a/b"}, "extensions is a list"),
        ({"extensions": [1]}, "extensions is a list"),
        ({"extensions": [""]}, "extensions is a list"),
        ({"extensions": [str(n) for n in range(17)]}, "at most 16"),
        ({"notFound": 404}, "notFound is the name"),
        ({"notFound": "../404.html"}, "notFound is the name"),
        ({"notFound": "/"}, "notFound is the name"),
        ({"notFound": {"statusCode": 200}}, "notFound needs file"),
        ({"notFound": {"file": "a", "code": 1}}, "no option 'code'"),
        ({"notFound": {"file": "a", "statusCode": 304}}, "statusCode is a status with a body"),
        ({"notFound": {"file": "a", "statusCode": True}}, "statusCode is a status with a body"),
        ({"before": ["rest"]}, "before is the name of a listener"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_options(options)
