"""The cells of a table as HTML. A page has some hundred of them, so they are not made by a template, whose every piece is a step through all its blocks:
some rows are one string, and what their cells hold is escaped in one go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from svc.pages.cells import CELL, Cell, shortened, shown
from svc.pages.cells import cell_of as value_cell

if TYPE_CHECKING:
    from markupsafe import Markup

LONG = 40  # characters of a cell that is as wide as a paragraph
TOGETHER = 100  # cells that are made in one piece: a tenth of a millisecond
_PLAIN = 10**20  # integers below this are short
_APART = "\0"  # no text of a cell has one (`cells.shown`), nor has an address


def rows_of(rows: Iterable[Sequence[Any]]) -> Iterator[Markup]:
    """A `<tr>` for each row, and in it a `<td>` for each cell, or each value, which is shown as `cells.cell_of` says: of most no cell has to be made. Some
    rows at a time, about TOGETHER cells.

    >>> print(*rows_of([[Cell("<b>", "text"), Cell("7", "number", href="../Seat/7")], [1.5]]), end="")
    <tr><td class="text"><bdi>&lt;b&gt;</bdi></td><td class="number"><a href="../Seat/7"><bdi>7</bdi></a></td></tr>
    <tr><td class="number"><bdi>1.5</bdi></td></tr>
    """
    from markupsafe import Markup

    forms: list[str] = []
    texts: list[str] = []
    for row in rows:
        forms.append("<tr>")
        for cell in row:
            kind: Any = type(cell)
            if kind is str:
                if len(cell) > LONG:
                    forms.append('<td class="text long"><bdi>%s</bdi></td>')
                    texts.append(shortened(cell, CELL))
                else:
                    forms.append('<td class="text"><bdi>%s</bdi></td>')
                    texts.append(cell if cell.isascii() and cell.isprintable() else shown(cell))
            elif kind is float or (kind is int and -_PLAIN < cell < _PLAIN):
                forms.append('<td class="number"><bdi>%s</bdi></td>')
                texts.append(repr(cell))
            else:
                if kind is not Cell:
                    cell = value_cell(cell)
                name = f"{cell.kind} long" if len(cell.text) > LONG else cell.kind
                forms.append(f'<td class="{name}">{_form(cell, texts)}</td>')
        forms.append("</tr>\n")
        if len(texts) >= TOGETHER:
            yield Markup("".join(forms) % _escaped(texts))
            forms, texts = [], []
    if forms:
        yield Markup("".join(forms) % _escaped(texts))


def cell_of(cell: Cell) -> Markup:
    """What is in a cell."""
    from markupsafe import Markup

    texts: list[str] = []
    form = _form(cell, texts)
    return Markup(form % _escaped(texts))


def _escaped(texts: list[str]) -> tuple[str, ...]:
    from markupsafe import escape

    if not texts:
        return ()
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
