"""For any rights a mutation does what REST does: the same status, the same effect (spec: graphql §7.2)."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.graphql import Shop, open_shop
from tests.support.profile import examples

SCHEMA = """
type Item @table @export { id: ID @primaryKey  name: String!  price: Float  secret: String }
type Other @table @export { id: ID @primaryKey  name: String }
"""
NAMES = ("name", "price", "secret")
VALUES = {"name": "n", "price": 2.5, "secret": "s"}

RIGHTS = ("read", "insert", "update", "delete")
RANDOM = random.Random(7)


def some_rights() -> dict[str, Any]:
    """Of a role on the table; about half of them have rights on attributes, which go with those on the table."""
    table: dict[str, Any] = {name: RANDOM.random() < 0.75 for name in RIGHTS}
    if RANDOM.random() < 0.6:
        table["attribute_permissions"] = [
            {"attribute_name": name, **{right: table[right] and RANDOM.random() < 0.7 for right in RIGHTS[:3]}}
            for name in NAMES
            if RANDOM.random() < 0.7
        ]
    return table


USERS = [
    {"permission": {"data": {"tables": {"Item": some_rights()}}}} for _ in range(16)
]  # a user of its own takes longer than the requests
flags = st.booleans()
bodies = st.dictionaries(st.sampled_from((*NAMES, "free")), st.sampled_from(("n", 2.5, None)), max_size=4)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("app"), "{extended: true}", schema=SCHEMA, resources="", roles="clerk: {data: {}}\n") as shop:
        yield shop


@settings(max_examples=examples(50), deadline=None)
@given(
    user=st.sampled_from(USERS),
    verb=st.sampled_from(("create", "put", "patch", "delete")),
    body=bodies,
    is_there=flags,
    if_match=st.sampled_from((None, None, '"Qnm3baqAAAA"', "*")),
)
def test_the_same_as_rest(shop: Shop, user: Any, verb: str, body: dict[str, Any], is_there: bool, if_match: str | None) -> None:
    for key in ("rest", "graphql"):
        shop.app.delete(f"/Item/{key}")
        if is_there:
            assert shop.app.put(f"/Item/{key}", VALUES).status == 204
    as_user = shop.app.as_user(user)
    headers = {} if if_match is None or verb == "create" else {"If-Match": if_match}
    if verb == "create":
        rest = as_user.post("/Item/", body | {"id": "rest"})
    elif verb == "delete":
        rest = as_user.delete("/Item/rest", headers=headers)
    else:
        rest = as_user.request(verb.upper(), "/Item/rest", body, headers=headers)
    given_input = body | {"id": "graphql"} if verb == "create" else body
    arguments = {"create": "input: $i", "delete": 'id: "graphql", ifMatch: $m'}.get(verb, 'id: "graphql", input: $i, ifMatch: $m')
    query = f"mutation ($i: Any, $m: String) {{ x: {verb}_Item({arguments}) {'' if verb == 'delete' else '{ id }'} }}"
    status, answer = shop.ask(query, {"i": given_input, "m": if_match}, user=user)
    assert (status if status >= 400 else 200) == (rest.status if rest.status >= 400 else 200), (answer, rest.content)
    if status >= 400:
        assert answer["errors"][0]["extensions"]["code"] == rest.json["code"]
    elif verb == "delete":
        assert answer["data"]["x"] is is_there
    else:
        assert answer["data"]["x"] == {"id": "graphql"}
    assert stored(shop, "graphql") == stored(shop, "rest")


def stored(shop: Shop, key: str) -> Any:
    answer = shop.app.get(f"/Item/{key}")
    return None if answer.status == 404 else {name: value for name, value in answer.json.items() if name != "id"}
