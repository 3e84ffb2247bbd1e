"""What a user may do on a table, asked of the code that decides (`auth.roles.rights`), with the rules on its rows (spec: console §10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from svc.auth.roles import AttributeRights, RowConditions, rights
from svc.auth.users import User, UserDirectory
from svc.errors import NotFound
from svc.operations.grants import find_target
from svc.pages.cells import shortened
from svc.store import Database
from svc.store.values.conversion import printable

RIGHTS = ("read", "insert", "update", "delete")
ACTIONS = (("read", "read"), ("create", "insert"), ("update", "update"), ("delete", "delete"))
"""Of rules on rows, and the right that each narrows."""
MOST_ATTRIBUTES = 1000
_LONGEST_RULE = 4096


@dataclass(slots=True)
class EffectiveRights:
    """`who`: a sentence. `flags`: right -> whether it is given. `attributes`: name -> rights, where they are not those of the table. `others`: the rights on
    attributes that are not among them. `rules`: what narrows an action, as `narrowing`."""

    who: str
    table: str
    flags: dict[str, bool]
    attributes: dict[str, AttributeRights] = field(default_factory=dict)
    others: AttributeRights | None = None
    rules: list[tuple[str, list[str]]] = field(default_factory=list)


def effective_rights(asker: User, directory: UserDirectory, databases: Mapping[str, Database], username: str, on: str) -> EffectiveRights:
    """`asker`: who wants to know: tables on which it has no right are none to it. `username`: "" for those without a login. `on`: `[database.]table`.
    Raises NotFound, and ClientError for what may be read in two ways."""
    table, _ = find_target(databases, on)
    if not asker.super_user and not rights(asker, table).any:
        raise NotFound(f"There is no table '{printable(on)}', and no attribute of one")
    user = directory.named(username) if username else None
    if username and user is None:
        raise NotFound(f"User {username} does not exist")
    given = rights(user, table)
    found = EffectiveRights(_who(user), f"{table.database.name}.{table.name}", {name: getattr(given, name) for name in RIGHTS})
    if given.attributes is not None or given.readable is not None:
        names = [attribute.name for attribute in table.definition.attributes][:MOST_ATTRIBUTES]
        found.attributes = {name: given.attribute(name) for name in names}
        found.others = given.attribute("")
    if given.rows is not None:
        found.rules = narrowing(given.rows)
    return found


def narrowing(rows: RowConditions) -> list[tuple[str, list[str]]]:
    """(right, conditions of which one has to hold) of each action that rules narrow."""
    return [(right, [shortened(text, _LONGEST_RULE) for text in texts]) for action, right in ACTIONS if (texts := getattr(rows, action))]


def _who(user: User | None) -> str:
    if user is None:
        return "Whoever has not logged in"
    name = shortened(user.username, 100)
    if not user.active:
        return f"{name} is not active and cannot log in. If it were, it"
    if user.role is None:
        return f"{name}, who has no role,"
    return f"{name}, with the role {shortened(user.role.role, 100)},"
