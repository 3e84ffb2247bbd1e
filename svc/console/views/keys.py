"""API keys: listed, created, revoked (spec: console §10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.console.confirm import Question, ask
from svc.console.page import ConsolePage
from svc.console.people import LONGEST_NAME, address, listed, name_in, show_secret
from svc.console.texts import iso_of
from svc.console.views.users import role_names
from svc.errors import NotFound, Problem
from svc.messages import Response
from svc.pages.cells import shortened


async def show(page: ConsolePage) -> Response:
    name = name_in(page)
    if name is not None:
        return await _confirm_revoke(page, name)
    return await (_create_form(page) if page.fields.get("do") == "create" else _list(page))


async def send(page: ConsolePage) -> Response:
    name = name_in(page)
    if name is None:
        return await _create(page)
    try:
        await page.run("revoke_key", name=name)
    except Problem as fault:
        return await _confirm_revoke(page, name, fault)
    return page.see_other("keys", note=f"The API key {shortened(name, 100)} was revoked")


async def _list(page: ConsolePage) -> Response:
    search = page.fields.get("search", "")
    keys = [
        key for key in await page.run("list_keys") if any(search.casefold() in str(key.get(name) or "").casefold() for name in _SEARCHED)
    ]
    found = listed(page, keys, "keys", search=search)
    may_revoke = page.may("revoke_key")
    found.rows = [_row(page, key, may_revoke) for key in found.rows]
    create = page.at("keys", do="create") if page.may("create_key") else ""
    return await page.show("keys.html", found=found, search=search, create=create)


_SEARCHED = ("name", "prefix", "role", "user")


def _row(page: ConsolePage, key: Mapping[str, Any], may_revoke: bool) -> dict[str, Any]:
    return {
        "name": shortened(key["name"], LONGEST_NAME),
        "prefix": key["prefix"],
        "whose": shortened(
            f"the user {key['user']}" if "user" in key else f"the role {key['role']}" if key.get("role") else "a role that is gone",
            LONGEST_NAME,
        ),
        "active": key["active"],
        "created": iso_of(key["created"]),
        "created_by": shortened(str(key["created_by"] or ""), LONGEST_NAME),
        "expires": iso_of(key["expires"]),
        "last_used": iso_of(key["last_used"]),
        "revoke": address(page, "keys", key["name"]) if may_revoke else "",
    }


async def _create_form(page: ConsolePage, fault: Problem | None = None) -> Response:
    page.require("create_key")
    form = page.form
    fields = {name: "" if form is None else form.text(name) for name in ("name", "role", "user", "expires")}
    return await page.show(
        "key_create.html",
        title="Create an API key",
        fault=fault,
        roles=await role_names(page),
        sent=fields,
        of_user=form is not None and form.text("whose") == "user",
        has_sent=form is not None,
        back=page.at("keys"),
    )


async def _create(page: ConsolePage) -> Response:
    form = page.form
    assert form is not None
    whose = "user" if form.text("whose") == "user" else "role"
    fields = {whose: form.text(whose)} | ({"expires": form.text("expires")} if form.text("expires").strip() else {})
    try:
        made = await page.run("create_key", name=form.text("name"), **fields)
    except Problem as fault:
        return await _create_form(page, fault)
    sentences = ["Send it as Authorization: Bearer KEY to any port; over MQTT it is the password."]
    return await show_secret(page, f"The API key {made['name']} was created", "API key", made["key"], page.at("keys"), sentences)


async def _confirm_revoke(page: ConsolePage, name: str, fault: Problem | None = None) -> Response:
    page.require("revoke_key")
    key = next((key for key in await page.run("list_keys") if key["name"] == name), None)
    if key is None:
        raise NotFound(f"API key {name} does not exist")
    row = _row(page, key, may_revoke=False)
    sentences = [
        f"It has the rights of {row['whose']}, begins with {key['prefix']}, and was used last: {row['last_used'] or 'never'}.",
        "It counts for nothing from the next request on, at every process; what streams to its bearer ends.",
    ]
    return await ask(page, Question(f"Revoke the API key {name}?", sentences, "Revoke the key", page.at("keys")), fault)
