"""Every operation as a form made from its row, or as a body in JSON (spec: console §14).

Names of the page's own fields begin with a dot, so that they are those of no operation: `.body` (JSON), `.to` (what is to be shown: "form" or "json"), `.sure`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from svc.console.names import Names, names_of
from svc.console.operation_forms import (
    TextFault,
    body_of,
    controls_of,
    destroys,
    entered_of,
    kept_body,
    others_of,
    plain,
    pretty,
    read_body,
    sends_file,
    without_secrets,
)
from svc.console.page import ConsolePage
from svc.console.results import FILES, MOST_JSON, Outcome, run
from svc.errors import AccessViolation, ClientError, NotFound, Problem, Refusal
from svc.messages import Response
from svc.operations.openapi import access_text
from svc.operations.operation import CATEGORIES, Operation
from svc.operations.permissions import offered_operations
from svc.operations.registry import by_name
from svc.pages.statement import FaultPlace, found_page, place_in, shown_lines

BODY, TO, SURE, AS = ".body", ".to", ".sure", "as"
_UNAVAILABLE = "Nothing; status 501."
_LONGEST_QUERY = 200
_CSV = frozenset(("searches", "sql"))
_OPEN = frozenset(("set_configuration",))  # with fields that no row lists


@dataclass(slots=True)
class Panel:
    """What is shown. `row`: None for a body of any operation. `text`: the body as JSON, if that is how it is entered. `entered`: text by field."""

    row: Operation | None
    text: str | None = None
    entered: Mapping[str, str] = field(default_factory=dict)
    is_sure: bool = False
    kept: str = ""
    outcome: Outcome | None = None
    fault: Problem | None = None
    others: list[str] = field(default_factory=list)


async def show(page: ConsolePage) -> Response:
    row = _row(page)
    if row is None:
        return await _list(page)
    text = pretty({"operation": row.name} | dict(row.example)) if row.name in _OPEN else None
    return await _shown(page, Panel(row, text, dict(page.fields)))


async def send(page: ConsolePage) -> Response:
    form = page.form
    assert form is not None
    row = _row(page)
    entered = {name: text for name, text in form.fields.items() if name[:1] != "." and name != AS}
    panel = Panel(row, form.fields.get(BODY), entered, form.text(SURE) == "true")
    if panel.text is not None:
        panel.text = panel.text.replace("\r\n", "\n")
    file = form.text(AS) if form.text(AS) in FILES else ""
    try:
        if panel.text is None and row is None:
            raise ClientError("Nothing was sent")
        body = read_body(panel.text) if panel.text is not None else body_of(row, entered)  # type: ignore[arg-type]
        panel.row = row = _row_of_body(body, row)
        if form.text(TO):
            return await _shown(page, _turned(panel, body, form.text(TO)))
        if row is not None:
            panel.kept = kept_body(body, row)
            _check_sure(row, panel)
        answer = await run(page, body, file)
        if isinstance(answer, Response):
            return answer
        panel.outcome = answer
        if panel.text is not None and row is not None and (left := without_secrets(body, row)) != body:
            panel.text = pretty(left)
    except Problem as fault:
        panel.fault = fault
    return await _shown(page, panel)


def _row(page: ConsolePage) -> Operation | None:
    """The row that the address names; None: none. Raises NotFound, and AccessViolation for one that is not for this caller."""
    if not page.rest:
        return None
    row = by_name().get(page.rest[0])
    if row is None or len(page.rest) > 1:
        raise NotFound("There is no such operation")
    if row not in offered_operations(page.user, page.node):
        raise AccessViolation(page.user)
    return row


def _row_of_body(body: Mapping[str, Any], row: Operation | None) -> Operation | None:
    name = body.get("operation")
    return by_name().get(name, row) if isinstance(name, str) else row


def _check_sure(row: Operation, panel: Panel) -> None:
    """Raises ClientError for one that destroys and is not confirmed."""
    if destroys(row) and not panel.is_sure:
        raise ClientError(f"{row.name} takes something away: tick the box to confirm it", code="NOT_CONFIRMED")


def _turned(panel: Panel, body: Mapping[str, Any], wanted: str) -> Panel:
    """The same body as a form, or as JSON; without what is secret."""
    row = panel.row
    if wanted == "form" and row is not None and row.name not in _OPEN:
        return Panel(row, None, entered_of(row, body), others=others_of(row, body))
    secrets = frozenset() if row is None else row.secrets
    return Panel(row, pretty({name: value for name, value in body.items() if name not in secrets}))


# --- pages ------------------------------------------------------------------------------------------------------------------------------


async def _list(page: ConsolePage) -> Response:
    """All that the caller may run, by category; with words to look for, those that have them."""
    words = page.fields.get("q", "")[:_LONGEST_QUERY].lower().split()
    rows = [row for row in offered_operations(page.user, page.node) if row.returns != _UNAVAILABLE]
    found: dict[str, list[Operation]] = {}
    for row in rows:
        text = f"{' '.join(row.names)} {row.summary}".lower()
        if all(word in text for word in words):
            found.setdefault(CATEGORIES[row.category], []).append(row)
    groups = [(title, [(row.name, plain(row.summary), destroys(row)) for row in each]) for title, each in found.items()]
    return await page.show(
        "operations.html",
        sought=page.fields.get("q", "")[:_LONGEST_QUERY],
        categories=groups,
        count=sum(len(each) for _, each in groups),
        total=len(rows),
        **await _panel_values(page, Panel(None, '{"operation": ""}' if not page.fields.get("q") else None)),
    )


async def _shown(page: ConsolePage, panel: Panel) -> Response:
    values = await _panel_values(page, panel)
    title = "Operations" if panel.row is None else panel.row.name
    return await page.show("operation.html", title=title, fault=panel.fault, **values)


async def _panel_values(page: ConsolePage, panel: Panel) -> dict[str, Any]:
    row, fault = panel.row, panel.fault
    names = Names() if row is not None and not row.fields else await names_of(page)
    controls = [] if row is None or panel.text is not None else controls_of(row, panel.entered)
    place: FaultPlace | None = None
    if isinstance(fault, TextFault):
        text = panel.text if not fault.name else panel.entered.get(fault.name, "").replace("\r\n", "\n")
        place = place_in(text or "", fault.at)
    for control in controls:
        if fault is not None:
            control.fault = _fault_at(control.name, fault)
    own = [] if row is None else [name for each in row.fields for name in each.names]
    offered = ["operation", *own, *(each.name for each in offered_operations(page.user, page.node))] if panel.text is not None else []
    return {
        "row": row,
        "summary": "" if row is None else plain(row.summary),
        "access": "" if row is None else access_text(row),
        "returns": "" if row is None else plain(row.returns),
        "aliases": () if row is None else row.aliases,
        "action": page.at("operations/" + ("" if row is None else row.name)),
        "text": panel.text,
        "controls": controls,
        "others": panel.others,
        "names": names,
        "offered_names": list(dict.fromkeys([*offered, *names.databases, *names.tables, *names.attributes])) if offered else [],
        "fault_place": place,
        "details": details_of(fault),
        "destroys": row is not None and destroys(row),
        "is_sure": False,
        "has_file": row is not None and sends_file(row),
        "has_form": row is not None and row.name not in _OPEN,
        "has_csv": row is not None and row.category in _CSV,
        "kept": (panel.kept, ""),
        "is_sent": page.form is not None and not page.form.text(TO),
        "outcome": panel.outcome,
        "page": None if panel.outcome is None else found_page(panel.outcome.found),
    }


def details_of(fault: Problem | None) -> str:
    """What the body of a refusal says besides its sentence, as JSON; "" if that is all."""
    rest = {name: value for name, value in fault.body.items() if name not in ("error", "code")} if isinstance(fault, Refusal) else {}
    return shown_lines(pretty(rest))[:MOST_JSON] if rest else ""


def _fault_at(name: str, fault: Problem) -> str:
    """What is wrong with a field: of the sentences of the fault those that begin with its name."""
    if isinstance(fault, TextFault):
        return fault.message if fault.name == name else ""
    return ". ".join(each for each in fault.errors if each.startswith(f"'{name}' "))
