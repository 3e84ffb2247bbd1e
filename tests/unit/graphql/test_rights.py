"""Rights are those of REST."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.graphql import Shop, open_shop
from tests.support.profile import examples

CLERK, BUYER = {"role": "clerk"}, {"role": "buyer"}


def test_a_resource_that_may_not_be_read(shop: Shop) -> None:
    assert shop.error("{ Brand { id } }", user=BUYER)[:2] == (403, "FORBIDDEN")
    assert shop.error("{ Brand { id } }", user=None)[:2] == (401, "UNAUTHENTICATED")
    assert shop.error("{ Product { id } Brand { id } }", user=BUYER)[:2] == (403, "FORBIDDEN")
    assert shop.error("{ Product { id brand { name } } }", user=BUYER)[:2] == (403, "FORBIDDEN")
    assert shop.error('{ Product(brand: {name: "Acme"}) { id } }', user=BUYER)[:2] == (403, "FORBIDDEN")
    assert shop.data('{ Product(id: "1") { id secret } }', user=BUYER)["Product"] == [{"id": "1", "secret": "s"}]
    assert shop.data('{ Weather(id: "x") { id } }', user=None)["Weather"] == [{"id": "x"}]


def test_attributes_that_may_not_be_read(shop: Shop) -> None:
    assert (
        shop.data('{ Product(id: "1") { id name __typename brand { name products { id } } } }', user=CLERK)["Product"][0]["name"]
        == "name 1"
    )
    for selection in ("secret", "a: secret", "tags", "nothing", "label", "brand { products { secret } }", "...F", "... { place { city } }"):
        query = f'{{ Product(id: "1") {{ id {selection} }} }}' + (" fragment F on X { stock }" if "F" in selection else "")
        assert shop.error(query, user=CLERK)[:2] == (403, "FORBIDDEN")
    for argument in ('secret: "s"', 'tags: "a"', "stock: null", 'brand: {products: {secret: "s"}}', 'nothing: "x"'):
        assert shop.error(f"{{ Product({argument}) {{ id }} }}", user=CLERK)[:2] == (403, "FORBIDDEN")
    (brand,) = shop.data('{ Brand(id: "acme") { products } }', user=CLERK)["Brand"]
    assert all(set(product) == {"id", "name", "price", "brandId"} for product in brand["products"])


def test_application_code_shows_what_its_table_may_show(shop: Shop) -> None:
    assert shop.error('{ Dear(name: "name 2") { id secret } }', user=CLERK)[:2] == (403, "FORBIDDEN")
    assert shop.data('{ Dear(name: "name 2") { id name } }', user=CLERK)["Dear"] == [{"id": "8", "name": "name 2"}]
    assert shop.error('{ Dear(name: "name 2") { id } }', user=None)[:2] == (401, "UNAUTHENTICATED")


def test_documents_that_are_kept_do_not_keep_rights(shop: Shop) -> None:
    query = '{ Product(id: "1") { secret } }'
    for _ in range(2):
        assert shop.data(query, user=BUYER)["Product"] == [{"secret": "s"}]
        assert shop.error(query, user=CLERK)[0] == 403
        assert shop.error(query, user=None)[0] == 401
        assert shop.data(query)["Product"] == [{"secret": "s"}]


# --- the same as REST, for any rights ---------------------------------------------------------------------------------------------------

NAMES = ("id", "name", "price", "secret", "brandId", "label")
flags = st.booleans()


def permissions(names: tuple[str, ...]) -> st.SearchStrategy[Any]:
    entries = st.fixed_dictionaries({"attribute_name": st.sampled_from(names), "read": flags})
    listed = st.lists(entries, max_size=6, unique_by=lambda each: each["attribute_name"])
    return st.fixed_dictionaries({"read": st.sampled_from([True, True, False])}, optional={"attribute_permissions": listed})


fields = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)
conditions = st.sampled_from(
    [("", ""), ('(name: "name 1")', "name==name%201"), ('(secret: "s")', "secret==s"), ('(brand: {country: "SE"})', "brand.country==SE")]
)
related = st.sampled_from(["", "name", "country"])


@pytest.fixture(scope="module")
def own_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("app"), "{extended: true}") as shop:
        yield shop


@settings(max_examples=examples(60), deadline=None)
@given(
    product=permissions((*NAMES, "brand")), brand=permissions(("id", "name", "country")), names=fields, condition=conditions, below=related
)
def test_as_rest_for_any_rights(own_shop: Shop, product: Any, brand: Any, names: list[str], condition: tuple[str, str], below: str) -> None:
    shop = own_shop
    permission = {"data": {"tables": {name: whole(each) for name, each in (("Product", product), ("Brand", brand))}}}
    user = {"permission": permission}
    arguments, where = condition
    selection = " ".join(names) + (f" brand {{ {below} }}" if below else "")
    select = ",".join([*names, *([f"brand{{{below},}}"] if below else []), ""])
    status, body = shop.ask(f"{{ Product{arguments} {{ {selection} }} }}", user=user)
    rest = shop.app.as_user(user).get("/Product/?" + "&".join(filter(None, (where, f"select({quote(select, safe='(){},')})"))))
    if rest.status != 200:
        assert status == rest.status
        return
    # REST leaves out what may not be read; here it is refused when it is named.
    rows = rest.json
    if status == 403:
        assert any(name not in row for row in rows for name in [*names, *(["brand"] if below else [])]) or any(
            below not in row.get("brand", {}) for row in rows
        )
        return
    assert status == 200
    assert body["data"]["Product"] == rows


def whole(table: Any) -> Any:
    listed = table.get("attribute_permissions")
    found = {"read": table["read"], "insert": False, "update": False, "delete": False}
    if listed is not None and table["read"]:
        found["attribute_permissions"] = [each | {"insert": False, "update": False} for each in listed]
    return found


@pytest.mark.parametrize("argument", ['_where: "id=1"', '_sort: "nothing"', "_limit: 1", "_limit: x", "other: 1"])
@pytest.mark.parametrize("name", ["secret", "orders", "unknown"])
def test_arguments_say_nothing_of_what_may_not_be_read(own_shop: Shop, name: str, argument: str) -> None:
    rows = {"read": True, "insert": False, "update": False, "delete": False}
    listed = [{"attribute_name": each, "read": True, "insert": False, "update": False} for each in ("id", "brand", "brandId")]
    user = {"permission": {"data": {"tables": {"Product": rows | {"attribute_permissions": listed}, "Brand": rows}}}}
    for query in (f"{{ Product {{ id {name}({argument}) {{ id }} }} }}", f"{{ Brand {{ products {{ {name}({argument}) {{ id }} }} }} }}"):
        assert own_shop.error(query, user=user)[:2] == (403, "FORBIDDEN")
