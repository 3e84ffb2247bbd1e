"""Values for the parameters of statements: `--param name=value`, `--param value`, `.param name value`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from svc.cli.arguments import UsageError
from svc.cli.operation_arguments import parse_value
from svc.cli.sql.script import parameters_of

_NAMED = re.compile(r"[:@$]?([^\W\d]\w*)=(.*)", re.DOTALL)


@dataclass
class Parameters:
    """`values`: for `?`. `named`: for `:name`. Each is JSON, else text."""

    values: list[Any] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)

    def of(self, statement: str, *, is_only: bool = False) -> list[Any] | dict[str, Any] | None:
        """Those that a statement takes, None for none. `is_only`: there is no other statement that the values may be for: all are sent, and the server
        tells of those that are too many."""
        if is_only:
            return dict(self.named) or list(self.values) or None
        count, names = parameters_of(statement)
        if names:
            return {name: value for name, value in self.named.items() if name in names}
        return self.values if count else None


def read_parameters(texts: Iterable[str]) -> Parameters:
    """Raises UsageError if some have a name and some have none.

    >>> read_parameters(["id=7", 'codes=["a"]']).named, read_parameters(["7", '"id=7"', "x y"]).values
    ({'id': 7, 'codes': ['a']}, [7, 'id=7', 'x y'])
    """
    found = Parameters()
    for text in texts:
        match = _NAMED.fullmatch(text)
        if match is None:
            found.values.append(parse_value("value", text))
        else:
            found.named[match[1]] = parse_value("value", match[2])
    if found.values and found.named:
        raise UsageError("--param: either all with a name, --param id=7 for :id, or all without, --param 7 for ?")
    return found
