"""What the pages about users, roles, accounts, keys and sessions have in common (spec: console §10)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from svc.console.page import ConsolePage
from svc.console.texts import segment, whole
from svc.errors import ClientError
from svc.messages import Response
from svc.pages.cells import shortened
from svc.pages.sent_form import SentForm

ROWS = 100  # of a page
LONGEST_NAME = 120  # characters of a name in a table
_PASSWORD_BYTES = 15
_DOTS = (".", "..")


def name_in(page: ConsolePage) -> str | None:
    """The name that an address is about, None for that of the list."""
    return page.rest[0] if page.rest else page.fields.get("name")


def address(page: ConsolePage, place: str, *names: str, **fields: str) -> str:
    """The relative address of what has these names. A segment `..` is one level up to browsers, however it is written, so that goes into the query.

    >>> from types import SimpleNamespace
    >>> page = SimpleNamespace(at=lambda path, **fields: (path, fields))
    >>> address(page, "users", "a/b?"), address(page, "users", "..", do="drop")
    (('users/a%2Fb%3F', {}), ('users/', {'name': '..', 'do': 'drop'}))
    """
    if names and names[0] in _DOTS:
        return page.at(f"{place}/", name=names[0], **fields)
    return page.at("/".join([place, *(segment(name) for name in names)]), **fields)


@dataclass(slots=True)
class Listed:
    """One page of a list. `total`: of all pages. `previous`, `next`: addresses, "" where there is none."""

    rows: list[Any] = field(default_factory=list)
    total: int = 0
    start: int = 0
    previous: str = ""
    next: str = ""


def listed(page: ConsolePage, rows: Sequence[Any], place: str, **fields: str) -> Listed:
    """The rows of the page that the address asks for. `fields`: of the addresses of the others."""
    last = max(0, (len(rows) - 1) // ROWS)
    number = max(0, whole(page.fields, "page", 1, last + 1) - 1)
    found = Listed(list(rows[number * ROWS : (number + 1) * ROWS]), len(rows), number * ROWS)
    if number:
        found.previous = page.at(place, **fields, page=str(number))
    if number < last:
        found.next = page.at(place, **fields, page=str(number + 2))
    return found


def chosen_password(form: SentForm) -> tuple[str, bool]:
    """The password that a form sets, and whether it was made up here. Raises ClientError if it was typed in differently."""
    if form.text("generate"):
        return secrets.token_urlsafe(_PASSWORD_BYTES), True
    if form.text("password") != form.text("again"):
        raise ClientError("The two passwords are not the same")
    return form.text("password"), False


async def show_secret(page: ConsolePage, title: str, label: str, secret: str, back: str, sentences: list[str]) -> Response:
    """The answer to a form that has made a secret: it is in this answer only, in no address and no log."""
    return await page.show("people_secret.html", title=shortened(title, 300), label=label, secret=secret, back=back, sentences=sentences)
