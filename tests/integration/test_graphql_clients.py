"""The GraphQL endpoint as others see it: the audits of `graphql-http`, and clients in JavaScript and Python that generate, cache and validate.

All that needs the server runs once for all workers of a run; the tests look at what it gave.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import traceback
from base64 import b64encode
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from gql import Client, gql
from gql.transport.exceptions import TransportQueryError
from gql.transport.httpx import HTTPXTransport
from graphql import GraphQLError

from tests.integration.conftest import PASSWORD, Process
from tests.support.npm import LIMIT, NODE, PACKAGES, locked, needs_node, node_packages, shared_directory

pytestmark = [pytest.mark.programs, needs_node]

SCRIPTS = Path(__file__).parent / "graphql"
CREDENTIALS = b64encode(f"admin:{PASSWORD}".encode()).decode()
CONFIG = "rest: true\ngraphqlSchema: {files: schema.graphql}\ngraphql: {extended: true}\n"
PRODUCTS = [
    {"id": "1", "name": "Pen", "price": 2.5, "stock": 3, "tags": ["a"], "place": {"city": "Oslo"}, "brandId": "1"},
    {"id": "2", "name": "Ink", "price": 4, "brandId": "1"},
]
BRANDS = [{"id": "1", "name": "Acme"}, {"id": "2", "name": "Zeta"}]


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Client -> what it got."""
    packages = node_packages(tmp_path_factory)
    shared = shared_directory(tmp_path_factory)
    result = shared / "graphql-clients.json"
    with locked(result.with_suffix(".lock")):
        if not result.exists():
            result.write_text(json.dumps(ask_all(Path(mkdtemp(prefix="graphql-clients-", dir=shared)), packages)))
        found: dict[str, Any] = json.loads(result.read_text())
    return found


