"""Options of lists, and directives (spec: graphql §7.1)."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.graphql import Shop, open_shop

CLERK = {"role": "clerk"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Only read from."""
    with open_shop(tmp_path_factory.mktemp("app"), "{extended: true}") as shop:
        yield shop


def ids(shop: Shop, arguments: str, variables: Any = None, declared: str = "") -> list[str]:
    return [each["id"] for each in shop.data(f"query {declared} {{ Product({arguments}) {{ id }} }}", variables)["Product"]]


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ("_limit: 2", "limit(2)"),
        ("_limit: 0", "limit(0)"),
        ("_limit: null", ""),
        ("_offset: 7", "limit(7,1000)"),
        ("_limit: 3, _offset: 2", "limit(2,5)"),
        ('_sort: "-price"', "sort(-price)"),
        ('_sort: ["name", "-price"]', "sort(+name,-price)"),
        ('_sort: ["brand.name", "+id"], _limit: 4, name: "name 1"', "name==name 1&sort(+brand.name,+id)&limit(4)"),
        ('_where: "price>5&price<=15"', "price>5&price<=15"),
        ('_where: "brand.country==SE|price=lt=5"', "(brand.country==SE|price=lt=5)"),
        ('_where: ""', ""),
        ('name: "name 1", _where: "price>5|price<3", _sort: ["-id"]', "name==name 1&(price>5|price<3)&sort(-id)"),
        ('brand: {name: "Acme"}, _where: "tags=a", _limit: 2', "brand.name==Acme&tags=a&limit(2)"),
    ],
)
def test_as_rest_has_it(shop: Shop, arguments: str, query: str) -> None:
    rest = shop.app.get(f"/Product/?{quote(query + ('&' if query else '') + 'select(id,)', safe='&|=<>(),+-.!')}")
    assert rest.status == 200, rest.content
    assert ids(shop, arguments) == [each["id"] for each in rest.json]


def test_variables(shop: Shop) -> None:
    declared = "($n: Int, $s: [String], $w: String)"
    assert ids(shop, "_limit: $n, _sort: $s, _where: $w", {"n": 2, "s": ["-price"], "w": "price<20"}, declared) == ["7", "6"]
    assert ids(shop, "_limit: $n, _sort: $s, _where: $w", {"n": 1}, declared) == ["1"]
    assert ids(shop, "_sort: [$s]", {"s": "-id"}, "($s: String)")[0] == "9"
    assert ids(shop, "_sort: $s, _limit: 1", None, '($s: [String] = ["-id"])') == ["9"]


def test_pages(shop: Shop) -> None:
    query = 'query ($after: String) { Product(_limit: 4, _after: $after, _sort: ["-name"]) { id } all: Product { id } b: Brand(_limit: 2) { id } }'
    found, after = [], None
    for number in range(3):
        status, body = shop.ask(query, {"after": after})
        assert status == 200 and list(body["data"]) == ["Product", "all", "b"]
        found += [each["id"] for each in body["data"]["Product"]]
        assert ("extensions" in body) is (number < 2)
        after = body["extensions"]["next"]["Product"] if number < 2 else None
        assert number == 2 or list(body["extensions"]["next"]) == ["Product"]
    assert found == ids(shop, '_sort: ["-name"]')
    assert "extensions" not in shop.ask("{ Product(_limit: 0) { id } }")[1]
    assert list(shop.ask("{ Dear(_limit: 1) { id } }")[1]["extensions"]["next"]) == ["Dear"]


def test_lists_below(shop: Shop) -> None:
    query = '{ Brand(_sort: ["-id"]) { id a: products(_sort: ["-price"], _limit: 2) { id } products(_where: "price>20", _offset: 0) { id name } } }'
    assert shop.data(query)["Brand"] == [
        {"id": "zeta", "a": [{"id": "9"}, {"id": "7"}], "products": [{"id": "9", "name": "name 0"}]},
        {"id": "acme", "a": [{"id": "8"}, {"id": "6"}], "products": []},
    ]
    query = "query ($n: Int) { Product(_limit: 1) { brand { products(_limit: $n) { brand { products(_offset: $n) { id } } } } } }"
    for count in (1, 2):
        (product,) = shop.data(query, {"n": count})["Product"]
        assert len(product["brand"]["products"]) == count
        assert all(len(each["brand"]["products"]) == 5 - count for each in product["brand"]["products"])


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("Product(_limit: -1) { id }", "QUERY_SYNTAX"),
        ('Product(_limit: "x") { id }', "QUERY_SYNTAX"),
        ("Product(_limit: 1.5) { id }", "QUERY_SYNTAX"),
        ("Product(_limit: true) { id }", "QUERY_SYNTAX"),
        ("Product(_sort: 5) { id }", "BAD_VALUE"),
        ("Product(_sort: [5]) { id }", "BAD_VALUE"),
        ('Product(_sort: ["--id"]) { id }', "BAD_VALUE"),
        ('Product(_sort: ["a..b"]) { id }', "BAD_VALUE"),
        ('Product(_sort: [""]) { id }', "BAD_VALUE"),
        ("Product(_where: 5) { id }", "BAD_VALUE"),
        ('Product(_where: "limit(5)") { id }', "BAD_VALUE"),
        ('Product(_where: "select(id)") { id }', "BAD_VALUE"),
        ('Product(_where: "live()") { id }', "BAD_VALUE"),
        ('Product(_where: "count()") { id }', "BAD_VALUE"),
        ('Product(_where: "price=>") { id }', "BAD_VALUE"),
        ('Product(_where: "nothing==5") { id }', "UNKNOWN_ATTRIBUTE"),
        ('Product(_after: "nonsense") { id }', "QUERY_SYNTAX"),
        ("Product(_nothing: 5) { id }", "UNKNOWN_ATTRIBUTE"),
        ("Product(_limit: 1, _limit: 2) { id }", "QUERY_SYNTAX"),
        ('Brand { products(name: "x") { id } }', "QUERY_SYNTAX"),
        ('Brand { products(_after: "x") { id } }', "QUERY_SYNTAX"),
        ("Product { brand(_limit: 1) { id } }", "QUERY_SYNTAX"),
        ("Product { name(_limit: 1) }", "QUERY_SYNTAX"),
        ("Product { tags(_limit: 1) }", "QUERY_SYNTAX"),
        ("Product { __typename(_limit: 1) }", "QUERY_SYNTAX"),
        ("Brand { products(_limit: 1) { id } ...{ products(_limit: 2) { id } } }", "QUERY_SYNTAX"),
    ],
)
def test_faults(shop: Shop, field: str, code: str) -> None:
    status, body = shop.ask(f"{{ {field} }}")
    (error,) = body["errors"]
    assert (status, error["extensions"]["code"]) == (400, code), error
    assert error["locations"]


