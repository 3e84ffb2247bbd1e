"""What queries of the short form answer."""

from typing import Any

import pytest

from tests.support.graphql import BRANDS, PRODUCTS, Shop

ALL = [product["id"] for product in PRODUCTS]


def ids(shop: Shop, arguments: str, variables: Any = None, declared: str = "") -> list[str]:
    data = shop.data(f"query {declared} {{ Product({arguments}) {{ id }} }}", variables)
    return [product["id"] for product in data["Product"]]


def test_selections(shop: Shop) -> None:
    data = shop.data(
        """{
          Product(id: "3") {
            id label alias: price brand { n: name __typename } place { city shelf { row __typename } __typename }
            meta { x { y z __typename } } tags { no } nothing __typename
          }
          Brand { id }
          __typename
        }"""
    )
    assert data == {
        "Product": [
            {
                "id": "3",
                "label": "name 0!",
                "alias": 7.5,
                "brand": {"n": "Zeta", "__typename": "Brand"},
                "place": {"city": "Oslo", "shelf": {"row": 3, "__typename": "Shelf"}, "__typename": "Place"},
                "meta": {"x": {"y": 3, "z": None, "__typename": "Any"}},
                "tags": ["a", "t3"],
                "nothing": None,
                "__typename": "Product",
            }
        ],
        "Brand": [{"id": "acme"}, {"id": "zeta"}],
        "__typename": "Query",
    }
    assert list(data) == ["Product", "Brand", "__typename"]
    assert list(data["Product"][0])[:4] == ["id", "label", "alias", "brand"]


def test_what_is_selected_as_a_whole(shop: Shop) -> None:
    (product,) = shop.data('{ Product(id: "2") { brand place meta madeAt } }')["Product"]
    assert product == {
        "brand": BRANDS[0],
        "place": {"city": "Oslo", "shelf": {"row": 2}},
        "meta": {"x": {"y": 2}},
        "madeAt": "2026-01-02T00:00:00.000Z",
    }


def test_relationships_in_both_directions(shop: Shop) -> None:
    data = shop.data('{ Brand(id: "zeta") { products { id brand { products { id } } } } Order: shop_Order { number product { name } } }')
    own = [{"id": str(number)} for number in (1, 3, 5, 7, 9)]
    assert data["Brand"] == [{"products": [each | {"brand": {"products": own}} for each in own]}]
    assert data["Order"] == [{"number": 1, "product": {"name": "name 1"}}, {"number": 2, "product": {"name": "name 2"}}]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", ALL),
        ('id: "4"', ["4"]),
        ("id: 4", ["4"]),
        ('id: "none"', []),
        ('name: "name 1"', ["1", "4", "7"]),
        ('name: "name 1", brandId: "acme"', ["4"]),
        ('name: "name 1", place: {city: "Oslo"}', ["1", "4", "7"]),
        ('name: "name 1", place: {shelf: {row: 7}}', ["7"]),
        ('name: "name 1", meta: {x: {y: 4}}', ["4"]),
        ('brand: {name: "Zeta"}', ["1", "3", "5", "7", "9"]),
        ('brand: {name: "Zeta", country: "SE"}', []),
        ('brand: {id: "acme"}', ["2", "4", "6", "8"]),
        ('brand: {products: {id: "3"}}', ["1", "3", "5", "7", "9"]),
        ("brand: {}", ALL),
        ("price: 5", ["2"]),
        ("price: 5.0", ["2"]),
        ('price: "5"', ["2"]),
        ("price: null", []),
        ('tags: "a", name: "name 2"', ["2", "5", "8"]),
        ('tags: "t6"', ["6"]),
        ('madeAt: "2026-01-05T00:00:00Z"', ["5"]),
        ('id: "1", secret: "s"', ["1"]),
    ],
)
def test_arguments_are_equalities(shop: Shop, arguments: str, expected: list[str]) -> None:
    query = f"{{ Product({arguments}) {{ id }} }}" if arguments else "{ Product { id } }"
    assert [product["id"] for product in shop.data(query)["Product"]] == expected


