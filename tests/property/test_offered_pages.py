"""What pages offer is what may be done: each caller goes wherever pages lead and sends what they offer, and then tries what only others are offered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import svc.testing
from svc.errors import ClientError
from svc.operations.registry import by_name
from svc.testing.application import Application
from tests.support.crawler import APPLICATION, OPERATIONS, Browser, Form, Visit, crawl, shape_of
from tests.support.roles_scene import ROLES, browser, dump, fill, make_application

ADMIN, NOBODY, ANYBODY = "admin", "nobody", None
FEW = [*ROLES, NOBODY, ANYBODY]
STARTS = [f"{APPLICATION}/", f"{OPERATIONS}/console/"]
TOKEN = "_token"
BY_CODE = ("/Notice",)
"""Whose code decides what may be written there when it is given the data: until then it is offered."""
FOR_ALL = tuple([f"localhost:9925/console/{place}" for place in ("charts", "users", "audit", "backups")])
"""Of these the query says what of it is shown: whoever may run the operation may run it for what has not been offered."""
ENDS = frozenset(("restart", "restart_service", "end_session", "end_sessions", "deploy_component", "restore_backup", "set_status"))
"""Operations that end what the test goes on with: authorized, and then not run."""

NO_FILE = 501
"""Of changes to a configuration that no file has, as in tests."""
Key = tuple[object, ...]


@dataclass
class Seen:
    """What one caller is offered. `visits` of pages; `shapes`: of all links; `forms` by their keys; `token`: that of forms."""

    browser: Browser
    visits: list[Visit] = field(default_factory=list)
    shapes: set[Any] = field(default_factory=set)
    forms: dict[Key, Form] = field(default_factory=dict)
    token: str = ""

    @property
    def pages(self) -> Iterator[Visit]:
        return (visit for visit in self.visits if visit.offered is not None)


def look(app: Application, name: str | None) -> Seen:
    seen = Seen(browser(app, name))
    for visit in crawl(seen.browser, STARTS):
        seen.visits.append(visit)
        if visit.offered is None:
            continue
        seen.shapes |= {shape_of(visit.address), *map(shape_of, visit.offered.links)}
        for form in visit.offered.forms:
            seen.forms.setdefault(key_of(form), form)
            seen.token = seen.token or form.value(TOKEN) or ""
    return seen


def key_of(form: Form) -> Key:
    """Forms with one key do the same to different things."""
    wish = tuple([form.value(name) for name in ("do", "step", "action") if form.value(name) is not None])
    return form.method, shape_of(form.action), wish, tuple(sorted({name for name, _ in form.buttons}))


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    with svc.testing.app(make_application(tmp_path)) as app:
        fill(app)
        yield app


def is_by_code(address: str) -> bool:
    return urlsplit(address).path.startswith(BY_CODE)


@pytest.mark.parametrize("name", [ADMIN, *FEW])
def test_all_that_is_offered_can_be_done(app: Application, name: str | None) -> None:
    seen = look(app, name)
    start = {ADMIN: 200, NOBODY: 403, ANYBODY: 401}.get(name, 200)
    assert [(visit.address, visit.answer.status) for visit in seen.visits if visit.answer.status >= 400] == (
        [] if start == 200 else [(STARTS[1], start)]
    )
    without_ends(app)
    forms = sorted(seen.forms.values(), key=lambda form: "delete" in form.action or "drop" in form.action)
    refused = []
    for form in forms:
        if form.action.endswith(("/logout", "/login", "/console/")) or is_by_code(form.action):
            continue
        form = as_own(form, name)
        for button in form.buttons[:3]:
            answer = seen.browser.send(form, button)
            if (answer.status >= 500 and answer.status != NO_FILE) or answer.status in (401, 403, 405, 415):
                refused.append((answer.status, answer.request, form.page, button, form.fields))
    assert not refused, "\n".join(map(str, refused))


def as_own(form: Form, name: str | None) -> Form:
    """A record that a rule on rows lets the caller make."""
    if ("v.borrower", "") not in form.fields:
        return form
    changed = {"v.borrower": name or "", "s.borrower": "value"}
    return Form(form.page, form.method, form.action, [(field, changed.get(field, value)) for field, value in form.fields], form.buttons)


def without_ends(app: Application) -> None:
    operations = app.instance.server.operations_interface.operations
    run = operations.run

    def dry(call: Any) -> Any:
        if call.operation.name in ENDS:
            raise ClientError("This is only a test")
        return run(call)

    operations.run = dry  # type: ignore[method-assign]


def test_what_is_not_offered_is_refused(app: Application) -> None:
    admin = look(app, ADMIN)
    before = dump(app)
    answered = []
    for name in FEW:
        seen = look(app, name)
        for visit in admin.visits:
            if shape_of(visit.address) not in seen.shapes and not is_for_all(visit.address):
                answer = seen.browser.get(visit.address)
                if not is_refused(answer.status, name):
                    answered.append((name, answer.status, answer.request))
        for form in admin.forms.values():
            if form.method == "POST" and shape_of(form.action) not in {each[1] for each in seen.forms} and not is_for_all(form.action):
                form = with_token(form, seen.token)
                for button in form.buttons[:3]:
                    answer = seen.browser.send(form, button)
                    is_gone = answer.status == 303 and answer.headers["location"].endswith("#deleted")  # what is hidden is not there
                    if not is_refused(answer.status, name) and not is_gone:
                        answered.append((name, answer.status, answer.request, button, form.fields))
    assert dump(app) == before
    assert not answered, "\n".join(map(str, answered))


def is_for_all(address: str) -> bool:
    """What one may ask for without having been led there."""
    return (
        is_by_code(address)
        or (shape_of(address)[0] in FOR_ALL and "do=" not in address)
        or urlsplit(address).path.endswith(("/logout", "/login"))
    )


def is_refused(status: int, name: str | None) -> bool:
    return status in ((401, 403, 404, 405) if name is None else (403, 404, 405))


def with_token(form: Form, token: str | None) -> Form:
    fields = [(name, value if name != TOKEN else token) for name, value in form.fields if name != TOKEN or token is not None]
    return Form(form.page, form.method, form.action, fields, form.buttons, form.files, form.is_multipart)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", list(ROLES))
def test_operations_that_are_not_offered_are_refused(app: Application, name: str) -> None:
    seen = look(app, name)
    listed = {urlsplit(link).path for visit in seen.pages for link in visit.offered.links}  # type: ignore[union-attr]
    before = dump(app)
    for row in {row.name: row for row in by_name().values()}.values():
        path = f"/console/operations/{row.name}"
        if path not in listed and row.returns != "Nothing; status 501.":
            assert seen.browser.get(OPERATIONS + path).status == 403, path
            assert seen.browser.post(OPERATIONS + path, {TOKEN: seen.token, ".sure": "true"}).status == 403, path
    assert dump(app) == before