def test_rights(shop: Shop) -> None:
    for field in ('Product(_where: "secret==s") { id }', 'Product(_sort: ["secret"]) { id }', 'Brand { products(_where: "secret==s") { id } }',
                  'Brand { products(_sort: ["-stock"]) { id } }'):  # fmt: skip
        assert shop.error(f"{{ {field} }}", user=CLERK)[:2] == (403, "FORBIDDEN")
    assert len(shop.data('{ Product(_where: "price>20", _sort: ["-name"]) { id } }', user=CLERK)["Product"]) == 1


def test_they_are_names_of_attributes_in_the_short_form(tmp_path: Any) -> None:
    with open_shop(tmp_path / "app") as shop:
        assert shop.error("{ Product(_limit: 1) { id } }")[1] == "UNKNOWN_ATTRIBUTE"
        assert shop.error("{ Brand { products(_limit: 1) { id } } }")[1] == "QUERY_SYNTAX"
        assert shop.error("{ Product @skip(if: true) { id } }")[2] == "Directives are not supported."


# --- directives -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ("id name @skip(if: true)", ["id"]),
        ("id name @include(if: false)", ["id"]),
        ("id name @skip(if: false) @include(if: true)", ["id", "name"]),
        ("id name @skip(if: true) @include(if: true)", ["id"]),
        ("id name @skip(if: $yes) price @skip(if: $no) stock @include(if: $no)", ["id", "price"]),
        ("id ...F @skip(if: $yes)", ["id"]),
        ("id ...F @include(if: $yes)", ["id", "name"]),
        ("id ... @include(if: $no) { name } ... on X @include(if: $yes) { price }", ["id", "price"]),
        ("id name @skip(if: $yes) name", ["id", "name"]),
        ("id brand { id @skip(if: $yes) name }", ["id", "brand"]),
    ],
)
def test_what_is_there(shop: Shop, selection: str, names: list[str]) -> None:
    query = f"query ($yes: Boolean!, $no: Boolean = false) {{ Product(_limit: 1) {{ {selection} }} }} fragment F on Product {{ name }}"
    (product,) = shop.data(query, {"yes": True})["Product"]
    assert list(product) == names


def test_the_same_document_with_other_variables(shop: Shop) -> None:
    query = "query ($a: Boolean!) { Product(_limit: 1) { id name @include(if: $a) } Brand @skip(if: $a) { id } }"
    for _ in range(2):
        assert list(shop.data(query, {"a": True})) == ["Product"]
        assert list(shop.data(query, {"a": False})) == ["Product", "Brand"]
    assert shop.data("{ Product @skip(if: true) { id } }") == {}
    assert shop.data("{ Nothing @skip(if: true) { id } Product(_limit: 0) { id } }") == {"Product": []}


@pytest.mark.parametrize(
    "selection",
    [
        "name @skip",
        "name @skip(if: 1)",
        'name @skip(if: "true")',
        "name @skip(if: null)",
        "name @skip(if: [true])",
        "name @skip(unless: true)",
        "name @skip(if: true, if: true)",
        "name @skip(if: true) @skip(if: true)",
        "name @other",
        "name @skip(if: $nothing)",
        "...F",
    ],
)
def test_faults_of_directives(shop: Shop, selection: str) -> None:
    status, body = shop.ask(f"{{ Product {{ id {selection} }} }} fragment F on X @skip(if: true) {{ name }}")
    assert status == 400 and body["errors"][0]["locations"]
    assert shop.error("query @skip(if: true) { Product { id } }")[0] == 400
