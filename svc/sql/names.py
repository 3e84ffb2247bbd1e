"""The name of a result column that has no alias: its expression as normalised text (spec: sql §4).

Names stand without quotes, operators between single blanks, literals and functions as written, aggregates in upper case, and nothing but a comma between
arguments: `2 + 2`, `COUNT(*)`, `AVG(r.rating)`, `concat(a,'-',b)`.
"""

from __future__ import annotations

from svc.sql import nodes
from svc.sql.nodes import Expression
from svc.sql.printer import Printer

AGGREGATES = frozenset(
    (
        "ARRAY", "AVG", "COUNT", "DISTINCT_ARRAY", "GROUP_CONCAT", "MAD", "MAX", "MEAN", "MEDIAN", "MIN", "MODE", "PROD", "STRING_AGG", "SUM", "TOTAL",
    )
)  # fmt: skip


def expression_name(expression: Expression, text: str) -> str:
    """`text`: of the statement that the expression is from.

    >>> from svc.sql.parser import parse
    >>> text = "SELECT r.`name`, count( * ), avg(r.rating), Round(price*2, 1)  =  .50 FROM data.r"
    >>> [expression_name(item.expression, text) for item in parse(text).first.items]
    ['name', 'COUNT(*)', 'AVG(r.rating)', 'Round(price * 2,1) = .50']
    """
    if isinstance(expression, nodes.Column):
        return expression.name
    return _NamePrinter(text).print(expression)


class _NamePrinter(Printer):
    COMMA = ","

    def __init__(self, text: str) -> None:
        self._text = text

    def name(self, name: str) -> str:
        return name

    def literal(self, node: nodes.Literal) -> str:
        return node.text or super().literal(node)

    def parameter(self, node: nodes.Parameter) -> str:
        written = self._text[node.at : node.at + 2] if node.at >= 0 else ""
        if written.startswith("?") and not written[1:].isdigit():
            return "?"
        return super().parameter(node)

    def function_name(self, node: nodes.Call) -> str:
        written = self._text[node.at : node.at + len(node.name)] if node.at >= 0 else ""
        return node.name if node.name in AGGREGATES or written.upper() != node.name else written
