"""The processes of this node, its restart, and its availability (spec: console §5)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from svc.console.charts.axes import value_text
from svc.console.page import ConsolePage
from svc.console.views.overview import duration_text, instances_of
from svc.errors import ClientError, MethodNotAllowed, NotFound, Problem
from svc.messages import Response
from svc.pages.cells import shortened

RESTART, RELOAD, AVAILABLE, UNAVAILABLE = "restart", "reload", "available", "unavailable"
_ASKED = ["threads", "svc_processes", "network", "system"]
_REFRESH = "3"  # seconds between two looks of a browser without scripts
_LONGEST_WAIT = 600.0  # seconds for which a page says that the server restarts


async def show(page: ConsolePage) -> Response:
    if page.rest == [RESTART]:
        if not page.may("restart"):
            raise NotFound("There is no such page")
        return await page.show("restart.html", title="Restart")
    if page.rest:
        raise NotFound("There is no such page")
    return await _show(page)


async def send(page: ConsolePage) -> Response:
    action = page.rest[0] if page.rest else ""
    if page.rest[1:] or action not in _ACTIONS:
        raise MethodNotAllowed("This page has no form", ("GET", "HEAD"))
    try:
        return await _ACTIONS[action](page)
    except Problem as fault:
        if action == RESTART:
            return await page.show("restart.html", title="Restart", fault=fault)
        return await _show(page, fault)


async def _restart(page: ConsolePage) -> Response:
    page.require("restart")
    if page.form is None or page.form.fields.get("confirm") != "restart":
        raise ClientError("Tick the box to restart the server")
    since = page.node.clock.wall()
    await page.run("restart")
    return page.see_other("instances", restart=f"{since:.3f}")


async def _reload(page: ConsolePage) -> Response:
    answer = await page.run("restart_service", service="http_workers")
    return page.see_other("instances", f"The applications are being loaded again, by the job {answer['job_id']}")


async def _available(page: ConsolePage) -> Response:
    await page.run("set_status", id="availability", status="Available")
    return page.see_other("instances", "This node is available")


async def _unavailable(page: ConsolePage) -> Response:
    await page.run("set_status", id="availability", status="Unavailable")
    return page.see_other("instances", "This node is unavailable for load balancers")


_ACTIONS = {RESTART: _restart, RELOAD: _reload, AVAILABLE: _available, UNAVAILABLE: _unavailable}


async def _show(page: ConsolePage, fault: Problem | None = None) -> Response:
    status = await page.run("get_status")
    information: dict[str, Any] = {}
    if page.may("system_information"):
        information = await page.run("system_information", attributes=_ASKED)
    since = _maybe_number(page.fields.get("restart", ""))
    now = page.node.clock.wall()
    is_old = since is not None and _has_older(status, now, since)
    is_restarting = bool(status.get("restarting")) or (since is not None and is_old and 0 <= now - since < _LONGEST_WAIT)
    availability = next((each["status"] for each in status["systemStatus"] if each["id"] == "availability"), "Available")
    restarted = since is not None and not is_restarting and not is_old
    return await page.show(
        "instances.html",
        fault=fault,
        pairs=[("Refresh", _REFRESH)] if is_restarting else None,
        version=status["version"],
        uptime=duration_text(status["uptime"]),
        parent=str(status["pid"]),
        restarts=status.get("restarts"),
        instances=_instances(status, information),
        is_restarting=is_restarting,
        restarted=restarted,
        restart_failed=shortened(str(status.get("restartFailed") or ""), 1000),
        reasons=[shortened(str(each), 300) for each in status.get("restartReasons", ())[:50]],
        is_available=availability != "Unavailable",
        may={name: page.may(name) for name in ("restart", "restart_service", "set_status")},
    )


def _has_older(status: dict[str, Any], now: float, since: float) -> bool:
    """Whether an instance is left that began before this time."""
    return any("uptime" not in each or now - each["uptime"] < since for each in status["instances"])


def _maybe_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e12 else None


def _instances(status: dict[str, Any], information: dict[str, Any]) -> list[dict[str, str]]:
    """Those of the overview, with memory and open connections of their processes."""
    memory = {each.get("pid"): each.get("memRss") for each in information.get("svc_processes", {}).get("core", ())}
    connections = Counter(
        str(each.get("pid")) for each in information.get("network", {}).get("connections", ()) if each.get("state") == "ESTABLISHED"
    )
    found = instances_of(status, information)
    has_connections = bool(information.get("network", {}).get("connections"))
    for each in found:
        resident = next((value for pid, value in memory.items() if str(pid) == each["pid"]), None)
        each["memory"] = "" if resident is None else value_text(float(resident) * 1024, "bytes")
        each["connections"] = str(connections[each["pid"]]) if has_connections else ""
    return found
