"""The way to GraphQL (spec: console §14)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.support.console import ConsoleSite


def serve(site: ConsoleSite, addresses: list[str], **configs: Any) -> None:
    site.node.node.apps = [SimpleNamespace(name=name, config={"graphql": config}) for name, config in configs.items()]  # type: ignore[misc]
    site.node.node.addresses = lambda: {"applications": addresses}


def test_it_leads_to_the_port_of_the_applications(site: ConsoleSite) -> None:
    serve(site, ["http://127.0.0.1:9926", "mqtt://*:1883"], shop=True)
    answer = site.get("/console/graphql")
    assert answer.page.links["Open GraphiQL"] == "http://localhost:9926/graphql" and "Switched on by shop" in answer.page.text


def test_without_an_application_that_wants_it(site: ConsoleSite) -> None:
    serve(site, ["http://*:9926"])
    page = site.get("/console/graphql").page
    assert "GraphQL is off" in page.text and "Open GraphiQL" not in page.links
    serve(site, ["http://*:9926"], shop={"port": 9000})
    page = site.get("/console/graphql").page
    assert "GraphQL is off" in page.text and "shop has it on a port of its own" in page.text


def test_from_elsewhere(site: ConsoleSite) -> None:
    serve(site, ["http://127.0.0.1:9926"], shop=True)
    page = site.get("/console/graphql", host="db.example.org:9925").page
    assert "not known to be reachable" in page.text and "Open GraphiQL" not in page.links


def test_names_are_text(site: ConsoleSite) -> None:
    serve(site, ["http://*:9926"], **{"<img src=x>": True})
    assert "<img src=x>" in site.get("/console/graphql").page.text
