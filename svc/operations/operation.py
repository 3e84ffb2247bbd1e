"""What a row says of an operation. Dispatch, validation, permissions, help, OpenAPI and docs/operations/ are derived from the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from svc.operations.fields import Field


@dataclass(frozen=True, slots=True)
class Permission:
    """The permission that an operation needs (operations, head; security §5.4).

    `kind`: `none` no login needed; `any` every active user with a role; `super_user`; `structure` a structure user of the database too;
    `table` users with the rights on the table. `grantable`: a role's `operations` list may give it to others.
    """

    kind: str
    rights: tuple[str, ...] = ()
    grantable: bool = True


NO_LOGIN = Permission("none")
ANYONE = Permission("any")
SUPER_USER = Permission("super_user")
NEVER_GRANTED = Permission("super_user", grantable=False)  # the caller could make itself a super user with it
STRUCTURE = Permission("structure")
READ = Permission("table", ("read",))
INSERT = Permission("table", ("insert",))
UPDATE = Permission("table", ("update",))
UPSERT = Permission("table", ("insert", "update"))
DELETE = Permission("table", ("delete",))

Handler = Callable[[Any], Any]
"""Called with the checked `Call`; returns the body of the response (see `call`), or an awaitable of it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """`summary`: one line. `notes`: Markdown for the reference. `returns`: what a 200 body is, one line. `example`: a body without `operation`;
    `example_answer` what it is answered with. `missing_status`: of a database or table that does not exist. `starts_job`: the work goes on after
    the answer. `logged`: an info line tells of each call. `closes`: the connection ends after the answer. `has_events`: the answer may be
    a stream of events."""

    name: str
    category: str
    summary: str
    permission: Permission
    handler: Handler
    fields: tuple[Field, ...] = ()
    aliases: tuple[str, ...] = ()
    returns: str = ""
    notes: str = ""
    example: Mapping[str, Any] = field(default_factory=dict)
    example_answer: Any = None
    missing_status: int = 404
    starts_job: bool = False
    logged: bool = True
    closes: bool = False
    has_events: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    @property
    def joins(self) -> bool:
        """Whether what it writes can be part of a transaction of code that calls it: all of it are records, and nothing else happens."""
        return self.category in JOINING and not self.starts_job

    @property
    def secrets(self) -> frozenset[str]:
        """The fields whose values no log shows."""
        return frozenset(name for field in self.fields if field.secret for name in field.names)


JOINING = frozenset(("records", "users", "sql"))
CATEGORIES: Mapping[str, str] = {
    "databases": "Databases and tables",
    "records": "Records",
    "searches": "Searches",
    "sql": "SQL",
    "bulk": "Bulk loads and exports",
    "jobs": "Jobs",
    "users": "Users and roles",
    "tokens": "Tokens and sessions",
    "keys": "API keys",
    "configuration": "Configuration",
    "system": "System",
    "logs": "Logs",
    "backups": "Backups",
    "certificates": "Certificates",
    "components": "Components",
    "clustering": "Clustering",
    "registration": "Registration",
    "analytics": "Analytics",
}
"""Key of a category -> its title, in the order of the reference."""
