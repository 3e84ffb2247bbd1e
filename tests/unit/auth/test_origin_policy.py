"""Own, listed and foreign origins (spec: http §9, security §3)."""

import pytest

from svc.auth.origin_policy import OriginPolicy, Relation, explained
from svc.auth.users import User
from svc.errors import AccessViolation, NotFound, Refusal
from svc.messages import HeaderBlock, Request


def asked(origin: str | None, *, host: str = "shop.example", scheme: str = "http", site: str | None = None) -> Request:
    pairs = [("host", host)]
    if origin is not None:
        pairs.append(("origin", origin))
    if site is not None:
        pairs.append(("sec-fetch-site", site))
    request = Request("GET", "/", HeaderBlock(pairs))
    request.scheme = scheme
    return request


@pytest.mark.parametrize(
    ("scheme", "host", "origin", "own"),
    [
        ("http", "shop.example", "http://shop.example", True),
        ("http", "shop.example:80", "http://shop.example", True),
        ("https", "shop.example", "https://shop.example", True),
        ("https", "shop.example:443", "https://Shop.Example", True),
        ("http", "[::1]:9926", "http://[::1]:9926", True),
        ("http", "shop.example", "https://shop.example", False),
        ("https", "shop.example", "http://shop.example", False),
        ("http", "shop.example:9926", "http://shop.example", False),
        ("http", "shop.example", "http://shop.example:9926", False),
        ("http", "shop.example", "http://www.shop.example", False),
        ("http", "shop.example:*", "http://shop.example:*", False),
        ("http", "", "http://", False),
        ("http", "", "", False),
        ("http", "shop.example", "http://shop.example/path", False),
    ],
)
def test_own(scheme: str, host: str, origin: str, own: bool) -> None:
    assert OriginPolicy().relation(asked(origin, scheme=scheme, host=host)) is (Relation.OWN if own else Relation.FOREIGN)


def test_one_block_of_two_schemes() -> None:
    policy, request = OriginPolicy(), asked("https://shop.example")
    for scheme, expected in (("https", Relation.OWN), ("http", Relation.FOREIGN), ("https", Relation.OWN)):
        request.scheme = scheme
        assert policy.relation(request) is expected


def test_listed() -> None:
    policy = OriginPolicy(["https://app.example", "HTTP://Dev.Example:3000/", "http://localhost:*", "shop", "*", None])
    for origin in ("https://app.example", "https://app.example:443", "http://dev.example:3000", "http://localhost", "http://localhost:1"):
        assert policy.relation(asked(origin)) is Relation.LISTED, origin
    for origin in (
        "http://app.example",
        "https://app.example:8443",
        "https://localhost:1",
        "http://localhost.evil.example:1",
        "null",
        "*",
        "shop",
    ):
        assert policy.relation(asked(origin)) is Relation.FOREIGN, origin
    assert policy.invalid == ["shop"] and policy.admits_foreign


@pytest.mark.parametrize(
    ("access_list", "admitted"),
    [(None, True), ([None], True), (["*"], True), (["https://a.example", "*"], True), ([], False), (["https://a.example"], False)],
)
def test_who_is_admitted_is_not_listed(access_list: list[str | None] | None, admitted: bool) -> None:
    policy = OriginPolicy(access_list)
    assert policy.admits_foreign is admitted and policy.is_foreign(asked("https://b.example"))
    off = OriginPolicy(access_list, enabled=False)
    assert not off.admits_foreign and off.is_foreign(asked("https://a.example"))


def test_pages_of_the_operations_port() -> None:
    policy = OriginPolicy(page_ports={"http": 9925, "https": None})
    assert policy.relation(asked("http://shop.example:9925", host="shop.example:9926")) is Relation.LISTED
    assert policy.relation(asked("http://other.example:9925", host="shop.example:9926")) is Relation.FOREIGN
    assert policy.relation(asked("https://shop.example:9925", host="shop.example:9926")) is Relation.FOREIGN


def test_clients_that_are_no_browsers() -> None:
    assert OriginPolicy().relation(asked(None)) is None
    for site, expected in (("same-origin", None), ("same-site", None), ("none", None), ("Cross-Site", Relation.FOREIGN)):
        assert OriginPolicy().relation(asked(None, site=site)) is expected


def test_a_401_says_why() -> None:
    policy = OriginPolicy(setting="operationsApi.network.corsAccessList")
    request = asked("https://evil.example")
    assert explained(AccessViolation(None), request).args == ("Must login",)  # nothing was left out of account
    request.foreign = policy.refusal(request)
    error = explained(AccessViolation(None), request)
    assert isinstance(error, AccessViolation | Exception) and (error.status_code, error.code) == (401, "UNAUTHENTICATED")  # type: ignore[attr-defined]
    expected = "Must login: origin https://evil.example is not in operationsApi.network.corsAccessList, only a Bearer token counts"
    assert str(error) == expected and str(explained(error, request)) == expected
    fixed, other = Refusal({"error": "no"}), NotFound("Not found")
    assert explained(fixed, request) is fixed and explained(other, request) is other
    request.user = User("ann")
    assert str(explained(AccessViolation(request.user), request)) == "Unauthorized access to resource"
    assert policy.refusal(asked(None, site="cross-site")).startswith("a page of another site is not in")
    assert len(policy.refusal(asked("https://" + "x" * 5000))) < 250


def test_the_memory_of_relations_is_bounded() -> None:
    policy = OriginPolicy()
    for number in range(3000):
        policy.relation(asked(f"https://{number}.example"))
    assert policy._relation.cache_info().currsize <= 1024
