"""The first page of the console (spec: console §3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from svc import __version__
from svc.console.views.overview import addresses_of
from svc.messages import HeaderBlock, Request
from svc.root.administrator import PASSWORD_FILE
from tests.support.console import ConsoleSite

HOSTILE = "\"'><img src=x onerror=alert(1)>"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ConsoleSite]:
    made = ConsoleSite(tmp_path)
    yield made
    made.close()


def test_a_super_user_sees_the_server(site: ConsoleSite) -> None:
    site.node.run("create_table", table="Seat", primary_key="id")
    site.node.run("insert", table="Seat", records=[{"id": number} for number in range(3)])
    site.node.node.addresses = lambda: {"applications": ["http://*:9926"], "operations": ["http://127.0.0.1:9925"]}
    answer = site.get()
    page = answer.page
    assert f"svc {__version__}" in page.text and "profile-guided optimisation" in page.text
    assert page.find("section", id="overview")["data-poll"] == "10"
    assert [row[:3] for row in page.rows if row[:1] == ["data"]] == [["data", "1", "3"]]
    assert page.links["http://*:9926"] == "http://localhost:9926/" and "http://127.0.0.1:9925" not in page.links
    assert "The database data has no backup" in page.text
    assert site.get("/", host="").status == 200


def test_the_file_of_the_first_password_is_named_to_super_users_alone(site: ConsoleSite) -> None:
    (site.node.root / PASSWORD_FILE).write_text("x")
    assert PASSWORD_FILE in site.get().page.text
    assert PASSWORD_FILE not in site.get(user=site.node.user("ann", {"data": {"tables": {}}})).page.text


def test_a_user_with_few_rights_sees_a_page_without_the_parts_of_others(site: ConsoleSite) -> None:
    site.node.run("create_table", table="Seat", primary_key="id")
    site.node.run("create_table", table="Secret", primary_key="id")
    rights = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
    ann = site.node.user("ann", {"data": {"tables": {"Seat": rights}}})
    answer = site.get(user=ann)
    page = answer.page
    assert answer.status == 200 and f"svc {__version__}" in page.text
    assert [row[:2] for row in page.rows if row[:1] == ["data"]] == [["data", "1"]]
    assert "Runs for" not in page.text and "Applications" not in page.text and "backup" not in page.text
    assert not {"Instances", "Cluster", "Charts"} & page.links.keys()
    for path in ("instances", "cluster", "charts", "instances/restart", "cluster/remove/x"):
        assert site.get(f"/console/{path}", ann).status == 403, path


def test_hostile_names_are_text(site: ConsoleSite) -> None:
    site.node.run("create_table", database="d", table=HOSTILE.replace("/", ""), primary_key="id")
    site.node.run("add_node", hostname="other", url="wss://other:1")
    site.node.node.status.component_changed(HOSTILE)
    answer = site.get()
    assert answer.status == 200 and f"component {HOSTILE}" in answer.page.text


@pytest.mark.parametrize("host", ["evil.example/path", "a b", "[::1", "é\x00", '"><b>'])
def test_a_host_that_is_none_makes_no_link(host: str) -> None:
    [(_, _, href)] = addresses_of({"applications": ["http://*:9926"]}, Request("GET", "/", HeaderBlock([("host", host)]), b""))
    assert href == ("http://[::1]:9926/" if host.startswith("[") else "")
