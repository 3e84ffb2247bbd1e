"""Users: listed, added, changed, dropped; and what one of them may do on a table (spec: console §10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.console.confirm import Question, ask
from svc.console.effective_rights import effective_rights
from svc.console.page import ConsolePage
from svc.console.people import LONGEST_NAME, address, chosen_password, listed, name_in, show_secret
from svc.console.texts import iso_of, plural
from svc.errors import ClientError, NotFound, Problem
from svc.messages import Response
from svc.pages.cells import shortened

_ENDS_BY_PASSWORD = "A new password ends all sessions and tokens of the user."


async def show(page: ConsolePage) -> Response:
    name = name_in(page)
    wanted = page.fields.get("do")
    if name is not None:
        return await (_confirm_drop(page, name) if wanted == "drop" else _user(page, name))
    if wanted == "add":
        return await _add_form(page)
    return await (_rights(page) if wanted == "rights" else _list(page))


async def send(page: ConsolePage) -> Response:
    name, form = name_in(page), page.form
    assert form is not None
    action = form.text("action")
    if name is None:
        return await _add(page)
    if action == "password":
        return await _set_password(page, name)
    if action == "change":
        return await _change(page, name)
    if action != "confirm":
        raise ClientError("The form does not say what to do")
    try:
        await page.run("drop_user", username=name)
    except Problem as fault:
        return await _confirm_drop(page, name, fault)
    return page.see_other("users", note=f"The user {shortened(name, 100)} was dropped")


async def _list(page: ConsolePage) -> Response:
    search, role = page.fields.get("search", ""), page.fields.get("role", "")
    wanted = search.casefold()
    users = [
        user
        for user in await page.run("list_users")
        if wanted in user["username"].casefold() and (not role or (user["role"] is not None and user["role"]["role"] == role))
    ]
    found = listed(page, users, "users", search=search, role=role)
    found.rows = [_row(page, user) for user in found.rows]
    add = page.at("users", do="add") if page.may("add_user") else ""
    return await page.show("users.html", found=found, search=search, role=role, add=add, rights=page.at("users", do="rights"))


def _row(page: ConsolePage, user: Mapping[str, Any]) -> dict[str, Any]:
    name, role = user["username"], user["role"]
    return {
        "name": shortened(name, LONGEST_NAME),
        "href": address(page, "users", name),
        "role": None if role is None else shortened(role["role"], LONGEST_NAME),
        "is_super": _is_super(user),
        "active": user["active"],
        "changed": iso_of(user.get("__updatedtime__")),
        "is_account": is_account(page, name),
        "is_own": name == page.user.username,
    }


def is_account(page: ConsolePage, username: str) -> bool:
    """Whether the user is one of an application's accounts."""
    accounts = page.node.accounts
    return accounts is not None and accounts.has_record(username)


def _is_super(user: Mapping[str, Any]) -> bool:
    role = user["role"]
    return role is not None and isinstance(role.get("permission"), Mapping) and role["permission"].get("super_user") is True


# --- one user -----------------------------------------------------------------------------------------------------------------------------


async def _find(page: ConsolePage, name: str) -> tuple[dict[str, Any], bool]:
    """A user, and whether it is the last active super user, which can be neither dropped nor deactivated. Raises NotFound."""
    users = await page.run("list_users")
    found = next((user for user in users if user["username"] == name), None)
    if found is None:
        raise NotFound(f"User {name} does not exist")
    is_last = found["active"] and _is_super(found) and sum(user["active"] and _is_super(user) for user in users) == 1
    return found, is_last


async def role_names(page: ConsolePage) -> list[str]:
    """For a choice of roles; empty: the caller may not list them."""
    if not page.may("list_roles"):
        return []
    return [role["role"] for role in await page.run("list_roles") if isinstance(role.get("role"), str)]


async def _user(page: ConsolePage, name: str, fault: Problem | None = None, action: str = "") -> Response:
    """`fault`: why the form `action` was refused, which is then shown as it was filled in."""
    user, is_last = await _find(page, name)
    role, form = "" if user["role"] is None else user["role"]["role"], page.form
    has_sent = form is not None and action == "change"
    may_drop = page.may("drop_user") and not is_last
    accounts = address(page, "accounts", name) if is_account(page, name) and page.may("list_accounts") else ""
    return await page.show(
        "user.html",
        title=shortened(name, LONGEST_NAME),
        fault=fault,
        action=action,
        name=name,
        user=_row(page, user),
        created=iso_of(user.get("__createdtime__")),
        role=role,
        roles=await role_names(page),
        sent_role=form.text("role") if has_sent and form is not None else role,
        sent_active=bool(form.text("active")) if has_sent and form is not None else user["active"],
        may_change=page.may("alter_user"),
        is_last=is_last,
        drop=address(page, "users", name, do="drop") if may_drop else "",
        role_href=address(page, "roles", role) if role and page.may("list_roles") else "",
        account=accounts,
        sessions=page.at("sessions", username=name) if page.may("list_sessions") else "",
        ends=_ENDS_BY_PASSWORD,
    )


