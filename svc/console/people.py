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
_DOTS = frozenset((".", ".."))


def name_in(page: ConsolePage) -> str | None:
    """The name that an address is about, None for that of the list."""
    return page.rest[0] if page.rest else page.fields.get("name")


def path_of(place: str, name: str, *table: str) -> tuple[str, dict[str, str]]:
    """Where the page of what has this name is, of a role also that of a table (its database and name): a path below the console, and fields. A segment `..` is
    one level up to browsers, however it is written, so that goes into the query.

    >>> path_of("users", "a/b?"), path_of("users", "..")
    (('users/a%2Fb%3F', {}), ('users/', {'name': '..'}))
    >>> path_of("roles", "a", "data", "dog"), path_of("roles", "a", "data", ".")
    (('roles/a/data/dog', {}), ('roles/', {'name': 'a', 'database': 'data', 'table': '.'}))
    """
    names = (name, *table)
    if not _DOTS.isdisjoint(names):
        return f"{place}/", dict(zip(("name", "database", "table"), names, strict=False))
    return "/".join([place, *(segment(each) for each in names)]), {}


def address(page: ConsolePage, place: str, name: str, *table: str, **fields: str) -> str:
    """The same as a relative address, with more fields."""
    path, own = path_of(place, name, *table)
    return page.at(path, **own, **fields)


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
