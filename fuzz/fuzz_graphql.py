"""Requests to `/graphql`: any bytes as document, with variables made of the rest, through a whole server without ports.

An input is the document, a zero, and JSON: the variables, or anything else. Invariant, for any bytes:

1. The answer is 200 with `data`, or has `errors` only, with a status of spec: graphql §2.2 and a code; never 500.
2. The two media types agree: the same body, and the status of the older one is 200 or the same.
3. Asked again, when the document is kept, the answer is the same.
4. What is refused as malformed is refused alike as JSON of a body and in a query string.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from tests.support.graphql import NEWER, OLDER, Shop, open_shop

CORPUS = Path(__file__).parent / "corpus" / "graphql"
STATUSES = {200, 400, 401, 403}
CODES = {
    "QUERY_SYNTAX", "BAD_VALUE", "NOT_FOUND", "BAD_BODY", "UNKNOWN_ATTRIBUTE", "NOT_INDEXED", "UNUSABLE_OPERATOR", "QUERY_TOO_LARGE", "UNAUTHENTICATED",
    "FORBIDDEN",
}  # fmt: skip
USERS = ("super", {"role": "clerk"}, {"role": "buyer"}, None)
LONGEST_ADDRESS = 4000

NAMES = ("Product", "Brand", "shop_Order", "Ticket", "Weather", "Dear", "Hidden", "__schema", "__type", "__typename", "Nothing")
FIELDS = (
    "id", "name", "price", "brand", "products", "place", "city", "shelf", "row", "meta", "tags", "secret", "label", "__typename", "nothing", "types",
    "fields", "type",
)  # fmt: skip
VALUES = (
    '"1"', "1", "2.5", "1e999", "null", "true", "[1]", "RED", "$a", "$b", "{}", '{name: "Acme"}', "{id: $a}", '{city: "Oslo", shelf: {row: 1}}', '"""a"""',
)  # fmt: skip
TOKENS = tuple(
    token.encode()
    for token in (
        *NAMES, *FIELDS, *VALUES, "{", "}", "(", ")", ":", "!", "...", "@skip(if: true)", "@include(if: $a)", "query", "mutation", "subscription",
        "fragment F on Any", "...F", "... on Any", "$a: ID!", "$b: Any = {a: 1}", "[", "]", "=", "|", "&", "#", '"', '"""', "\\u0000",
        "\0", "_limit: 1", "schema", "type A { b: C }",
    )
)  # fmt: skip


def _selection(source: random.Random, depth: int) -> str:
    parts = []
    for _ in range(source.randint(1, 3)):
        field = source.choice(FIELDS)
        alias = f"{source.choice('xyz')}: " if source.random() < 0.2 else ""
        nested = _selection(source, depth - 1) if depth and source.random() < 0.5 else ""
        directive = " @skip(if: false)" if source.random() < 0.03 else ""
        parts.append(f"{alias}{field}{directive}{nested}")
    if source.random() < 0.2:
        parts.append(source.choice(("...F", "... on Any { id }", "... { name }")))
    return " { " + " ".join(parts) + " }"


def _arguments(source: random.Random) -> str:
    if source.random() < 0.4:
        return ""
    return "(" + ", ".join(f"{source.choice(FIELDS)}: {source.choice(VALUES)}" for _ in range(source.randint(1, 2))) + ")"


def _document(source: random.Random) -> str:
    head = source.choice(
        ("", "query ", "query A ", "query ($a: ID) ", 'query A($a: ID!, $b: Any = {name: "x"}) ', "mutation ", "subscription ")
    )
    fields = " ".join(f"{source.choice(NAMES)}{_arguments(source)}{_selection(source, 3)}" for _ in range(source.randint(1, 3)))
    fragments = " fragment F on Any" + _selection(source, 1) if source.random() < 0.5 else ""
    return head + "{ " + fields + " }" + fragments


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if corpus and source.random() < 0.3:
        return mutate(source, source.choice(corpus), TOKENS)
    variables: Any = source.choice((None, {}, {"a": "1"}, {"a": None, "b": {"id": 1}}, {"a": [1]}, {"a": {"name": "Acme"}}, [], 5))
    made = _document(source).encode() + b"\0" + json.dumps(variables).encode()
    return mutate(source, made, TOKENS) if source.random() < 0.4 else made


def _checked(shop: Shop, body: dict[str, Any], user: Any) -> tuple[int, Any]:
    app = shop.app if user == "super" else shop.app.as_user(user)
    newer = app.post("/graphql", body, headers={"Accept": NEWER})
    older = app.post("/graphql", body, headers={"Accept": OLDER})
    found = newer.json
    assert found == older.json
    assert older.status in (200, newer.status), (newer.status, older.status)
    assert newer.status in STATUSES, (newer.status, found)
    if newer.status == 200:
        assert list(found) == ["data"]
    else:
        assert list(found) == ["errors"] and found["errors"]
        for error in found["errors"]:
            assert error["extensions"]["code"] in CODES, error
            for place in error.get("locations", ()):
                assert place["line"] >= 1 and place["column"] >= 1
    return newer.status, found


class Target:
    """A server that is there as long as the inputs come."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    def check(self, data: bytes) -> None:
        text, _, rest = data.partition(b"\0")
        query = text.decode("utf-8", "replace")
        try:
            variables = json.loads(rest)
        except ValueError:
            variables = None
        user = USERS[len(data) % len(USERS)]
        body = {"query": query, "variables": variables}
        first = _checked(self._shop, body, user)
        assert _checked(self._shop, body, user) == first
        address = f"/graphql?query={quote(query)}&variables={quote(json.dumps(variables))}"
        if len(address) < LONGEST_ADDRESS:
            app = self._shop.app if user == "super" else self._shop.app.as_user(user)
            answer = app.get(address, headers={"Accept": NEWER})
            assert (answer.status, answer.json) == first


def main() -> int:
    with tempfile.TemporaryDirectory() as directory, open_shop(Path(directory) / "app") as shop:
        return run("graphql", generate, Target(shop).check, CORPUS)


if __name__ == "__main__":
    sys.exit(main())
