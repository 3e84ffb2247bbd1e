"""The values that a caller gives for the parameters of a statement (spec: sql §1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from svc.errors import QueryError
from svc.sql.binding.walking import walk
from svc.sql.bound import BoundQuery
from svc.sql.nodes import Parameter
from svc.sql.tables.values import SqlValue, exact_value, sql_value
from svc.store.values.conversion import is_encodable, printable

_TYPES = "a list of values for ?, or an object for :name"


class Parameters:
    """The parameters of a statement: numbers or names, in the order of their first use."""

    __slots__ = ("_count", "_words", "names")

    def __init__(self, statement: Any) -> None:
        self.names: tuple[int | str, ...] = tuple(dict.fromkeys([node.name for node in walk(statement) if type(node) is Parameter]))
        self._words = {name: None for name in self.names if isinstance(name, str)}
        self._count = max([name for name in self.names if isinstance(name, int)], default=0)

    def check(self, given: Any) -> None:
        """Raise 400 unless there is a value for each parameter, and nothing else."""
        if not self._words and (
            len(given) == self._count if type(given) is list or type(given) is tuple else given is None and not self._count
        ):
            return
        if self._count and self._words:
            raise _fault("a statement has parameters by position (?) or by name (:name), not both")
        if self._words:
            self._check_names(given)
            return
        if given is None:
            given = ()
        if isinstance(given, Mapping) and not (given or self._count):
            return
        if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
            raise _fault(f"'parameters' must be {_TYPES}; the statement has {self._count} by position")
        if len(given) != self._count:
            raise _fault(f"the statement has {_counted(self._count)}, and 'parameters' {_counted(len(given), 'value')}")

    def _check_names(self, given: Any) -> None:
        words = self._words
        if not isinstance(given, Mapping):
            raise _fault(f"the statement has parameters by name, so 'parameters' must be an object with {_listed(words)}")
        missing, unused = [name for name in words if name not in given], [name for name in given if name not in words]
        if missing:
            raise _fault(f"'parameters' lacks {_listed(missing)}")
        if unused:
            raise _fault(f"'parameters' has {_listed(unused)}, which the statement does not; it has {_listed(words)}")


def values_of(bound: BoundQuery, given: Any) -> tuple[SqlValue, ...]:
    """What SQLite gets. Raises 400 for a value that no record could have."""
    if not bound.parameters:
        return bound.constants  # type: ignore[return-value]
    values: list[SqlValue] = []
    exact = bound.exact_parameters
    for index, name in enumerate(bound.parameters):
        value = given[name - 1 if type(name) is int else name]
        if type(value) is not str or not value.isascii():
            check_value(value, name)
            value = exact_value(value) if index in exact else sql_value(value)
        values.append(value)
    return (*values, *bound.constants)  # type: ignore[arg-type]


def check_value(value: Any, name: int | str) -> None:
    kind = type(value)
    if kind is str:
        if not is_encodable(value):
            raise _fault(f"parameter {name} is no Unicode text")
    elif kind is float:
        if value - value:
            raise _fault(f"parameter {name} is no finite number")
    elif kind not in (int, bool, bytes, type(None)):
        try:
            exact_value(value)
        except Exception:
            raise _fault(f"parameter {name} has a type that no record can have: {kind.__name__}") from None


def _listed(names: Any) -> str:
    shown = [printable(str(name)[:50]) for name in names]
    return ", ".join(shown[:10]) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "")


def _counted(count: int, what: str = "parameter") -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _fault(text: str) -> QueryError:
    return QueryError(text[0].upper() + text[1:], code="BAD_VALUE")
