"""The cells of a table as HTML. A page has some hundred of them, so they are not made by a template, whose every piece is a step through all its blocks: a
row is one string, and what its cells hold is escaped in one go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from svc.pages.cells import Cell

if TYPE_CHECKING:
    from markupsafe import Markup

LONG = 40  # characters of a cell that is as wide as a paragraph
_APART = "\0"  # no text of a cell has one (`cells.shown`), nor has an address


def row_of(cells: Iterable[Cell]) -> Markup:
    """`<tr>` with a `<td>` for each.

    >>> row_of([Cell("<b>", "text"), Cell("7", "number", href="../Seat/7")])
    Markup('<tr><td class="text"><bdi>&lt;b&gt;</bdi></td><td class="number"><a href="../Seat/7"><bdi>7</bdi></a></td></tr>')
    """
    from markupsafe import Markup

    forms: list[str] = []
    texts: list[str] = []
    for cell in cells:
        kind = f"{cell.kind} long" if len(cell.text) > LONG else cell.kind
        forms.append(f'<td class="{kind}">{_form(cell, texts)}</td>')
    return Markup(f"<tr>{''.join(forms)}</tr>" % _escaped(texts))


def cell_of(cell: Cell) -> Markup:
    """What is in a cell."""
    from markupsafe import Markup

    texts: list[str] = []
    form = _form(cell, texts)
    return Markup(form % _escaped(texts))


def _escaped(texts: list[str]) -> tuple[str, ...]:
    from markupsafe import escape

    found = str(escape(_APART.join(texts))).split(_APART)
    return tuple(found) if len(found) == len(texts) else tuple([str(escape(text)) for text in texts])


def _form(cell: Cell, texts: list[str]) -> str:
    """The HTML of a cell with a `%s` for each text or address, which are added to `texts`."""
    if cell.items or cell.note:
        return "".join(_pieces(cell, texts))
    if cell.href:
        texts += (cell.href, cell.text)
        return '<a href="%s"><bdi>%s</bdi></a>'
    texts.append(cell.text)
    return "<bdi>%s</bdi>"


def _pieces(cell: Cell, texts: list[str]) -> Iterator[str]:
    if cell.items:
        for number, item in enumerate(cell.items):
            yield ", " if number else ""
            yield _form(item, texts)
        if cell.is_cut:
            yield ", …"
    elif cell.href:
        texts += (cell.href, cell.text)
        yield '<a href="%s"><bdi>%s</bdi></a>'
    else:
        texts.append(cell.text)
        yield "<bdi>%s</bdi>"
    if cell.note:
        texts.append(cell.note)
        yield ' <span class="quiet"><bdi>%s</bdi></span>'
