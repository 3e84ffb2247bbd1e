"""Computed attributes: values that are derived from a record whenever they are asked for (spec: schema-and-store §4.3).

A `ComputedAttribute` is a function of a decoded record. It never raises: what goes wrong gives None and a line in the log at debug. So does a
value that does not fit the attribute's type, so that a computed attribute holds what its declaration says, as a stored one does.

An index of computed values depends on more than records. With an expression it is a function of the record for as long as the definition
stays. With a function that the application sets, the values are unknown until it has done so: then such an index is not kept up to date, but noted
as one to be rebuilt (`write_set`), which waits for the function (`maintenance`). A function must be the same in all processes that write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from svc.errors import SchemaError
from svc.loop import contained
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.expression import Expression, compile_expression
from svc.store.values.records import decode, projection
from svc.store.values.type_checkers import Checker, compile_checkers

logger = logging.getLogger("svc.store")

Record = dict[str, Any]
ComputeFunction = Callable[[Record], object]


class ComputedAttribute:
    """The value of one attribute for any record of its table.

    `names`: the attributes it is made from, None if that is not known. `is_set`: whether there is a function at all.
    """

    __slots__ = ("_check", "_function", "_label", "_name", "_warned", "is_set", "names")

    def __init__(
        self, label: str, name: str, check: Checker, function: Callable[[Any], object] | None, names: tuple[str, ...] | None
    ) -> None:
        """`function` takes the values of `names`, or the record if these are not known. `label`: for the log."""
        self._label = label
        self._name = name
        self._check = check
        self._function = function if function is not None else self._unset
        self._warned = False
        self.is_set = function is not None
        self.names = names

    def __repr__(self) -> str:
        return f"<ComputedAttribute {self._label}>"

    def __call__(self, record: Record) -> Any:
        """The value for this record, which must not be changed by the function."""
        return self._compute(record if self.names is None else map(record.get, self.names))

    def reader(self) -> Callable[[bytes], Any]:
        """A function raw -> the value. It decodes no more than what the value is made from."""
        compute = self._compute
        source_of: Callable[[bytes], Any] = decode if self.names is None else projection(self.names, default=None)
        return lambda raw: compute(source_of(raw))

    def _compute(self, source: Any) -> Any:
        try:
            value = self._function(source)
            if value is None:
                return None
            failures: list[str] = []
            value = self._check(value, self._name, failures, 0)
        except BaseException as raised:
            error = contained(raised)
            logger.debug("%s could not be computed: %s: %s", self._label, type(error).__name__, error)
            return None
        if failures:
            logger.debug("%s could not be computed: %s", self._label, failures[0])
            return None
        return value

    def depends_on(self, changed: Iterable[str]) -> bool:
        """Whether a change of these attributes may change the value."""
        names = self.names
        return names is None or any(name in names for name in changed)

    def _unset(self, record: Record) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("%s has no function: set one with set_computed_attribute; until then it has no value", self._label)


def computed_attributes(definition: TableDefinition, functions: dict[str, ComputeFunction], label: str) -> dict[str, ComputedAttribute]:
    """Those of a table by name. `functions`: what the application has set. `label` names the table in the log."""
    attributes = [attribute for attribute in definition.attributes if attribute.computed_from is not None]
    if not attributes:
        return {}
    stored = tuple([replace(attribute, computed_from=None) for attribute in definition.attributes])
    checkers = compile_checkers(replace(definition, attributes=stored), "native")
    return {
        attribute.name: _computed(attribute, checkers[attribute.name], functions.get(attribute.name), f"{label}.{attribute.name}")
        for attribute in attributes
    }


def _computed(attribute: Attribute, check: Checker, function: ComputeFunction | None, label: str) -> ComputedAttribute:
    if not attribute.computed_from:
        return ComputedAttribute(label, attribute.name, check, function, None)
    try:
        expression = compile_expression(attribute.computed_from)
    except SchemaError as error:
        # Stored by a version that knew other expressions: the table must open, and a declaration that is loaded says what is wrong.
        logger.error("%s has no value, its expression cannot be used: %s", label, error)
        return ComputedAttribute(label, attribute.name, check, lambda values: None, ())
    return ComputedAttribute(label, attribute.name, check, expression.evaluate, expression.names)


def check_computed(definition: TableDefinition) -> None:
    """Raise SchemaError for computed attributes that cannot be: see `fault_of`."""
    for attribute in definition.attributes:
        if attribute.computed_from:
            try:
                fault = fault_of(attribute, compile_expression(attribute.computed_from), definition.attributes)
            except SchemaError as error:
                fault = error.message
            if fault is not None:
                raise SchemaError(f"{definition.name}.{attribute.name}: {fault}")


def fault_of(attribute: Attribute, expression: Expression, attributes: Iterable[Attribute]) -> str | None:
    """What is wrong with an expression as the source of `attribute` among these; None if nothing is."""
    if attribute.type == "Blob":
        return "a Blob cannot be computed"
    for other in attributes:
        if not other.stored and other.name in expression.names:
            return f"the expression uses {other.name}, which is not stored: it is {'a relationship' if other.relationship else 'computed itself'}"
    return None