async def _change(page: ConsolePage, name: str) -> Response:
    """Only what differs from what the form has shown is sent, so that what somebody else has changed meanwhile stays."""
    form = page.form
    assert form is not None
    changes: dict[str, Any] = {}
    if form.text("role") != form.text("was_role"):
        changes["role"] = form.text("role")
    if bool(form.text("active")) != bool(form.text("was_active")):
        changes["active"] = bool(form.text("active"))
    try:
        await page.run("alter_user", username=name, **changes)
    except Problem as fault:
        return await _user(page, name, fault, "change")
    return page.see_other(_below(page, name), note=f"The user {shortened(name, 100)} was changed", **_named(name))


async def _set_password(page: ConsolePage, name: str) -> Response:
    form = page.form
    assert form is not None
    try:
        password, is_generated = chosen_password(form)
        await page.run_in_session("alter_user", username=name, password=password)
    except Problem as fault:
        return await _user(page, name, fault, "password")
    note = f"{shortened(name, 100)} has a new password"
    if is_generated:
        return await show_secret(
            page, note, "Password", password, address(page, "users", name), [f"Sessions and tokens of {shortened(name, 100)} have ended."]
        )
    return page.see_other(_below(page, name), note=note, **_named(name))


def _below(page: ConsolePage, name: str) -> str:
    """The path of a user below the root of the console."""
    return address(page, "users", name)[len(page.root) :].partition("?")[0]


def _named(name: str) -> dict[str, str]:
    return {"name": name} if name in (".", "..") else {}


async def _confirm_drop(page: ConsolePage, name: str, fault: Problem | None = None) -> Response:
    page.require("drop_user")
    await _find(page, name)
    shown = shortened(name, 100)
    ends = ["its tokens"]
    if page.may("list_sessions"):
        ends.insert(0, plural(len(await page.run("list_sessions", username=name)), "session"))
    else:
        ends.insert(0, "its sessions")
    if page.may("list_keys"):
        ends.append(plural(sum(key.get("user") == name for key in await page.run("list_keys")), "API key"))
    else:
        ends.append("its API keys")
    sentences = [f"With the user {shown} end {', '.join(ends[:-1])} and {ends[-1]}, from the next request on."]
    if is_account(page, name):
        sentences.append("It is an account of an application: the record of the account is removed with it.")
    if name == page.user.username:
        sentences.append("This is you: you are logged out, and cannot log in again as this user.")
    return await ask(
        page,
        Question(f"Drop the user {name}?", sentences, "Drop the user", address(page, "users", name), fields={"action": "confirm"}),
        fault,
    )


# --- adding -------------------------------------------------------------------------------------------------------------------------------


async def _add_form(page: ConsolePage, fault: Problem | None = None) -> Response:
    page.require("add_user")
    form = page.form
    return await page.show(
        "user_add.html",
        title="Add a user",
        fault=fault,
        roles=await role_names(page),
        username="" if form is None else form.text("username"),
        role="" if form is None else form.text("role"),
        active=form is None or bool(form.text("active")),
        back=page.at("users"),
    )


async def _add(page: ConsolePage) -> Response:
    form = page.form
    assert form is not None
    username = form.text("username")
    try:
        password, is_generated = chosen_password(form)
        answer = await page.run("add_user", username=username, password=password, role=form.text("role"), active=bool(form.text("active")))
    except Problem as fault:
        return await _add_form(page, fault)
    shown = shortened(username, 100)
    note = f"The user {shown} was added" + (f". {answer['warning']}" if "warning" in answer else "")
    if is_generated:
        return await show_secret(
            page, f"The user {shown} was added", "Password", password, page.at("users"), [answer["warning"]] if "warning" in answer else []
        )
    return page.see_other("users", note=note)


# --- what a user may do -------------------------------------------------------------------------------------------------------------------


async def _rights(page: ConsolePage) -> Response:
    who, on = page.fields.get("who", ""), page.fields.get("on", "")
    found, fault = None, None
    if on:
        try:
            found = effective_rights(page.user, page.node.directory, page.node.store.databases, who, on)
        except Problem as error:
            fault = error
    return await page.show("user_rights.html", title="What may a user do?", fault=fault, who=who, on=on, found=found, back=page.at("users"))
