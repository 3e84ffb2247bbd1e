"""The own password (spec: console §10)."""

from __future__ import annotations

from svc.console.page import ConsolePage
from svc.console.people import chosen_password
from svc.errors import Problem
from svc.messages import Response


async def show(page: ConsolePage) -> Response:
    return await _form(page)


async def send(page: ConsolePage) -> Response:
    form = page.form
    assert form is not None
    try:
        password, _ = chosen_password(form)
        await page.run_in_session("alter_user", username=page.user.username, current_password=form.text("current"), password=password)
    except Problem as fault:
        return await _form(page, fault)
    return page.see_other("password", note="Your password was changed")


async def _form(page: ConsolePage, fault: Problem | None = None) -> Response:
    has_password = page.node.directory.credentials(page.user.username) is not None and page.user.key is None
    return await page.show("password.html", fault=fault, has_password=has_password, username=page.user.username)
