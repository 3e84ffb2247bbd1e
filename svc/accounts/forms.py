"""The pages of accounts: forms for browsers, that need no scripts (spec: rows §2.3).

A form is sent to the address at which it is shown. What is wrong is shown in it; what has worked leads to another page, or says so. A code in the address of a
link is put into the form and used when that is sent: programs that look through mails open links, too.

An application replaces templates by files of the same name in its directory `accounts`. All of them have `frame` (`pages.frame`), `title`, `fault`,
`application`, `identity`, `values` (what was entered, without passwords) and `fields`: the attributes of the record that can be set, with `name`, `label`,
`kind` (of the input) and `required`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svc.accounts.directory import Accounts
from svc.accounts.endpoint import ADDRESS, ME, NO_STORE, AccountsApi, Fields, value_of
from svc.auth.identify import TOKEN_CHALLENGE
from svc.auth.sessions import Sessions
from svc.auth.users import user_of
from svc.errors import Problem
from svc.http.query_fields import query_fields
from svc.messages import HeaderPairs, Request, Response
from svc.pages import Pages
from svc.pages.cells import shown
from svc.pages.templates import Templates
from svc.rest.login import local_path

DIRECTORY = Path(__file__).parent / "pages"
_LONGEST_SHOWN = 1000  # characters of a value that was entered
_HIDDEN = frozenset(("password", "current_password", "repeat"))
_KINDS = {"Int": "number", "Long": "number", "BigInt": "number", "Float": "number", "Boolean": "checkbox", "Date": "text"}

TITLES: Mapping[str, tuple[str, str]] = {
    ADDRESS: ("sign_up.html", "Sign up"),
    f"{ADDRESS}/confirm": ("confirm.html", "Confirm your address"),
    f"{ADDRESS}/forgot": ("forgot.html", "Forgot your password?"),
    f"{ADDRESS}/reset": ("reset.html", "Choose a new password"),
    f"{ADDRESS}/email": ("email.html", "Change your address"),
    f"{ADDRESS}/password": ("password.html", "Change your password"),
    ME: ("me.html", "Your account"),
}
"""Path -> template and title."""
OWN = frozenset((ME, f"{ADDRESS}/email", f"{ADDRESS}/password"))
"""The paths that need a login."""


class AccountForms:
    """`api`: what is done with what the forms send."""

    def __init__(self, api: AccountsApi, pages: Pages, templates: Templates) -> None:
        self._api = api
        self._pages = pages
        self._templates = templates

    # --- showing -----------------------------------------------------------------------------------------------------------------------

    async def show(self, path: str, request: Request, query: str | None) -> Response:
        """GET of a form. `query`: of the address."""
        if path in OWN:
            self._api.user(request)
        return await self._form(path, request, query_fields(query))

    async def _form(self, path: str, request: Request, values: Mapping[str, Any], fault: Problem | None = None) -> Response:
        """`fault`: why the last attempt has failed."""
        accounts = self._api.accounts
        template, title = TITLES[path]
        pairs: HeaderPairs = [NO_STORE]
        if fault is not None:
            pairs += fault.headers
            if fault.status_code == 401:
                pairs += TOKEN_CHALLENGE
        user = user_of(request)
        is_new = path == ADDRESS
        more: dict[str, Any] = {}
        if path == ME and user is not None:
            profile = accounts.profile(user)
            record = profile["record"] or {}
            more["profile"] = profile
            values = {**{name: _as_text(value) for name, value in record.items()}, **values}
        answer: Response = await self._pages.form(
            request,
            template,
            status=200 if fault is None else fault.status_code,
            pairs=pairs,
            templates=self._templates,
            title=title,
            fault="" if fault is None else shown(fault.message),
            values={name: _short(value) for name, value in values.items() if name not in _HIDDEN},
            redirect=local_path(values.get("redirect")) or "",
            fields=[_field(accounts, name) for name in accounts.settable(None if user is None or is_new else user.role, is_new=is_new)],
            **self._common(accounts),
            **more,
        )
        return answer

    async def _say(self, request: Request, title: str, text: str, *, login: bool = False) -> Response:
        """A page that says what has happened. `login`: with the way to the login."""
        answer: Response = await self._pages.form(
            request,
            "done.html",
            pairs=[NO_STORE],
            templates=self._templates,
            title=title,
            text=text,
            login=login and self._pages.can_log_in(request),
            **self._common(self._api.accounts),
        )
        return answer

    def _common(self, accounts: Accounts) -> dict[str, Any]:
        """What all templates have."""
        return {
            "application": accounts.application,
            "identity": accounts.settings.identity,
            "verify": accounts.settings.verify,
            "has_addresses": accounts.has_addresses,
            "has_providers": accounts.providers is not None,
            "has_mail": accounts.mails is not None and accounts.has_addresses,
            "minimum_length": max(accounts.settings.passwords.minimum_length, accounts.parts.minimum_length),
        }

    # --- sending -----------------------------------------------------------------------------------------------------------------------

    async def send(self, path: str, request: Request) -> Response:
        """POST of a form."""
        if path in OWN:
            self._api.user(request)  # there is nothing to show to nobody
        fields: Fields = {}
        try:
            fields = await self._api.read(request)
            if path == ME:
                return await self._change(request, fields)
            redirect = local_path(fields.get("redirect"))
            answer = await self._api.perform(path, request, {name: value for name, value in fields.items() if name != "redirect"})
        except Problem as fault:
            if fault.status_code == 401 and user_of(request) is None:
                raise
            return await self._form(path, request, fields, fault)
        return await self._go_on(path, request, answer, redirect)

    async def _go_on(self, path: str, request: Request, answer: Response, redirect: str | None) -> Response:
        if path == ADDRESS and answer.status == 201:
            username = answer.data["username"]
            user = self._api.accounts.parts.directory.get_user(username)
            if isinstance(request.sessions, Sessions) and user is not None:
                await request.sessions.begin(request, user)
                return _see_other(redirect or f"{request.prefix}{ME}")
            return await self._say(request, "Your account is there", "You can log in now.", login=True)
        if answer.status == 202:
            return await self._say(request, "Look into your mail", f"{answer.data['message']}.")
        if path == f"{ADDRESS}/confirm":
            return await self._say(request, "Your address is confirmed", "Thank you.", login=user_of(request) is None)
        if path == f"{ADDRESS}/reset":
            return await self._say(request, "Your password is changed", "All former logins have ended.", login=True)
        return _see_other(redirect or f"{request.prefix}{ME}")

    async def _change(self, request: Request, fields: Fields) -> Response:
        """The form of the own account: what has changed is set, or all of it removed."""
        api = self._api
        user = api.user(request)
        if fields.get("action") == "remove":
            if fields.get("confirm") != "yes":
                return await self._form(ME, request, {}, Problem("Tick the box to remove your account", 400, "VALIDATION"))
            await api.remove(request)
            return await self._say(request, "Your account is removed", "Its record is removed, too.")
        accounts = api.accounts
        names = accounts.settable(user.role)
        entered = {name: fields.get(name, "") for name in names if name in fields or _kind(accounts, name) == "checkbox"}
        attributes = accounts.table.attributes
        changes = {
            name: (value == "true") if _kind(accounts, name) == "checkbox" else None if value == "" else value_of(attributes[name], value)
            for name, value in entered.items()
        }
        unknown = {name: value for name, value in fields.items() if name not in names and name not in ("redirect", "action")}
        await api.change(request, {**changes, **unknown})
        return _see_other(f"{request.prefix}{ME}")


def _see_other(location: str) -> Response:
    return Response(status=303, pairs=[("Location", location), NO_STORE])


def _kind(accounts: Accounts, name: str) -> str:
    attribute = accounts.table.attributes[name]
    return "text" if attribute.elements else _KINDS.get(attribute.type, "text")


def _field(accounts: Accounts, name: str) -> dict[str, Any]:
    """An input for an attribute."""
    attribute = accounts.table.attributes[name]
    return {
        "name": name,
        "label": name[:1].upper() + name[1:].replace("_", " "),
        "kind": _kind(accounts, name),
        "options": [] if attribute.enum is None else list(attribute.enum.values),
        "required": attribute.required and not attribute.default and _kind(accounts, name) != "checkbox",
        "description": attribute.description,
    }


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _short(value: Any) -> str:
    return value[:_LONGEST_SHOWN] if isinstance(value, str) else ""
