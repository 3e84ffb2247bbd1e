"""Queries as HTTP libraries build them from parameters (spec: query §2 rule 3, §8.7)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests

from tests.integration.conftest import PASSWORD, Process
from tests.support.npm import NODE, needs_node, node_packages

pytestmark = pytest.mark.programs

RECORDS = [{"id": f"qp{n}", "name": ("a & b|c", "x+y", "(z) = 1")[n % 3], "price": n, "brandId": f"qpb{n % 2}"} for n in range(12)]
# parameters, and the same in the language
CASES: list[tuple[dict[str, Any], str]] = [
    (
        {"id=sw": "qp", "price=ge": 3, "lt": 9, "sort(-price)": "", "limit(2,4)": "", "select(id,)": ""},
        "id=sw=qp&price=ge=3&lt=9&sort(-price)&limit(2,4)&select(id,)",
    ),
    ({"name": "a & b|c", "_sort": "price", "_limit": 2, "_select": "id"}, "name=a%20%26%20b%7Cc&sort(price)&limit(2)&select(id)"),
    ({"name=": "x+y", "select([id,price])": ""}, "name==x%2By&select([id,price])"),
    (
        {"_where": "price=lt=2|name==(z) %3D 1", "id=sw": "qp", "_sort": "id", "_select": "id,price"},
        "[price=lt=2|name==%28z%29 %3D 1]&id=sw=qp&sort(id)&select(id,price)",
    ),
    ({"id=sw": "qp", "_group": "name;count,sum(price)"}, "id=sw=qp&group(name;count,sum(price))"),
    ({"[price=1|price=2]": "", "select(id)": ""}, "[price=1|price=2]&select(id)"),
    (
        {"brand.name=sw": "odd", "id=sw": "qp", "_sort": "id", "_offset": 4, "_select": "id,brand{name}"},
        "brand.name=sw=odd&id=sw=qp&sort(id)&limit(4,)&select(id,brand{name})",
    ),
]


@pytest.fixture(scope="module")
def http(server: Process) -> Iterator[httpx.Client]:
    with server.client() as http:
        assert http.put("/Product/", json=RECORDS).status_code == 204
        assert http.put("/Brand/", json=[{"id": "qpb0", "name": "even"}, {"id": "qpb1", "name": "odd one"}]).status_code == 204
        yield http


def expected(http: httpx.Client, text: str) -> Any:
    found = http.get(httpx.URL(f"/Product/?{text}"))
    assert found.status_code == 200 and found.json(), found.text
    return found.json()


@pytest.mark.parametrize(("parameters", "text"), CASES)
def test_httpx_and_requests(http: httpx.Client, server: Process, parameters: dict[str, Any], text: str) -> None:
    assert http.get("/Product/", params=parameters).json() == expected(http, text)
    assert requests.get(f"{server.url}/Product/", params=parameters, auth=("admin", PASSWORD), timeout=30).json() == expected(http, text)


@needs_node
def test_url_search_params(http: httpx.Client) -> None:
    check_lines(http, printed("for (const parameters of CASES) console.log(String(new URLSearchParams(parameters)))"))


@needs_node
def test_axios(http: httpx.Client, tmp_path_factory: pytest.TempPathFactory) -> None:
    program = 'import axios from "axios"; for (const params of CASES) console.log(axios.getUri({ params }).replace(/^[/?]+/, ""))'
    check_lines(http, printed(program, node_packages(tmp_path_factory)))


def printed(program: str, directory: Path | None = None) -> list[str]:
    """The lines that a module of JavaScript prints. `CASES` in it are the parameters; `directory`: that has the packages."""
    assert NODE is not None
    code = program.replace("CASES", json.dumps([parameters for parameters, _ in CASES]))
    command = [NODE, "--input-type=module", "-e", code]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()


def check_lines(http: httpx.Client, lines: list[str]) -> None:
    assert len(lines) == len(CASES)
    for line, (_, text) in zip(lines, CASES, strict=True):
        assert http.get(httpx.URL(f"/Product/?{line}")).json() == expected(http, text), line


def test_live_and_delete(http: httpx.Client) -> None:
    parameters = {"price=ge": 10, "id=sw": "qp", "_live": "true", "_select": "id", "_sort": "id"}
    with http.stream("GET", "/Product/", params=parameters, headers={"Accept": "text/event-stream"}) as stream:
        assert stream.status_code == 200, stream.read()
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("data:"))
    refused = http.get("/Product/", params={"_limit": 5}, headers={"Accept": "text/event-stream"})
    assert refused.status_code == 400 and "in a subscription" in refused.json()["detail"]
    assert http.delete("/Product/", params={"id=sw": "qp", "price=ge": 11}).headers["x-deleted-count"] == "1"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("limit=2", "did you mean _limit=2?"),
        ("offset=2", "did you mean _offset=2?"),
        ("page=2", "did you mean _limit=10&_offset=20?"),
        ("order=name", "did you mean _sort=name?"),
        ("orderBy=name", "did you mean _sort=name?"),
        ("filter%5Bname%5D=x", "a condition is written name==value"),
        ("filter%5Bprice%5D%5Bgt%5D=1", "a condition is written price==value"),
        ("$filter=name%20eq%20'x'", "did you mean _where="),
        ("$top=5", "did you mean _limit=5?"),
        ("$select=name", "did you mean _select=name?"),
        ("fields=name", "did you mean _select=name?"),
        ("_limt=5", "did you mean _limit=5?"),
        ("_limit==5", "with a single ="),
        ("price%253Dgt=5", "percent-encoded twice"),
        ("select%2528id%2529=", "percent-encoded twice"),
        ("price==1%252E5", "percent-encoded twice"),
        ("name=Smith&Sons", "& in a value is written %26"),
        ("price==1+5", "a space is written %20"),
        ("price=gt.5", "a condition is written name=gt=value"),
    ],
)
def test_hints(http: httpx.Client, query: str, says: str) -> None:
    answer = http.get(httpx.URL(f"/Product/?{query}"))
    assert answer.status_code == 400 and says in answer.json()["detail"], answer.text
