"""Applications: what is deployed and how it was loaded, deploying, adding, dropping, packing (spec: console §12).

Addresses below `applications`: `NAME` with its files (`application_files`), `NAME/deployments/ID` (`deployments`), `NAME/deploy`, `NAME/drop`,
`NAME/archive`; `?do=deploy` and `?do=add` for names that are new.
"""

from __future__ import annotations

import base64
from asyncio import sleep
from collections.abc import AsyncIterator
from typing import Any

from svc.console.applications import address_of, attachment, begin, components, deployments_of, reasons_of, state_of, status_of
from svc.console.confirm import Question, ask, check_typed
from svc.console.page import ConsolePage
from svc.console.views import application_files, deployments
from svc.console.wrong import at_fields
from svc.errors import MethodNotAllowed, Problem
from svc.messages import Response
from svc.operations.fields import bad_request
from svc.pages.cells import shortened
from svc.pages.sent_form import SentForm

MOST_APPLICATIONS = 500  # that are listed

_PIECE = 1 << 18  # characters of base64 that are decoded in one step, whole groups
_OPTIONS = ("project", "package", "install_command", "install_timeout", "urlPath", "host")


async def show(page: ConsolePage) -> Response:
    if not page.rest:
        do = page.fields.get("do", "")
        if do == "deploy":
            return await _deploy_form(page, "")
        return await _add_form(page) if do == "add" else await _list(page)
    name, *rest = page.rest
    if rest[:1] == ["deployments"]:
        return await deployments.show(page, name, rest[1:])
    if rest == ["deploy"]:
        return await _deploy_form(page, name)
    if rest == ["drop"]:
        return await _drop_form(page, name)
    if rest == ["archive"]:
        return await _archive(page, name)
    return await application_files.show(page, name, rest)


async def send(page: ConsolePage) -> Response:
    form = page.form
    assert form is not None
    if not page.rest:
        do = page.fields.get("do", "")
        if do == "deploy":
            return await _deploy(page, form, "")
        if do == "add":
            return await _add(page, form)
        raise MethodNotAllowed("This page has no form", ("GET", "HEAD"))
    name, *rest = page.rest
    if rest[:1] == ["deployments"]:
        return await deployments.send(page, form, name, rest[1:])
    if rest == ["deploy"]:
        return await _deploy(page, form, name)
    if rest == ["drop"]:
        return await _drop(page, form, name)
    return await application_files.send(page, form, name, rest)


async def _list(page: ConsolePage) -> Response:
    found = await components(page)
    status = await status_of(page)
    names = {each["name"] for each in found}
    given = [] if status is None else [each for each in status["applications"] if each["name"] not in names]
    rows = [
        {
            "href": page.at(address_of(each["name"])),
            "name": shortened(each["name"], 100),
            "package": shortened(each.get("package", ""), 200),
            "state": state_of(each),
        }
        for each in found[:MOST_APPLICATIONS]
    ]
    return await page.show(
        "applications.html",
        rows=rows,
        total=len(found),
        given=[
            {
                "name": shortened(each["name"], 100),
                "directory": shortened(each["directory"], 300),
                "errors": [shortened(text, 500) for text in each["errors"][:20]],
                "warnings": [shortened(text, 500) for text in each["warnings"][:20]],
            }
            for each in given[:MOST_APPLICATIONS]
        ],
        reasons=reasons_of(status),
        deployments=await deployments_of(page),
        may_deploy=page.may("deploy_component"),
        may_add=page.may("add_component"),
    )


# --- deploying ---------------------------------------------------------------------------------------------------------------------------


async def _deploy_form(page: ConsolePage, name: str, form: SentForm | None = None, fault: Problem | None = None) -> Response:
    page.require("deploy_component")
    given = page.fields if form is None else form.fields
    values = {option: given.get(option, "") for option in _OPTIONS}
    return await page.show(
        "deploy.html",
        title=f"Deploy {shortened(name, 100)}" if name else "Deploy an application",
        fault=fault,
        wrong=at_fields(fault, (*_OPTIONS, "payload", "force"), "payload" if form is not None and "archive" in form.files else "package"),
        name=name,
        values=values,
        restart=given.get("restart", "true"),
        is_forced=given.get("force") == "true",
        is_replicated=given.get("replicated") == "true",
    )


