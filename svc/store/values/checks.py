"""`@check`: what the records of a table must be, as expressions (spec: schema-and-store §3.1).

A check sees a record as it would be stored. Its result is false, then the record is refused; or null, which says nothing; or anything else. What cannot be
computed is refused too: a rule that a clever value switches off would be none.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Any

from svc.errors import CheckFailed, SchemaError
from svc.store.schema import Attribute, Check, TableDefinition
from svc.store.values.conversion import printable
from svc.store.values.expression import Expression, compile_expression

logger = logging.getLogger("svc.store")


class RecordCheck:
    """One check of a table. `names`: the attributes that it uses. `attribute`: the one it belongs to, whose null passes; None: it belongs to the type.
    `expression`: None where this version cannot compute it: then no record passes."""

    __slots__ = ("_expression", "_failure", "attribute", "names")

    def __init__(self, attribute: str | None, expression: Expression | None, names: Iterable[str], failure: str) -> None:
        self.attribute = attribute
        self.names = frozenset(names)
        self._expression = expression
        self._failure = failure

    def failure(self, record: dict[str, Any]) -> str | None:
        """What is wrong with the record; None if nothing is."""
        if self.attribute is not None and record.get(self.attribute) is None:
            return None
        expression = self._expression
        if expression is None:
            return f"{self._failure} (this version of svc cannot compute it: change the expression, as the log of the server says)"
        try:
            result = expression.evaluate(map(record.get, expression.names))
            return self._failure if result is not None and not result else None
        except Exception as error:
            logger.debug("%s: %s: %s", self._failure, type(error).__name__, error)
        nulls = [name for name in expression.names if record.get(name) is None]
        return f"{self._failure} (it cannot be computed for this record{': ' if nulls else ''}{_are_null(nulls)})"


def _are_null(names: list[str]) -> str:
    """
    >>> _are_null(["a"]), _are_null(["a", "b"]), _are_null([])
    ('a is null', 'a and b are null', '')
    """
    shown = [printable(name) for name in names]
    if len(shown) < 2:
        return f"{shown[0]} is null" if shown else ""
    return f"{', '.join(shown[:-1])} and {shown[-1]} are null"


def test_checks(checks: tuple[RecordCheck, ...], record: dict[str, Any], changed: Collection[str] | None) -> None:
    """Raise CheckFailed with all failures. `changed`: only of checks that use one of these attributes; None: of all."""
    failures = [
        (check.attribute, failure)
        for check in checks
        if (changed is None or not check.names.isdisjoint(changed)) and (failure := check.failure(record)) is not None
    ]
    if failures:
        raise CheckFailed(failures)


def checks_of(definition: TableDefinition, label: str) -> tuple[RecordCheck, ...]:
    """The checks of a table. `label`: its name in the log."""
    found = []
    for attribute, check in declared_checks(definition):
        expression: Expression | None = None
        names: Iterable[str] = (each.name for each in definition.attributes)
        try:
            expression = compile_expression(check.expression)
            names = expression.names
        except SchemaError as error:
            # Stored by a version that knew other expressions: the table must open, and a declaration that is loaded says what is wrong. Until then nothing
            # is written that the check might have refused.
            logger.error("a check of %s refuses all records, for its expression cannot be used: %s", label, error)
        found.append(RecordCheck(attribute, expression, names, failure_text(attribute, check, definition.name)))
    return tuple(found)


def declared_checks(definition: TableDefinition) -> list[tuple[str | None, Check]]:
    """(attribute or None, check) in the order of the declaration."""
    found: list[tuple[str | None, Check]] = [(each.name, each.check) for each in definition.attributes if each.check is not None]
    return found if definition.check is None else [*found, (None, definition.check)]


def failure_text(attribute: str | None, check: Check, table: str) -> str:
    """
    >>> failure_text("price", Check("price > 0"), "Product"), failure_text("price", Check("price > 0", "must be positive"), "Product")
    ('Property price fails its check: price > 0', 'Property price: must be positive')
    >>> failure_text(None, Check("start <= end"), "Trip"), failure_text(None, Check("start <= end", "It ends before it starts"), "Trip")
    ('The record fails the check of Trip: start <= end', 'It ends before it starts')
    """
    what = printable(" ".join(check.expression.split()))
    if attribute is None:
        return printable(check.message) or f"The record fails the check of {printable(table)}: {what}"
    return (
        f"Property {printable(attribute)}: {printable(check.message)}"
        if check.message
        else f"Property {printable(attribute)} fails its check: {what}"
    )


def check_checks(definition: TableDefinition) -> None:
    """Raise SchemaError for checks that cannot be."""
    for attribute, check in declared_checks(definition):
        fault = None
        try:
            fault = fault_of_check(compile_expression(check.expression), definition.attributes)
        except SchemaError as error:
            fault = error.message
        if fault is not None:
            raise SchemaError(f"@check of {definition.name}{'' if attribute is None else '.' + attribute}: {fault}")


def fault_of_check(expression: Expression, attributes: Iterable[Attribute]) -> str | None:
    """What is wrong with an expression as a check of records with these attributes; None if nothing is."""
    for attribute in attributes:
        if not attribute.stored and attribute.name in expression.names:
            kind = "a relationship" if attribute.relationship is not None else "computed"
            return f"the expression uses {attribute.name}, which is not stored: it is {kind}"
    return None
