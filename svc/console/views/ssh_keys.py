"""SSH keys for fetching packages, and the known hosts (spec: console §13)."""

from __future__ import annotations

from typing import Any

from svc.console.confirm import Question, ask
from svc.console.page import ConsolePage
from svc.console.wrong import at_fields
from svc.errors import MethodNotAllowed, NotFound, Problem
from svc.messages import Response
from svc.pages.cells import shortened, shown
from svc.pages.sent_form import SentForm

MOST_KEYS = 200  # that are listed

_FIELDS = ("name", "_key", "host", "hostname", "known_hosts")


async def show(page: ConsolePage) -> Response:
    if page.rest:
        raise NotFound("There is no such page")
    do = page.fields.get("do", "")
    if do in ("add", "change"):
        return await _key_form(page)
    return await _remove_form(page) if do == "remove" else await _list(page)


async def send(page: ConsolePage) -> Response:
    form, do = page.form, page.fields.get("do", "")
    assert form is not None
    if page.rest or do not in ("", "add", "change", "remove"):
        raise MethodNotAllowed("This page has no form", ("GET", "HEAD"))
    if do == "remove":
        return await _remove(page)
    return await _set_hosts(page, form) if not do else await _set_key(page, form)


async def _list(page: ConsolePage, form: SentForm | None = None, fault: Problem | None = None) -> Response:
    names = [each["name"] for each in await page.run("list_ssh_keys")]
    rows: list[dict[str, Any]] = []
    for name in names[:MOST_KEYS]:
        found: dict[str, Any] = await page.run("get_ssh_key", name=name) if page.may("get_ssh_key") else {}
        rows.append(
            {
                "name": shortened(name, 200),
                "host": shortened(str(found.get("host") or ""), 260),
                "hostname": shortened(str(found.get("hostname") or ""), 260),
                "change": page.at("ssh-keys", do="change", name=name),
                "remove": page.at("ssh-keys", do="remove", name=name),
            }
        )
    hosts = (await page.run("get_ssh_known_hosts"))["known_hosts"] if page.may("get_ssh_known_hosts") else None
    return await page.show(
        "ssh_keys.html",
        fault=fault,
        wrong=at_fields(fault, (), "known_hosts"),
        rows=rows,
        total=len(names),
        hosts=hosts if form is None else form.text("known_hosts"),
        may_add=page.may("add_ssh_key"),
        may_change=page.may("update_ssh_key") and page.may("get_ssh_key"),
        may_remove=page.may("delete_ssh_key"),
        may_set=page.may("set_ssh_known_hosts"),
    )


async def _key_form(page: ConsolePage, form: SentForm | None = None, fault: Problem | None = None) -> Response:
    """The key that was sent is never shown again."""
    name = page.fields.get("name", "") if page.fields.get("do") == "change" else ""
    page.require("update_ssh_key" if name else "add_ssh_key")
    values = {field: "" if form is None else form.text(field) for field in _FIELDS}
    if name and form is None:
        found = await page.run("get_ssh_key", name=name)
        values |= {"host": found["host"] or "", "hostname": found["hostname"] or ""}
    return await page.show(
        "ssh_key.html",
        title=f"SSH key {shortened(name, 100)}" if name else "Add an SSH key",
        fault=fault,
        wrong=at_fields(fault, _FIELDS, "host" if fault is not None and "host" in fault.message else "name"),
        name=shown(name)[:200],
        values=values,
    )


async def _set_key(page: ConsolePage, form: SentForm) -> Response:
    name = page.fields.get("name", "") if page.fields.get("do") == "change" else ""
    fields = {field: form.text(field).strip() for field in ("host", "hostname", "known_hosts") if form.text(field).strip()}
    if form.text("_key").strip():
        fields["key"] = form.text("_key")
    try:
        operation = "update_ssh_key" if name else "add_ssh_key"
        answer = await page.run(operation, name=name or form.text("name").strip(), **fields)
    except Problem as fault:
        return await _key_form(page, form, fault)
    return page.see_other("ssh-keys", note=answer["message"])


async def _remove_form(page: ConsolePage, fault: Problem | None = None) -> Response:
    page.require("delete_ssh_key")
    lines = [f"{shortened(page.fields.get('name', ''), 300)} is removed: packages of its host cannot be fetched with it any more."]
    return await ask(page, Question("Remove an SSH key", lines, "Remove", page.at("ssh-keys")), fault)


async def _remove(page: ConsolePage) -> Response:
    try:
        answer = await page.run("delete_ssh_key", name=page.fields.get("name", ""))
    except Problem as fault:
        return await _remove_form(page, fault)
    return page.see_other("ssh-keys", note=answer["message"])


async def _set_hosts(page: ConsolePage, form: SentForm) -> Response:
    try:
        answer = await page.run("set_ssh_known_hosts", known_hosts=form.text("known_hosts").replace("\r\n", "\n"))
    except Problem as fault:
        return await _list(page, form, fault)
    return page.see_other("ssh-keys", note=answer["message"])