async def _deploy(page: ConsolePage, form: SentForm, name: str) -> Response:
    fields: dict[str, Any] = {option: form.text(option).strip() for option in _OPTIONS if form.text(option).strip()}
    if name:
        fields["project"] = name
    if form.text("_credentials"):
        fields["credentials"] = form.text("_credentials")
    restart = form.text("restart")
    fields["restart"] = restart if restart == "rolling" else restart == "true"
    for option in ("force", "replicated"):
        if form.text(option) == "true":
            fields[option] = True
    archive = form.files.pop("archive", None)
    try:
        timeout = fields.get("install_timeout")
        if timeout is not None:
            if not (timeout.isascii() and timeout.isdigit() and len(timeout) < 10):
                raise bad_request("'install_timeout' must be a whole number of milliseconds")
            fields["install_timeout"] = int(timeout)
        if archive is not None and archive.size:
            fields["payload"] = await archive.bytes()
        return await begin(page, fields)
    except Problem as fault:
        if archive is not None:
            form.files["archive"] = archive
        return await _deploy_form(page, name, form, fault)


# --- adding, dropping, packing -----------------------------------------------------------------------------------------------------------


async def _add_form(page: ConsolePage, form: SentForm | None = None, fault: Problem | None = None) -> Response:
    page.require("add_component")
    form = form or SentForm()
    return await page.show(
        "add_application.html",
        title="Add an application",
        fault=fault,
        wrong=at_fields(fault, ("project", "template", "install_command"), "project"),
        values={name: form.text(name) for name in ("project", "template", "install_command")},
    )


async def _add(page: ConsolePage, form: SentForm) -> Response:
    fields = {name: form.text(name).strip() for name in ("project", "template", "install_command") if form.text(name).strip()}
    try:
        answer = await page.run("add_component", **fields)
    except Problem as fault:
        return await _add_form(page, form, fault)
    return page.see_other(address_of(fields["project"]), note=answer["message"])


async def _drop_form(page: ConsolePage, name: str, fault: Problem | None = None) -> Response:
    """Of a file without its name typed in, of an application with it."""
    page.require("drop_component")
    file = page.fields.get("file", "")
    shown = shortened(name, 100)
    line = (
        f"{shortened(file, 1000)} is removed from the application {shown}, with all that is in it."
        if file
        else f"The application {shown}, its files and its entry in the configuration are removed. Its tables and their records stay."
    )
    question = Question(f"Remove {shortened(file or name, 200)}", [line], "Remove", page.at(address_of(name)), "" if file else name)
    return await ask(page, question, fault, "drop_application.html", is_file=bool(file))


async def _drop(page: ConsolePage, form: SentForm, name: str) -> Response:
    file = page.fields.get("file", "")
    fields: dict[str, Any] = {"file": file} if file else {}
    try:
        if not file:
            check_typed(page, name)
        answer = await page.run("drop_component", project=name, restart=form.text("restart") == "true", **fields)
    except Problem as fault:
        return await _drop_form(page, name, fault)
    return page.see_other(address_of(name) if file else "applications", note=answer["message"])


async def _archive(page: ConsolePage, name: str) -> Response:
    """What is served of it, packed. The operation gives an archive to code as one text, so it is in memory."""
    skips = {option: page.fields.get(option) == "true" for option in ("skip_node_modules", "skip_symlinks")}
    answer = await page.run("package_component", project=name, **skips)
    return attachment(f"{name}.tar.gz", "application/gzip", _decoded(answer["payload"]))


async def _decoded(payload: str) -> AsyncIterator[bytes]:
    for start in range(0, len(payload), _PIECE):
        yield base64.b64decode(payload[start : start + _PIECE])
        await sleep(0)
