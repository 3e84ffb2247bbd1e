"""What the arguments of an `@allow` have to be, wherever it is written: in a schema file or a call of `create_table` (spec: rows §1.1, §1.9)."""

from __future__ import annotations

from collections.abc import Mapping

from svc.config.origins import hint, nearest
from svc.store.schema import ACTIONS, Allow
from svc.store.values.conversion import is_encodable, printable

ROLES = "roles"
ARGUMENTS = (ROLES, *ACTIONS)


def read_allow(arguments: Mapping[str, object]) -> tuple[Allow, list[tuple[str, str]]]:
    """(what they say as far as it is right, (argument, fault) of what is not). A fault is a sentence that goes on behind the name of the rule; its argument is
    "" if it is about the whole.

    >>> read_allow({"reed": "a==1", "delete": ""})[1][0]
    ('reed', " has no argument reed, did you mean 'read'?")
    """
    faults: list[tuple[str, str]] = []
    for argument in arguments:
        if argument not in ARGUMENTS:
            meant = hint(nearest(argument, ARGUMENTS)) or f"; there are {', '.join(ARGUMENTS)}"
            faults.append((argument, f" has no argument {printable(argument)}{meant}"))
    conditions: dict[str, str] = {}
    for action in ACTIONS:
        if action in arguments:
            try:
                conditions[action] = _condition(arguments[action])
            except ValueError as error:
                faults.append((action, f": {action} {error}"))
    if arguments.keys() <= {ROLES}:
        faults.append(("", ' says nothing: it needs read:, create:, update: or delete:, each a condition, "true" or "false"'))
    roles: tuple[str, ...] | None = None
    if ROLES in arguments:
        try:
            roles = _roles(arguments[ROLES])
        except ValueError as error:
            faults.append((ROLES, f": roles {error}"))
    return Allow(roles, **conditions), faults


def _condition(value: object) -> str:
    """Raises ValueError."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise ValueError('must be a condition, "true" for everyone or "false" for nobody; without it the action is not narrowed')
    if not isinstance(value, str):
        raise ValueError('must be a string: a condition, "true" or "false"')
    if not value.strip():
        raise ValueError('is empty: write "true" for everyone, or "false" for nobody')
    if not is_encodable(value):
        raise ValueError("must be text without unpaired surrogates")
    return value


def _roles(value: object) -> tuple[str, ...]:
    """Raises ValueError."""
    if value is None or value == []:
        raise ValueError("names nobody: name roles, or leave it out for all that no other @allow of the type names")
    names = value if isinstance(value, list) else [value]
    found = [name for name in names if isinstance(name, str)]
    if len(found) < len(names):
        raise ValueError("must be a list of names")
    if "" in found:
        raise ValueError("must not be empty")
    if not all(map(is_encodable, found)):
        raise ValueError("must be text without unpaired surrogates")
    return tuple(dict.fromkeys(found))