def test_variables_are_values_by_the_same_rules(shop: Shop) -> None:
    declared = "($name: String!, $brand: Any, $row: Int = 4)"
    arguments = "name: $name, brand: $brand, place: {shelf: {row: $row}}"
    assert ids(shop, arguments, {"name": "name 1", "brand": {"country": "SE"}}, declared) == ["4"]
    assert ids(shop, arguments, {"name": "name 1", "brand": {"country": "NO"}, "row": 7}, declared) == ["7"]
    assert ids(shop, arguments, {"name": "name 1", "brand": {}}, declared) == ["4"]
    assert ids(shop, arguments, {"name": "name 1", "brand": {"name": "Zeta", "country": "NO"}, "row": 1}, declared) == ["1"]
    assert ids(shop, "id: $x", {"x": 7, "y": 1}, "($x: ID)") == ["7"]


def test_id_is_the_key_unless_an_attribute_has_that_name(shop: Shop) -> None:
    assert shop.data("{ shop_Order(id: 2) { number id } }")["shop_Order"] == [{"number": 2, "id": None}]
    assert shop.data('{ Ticket(id: "x") { code } }')["Ticket"] == [{"code": "c1"}]
    assert shop.data('{ Ticket(id: "c1") { code } }')["Ticket"] == []
    assert shop.data('{ Ticket(code: "c1") { id } }')["Ticket"] == [{"id": "x"}]


def test_filtering_by_a_relationship_narrows_what_it_lists(shop: Shop) -> None:
    assert shop.data('{ Brand(products: {id: "3"}) { id products { id } } }')["Brand"] == [{"id": "zeta", "products": [{"id": "3"}]}]


def test_fragments_only_compose(shop: Shop) -> None:
    query = """
      query One { ...Top }
      query Two { Brand { id } }
      fragment Top on Anything { Product(id: "1") { ...Names ... on Nothing { price } ... { id } } }
      fragment Names on Any { name brand { ...Brands } }
      fragment Brands on Whatever { country }
    """
    expected = {"name": "name 1", "brand": {"country": "NO"}, "price": 2.5, "id": "1"}
    assert shop.data(query, operationName="One") == {"Product": [expected]}


def test_aliases_and_several_resources(shop: Shop) -> None:
    data = shop.data('{ a: Product(id: "1") { id } b: Product(id: "2") { id } a: Product(id: "1") { name } }')
    assert data == {"a": [{"id": "1", "name": "name 1"}], "b": [{"id": "2"}]}


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("{ Nothing { id } }", "NOT_FOUND", "Resource `Nothing` not found."),
        ("{ Hidden { id } }", "NOT_FOUND", "Resource `Hidden` not found."),
        ("{ Inner { id } }", "NOT_FOUND", "Resource `Inner` not found."),
        ("{ Product }", "QUERY_SYNTAX", "'Product' needs a selection of its attributes, such as Product { id }."),
        ("{ Product(stock: 1) { id } }", "NOT_INDEXED", '"stock" is not indexed, can not search for this attribute'),
        ("{ Product(colour: 1) { id } }", "UNKNOWN_ATTRIBUTE", "colour is not a defined attribute"),
        ("{ Product(colour: {}) { id } }", "UNKNOWN_ATTRIBUTE", "colour is not a defined attribute"),
        ("{ Product(brand: {colour: 1}) { id } }", "UNKNOWN_ATTRIBUTE", "colour is not a defined attribute"),
        (
            "{ Product(brand: 1) { id } }",
            "UNUSABLE_OPERATOR",
            "brand is a relationship, a condition needs an attribute of the related table",
        ),
        ('{ Product(price: "dear") { id } }', "BAD_VALUE", "Invalid value for attribute price"),
        ("{ Product(name: [1]) { id } }", "BAD_VALUE", "Argument type, ListValue, is not supported."),
        ("{ Product(name: RED) { id } }", "BAD_VALUE", "Argument type, EnumValue, is not supported."),
        ("{ Product(brand: {name: [1]}) { id } }", "BAD_VALUE", "Value type, ListValue, is not supported."),
        ("query ($x: Any) { Product(name: $x) { id } }", "BAD_VALUE", "Argument type, ListValue, is not supported."),
        ("query ($x: Any) { Product(brand: {name: $x}) { id } }", "BAD_VALUE", "Value type, ListValue, is not supported."),
        ("{ Product(name: $y) { id } }", "BAD_VALUE", "Variable $y is not defined."),
        ('{ Product(name: "a", name: "b") { id } }', "QUERY_SYNTAX", "The argument 'name' is given twice."),
        ("{ Product { brand(name: 1) { id } } }", "QUERY_SYNTAX", "'brand' takes no arguments: conditions stand at the top level."),
        ("{ Product { id(a: 1) } }", "QUERY_SYNTAX", "'id' takes no arguments: conditions stand at the top level."),
        ("{ Product { place { city(a: 1) } } }", "QUERY_SYNTAX", "'city' takes no arguments: conditions stand at the top level."),
        ("{ Product(_limit: 1) { id } }", "UNKNOWN_ATTRIBUTE", "_limit is not a defined attribute"),
    ],
)
def test_faults(shop: Shop, query: str, code: str, message: str) -> None:
    status, found, text = shop.error(query, {"x": [1]})
    assert (status, found) == (400, code)
    assert text.startswith(message)
    assert shop.error(query, {"x": [1]}, accept="application/json") == (200, found, text)


