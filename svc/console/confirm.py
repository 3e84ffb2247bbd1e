"""Pages that ask before something is destroyed (spec: console §2): what goes with it, and for a database or a table its name, typed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from svc.console.page import ConsolePage
from svc.errors import ClientError, Problem
from svc.messages import Response
from svc.pages.cells import shortened, shown

TYPED = "typed"


@dataclass(slots=True)
class Question:
    """`lines`: what will happen. `button`: names the action. `back`: where to go instead. `name`: what has to be typed in, "" nothing. `fields`: that are sent
    with the answer."""

    title: str
    lines: list[str]
    button: str
    back: str
    name: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)


async def ask(
    page: ConsolePage, question: Question, fault: Problem | None = None, template: str = "confirm.html", **values: Any
) -> Response:
    """`template`, with `values`: one that extends `confirm.html`."""
    typed = "" if page.form is None else page.form.text(TYPED)
    is_wrong = fault is not None and fault.code == _WRONG
    return await page.show(
        template,
        title=shortened(question.title, 300),
        fault=fault,
        question=question,
        typed=typed,
        is_wrong=is_wrong,
        name=shown(question.name),
        **values,
    )


def check_typed(page: ConsolePage, name: str) -> None:
    """Raise ClientError unless the name was typed in. Characters that cannot be typed may be given as the page shows them."""
    assert page.form is not None
    if page.form.text(TYPED) not in (name, shown(name)):
        raise ClientError(f"What was typed is not the name {shown(name)}: nothing was done", code=_WRONG)


_WRONG = "NOT_CONFIRMED"
