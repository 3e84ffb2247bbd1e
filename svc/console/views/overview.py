"""What the server is and how it is (spec: console §3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from svc.console.attention import Facts, attention
from svc.console.charts.axes import value_text
from svc.console.page import ConsolePage
from svc.console.places import BY_PATH
from svc.errors import Problem
from svc.messages import Request, Response
from svc.pages.cells import shortened
from svc.pages.neighbours import neighbour
from svc.root.administrator import PASSWORD_FILE

MOST_DATABASES = 50  # that are listed
_BACKUPS_OF = 20  # databases whose backups are looked at
_DAY_MS = 86_400_000
_NAME = 100


@dataclass(slots=True)
class Database:
    """`records`: how many, as far as that is cheap to say; `tables`: how many the caller sees."""

    name: str
    tables: int
    records: str
    size: str


@dataclass(slots=True)
class Application:
    name: str
    status: str
    messages: list[str]


async def show(page: ConsolePage) -> Response:
    now_ms = page.node.clock.wall() * 1000
    facts = await facts_of(page, now_ms)
    status = facts.get("get_status", {})
    system = facts.get("system_information", {}).get("system", {})
    described = facts.get("describe_all", {})
    return await page.show(
        "overview.html",
        version=facts.get("registration_info", {}).get("version", ""),
        python=_interpreter(system),
        node=page.node.name,
        uptime=duration_text(status["uptime"]) if "uptime" in status else "",
        instances=instances_of(status, facts.get("system_information", {})),
        addresses=addresses_of(status.get("addresses", {}), page.request),
        databases=[database_of(name, tables) for name, tables in list(described.items())[:MOST_DATABASES]],
        databases_left=max(len(described) - MOST_DATABASES, 0),
        has_databases="describe_all" in facts,
        applications=applications_of(facts),
        has_applications="get_status" in facts or "get_components" in facts,
        advice=attention(facts, now_ms),
        is_complete="get_status" in facts,
        known={place: BY_PATH[place].title for place in BY_PATH if not BY_PATH[place].operation or page.may(BY_PATH[place].operation)},
    )


async def facts_of(page: ConsolePage, now_ms: float) -> Facts:
    """What the operations that the caller may run answer; without those that have nothing to say on this server."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    day_before = datetime.fromtimestamp((now_ms - _DAY_MS) / 1000, UTC)
    asked: dict[str, Mapping[str, Any]] = {
        "registration_info": {},
        "get_status": {},
        "system_information": {"attributes": ["system", "disk", "threads"]},
        "describe_all": {},
        "get_components": {},
        "list_scheduled_jobs": {},
        "search_jobs_by_start_date": {"from_date": f"{day_before:%Y-%m-%dT%H:%M:%SZ}", "to_date": f"{now:%Y-%m-%dT%H:%M:%SZ}"},
        "list_mails": {"status": "given_up"},
        "list_certificates": {},
        "cluster_status": {},
    }
    facts: dict[str, Any] = {}
    for operation, fields in asked.items():
        found = await _maybe(page, operation, **fields)
        if found is not None:
            facts[operation] = found
    backups = {}
    for database in list(facts.get("describe_all", {}))[:_BACKUPS_OF]:
        found = await _maybe(page, "list_backups", database=database)
        if found is not None:
            backups[database] = found
    facts["list_backups"] = backups
    password_file = page.node.config.root / PASSWORD_FILE
    if page.user.super_user and password_file.exists():
        facts["password_file"] = str(password_file)
    return facts


async def _maybe(page: ConsolePage, operation: str, **fields: Any) -> Any:
    """None: the caller may not, or it is not for this server."""
    if not page.may(operation, **fields):
        return None
    try:
        return await page.run(operation, **fields)
    except Problem:
        return None


def _interpreter(system: Mapping[str, Any]) -> str:
    """
    >>> _interpreter({"python_version": "3.13.1", "python_profile_guided": False})
    'Python 3.13.1, built without profile-guided optimisation'
    """
    if "python_version" not in system:
        return ""
    kind = {True: "with", False: "without"}.get(system.get("python_profile_guided"), "perhaps without")  # type: ignore[arg-type]
    return f"Python {system['python_version']}, built {kind} profile-guided optimisation"


def duration_text(seconds: float) -> str:
    """
    >>> [duration_text(value) for value in (5, 65, 7260, 90_000)]
    ['5 s', '1 min 5 s', '2 h 1 min', '1 d 1 h']
    """
    whole = int(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def instances_of(status: Mapping[str, Any], information: Mapping[str, Any]) -> list[dict[str, str]]:
    """Of each its number, process, uptime, utilisation since its start; or its error."""
    loads = {each.get("threadId"): each for each in information.get("threads", ())}
    found = []
    for each in status.get("instances", ()):
        load = loads.get(each["number"], {}).get("utilization")
        found.append(
            {
                "number": str(each["number"]),
                "pid": str(each.get("pid", "")),
                "uptime": duration_text(each["uptime"]) if "uptime" in each else "",
                "load": "" if load is None else value_text(load, "%"),
                "error": shortened(str(each.get("error") or ""), _NAME),
            }
        )
    return found


def addresses_of(addresses: Mapping[str, Sequence[str]], request: Request) -> list[tuple[str, str, str]]:
    """For which port, the address, and where its link leads: "" where there are no pages."""
    return [
        (kind, shortened(address, 200), neighbour([address], request) if kind == "applications" else "")
        for kind, each in addresses.items()
        for address in each
    ]


def database_of(name: str, tables: Mapping[str, Mapping[str, Any]]) -> Database:
    counts = [table["record_count"] for table in tables.values() if "record_count" in table]
    is_rough = any("estimated_record_range" in table for table in tables.values())
    size = next((table["db_size"] for table in tables.values() if "db_size" in table), None)
    records = f"{'about ' if is_rough else ''}{sum(counts):,}" if counts or not tables else ""
    return Database(shortened(name, _NAME), len(tables), records, value_text(size, "bytes"))


def applications_of(facts: Facts) -> list[Application]:
    found: dict[str, Application] = {}
    for each in facts.get("get_components", {}).get("entries", ()):
        status = each.get("status")
        if status is not None:
            message = status.get("message")
            is_fine = status.get("status") == "healthy"
            found[each["name"]] = Application(
                shortened(each["name"], _NAME),
                str(status.get("status", "")),
                [] if is_fine or not message else [shortened(str(message), 500)],
            )
    for each in facts.get("get_status", {}).get("applications", ()):
        kind = "error" if each["errors"] else "warning" if each["warnings"] else "healthy"
        messages = [shortened(text, 500) for text in (*each["errors"], *each["warnings"])]
        found[each["name"]] = Application(shortened(each["name"], _NAME), kind, messages)
    return sorted(found.values(), key=lambda each: each.name)
