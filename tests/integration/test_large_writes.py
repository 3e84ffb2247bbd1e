"""Large writes against the real program: others go on meanwhile, and nobody sees half of one (spec: http §2.1, schema-and-store §8)."""

from __future__ import annotations

import json
import socket
import threading
from base64 import b64encode

import httpx
import pytest

from tests.integration.conftest import LIMIT, PASSWORD, Process

pytestmark = pytest.mark.programs

COUNT = 4000


def products(mark: str, count: int = COUNT) -> list[dict[str, object]]:
    return [{"id": f"{mark}-{number}", "name": mark, "price": number, "tags": [mark]} for number in range(count)]


def count(client: httpx.Client, mark: str) -> int:
    return int(client.get(f"/Product/?tags={mark}&count()").json()["count"])


def test_others_go_on_and_see_all_or_nothing(server: Process, client: httpx.Client) -> None:
    client.put("/Product/bystander", json={"name": "b", "price": 1}).raise_for_status()
    answers: list[httpx.Response] = []

    def write() -> None:
        with server.client() as other:
            answers.append(other.post("/Product/", json=products("large")))

    writing = threading.Thread(target=write)
    writing.start()
    seen = set()
    while writing.is_alive():
        seen.add(count(client, "large"))
        assert client.get("/Product/bystander").status_code == 200
        assert client.put("/Product/bystander", json={"name": "b", "price": len(seen)}).status_code == 204
    writing.join()
    assert answers[0].status_code == 201 and answers[0].json() == [f"large-{number}" for number in range(COUNT)]
    assert seen <= {0, COUNT} and count(client, "large") == COUNT
    again = client.post("/Product/", json=[*products("more", 200), {"id": "large-7", "name": "taken", "price": 1}])
    assert again.status_code == 409 and count(client, "more") == 0
    removed = client.delete("/Product/?tags=large")
    assert removed.status_code == 204 and removed.headers["x-deleted-count"] == str(COUNT)
    assert count(client, "large") == 0
    client.delete("/Product/bystander").raise_for_status()


def test_a_browser_may_read_how_many_went(server: Process, anonymous: httpx.Client) -> None:
    token = server.operate("create_authentication_tokens").json()["operation_token"]
    page = {"Origin": "https://app.example", "Authorization": f"Bearer {token}"}
    answer = anonymous.delete("/Product/?tags=nobody", headers=page)
    assert answer.headers["x-deleted-count"] == "0"
    assert "X-Deleted-Count" in answer.headers["access-control-expose-headers"].split(", ")


def test_a_client_that_goes_away_writes_nothing_or_everything(server: Process, client: httpx.Client) -> None:
    """It may go at any moment: before the commit has begun nothing is written, afterwards everything."""
    body = json.dumps(products("gone")).encode()
    login = b64encode(f"admin:{PASSWORD}".encode()).decode()
    head = (
        f"POST /Product/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {login}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT) as sock:
            sock.sendall(head.encode() + body)
        found = {count(client, "gone") for _ in range(20)}
        assert client.put("/Product/bystander", json={"name": "b", "price": 1}).status_code == 204, "the database is free again"
        found.add(count(client, "gone"))
        assert found <= {0, COUNT}
        client.delete("/Product/?tags=gone").raise_for_status()
    client.delete("/Product/bystander").raise_for_status()
