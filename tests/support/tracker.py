"""An issue tracker whose rows belong to people, for tests of rules on rows: its schema, its records, who asks, and what everybody may see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from svc.auth.roles import Role
from svc.auth.users import User
from svc.store import Store

SCHEMA = """
type Project @table @export
  @allow(read: "open==true|members==$user.username", create: "members==$user.username", update: "members==$user.username", delete: "false")
  @allow(roles: ["moderator"], update: "true") {
  id: ID @primaryKey
  open: Boolean
  members: [ID] @indexed
  issues: [Issue] @relationship(to: "projectId")
}

type Issue @table @export
  @allow(
    read: "public==true|owner==$user.username|project.members==$user.username"
    create: "owner==$user.username"
    update: "owner==$user.username&$new.owner==$old.owner"
    delete: "owner==$user.username&state==draft"
  )
  @allow(roles: ["moderator"], read: "true", update: "true", delete: "state!=published") {
  id: ID @primaryKey
  owner: ID @indexed
  public: Boolean
  state: String @indexed
  number: Int @unique
  weight: Int
  projectId: ID @indexed
  project: Project @relationship(from: "projectId")
  comments: [Comment] @relationship(to: "issueId")
}

type Comment @table @export @allow(read: "until=gt=$now|author==$user.username") {
  id: ID @primaryKey
  author: ID
  until: Date
  text: String
  issueId: ID @indexed
  issue: Issue @relationship(from: "issueId")
}
"""

RIGHTS = {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}
PERMISSION = {"data": {"tables": dict.fromkeys(("Project", "Issue", "Comment"), RIGHTS)}}
CALLERS = ("ann", "bob", "cat", "mod", "guest", "root")
"""Members `ann`, `bob`, `cat`, the moderator, one without an account, a super user."""

PROJECTS = [
    {"id": "p1", "open": True, "members": ["ann"]},
    {"id": "p2", "open": False, "members": ["ann", "bob"]},
    {"id": "p3", "open": False, "members": []},
]
ISSUES = [
    {
        "id": f"i{number:02}",
        "owner": ("ann", "bob", "cat", "dan")[number % 4],
        "public": number % 5 == 0,
        "state": ("draft", "published", "closed")[number % 3],
        "number": number,
        "weight": number % 7,
        "projectId": f"p{number % 3 + 1}",
    }
    for number in range(24)
]


def write_app(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    (path / "schema.graphql").write_text(SCHEMA)
    (path / "config.yaml").write_text("graphqlSchema:\n  files: schema.graphql\nrest: true\ngraphql: true\n")
    return path


def fill(store: Store, now_ms: float) -> None:
    """All records; every other comment may be read by everybody for another minute."""
    tables = store.databases["data"].tables
    transaction = store.begin()
    for name, records in (("Project", PROJECTS), ("Issue", ISSUES), ("Comment", comments(now_ms))):
        for record in records:
            transaction.put(tables[name], record["id"], tables[name].validator.record(dict(record)))
    transaction.apply()
    store.commit_turn()


def comments(now_ms: float) -> list[dict[str, Any]]:
    return [
        {
            "id": f"c{number}",
            "author": ("ann", "bob")[number % 2],
            "until": int(now_ms) + (60_000 if number % 3 else -60_000),
            "text": f"text {number}",
            "issueId": f"i{number:02}",
        }
        for number in range(12)
    ]


def caller(store: Store, name: str) -> User | None:
    """A user of this name as requests have it. The guest has the rights of everybody: role `anonymous`, to be given by `grant_all`."""
    if name == "guest":
        return None
    if name == "root":
        return User("root", role=Role("root", "super_user", {"super_user": True}, databases=store.databases))
    role = "moderator" if name == "mod" else "member"
    return User(name, role=Role(role, role, PERMISSION, databases=store.databases))


def grant_all(store: Store) -> None:
    """To callers without a login."""
    made = store.begin()
    made.put(store.databases["system"].tables["svc_role"], "anonymous", {"role": "anonymous", "permission": PERMISSION})
    made.apply()
    store.commit_turn()


# the rules once more, as plain code


def may_read(
    table: str, record: Mapping[str, Any], name: str, data: Mapping[str, list[dict[str, Any]]], now_ms: float, role: str = ""
) -> bool:
    """`role`: of the caller, by default that of `caller`."""
    if name == "root":
        return True
    is_moderator = (role or ("moderator" if name == "mod" else "member")) == "moderator"
    user = None if name == "guest" else name
    if table == "Project":
        return is_moderator or record.get("open") is True or (user is not None and user in (record.get("members") or []))
    if table == "Issue":
        if is_moderator:
            return True
        project = next((each for each in data["Project"] if each["id"] == record.get("projectId")), None)
        seen = project is not None and may_read("Project", project, name, data, now_ms, role)
        return record.get("public") is True or (
            user is not None and (record.get("owner") == user or (seen and user in ((project or {}).get("members") or [])))
        )
    return float(record["until"]) > now_ms or (user is not None and record["author"] == user)


def visible(table: str, name: str, data: Mapping[str, list[dict[str, Any]]], now_ms: float) -> list[dict[str, Any]]:
    return [record for record in data[table] if may_read(table, record, name, data, now_ms)]


Ask = Callable[[str, str], Any]
