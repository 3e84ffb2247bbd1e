"""Statements in SQL, run by the operation `sql` (spec: console §14)."""

from __future__ import annotations

from typing import Any

from svc.console.names import names_offered
from svc.console.operation_forms import kept_statement, read_json
from svc.console.page import ConsolePage
from svc.console.results import FILES, Outcome, run
from svc.console.views.operations import details_of
from svc.errors import Problem
from svc.messages import Response
from svc.pages.statement import StatementForm, found_page, place_of


async def show(page: ConsolePage) -> Response:
    return await _shown(page, StatementForm(page.fields.get("sql", ""), page.fields.get("parameters", "")))


async def send(page: ConsolePage) -> Response:
    assert page.form is not None
    text, parameters = (page.form.text(name).replace("\r\n", "\n") for name in ("sql", "parameters"))
    form = StatementForm(text, parameters)
    file = page.form.text("as")
    outcome = None
    try:
        body: dict[str, Any] = {"operation": "sql", "sql": text, "explain": page.form.text("explain") == "true"}
        if parameters.strip():
            body["parameters"] = read_json(parameters, "parameters")
        answer = await run(page, body, file if file in FILES else "")
        if isinstance(answer, Response):
            return answer
        outcome, form.found = answer, answer.found
    except Problem as fault:
        form.fault = fault
    return await _shown(page, form, outcome, kept_statement(text, parameters) or ("", ""))


async def _shown(page: ConsolePage, form: StatementForm, outcome: Outcome | None = None, kept: tuple[str, str] = ("", "")) -> Response:
    return await page.show(
        "sql.html",
        fault=form.fault,
        text=form.text,
        parameters=form.parameters,
        fault_place=place_of(form),
        details=details_of(form.fault),
        page=None if form.found is None else found_page(form.found),
        outcome=outcome,
        kept=kept,
        is_sent=page.form is not None,
        names=await names_offered(page),
    )
