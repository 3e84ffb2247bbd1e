"""Accounts of an application's users: listed, locked, removed (spec: console §10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.console.confirm import Question, ask
from svc.console.page import ConsolePage
from svc.console.people import LONGEST_NAME, ROWS, Listed, address, name_in
from svc.console.texts import iso_of
from svc.errors import NotFound, Problem
from svc.messages import Response
from svc.operations.application_accounts import NO_ACCOUNTS
from svc.pages.cells import shortened


async def show(page: ConsolePage) -> Response:
    name = name_in(page)
    if name is None:
        return await _list(page)
    return await (_confirm_remove(page, name) if page.fields.get("do") == "remove" else _account(page, name))


async def send(page: ConsolePage) -> Response:
    name, form = name_in(page), page.form
    assert form is not None
    if name is None:
        raise NotFound("There is no such form")
    shown = shortened(name, 100)
    await _find(page, name)
    if form.text("action") == "confirm":
        try:
            await page.run("drop_user", username=name)
        except Problem as fault:
            return await _confirm_remove(page, name, fault)
        return page.see_other("accounts", note=f"The account {shown} was removed")
    active = form.text("action") == "unlock"
    try:
        await page.run("alter_user", username=name, active=active)
    except Problem as fault:
        return await _account(page, name, fault)
    return page.see_other("accounts", search=name, note=f"The account {shown} was {'unlocked' if active else 'locked'}")


async def _list(page: ConsolePage) -> Response:
    search, after = page.fields.get("search", ""), page.fields.get("after", "")
    fields = {name: value for name, value in (("search", search), ("after", after)) if value}
    try:
        accounts = await page.run("list_accounts", limit=ROWS + 1, **fields)
    except Problem as fault:
        if fault.message != NO_ACCOUNTS:
            raise
        return await page.show("accounts.html", found=None, search="", application="")
    found = Listed([_row(page, each) for each in accounts[:ROWS]])
    if len(accounts) > ROWS:
        found.next = page.at("accounts", search=search, after=accounts[ROWS - 1]["username"])
    if after:
        found.previous = page.at("accounts", search=search)  # the first page: names know no way back
    application = "" if page.node.accounts is None else page.node.accounts.application
    return await page.show("accounts.html", found=found, search=search, application=application)


def _row(page: ConsolePage, account: Mapping[str, Any]) -> dict[str, Any]:
    name = account["username"]
    return {
        "name": shortened(name, LONGEST_NAME),
        "href": address(page, "accounts", name),
        "email": shortened(str(account["email"] or ""), LONGEST_NAME),
        "confirmed": account["confirmed"],
        "active": account["active"],
        "role": shortened(account["role"] or "", LONGEST_NAME),
        "password": account["password"],
        "logins": [
            shortened(each["provider"] + (f" ({each['email']})" if each["email"] else ""), LONGEST_NAME) for each in account["logins"][:20]
        ],
        "created": iso_of(account["created"]),
    }


async def _find(page: ConsolePage, name: str) -> dict[str, Any]:
    """Raises NotFound."""
    found = await page.run("list_accounts", username=name)
    if not found:
        raise NotFound(f"There is no account {name}")
    account: dict[str, Any] = found[0]
    return account


async def _account(page: ConsolePage, name: str, fault: Problem | None = None) -> Response:
    account = await _find(page, name)
    return await page.show(
        "account.html",
        title=shortened(name, LONGEST_NAME),
        fault=fault,
        account=_row(page, account),
        may_lock=page.may("alter_user"),
        remove=address(page, "accounts", name, do="remove") if page.may("drop_user") else "",
        user=address(page, "users", name) if page.may("list_users") else "",
        sessions=page.at("sessions", username=name) if page.may("list_sessions") else "",
    )


async def _confirm_remove(page: ConsolePage, name: str, fault: Problem | None = None) -> Response:
    page.require("drop_user")
    await _find(page, name)
    sentences = [
        "The user and the record of the account are removed, with its sessions, tokens, API keys and logins with providers.",
        "Other records of the application stay, but for those that the schema removes with it.",
    ]
    return await ask(
        page,
        Question(
            f"Remove the account {name}?", sentences, "Remove the account", address(page, "accounts", name), fields={"action": "confirm"}
        ),
        fault,
    )