def ask_all(directory: Path, packages: Path) -> dict[str, Any]:
    scripts, app = directory / "scripts", directory / "app"
    shutil.copytree(SCRIPTS, scripts)
    shutil.copy(PACKAGES / "package.json", scripts)
    (scripts / "node_modules").symlink_to(packages / "node_modules")
    app.mkdir()
    shutil.copy(SCRIPTS / "schema.graphql", app)
    (app / "config.yaml").write_text(CONFIG)
    process = Process(directory / "root", app).start()
    try:
        with process.client() as http:
            assert (http.post("/Brand/", json=BRANDS).status_code, http.post("/Product/", json=PRODUCTS).status_code) == (201, 201)
        url = f"{process.url}/graphql"
        token = process.operate("create_authentication_tokens", username="admin", password=PASSWORD).json()["operation_token"]
        command = [NODE or "", "--no-warnings", "main.mjs", url, f"Basic {CREDENTIALS}", token]
        done = subprocess.run(command, cwd=scripts, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr + process.output()
        found: dict[str, Any] = json.loads(done.stdout)
        try:
            found["gql"] = ask_in_python(url)
        except Exception:
            found["gql"] = {"threw": traceback.format_exc()}
    finally:
        status = process.stop()
    assert status == 0, process.output()
    return found


def part(told: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = told[name]
    assert "threw" not in found, found["threw"]
    return found


# --- audits -----------------------------------------------------------------------------------------------------------------------------

NOT_MET = {
    # An answer has the newer type unless the older one is asked for (spec: graphql §2.2): the draft recommends it from 2025 on.
    "47DE": "SHOULD accept */* and use application/json for the content-type",
    "80D8": "SHOULD assume application/json content-type when accept is missing",
    # `extensions` is ignored, whatever it holds (spec: graphql §1).
    "58B0": "MAY use 400 status code on string {extensions} parameter",
    "58B1": "MAY use 400 status code on number {extensions} parameter",
    "58B2": "MAY use 400 status code on boolean {extensions} parameter",
    "58B3": "MAY use 400 status code on array {extensions} parameter",
}


def test_all_audits_but_these_are_met(told: dict[str, Any]) -> None:
    found = part(told, "audits")
    assert len(found) == 61
    missed = {id: (each["name"], each["reason"]) for id, each in found.items() if each["status"] != "ok"}
    assert {id: name for id, (name, _) in missed.items()} == NOT_MET, missed
    assert not [name for name in NOT_MET.values() if name.startswith("MUST")]


# --- requests ---------------------------------------------------------------------------------------------------------------------------

ONE = {"Product": [{"id": "1", "name": "Pen", "brand": {"id": "1", "name": "Acme"}}]}


def with_types(value: Any, name: str = "") -> Any:
    """With the `__typename` that clients add to each selection, but for the top level."""
    if isinstance(value, list):
        return [with_types(each, name) for each in value]
    if not isinstance(value, dict):
        return value
    types = {"brand": "Brand", "products": "Product"}
    return {key: with_types(each, types.get(key, key)) for key, each in value.items()} | ({"__typename": name} if name else {})


def test_graphql_request(told: dict[str, Any]) -> None:
    found = part(told, "graphqlRequest")
    assert found["one"] == found["byGet"] == ONE
    assert found["several"] == {"Product": [{"id": "1"}], "B": [{"id": "2"}]}
    assert found["broken"] == [True, 400, "NOT_FOUND"]
    assert found["missing"] == [True, 400, "BAD_VALUE"]
    assert found["anonymous"] == [True, 401, "UNAUTHENTICATED"]


def test_urql_adds_types_and_keeps_answers(told: dict[str, Any]) -> None:
    found = part(told, "urql")
    assert found["one"] == found["again"] == found["byGet"] == with_types(ONE)
    assert found["requests"] == 1
    assert (found["broken"], found["missing"]) == (["NOT_FOUND"], ["BAD_VALUE"])


def test_apollo_keeps_each_record_once(told: dict[str, Any]) -> None:
    found = part(told, "apollo")
    acme, pen, ink = {"id": "1", "name": "Acme"}, {"id": "1", "name": "Pen"}, {"id": "2", "name": "Ink"}
    brands = [{"id": "1", "products": [pen, ink]}, {"id": "2", "products": []}]
    assert found["all"] == with_types({"Product": [{**pen, "brand": acme}, {**ink, "brand": acme}], "Brand": brands})
    assert found["again"] == with_types({"Brand": brands})
    assert found["requests"] == [1, 1]
    assert found["normalised"] == ["Brand:1", "Brand:2", "Product:1", "Product:2", "ROOT_QUERY"]
    assert found["pen"] == {"__typename": "Product", **pen, "brand": {"__ref": "Brand:1"}}
    assert found["one"] == with_types(ONE)
    assert found["broken"] == ["CombinedGraphQLErrors", ["NOT_FOUND"]]
    assert found["missing"] == ["CombinedGraphQLErrors", ["BAD_VALUE"]]


# --- changes ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, id", [("graphqlWs", "ws"), ("graphqlSse", "sse")])
def test_a_list_is_followed_while_it_changes(told: dict[str, Any], name: str, id: str) -> None:
    found = part(told, name)
    brand = {"name": "Acme"}
    assert found["lists"] == [[], [{"id": id, "price": 900, "brand": brand}], [{"id": id, "price": 901, "brand": brand}], []]
    assert found["answers"] == [
        {"create_Product": {"id": id, "name": "Gem", "price": 900}},
        {"patch_Product": {"id": id, "price": 901}},
        {"delete_Product": True},
    ]
    assert found["unknown"] == ["NOT_FOUND"]


def test_callers_of_streams_are_known(told: dict[str, Any]) -> None:
    assert part(told, "graphqlWs")["query"] == {"Product": [{"name": "Pen"}]}
    assert part(told, "graphqlWs")["stranger"] == 4403
    assert part(told, "graphqlSse")["stranger"] == 401


def test_apollo_updates_what_it_keeps_after_mutations(told: dict[str, Any]) -> None:
    found = part(told, "apolloChanges")
    assert found["lists"] == [[], [["apollo", 900]], [["apollo", 901]], []]
    assert found["prices"][:2] == [900, 901]


# --- the description --------------------------------------------------------------------------------------------------------------------


def test_the_description_is_a_schema_and_types_are_generated_of_it(told: dict[str, Any]) -> None:
    found = part(told, "generated")
    assert (found["schema"], found["operations"]) == ([], [])
    assert found["compiled"] == []


# --- Python -----------------------------------------------------------------------------------------------------------------------------


def ask_in_python(url: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    login = {"Authorization": f"Basic {CREDENTIALS}"}
    one = gql("query ($id: ID!) { Product(id: $id) { id name brand { id name } } }")
    with Client(transport=HTTPXTransport(url=url, headers=login), fetch_schema_from_transport=True) as session:
        one.variable_values = {"id": "1"}
        found["one"] = session.execute(one)
        try:
            session.execute(gql("{ Product { id weight } }"))
        except GraphQLError as error:  # of the validation by the client
            found["invalid"] = error.message
    for name, headers, text in (("unknown", login, "{ Nothing { id } }"), ("anonymous", None, "{ Product { id } }")):
        try:
            Client(transport=HTTPXTransport(url=url, headers=headers)).execute(gql(text))
        except TransportQueryError as error:
            found[name] = [each["extensions"]["code"] for each in error.errors or ()]
    return found


def test_gql_validates_with_the_description(told: dict[str, Any]) -> None:
    found = part(told, "gql")
    assert found["one"] == ONE
    assert found["invalid"] == "Cannot query field 'weight' on type 'Product'."
    assert found["unknown"] == ["NOT_FOUND"]
    assert found["anonymous"] == ["UNAUTHENTICATED"]
