"""Processes of the node, restart, availability (spec: console §5)."""

from __future__ import annotations

from typing import Any

import pytest

from svc.console.views import instances
from tests.support.console import ConsoleSite


def refresh_of(answer: Any) -> str | None:
    return next((value for name, value in answer.headers if name == "Refresh"), None)


def test_what_runs(site: ConsoleSite) -> None:
    site.node.clock.advance(65)
    answer = site.get("/console/instances")
    [row] = [row for row in answer.page.rows if row[:1] == ["0"]]
    assert row[2] == "1 min 5 s" and "MiB" in row[4] and refresh_of(answer) is None
    assert answer.page.find("section", id="instances")["data-poll"] == "5"


def test_a_node_is_set_unavailable_and_available(site: ConsoleSite) -> None:
    done = site.post("/console/instances/unavailable", {}, token=token_of(site))
    assert done.status == 303 and done.location.startswith("../instances?note=")
    assert site.node.node.status.is_unavailable
    page = site.get("/console/instances").page
    assert "unavailable" in page.text and page.find("form", action="./instances/available")
    assert site.post("/console/instances/available", {}, token=token_of(site)).status == 303
    assert not site.node.node.status.is_unavailable


def token_of(site: ConsoleSite) -> str:
    return site.get("/console/instances").page.find("input", name="_token")["value"]


def test_a_restart_is_confirmed_and_waited_for(site: ConsoleSite) -> None:
    restarted: list[bool] = []
    site.node.clock.advance(60)
    site.node.node.restart = restarted.append
    refused = site.post("/console/instances/restart", {})
    assert refused.status == 400 and "Tick the box" in refused.page.text and restarted == []
    assert refused.page.find("input", name="confirm")["aria-invalid"] == "true"
    done = site.post("/console/instances/restart", {"confirm": "restart"})
    assert done.status == 303 and restarted == [False]
    site.node.clock.advance(3)
    path = "/console/" + done.location.removeprefix("../")
    waiting = site.get(path)
    assert (
        "restarts" in waiting.page.text and refresh_of(waiting) == "3" and waiting.page.find("section", id="instances")["data-poll"] == "2"
    )
    site.node.node.status.started = site.node.clock.monotonic() - 1
    back = site.get(path)
    assert "The server has restarted" in back.page.text and refresh_of(back) is None


@pytest.mark.parametrize("wrong", ["x", "nan", "inf", "-5", "1e400", "9" * 400])
def test_a_wrong_time_of_a_restart_is_not_waited_for_without_end(site: ConsoleSite, wrong: str) -> None:
    answer = site.get(f"/console/instances?restart={wrong}")
    assert answer.status == 200 and refresh_of(answer) is None
    old = site.get(f"/console/instances?restart={site.node.clock.wall() + 1 - instances._LONGEST_WAIT * 2}")
    assert refresh_of(old) is None


def test_applications_are_loaded_again_by_a_job(site: ConsoleSite) -> None:
    done = site.post("/console/instances/reload", {}, token=token_of(site))
    assert done.status == 303 and "job" in done.location


def test_only_what_the_caller_may_is_offered(site: ConsoleSite) -> None:
    bob = site.node.user("bob", {"operations": ["get_status"]})
    answer = site.get("/console/instances", bob)
    assert answer.status == 200 and "Restart the server" not in answer.page.links
    assert [each["action"] for tag, each in answer.page.elements if tag == "form" and "action" in each] == ["./logout"]
    token = answer.page.find("input", name="_token")["value"]
    assert site.get("/console/instances/restart", bob).status == 404
    for action in ("unavailable", "reload"):
        refused = site.post(f"/console/instances/{action}", {}, bob, token=token)
        assert refused.status == 403 and refused.page.find("div", role="alert")
    assert not site.node.node.status.is_unavailable


def test_other_addresses(site: ConsoleSite) -> None:
    assert site.get("/console/instances/nosuch").status == 404
    token = token_of(site)
    assert site.post("/console/instances", {}, token=token).status == 405
    assert site.post("/console/instances/restart/more", {"confirm": "restart"}, token=token).status == 405
    assert site.post("/console/instances/unavailable", {}, token=None).status == 403
    assert not site.node.node.status.is_unavailable
