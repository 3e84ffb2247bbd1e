"""One deployment: its steps while it goes on, its archive, back to it (spec: console §12)."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

from svc.console.applications import BAD, address_of, begin, restart_reasons
from svc.console.confirm import Question, ask
from svc.console.page import ConsolePage
from svc.console.texts import iso_of
from svc.errors import ClientError, MethodNotAllowed, NotFound, Problem
from svc.messages import Response
from svc.operations.deployment_records import PENDING
from svc.pages.cells import shortened, size_text
from svc.pages.sent_form import MOST_BYTES, SentForm

_LONGEST = 4000  # characters of an error


async def show(page: ConsolePage, name: str, rest: list[str], fault: Problem | None = None) -> Response:
    if len(rest) == 2 and rest[1] == "archive":
        answer: Response = await page.run("get_deployment_payload", deployment_id=rest[0])
        return answer
    if len(rest) == 2 and rest[1] == "delete":
        return await _delete_form(page, name, rest[0], fault)
    if len(rest) != 1:
        raise NotFound("There is no such page")
    record = await _record(page, name, rest[0])
    has_archive = record["payload_hash"] is not None
    is_running = record["status"] == PENDING
    return await page.show(
        "deployment.html",
        title=f"Deployment of {shortened(name, 100)}",
        fault=fault,
        record=record,
        is_running=is_running,
        is_bad=record["status"] in BAD,
        started=iso_of(record["started_at"]),
        completed=iso_of(record["completed_at"]),
        events=[(iso_of(event["time"]), event["phase"], shortened(event["message"], 500)) for event in record["event_log"]],
        error=shortened(record["error"] or "", _LONGEST),
        source=shortened(record["package_identifier"] or "an archive", 300),
        size="" if record["payload_size"] is None else size_text(record["payload_size"]),
        user=shortened(record["user"] or "", 100),
        reasons=None if is_running else await restart_reasons(page),
        application=page.at(address_of(name)),
        archive=page.at(f"{address_of(name)}/deployments/{rest[0]}/archive")
        if has_archive and not is_running and page.may("get_deployment_payload")
        else "",
        package=page.at(f"{address_of(name)}/deploy", package=record["package_identifier"])
        if record["package_identifier"] and page.may("deploy_component")
        else "",
        may_deploy=has_archive and not is_running and page.may("deploy_component") and page.may("get_deployment_payload"),
        delete=page.at(f"{address_of(name)}/deployments/{rest[0]}/delete")
        if has_archive and not is_running and page.may("delete_deployment_payload")
        else "",
    )


async def _delete_form(page: ConsolePage, name: str, deployment_id: str, fault: Problem | None) -> Response:
    page.require("delete_deployment_payload")
    await _record(page, name, deployment_id)
    lines = [
        f"The archive of the deployment {deployment_id} is removed: there is no way back to this version with it any more. What runs stays as it is."
    ]
    back = page.at(f"{address_of(name)}/deployments/{deployment_id}")
    return await ask(page, Question("Remove an archive", lines, "Remove", back), fault)


async def send(page: ConsolePage, form: SentForm, name: str, rest: list[str]) -> Response:
    is_delete = len(rest) == 2 and rest[1] == "delete"
    if len(rest) != 1 and not is_delete:
        raise MethodNotAllowed("This page has no form", ("GET", "HEAD"))
    try:
        if is_delete:
            await _record(page, name, rest[0])
            answer = await page.run("delete_deployment_payload", deployment_id=rest[0])
            return page.see_other(f"{address_of(name)}/deployments/{rest[0]}", note=answer["message"])
        return await _again(page, form, name, rest[0])
    except Problem as fault:
        return await show(page, name, rest, fault)


async def _again(page: ConsolePage, form: SentForm, name: str, deployment_id: str) -> Response:
    """Deploy its archive once more."""
    page.require("deploy_component")
    record = await _record(page, name, deployment_id)
    size = record["payload_size"]
    if size is not None and size > MOST_BYTES:
        raise ClientError(
            f"The archive is larger than {MOST_BYTES >> 20} MiB: deploy it with svc get_deployment_payload and svc deploy", 413
        )
    answer: Response = await page.run("get_deployment_payload", deployment_id=deployment_id)
    assert isinstance(answer.body, AsyncIterable)
    payload = b"".join([piece async for piece in answer.body])
    return await begin(page, {"project": name, "payload": payload, "restart": form.text("restart") == "true"})


async def _record(page: ConsolePage, name: str, deployment_id: str) -> dict[str, Any]:
    record: dict[str, Any] = await page.run("get_deployment", deployment_id=deployment_id)
    if record["project"] != name:
        raise NotFound(f"Deployment '{deployment_id[:100]}' is none of {name[:100]}")
    return record
