"""Other nodes and routes (spec: console §5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.console import ConsoleSite

HOSTILE = "\"'><img src=x onerror=alert(1)>"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ConsoleSite]:
    made = ConsoleSite(tmp_path)
    yield made
    made.close()


def token_of(site: ConsoleSite) -> str:
    return site.get("/console/cluster").page.find("input", name="_token")["value"]


def names_of(site: ConsoleSite) -> list[str]:
    return [each["name"] for each in site.node.run("cluster_status")["connections"]]


def test_a_node_of_its_own_says_so_and_how_to_begin(site: ConsoleSite) -> None:
    page = site.get("/console/cluster").page
    assert "is on its own: nothing is replicated" in page.text and "No other node is known" in page.text


def test_nodes_are_added_and_removed(site: ConsoleSite) -> None:
    done = site.post("/console/cluster/add", {"hostname": "server-two", "url": ""}, token=token_of(site))
    assert done.status == 303 and "server-two" in done.location and names_of(site) == ["server-two"]
    page = site.get("/console/cluster").page
    assert page.links["Remove server-two"] == "./cluster/remove/server-two"
    wrong = site.post("/console/cluster/remove/server-two", {"typed": "server"})
    assert wrong.status == 400 and "Type the name" in wrong.page.text and names_of(site) == ["server-two"]
    gone = site.post("/console/cluster/remove/server-two", {"typed": "server-two"})
    assert gone.status == 303 and names_of(site) == []
    assert site.post("/console/cluster/remove/server-two", {"typed": "server-two"}).status == 404


def test_what_is_wrong_is_shown_with_what_was_entered(site: ConsoleSite) -> None:
    token = token_of(site)
    empty = site.post("/console/cluster/add", {"hostname": " "}, token=token)
    assert empty.status == 400 and "Enter the name" in empty.page.text
    wrong = site.post("/console/cluster/add", {"hostname": HOSTILE, "username": "ann", "password": "secret"}, token=token)
    assert wrong.status == 400 and wrong.page.find("input", name="hostname")["value"] == HOSTILE
    assert wrong.page.find("input", name="username")["value"] == "ann" and "secret" not in wrong.body.decode()
    assert names_of(site) == []
    for form, text in (
        ({"host": ""}, "Enter a host"),
        ({"host": "a", "port": "x"}, "number"),
        ({"host": "a", "port": "99999"}, "routes[0]"),
    ):
        refused = site.post("/console/cluster/routes/add", form, token=token)
        assert refused.status == 400 and text in refused.page.text
    assert site.post("/console/cluster/routes/remove", {"route": "{"}, token=token).status == 400
    assert site.post("/console/cluster/routes/remove", {"route": "[" * 100_000}, token=token).status == 400


def test_other_addresses_and_rights(site: ConsoleSite) -> None:
    token = token_of(site)
    assert site.get("/console/cluster/nosuch").status == 404
    assert site.post("/console/cluster", {}, token=token).status == 405
    assert site.post("/console/cluster/add", {"hostname": "x"}, token=None).status == 403
    bob = site.node.user("bob", {"operations": ["cluster_status"]})
    answer = site.get("/console/cluster", bob)
    assert answer.status == 200 and [each["action"] for tag, each in answer.page.elements if tag == "form" and "action" in each] == [
        "./logout"
    ]
    own = answer.page.find("input", name="_token")["value"]
    assert site.get("/console/cluster/remove/x", bob).status == 404
    assert site.post("/console/cluster/add", {"hostname": "x"}, bob, token=own).status == 403
    assert names_of(site) == []


class Replicating:
    """The other node of a cluster, as `cluster_status` finds it."""

    async def status(self) -> dict[str, Any]:
        socket = {
            "database": HOSTILE,
            "connected": True,
            "latency": 1.5,
            "lag": {"entries": 12, "ms": 2500.0},
            "lagThere": {"entries": 0, "ms": 0},
            "uniqueConflicts": 2,
            "copying": {"bytes": 1 << 20, "ofBytes": 1 << 30},
        }
        return {
            HOSTILE: {"connected": True, "version": "9.9", "database_sockets": [socket]},
            "b": {"connected": False, "reason": HOSTILE, "database_sockets": []},
        }

    async def network(self, seconds: float) -> list[dict[str, Any]]:
        return [{"name": HOSTILE, "response_time": 3, "connected_nodes": ["here"], "routes": []}, {"name": "b", "error": "no answer"}]

    async def connected_nodes(self) -> list[str]:
        return [HOSTILE]


def test_lag_and_reach_of_other_nodes(site: ConsoleSite) -> None:
    site.node.node.replication = Replicating()  # type: ignore[assignment]
    answer = site.get("/console/cluster")
    page = answer.page
    assert [row for row in page.rows if row[:1] == [HOSTILE]] == [
        [HOSTILE, "readis being copied: 1 MiB of 1 GiB2 conflicts of unique values", "12 entries, 2.5 s", "none", "1.5 ms"]
    ]
    assert f"not connected: {HOSTILE}" in page.text and "img" not in [tag for tag, each in page.elements if each.get("src") == "x"]
    reach = site.get("/console/cluster?reach=1").page
    assert [row for row in reach.rows if row[:1] == ["b"]] == [["b", "", "no answer"]]
    overview = site.get().page.text
    assert "The node b is not connected" in overview


def test_routes(tmp_path: Path) -> None:
    """They are in the configuration file."""
    site = ConsoleSite(tmp_path, replication={"routes": ["server-one", {"hostname": "server-two", "port": 9933}]})
    try:
        page = site.get("/console/cluster").page
        values = [json.loads(each["value"]) for tag, each in page.elements if tag == "input" and each.get("name") == "route"]
        assert values == ["server-one", {"hostname": "server-two", "port": 9933}]
        assert "server-two:9933" in page.text
    finally:
        site.close()
