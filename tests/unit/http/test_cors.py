"""What browsers are told of cross-origin requests (spec: http §9)."""

from typing import Any

import pytest

from svc.auth.origin_policy import OriginPolicy
from svc.http.cors import Cors
from svc.messages import HeaderBlock, HeaderPairs, Request

LISTED = "https://a.example"
NAMES = "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Vary"


def asked(origin: str | None, method: str = "GET", **more: str) -> Request:
    pairs = [("host", "api.example"), *((name.replace("_", "-"), value) for name, value in more.items())]
    return Request(method, "/x", HeaderBlock(pairs if origin is None else [*pairs, ("origin", origin)]))


def preflight(access_list: list[str | None] | None, origin: str = LISTED, *, enabled: bool = True) -> dict[str, str] | None:
    cors = Cors(OriginPolicy(access_list, enabled=enabled), "X-A")
    response = cors.preflight(asked(origin, "OPTIONS", access_control_request_method="PUT"))
    return None if response is None else dict(response.headers.pairs())


def decorated(access_list: list[str | None] | None, origin: str, *, credentials: bool = True, pairs: HeaderPairs | None = None) -> Any:
    pairs = [] if pairs is None else pairs
    Cors(OriginPolicy(access_list), credentials=credentials).decorate(asked(origin), pairs)
    found = dict(pairs)
    assert len(found) == len(pairs)
    return tuple(found.get(name) for name in NAMES)


def test_preflight_of_a_listed_origin() -> None:
    assert preflight([LISTED]) == {
        "Access-Control-Allow-Origin": LISTED,
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, QUERY",
        "Access-Control-Allow-Headers": "X-A",
        "Access-Control-Max-Age": "600",
        "Vary": "Origin",
    }


@pytest.mark.parametrize("access_list", [None, [None], ["*"]])
def test_preflight_of_a_foreign_origin_that_is_admitted(access_list: list[str | None] | None) -> None:
    found = preflight(access_list, "https://b.example")
    assert found is not None and found["Access-Control-Allow-Origin"] == "*" and "Access-Control-Allow-Credentials" not in found


def test_who_is_not_admitted() -> None:
    assert preflight([LISTED], "https://b.example") is None
    assert preflight([], LISTED) is None
    assert preflight([LISTED], "null") is None
    for access_list in (None, ["*"], [LISTED]):
        assert preflight(access_list, LISTED, enabled=False) is None


def test_plain_options_is_no_preflight() -> None:
    assert Cors(OriginPolicy(["*"])).preflight(asked(LISTED, "OPTIONS")) is None


def test_actual_answers() -> None:
    assert decorated([LISTED], LISTED) == (LISTED, "true", "Origin")
    assert decorated([LISTED], LISTED, pairs=[("Vary", "Accept")]) == (LISTED, "true", "Accept, Origin")
    assert decorated([LISTED], LISTED, credentials=False) == (LISTED, None, "Origin")
    assert decorated(["*"], LISTED) == ("*", None, None)
    assert decorated(None, "null") == ("*", None, None)
    assert decorated([LISTED, "*"], "https://b.example") == ("*", None, "Origin")  # a cache may have the answer for the listed one
    assert decorated([LISTED], "https://b.example") == (None, None, "Origin")
    assert decorated(["*"], "http://api.example") == (None, None, None)  # its own


def test_what_scripts_may_read() -> None:
    pairs: HeaderPairs = []
    Cors(OriginPolicy(None)).decorate(asked(LISTED), pairs)
    exposed = dict(pairs)["Access-Control-Expose-Headers"].split(", ")
    assert exposed == ["ETag", "Location", "Link", "Last-Modified", "Server-Timing", "X-Total-Count", "X-Deleted-Count", "X-Svc-Session"]


def test_an_application_that_decides_itself() -> None:
    for name in ("access-control-allow-origin", "Access-Control-Allow-Origin"):
        pairs = [(name, "https://b.example")]
        Cors(OriginPolicy([LISTED])).decorate(asked(LISTED), pairs)
        assert pairs == [(name, "https://b.example")]
