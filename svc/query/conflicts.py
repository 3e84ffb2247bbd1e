"""What a caller is told of another record that a write is in conflict with (spec: schema-and-store §3.1, §4.4; rows §1.4)."""

from __future__ import annotations

from typing import Any

from svc.auth.roles import rights
from svc.auth.users import User
from svc.errors import ClientError, NotUnique, StillReferenced
from svc.query.narrowing import is_view, view_of
from svc.query.tables import rule_members
from svc.store.values.keys import encode_primary, storage_key


def explained_to(user: User | None, problem: StillReferenced | NotUnique) -> ClientError:
    """The problem with the table and key of the other record that it is about, for a caller who may read that record, by the role of the user or by what
    everyone may read; else as it is. Of records that are counted a caller is told nothing who may not see all of them."""
    may = rights(user, problem.other)
    if not may.attribute(problem.attribute).read or not rights(user, problem.table).read:
        return problem
    if isinstance(problem, StillReferenced):
        narrowed = _narrows_reading(user, problem.other) or _narrows_reading(user, problem.table)
        return problem if narrowed else problem.explained()
    return problem.explained() if _may_see(user, problem.other, problem.key) else problem


def _narrows_reading(user: User | None, table: Any) -> bool:
    view = view_of(user, table)
    return bool(rule_members(view))


def _may_see(user: User | None, table: Any, key: Any) -> bool:
    """Whether the record is there for the caller, as the turn's snapshot has it: one that another write of the turn has made is not."""
    view = view_of(user, table)
    if not is_view(view) or not view.rule_members:
        return True
    snapshot = table.database.snapshot()
    stored = storage_key(encode_primary(key))
    raw = table.get_by(stored, snapshot)
    return raw is not None and view.holds("read", stored, raw, snapshot)
