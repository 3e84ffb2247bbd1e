"""Errors about elements of a list say which, whichever way the list came (spec: http §5.1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.content import list_faults
from svc.store.values.validation import Validator
from tests.support.node import Node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("faults"))
    yield node
    node.close()


def ask(node: Node, method: str, body: Any, kind: str = "application/json", target: str = "/Product/") -> tuple[int, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, _, answer = node.connect().ask(method, target, content, {"Content-Type": kind})
    assert not node.errors
    return status, json.loads(answer) if answer else None


def records(number: int, **faulty: dict[str, Any]) -> list[Any]:
    found: list[Any] = [{"id": f"n{at:03}", "price": at} for at in range(number)]
    for name, change in faulty.items():
        found[int(name[1:])].update(change)
    return found


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize("number", [12, 200], ids=["in one turn", "in slices"])
def test_several_at_once(node: Node, method: str, number: int) -> None:
    status, problem = ask(node, method, records(number, _3={"price": "x"}, _7={"name": 5, "stock": "y"}))
    assert (status, problem["code"]) == (400, "VALIDATION")
    assert [(fault["index"], fault["key"], fault["attribute"]) for fault in problem["faults"]] == [
        (3, "n003", "price"),
        (7, "n007", "name"),
        (7, "n007", "stock"),
    ]
    assert [fault["message"] in text for fault, text in zip(problem["faults"], problem["errors"], strict=True)] == [True] * 3
    assert problem["detail"] == ". ".join(problem["errors"]) and problem["errors"][0].startswith('Element 3 ("n003"): ')
    assert ask(node, "GET", b"", target="/Product/?count()")[1] == {"count": 0}


def test_no_more_than_twenty(node: Node) -> None:
    _, problem = ask(node, "PUT", [{"id": str(at), "price": "x"} for at in range(300)])
    assert [fault["index"] for fault in problem["faults"]] == list(range(20))
    _, problem = ask(node, "PUT", [{"id": str(at), "price": "x", "name": 1, "stock": "x"} for at in range(30)])
    assert len(problem["faults"]) == len(problem["errors"]) == 20


def test_elements_that_are_no_records(node: Node) -> None:
    _, problem = ask(node, "PUT", [{"id": "a"}, 5, {"id": "b"}, "x"])
    assert (
        problem["code"] == "BAD_BODY"
        and problem["detail"] == "Element 1 of the body is not an object. Element 3 of the body is not an object"
    )
    assert problem["faults"] == [
        {"index": 1, "message": "Element 1 of the body is not an object"},
        {"index": 3, "message": "Element 3 of the body is not an object"},
    ]
    _, problem = ask(node, "PUT", [{"id": "a"}, {"price": 5}])
    assert problem["faults"] == [{"index": 1, "message": "Element 1 has no id"}]


def test_lines_of_csv(node: Node) -> None:
    _, problem = ask(node, "PUT", b'id,name,price\na,"x\ny",1\n\nb,z,cheap\nc,z,1\nd,z,dear\n', "text/csv")
    assert problem["code"] == "BAD_VALUE"
    assert [(fault["index"], fault["line"], fault["attribute"]) for fault in problem["faults"]] == [(1, 5, "price"), (3, 7, "price")]
    assert "(line 5)" in problem["detail"] and "(line 7)" in problem["detail"]
    _, problem = ask(node, "PUT", b"id,listDate,price\na,,1\n\n,,2\n", "text/csv")
    assert problem["faults"] == [{"index": 1, "line": 4, "message": "Element 1 has no id"}]


def test_lines_of_ndjson(node: Node) -> None:
    good, bad = b'{"id":"a","price":1}\n', b'{"id":"b","price":"x"}\n'
    for body, line in ((good + bad, 2), (good + b"\n \n" + bad, 4), (b"\r\n" + good + bad, 3)):
        _, problem = ask(node, "PUT", body, "application/x-ndjson")
        assert [(fault["index"], fault["line"], fault["key"]) for fault in problem["faults"]] == [(1, line, "b")]
    _, problem = ask(node, "PUT", good + b"\n{", "application/x-ndjson")
    assert problem["code"] == "BAD_BODY" and problem["faults"][0]["line"] == 3 and problem["faults"][0]["index"] == 1


@pytest.mark.parametrize("number", [3, 200], ids=["in one turn", "in slices"])
def test_a_key_that_is_taken(node: Node, number: int) -> None:
    assert ask(node, "PUT", {"price": 1}, target="/Product/n002")[0] == 204
    status, problem = ask(node, "POST", records(number))
    assert (status, problem["code"]) == (409, "RECORD_EXISTS")
    assert problem["detail"] == 'Record already exists ("n002", element 2)'
    assert [(fault["index"], fault["key"]) for fault in problem["faults"]] == [(2, "n002")]
    _, problem = ask(node, "POST", {"id": "n002"})
    assert problem["detail"] == 'Record already exists ("n002")' and problem["faults"][0]["key"] == "n002"
    twice = [*records(2), {"id": "n001"}]
    assert ask(node, "POST", twice)[1]["faults"][0]["index"] == 2
    node.connect().ask("DELETE", "/Product/n002", b"", {})


def test_keys_that_cannot_be_told_apart(node: Node) -> None:
    long = "k" * 650
    status, problem = ask(node, "PUT", [{"id": "a"}, {"id": f"{long}1"}, {"id": f"{long}2"}])
    assert (status, problem["code"], problem["faults"][0]["index"]) == (409, "KEY_CONFLICT", 2)


def test_one_record_has_no_index(node: Node, tmp_path: Path) -> None:
    _, problem = ask(node, "PUT", {"price": "x"}, target="/Product/a")
    assert problem["code"] == "VALIDATION" and "faults" not in problem and not problem["detail"].startswith("Element")


def test_what_is_told_is_bounded(node: Node) -> None:
    long = "k" * 100_000
    for key in (long, [[long]], {"a": long}, ["a"] * 1000):
        _, problem = ask(node, "PUT", [{"id": key, "price": "x", "name": 5, "stock": "y"}])
        assert problem["faults"] and "key" not in problem["faults"][0] and len(json.dumps(problem)) < 10_000
    _, problem = ask(node, "PUT", [{"id": "a", "price": "x", **dict.fromkeys(map(str, range(3000)), 0)}])
    assert [sorted(fault) for fault in problem["faults"]] == [["index", "key", "message"]]


def test_each_element_is_looked_at_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many properties and many faults do not multiply, and the body is searched for lines once."""
    looked: list[int] = []
    blamed, split = Validator.blamed, list_faults._lines_of
    monkeypatch.setattr(Validator, "blamed", lambda *arguments: looked.append(1) or blamed(*arguments))
    monkeypatch.setattr(list_faults, "_lines_of", lambda request: looked.append(2) or split(request))
    element = {"price": "x", "name": 5, "stock": "y", **dict.fromkeys(map(str, range(1000)), 0)}
    body = b"\n\n".join(json.dumps({"id": str(at), **element}).encode() for at in range(30))
    _, problem = ask(node, "PUT", body, "application/x-ndjson")
    assert [fault["attribute"] for fault in problem["faults"][:3]] == ["price", "name", "stock"] and problem["faults"][3]["line"] == 3
    assert looked == [2] + [1] * 7  # of twenty faults that are told