def test_a_fault_of_one_field_is_the_answer_to_all(shop: Shop) -> None:
    status, body = shop.ask("{\n Brand { id }\n Product(stock: 1) { id }\n}")
    assert (status, list(body)) == (400, ["errors"])
    assert body["errors"][0]["locations"] == [{"line": 3, "column": 2}]


def test_application_code_answers_as_over_rest(shop: Shop) -> None:
    data = shop.data(
        """{
          Weather(id: "oslo") { id city nested { a { b c } } __typename }
          one: Weather(city: "Bergen & more") { city }
          none: Weather(id: "nowhere") { id }
          Numbers { number }
          Marked(id: "1") { id mark name brand { name } }
          other: Marked(id: 2) { id mark brand { name } place { city } __typename }
          no: Marked(id: "none") { id }
          Dear(name: "name 2") { id brand { c: country } __typename nothing }
        }"""
    )
    assert data["Weather"] == [
        {"id": "oslo", "city": None, "nested": {"a": [{"b": 1, "c": None}, {"b": 2, "c": None}]}, "__typename": "Weather"}
    ]
    assert data["one"] == [{"city": "Bergen & more"}]
    assert data["none"] == []
    assert data["Numbers"] == [{"number": number} for number in range(300)]
    assert data["Marked"] == [{"id": "1", "mark": "own", "name": "name 1", "brand": {"name": "Zeta"}}]
    assert data["other"] == [{"id": "2", "mark": None, "brand": {"name": "Acme"}, "place": {"city": "Oslo"}, "__typename": "Marked"}]
    assert data["no"] == []
    assert data["Dear"] == [{"id": "8", "brand": {"c": "SE"}, "__typename": "Dear", "nothing": None}]


def test_a_defect_of_application_code_is_no_detail(shop: Shop) -> None:
    status, body = shop.ask("{ Product { id } Broken { id } }")
    assert (status, body["errors"][0]["message"], body["errors"][0]["extensions"]["code"]) == (
        500,
        "Internal Server Error",
        "INTERNAL_SERVER_ERROR",
    )
    assert any("ZeroDivisionError" in entry.text for entry in shop.app.logs)


def test_thousands_of_fields(shop: Shop) -> None:
    data = shop.data("{ " + " ".join(f'a{number}: Product(id: "{number % 9 + 1}") {{ id }}' for number in range(3000)) + " }")
    assert len(data) == 3000 and data["a8"] == [{"id": "9"}]
