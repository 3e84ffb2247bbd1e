"""What the pages about applications have together: addresses, states, lists of deployments, downloads (spec: console §12)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from svc.console.page import ConsolePage
from svc.console.texts import iso_of, segment, whole
from svc.messages import Response
from svc.pages.cells import shortened
from svc.pages.frame import SECURITY

MOST_DEPLOYMENTS = 25  # on one page
BAD = ("error", "failed", "rolled_back")

_MOST_OFFSET = 100_000
_LONGEST = 2000  # characters of a message


def address_of(name: str) -> str:
    """Of the page of an application, below the console."""
    return f"applications/{segment(name)}"


def attachment(name: str, media_type: str, body: Any) -> Response:
    """A download."""
    plain = "".join(mark if mark.isascii() and (mark.isalnum() or mark in "._-") else "_" for mark in name)
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='', errors='replace')}"
    return Response(
        body,
        pairs=[("Content-Type", media_type), ("Content-Disposition", disposition), ("Cache-Control", "no-store, no-transform"), *SECURITY],
    )


async def components(page: ConsolePage) -> list[dict[str, Any]]:
    found = await page.run("get_components")
    return list(found["entries"])


async def status_of(page: ConsolePage) -> dict[str, Any] | None:
    """None: the caller may not know."""
    return await page.run("get_status") if page.may("get_status") else None


def reasons_of(status: dict[str, Any] | None) -> list[str] | None:
    """Why a restart is needed; None: it is not, or the caller may not know."""
    if status is None or not status["restartRequired"]:
        return None
    return [shortened(text, 300) for text in status.get("restartReasons", [])[:50]]


async def restart_reasons(page: ConsolePage) -> list[str] | None:
    return reasons_of(await status_of(page))


def state_of(component: dict[str, Any]) -> dict[str, Any]:
    """How it was loaded, for a template."""
    status = component["status"]
    return {
        "name": status["status"],
        "is_bad": status["status"] in BAD,
        "message": shortened(status["message"], _LONGEST),
        "details": [shortened(text, 10_000) for text in status.get("details", ())],
    }


async def deployments_of(page: ConsolePage, project: str = "") -> dict[str, Any] | None:
    """Deployments, the newest first, for a template; None: the caller may not list them."""
    if not page.may("list_deployments"):
        return None
    start = whole(page.fields, "from", 0, _MOST_OFFSET)
    wanted = {"project": project} if project else {}
    found = await page.run("list_deployments", limit=MOST_DEPLOYMENTS, offset=start, **wanted)
    path = address_of(project) if project else "applications"
    rows = [
        {
            "href": page.at(f"{address_of(record['project'])}/deployments/{segment(record['deployment_id'])}"),
            "project": shortened(record["project"], 100),
            "started": iso_of(record["started_at"]),
            "status": record["status"],
            "is_bad": record["status"] in BAD,
            "phase": record["phase"],
            "user": shortened(record["user"] or "", 100),
            "source": shortened(record["package_identifier"] or "archive", 200),
        }
        for record in found["deployments"]
    ]
    end = start + len(rows)
    return {
        "rows": rows,
        "is_running": any(row["status"] == "pending" for row in rows),
        "total": found["total"],
        "first": start + 1,
        "last": end,
        "previous": page.at(path, **{"from": str(max(start - MOST_DEPLOYMENTS, 0))}) if start else "",
        "next": page.at(path, **{"from": str(end)}) if end < found["total"] else "",
    }


async def begin(page: ConsolePage, fields: dict[str, Any]) -> Response:
    """Begin a deployment, and lead to the page that shows how it goes on."""
    started = await page.run("deploy_component", **fields, wait=False)
    record = await page.run("get_deployment", deployment_id=started["deployment_id"])
    return page.see_other(f"{address_of(record['project'])}/deployments/{started['deployment_id']}")
