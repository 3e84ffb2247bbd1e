"""The configuration: every setting with its documentation, one of them to be changed (spec: console §13)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from svc.config.reference import has_effect, section_of
from svc.config.setting import Setting
from svc.config.settings import BY_NAME
from svc.console.applications import restart_reasons
from svc.console.page import ConsolePage
from svc.console.settings import ShownSettings, control_of, sent_value, typed_text
from svc.console.texts import segment
from svc.errors import ClientError, NotFound, Problem
from svc.messages import Response
from svc.pages.cells import shortened
from svc.pages.sent_form import SentForm


async def show(page: ConsolePage) -> Response:
    return await _form(page, _setting(page)) if page.rest else await _list(page)


def _setting(page: ConsolePage) -> Setting:
    row = BY_NAME.get(page.rest[0]) if len(page.rest) == 1 else None
    if row is None or not has_effect(row):
        raise NotFound("There is no such setting")
    return row


async def _settings(page: ConsolePage) -> ShownSettings:
    return ShownSettings(*[await page.run("get_configuration", source=source) for source in ("file", "run", "start")])


async def _list(page: ConsolePage) -> Response:
    wanted, only_set = page.fields.get("q", "").strip().lower(), page.fields.get("set") == "true"
    found = [
        each
        for each in (await _settings(page)).all()
        if (not wanted or wanted in f"{each.name} {each.sentence}".lower()) and (not only_set or each.source != "default" or each.waits)
    ]
    sections: dict[str, list[Any]] = {}
    for each in found:
        sections.setdefault(section_of(BY_NAME[each.name]), []).append((each, page.at(f"configuration/{segment(each.name)}")))
    return await page.show(
        "configuration.html",
        q=shortened(page.fields.get("q", ""), 200),
        only_set=only_set,
        sections=sections,
        count=len(found),
        reasons=await restart_reasons(page),
        may_set=page.may("set_configuration"),
    )


async def _form(page: ConsolePage, row: Setting, form: SentForm | None = None, fault: Problem | None = None) -> Response:
    settings = await _settings(page)
    each = settings.shown(row)
    control = control_of(row)
    name = _field(row)
    value = typed_text(row, settings.stored(row)) if form is None else "" if control == "secret" else form.text(name)
    choices = ["true", "false"] if control == "bool" else list(row.choices)
    return await page.show(
        "setting.html",
        title=row.name,
        fault=fault,
        wrong={} if fault is None else {name: shortened(fault.message, 1000)},
        row=row,
        each=each,
        control=control,
        field=name,
        value=value,
        choices=[(each, each or "the default") for each in ([] if value in choices else [value]) + choices],
        version=_version(settings, row),
        is_stored=settings.is_stored(row),
        has_default=not row.null or control == "secret",
        may_set=page.may("set_configuration"),
        reasons=await restart_reasons(page),
    )


def _field(row: Setting) -> str:
    """The name of its field. One that begins with `_` is not kept while somebody logs in."""
    return "_value" if control_of(row) == "secret" else "value"


def _version(settings: ShownSettings, row: Setting) -> str:
    """Of what the file has."""
    text = json.dumps([settings.is_stored(row), settings.stored(row)], sort_keys=True)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]


async def send(page: ConsolePage) -> Response:
    row, form = _setting(page), page.form
    assert form is not None
    page.require("set_configuration")
    try:
        if _version(await _settings(page), row) != form.text("version"):
            raise ClientError(f"'{row.name}' was changed by somebody else since it was opened here. Nothing is written yet", 409)
        is_reset = form.text("do") == "reset"
        text = form.text(_field(row))
        if control_of(row) == "secret" and not text and not is_reset:
            raise ClientError(f"'{row.name}' is empty: nothing was changed")
        value = None if is_reset else sent_value(row, text)
        answer = await page.run("set_configuration", **{row.name.replace(".", "_"): value})
    except Problem as fault:
        return await _form(page, row, form, fault)
    return page.see_other(f"configuration/{segment(row.name)}", note=answer["message"])
