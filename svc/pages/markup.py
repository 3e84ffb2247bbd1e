"""The cells of a table as HTML. A page has some hundred of them, so they are not made by a template, whose every piece is a step through all its blocks:
some rows are one string, and what their cells hold is escaped in one go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from svc.pages.cells import CELL, Cell, Link, shortened, shown
from svc.pages.cells import cell_of as value_cell

if TYPE_CHECKING:
    from markupsafe import Markup

    from svc.pages.collection import Column
    from svc.pages.facets import Facet

LONG = 40  # characters of a cell that is as wide as a paragraph
TOGETHER = 100  # cells that are made in one piece: a tenth of a millisecond
_NUMBERS = {"Int", "Long", "Float", "BigInt"}  # types whose cells are set to the right
_PLAIN = 10**20  # integers below this are short
_LINKED = '<td class="text"><a href="%s"><bdi>%s</bdi></a></td>'
_NOTED = '<td class="text"><a href="%s"><bdi>%s</bdi></a> <span class="quiet"><bdi>%s</bdi></span></td>'
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
            elif kind is Link:
                form = _NOTED if cell.note else _LINKED
                forms.append(form if len(cell.text) <= LONG else form.replace('"text"', '"text long"'))
                texts += (cell.href, cell.text, cell.note) if cell.note else (cell.href, cell.text)
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


def head_of(columns: Iterable[Column]) -> Markup:
    """A `<th>` for each column, with links that sort by it.

    >>> from svc.pages.collection import Column
    >>> print(head_of([Column("<b>", "Int")]), end="")
    <th scope="col" class="number"><bdi>&lt;b&gt;</bdi><span class="type">Int</span></th>
    """
    forms: list[str] = []
    texts: list[str] = []
    for column in columns:
        number, order = ' class="number"' if column.type in _NUMBERS else "", f' aria-sort="{column.order}"' if column.order else ""
        forms.append(f'<th scope="col"{number}{order}><bdi>%s</bdi>')
        texts.append(column.name)
        for href, further, order, arrow in (
            (column.up, column.further_up, "ascending", " ↑"),
            (column.down, column.further_down, "descending", "↓"),
        ):
            if href:
                space, now = arrow[:-1], " now" if column.order == order else ""
                data = ' data-further="%s"' if further else ""
                forms.append(
                    f'{space}<a class="order{now}" href="%s"{data} rel="nofollow" aria-label="Sort by %s, {order}" title="{order}">{arrow[-1]}</a>'
                )
                texts += (href, further, column.name) if further else (href, column.name)
        if column.type:
            forms.append('<span class="type">%s</span>')
            texts.append(column.type)
        forms.append("</th>\n")
    return _filled(forms, texts)


def boxes_of(columns: Iterable[tuple[str, str, bool]]) -> Markup:
    """A box to tick for each column of a `filters.ColumnForm`."""
    return _boxes_of(tuple(columns))


@lru_cache(64)
def _boxes_of(columns: tuple[tuple[str, str, bool], ...]) -> Markup:
    forms: list[str] = []
    texts: list[str] = []
    for name, text, is_chosen in columns:
        checked = " checked" if is_chosen else ""
        forms.append(f'<label><input type="checkbox" name="_show" value="%s"{checked}> <bdi>%s</bdi></label> ')
        texts += (name, text)
    return _filled(forms, texts)


def select_of(names: Iterable[tuple[str, str]], chosen: str = "") -> Markup:
    """The `<option>`s of a list of (value, text) to choose one of."""
    return _select_of(tuple(names), chosen)


@lru_cache(64)
def _select_of(names: tuple[tuple[str, str], ...], chosen: str) -> Markup:
    forms = [f'<option value="%s"{" selected" if value == chosen else ""}>%s</option>' for value, _ in names]
    return _filled(forms, [text for pair in names for text in pair])


def options_of(names: Iterable[tuple[str, str]]) -> Markup:
    """Of a list of (value, label)."""
    return _options_of(tuple(names))


@lru_cache(64)
def _options_of(names: tuple[tuple[str, str], ...]) -> Markup:
    texts = [text for pair in names for text in pair]
    return _filled(['<option value="%s" label="%s"></option>'] * (len(texts) // 2), texts)


def facets_of(facets: Iterable[Facet]) -> Markup:
    """The values of attributes with their numbers, as the members of a `<dl>`."""
    forms: list[str] = []
    texts: list[str] = []
    for facet in facets:
        forms.append('<dt><a href="%s" title="as a table"><bdi>%s</bdi></a></dt><dd>' if facet.href else "<dt><bdi>%s</bdi></dt><dd>")
        texts += (facet.href, facet.name) if facet.href else (facet.name,)
        for number, value in enumerate(facet.values):
            forms.append(f'{", " if number else ""}<a href="%s"><bdi>%s</bdi></a>')
            texts += (value.href, value.text)
            if value.label:
                forms.append(" <bdi>%s</bdi>")
                texts.append(value.label)
            if value.count is not None:
                forms.append(f' <span class="quiet">{value.count:,}</span>')
        forms.append("</dd>\n")
    return _filled(forms, texts)


def _filled(forms: list[str], texts: list[str]) -> Markup:
    from markupsafe import Markup

    return Markup("".join(forms) % _escaped(texts))


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
