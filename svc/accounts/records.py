"""What a member may set of the account's record, and what of it the member sees (spec: rows §2.2).

Reserved are the key, the address, whatever the store or code sets (times, computed attributes), relationships, large values, and names that are none of the
record at all, such as `role` or `active`: they are refused, never dropped in silence. Of the rest `accounts.attributes` may leave some; and if the role has a
list of attributes for the table, what that does not let it write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.accounts.settings import EMAIL
from svc.auth.roles import Role
from svc.errors import ValidationError
from svc.store import Table
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.conversion import printable

RESERVED_TYPES = frozenset(("Blob",))
_MOST_NAMED = 20  # in one message
_SHOWN = 100  # characters of a name


def reserved(definition: TableDefinition, attribute: Attribute) -> bool:
    """Whether no member sets this attribute."""
    return (
        attribute.name in (definition.primary_key, EMAIL)
        or not attribute.stored
        or attribute.name.startswith("__")
        or attribute.created_time
        or attribute.updated_time
        or attribute.expires_at
        or attribute.embed is not None
        or attribute.type in RESERVED_TYPES
    )


def settable(table: Table, role: Role | None, names: tuple[str, ...] | None, *, is_new: bool) -> list[str]:
    """The attributes that a member of this role may set, in the order of the type. `names`: `accounts.attributes`. `is_new`: at the sign-up."""
    found = [attribute.name for attribute in table.definition.attributes if not reserved(table.definition, attribute)]
    if names is not None:
        found = [name for name in found if name in names]
    rights = None if role is None else role.rights(table.database.name, table.name)
    if rights is None or rights.attributes is None or not rights.any:
        return found
    return [name for name in found if (given := rights.attribute(name)).update or (is_new and given.insert)]


def check_names(table: Table, given: Mapping[str, Any], allowed: list[str], *, is_new: bool) -> None:
    """Raise ValidationError, with a sentence for each name that may not be given."""
    wrong = [name for name in given if name not in allowed]
    if not wrong:
        return
    sentences = []
    for name in wrong[:_MOST_NAMED]:
        shown = printable(str(name)[:_SHOWN])
        if name == table.primary_key or name == "username":
            sentences.append(f"'{shown}' cannot be chosen" if is_new else f"'{shown}' cannot be changed")
        elif name == EMAIL and not is_new and EMAIL in table.attributes:
            sentences.append("'email' is changed by POST /accounts/email, and confirmed at the new address")
        else:
            sentences.append(f"'{shown}' cannot be set by yourself")
    raise ValidationError([*sentences, f"What can be set is: {', '.join(allowed) or 'nothing'}"])


def visible(table: Table, role: Role | None, record: Mapping[str, Any]) -> dict[str, Any]:
    """The own record as the member sees it: all of it, unless the role has a list of attributes that it may read."""
    rights = None if role is None else role.rights(table.database.name, table.name)
    readable = None if rights is None or not rights.any else rights.readable
    return {name: value for name, value in record.items() if readable is None or name in readable or name in (table.primary_key, EMAIL)}
