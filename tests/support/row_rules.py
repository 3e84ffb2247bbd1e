"""Tables with rules on rows, their records, and what a rule means, said once more in Python: for tests of doors (spec: rows §1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from svc.apps.schema_files import load_schema_files
from svc.auth.roles import Role
from svc.auth.users import User
from svc.store import Store, Table
from svc.store.schema import Allow
from svc.store.values.records import decode

DATABASE = "rules"
SCHEMA = f"""
type Project @table(database: "{DATABASE}") {{
  id: ID @primaryKey
  open: Boolean
  members: [ID] @indexed
}}
type Issue @table(database: "{DATABASE}", audit: true) {{
  id: ID @primaryKey
  owner: ID @indexed
  public: Boolean @indexed
  state: String @indexed
  points: Int @indexed
  code: String @unique
  made: Float @createdTime
  projectId: ID @indexed
  project: Project @relationship(from: "projectId")
}}
type Board @table(database: "{DATABASE}") {{
  id: ID @primaryKey
  title: String @indexed
  posts: [Post] @relationship(to: "boardId")
}}
type Post @table(database: "{DATABASE}") {{
  id: ID @primaryKey
  author: ID @indexed
  boardId: ID @indexed
}}
type Offer @table(database: "{DATABASE}") {{
  id: ID @primaryKey
  until: Date @indexed
  price: Int @indexed
}}
type Note @table(database: "{DATABASE}") {{
  id: ID @primaryKey
  author: ID
  state: String
}}
"""
RULES = {
    "Project": (Allow(read="open==true|members==$user.username"),),
    "Issue": (
        Allow(
            read="public==true|owner==$user.username|project.members==$user.username",
            create="owner==$user.username",
            update="owner==$user.username",
            delete="owner==$user.username&state==draft",
        ),
        Allow(("moderator",), read="true", update="true", delete="state!=published"),
    ),
    "Board": (Allow(read="posts.author==$user.username", create="true"),),
    "Offer": (Allow(read="until=gt=$now"),),
    "Note": (Allow(read="author==$user.username", create="true", update="$new.author==$old.author&state!=locked", delete="false"),),
}
TABLES = ("Project", "Issue", "Board", "Post", "Offer", "Note")
USERS = ("ann", "bob", "cleo")
STATES = ("draft", "open", "published")
ALL = {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}


def define(store: Store, count: int = 120, *, with_rules: bool = True) -> dict[str, Table]:
    """The tables with records, by name. `count`: of issues."""
    loaded = load_schema_files([("schema.graphql", SCHEMA)])
    assert not loaded.faults, loaded.faults
    database = store.open_database(DATABASE)
    for definition in loaded.definitions:
        database.define_table(replace(definition, allow=RULES.get(definition.name, ()) if with_rules else ()))
    chance = Random(32)
    transaction = store.begin()

    def put(table: str, record: dict[str, Any]) -> None:
        transaction.put(database.tables[table], record["id"], record)

    for number in range(8):
        put("Project", {"id": f"p{number}", "open": number % 3 == 0, "members": chance.sample(USERS, number % 3)})
    for number in range(count):
        put(
            "Issue",
            {
                "id": f"i{number:03}",
                "owner": chance.choice((*USERS, None)),
                "public": chance.choice((True, False, False, None)),
                "state": chance.choice(STATES),
                "points": chance.choice((None, *range(6))),
                "code": f"c{number}" if number % 4 else None,
                "projectId": chance.choice((None, "gone", *[f"p{each}" for each in range(8)])),
            },
        )
    for number in range(10):
        put("Board", {"id": f"b{number}", "title": f"t{number % 3}"})
    for number in range(20):
        put("Post", {"id": f"q{number}", "author": chance.choice(USERS), "boardId": f"b{chance.randrange(10)}"})
    now = datetime.fromtimestamp(store.clock.wall(), UTC)
    for number in range(12):
        put("Offer", {"id": f"o{number}", "until": now + timedelta(minutes=number - 6, seconds=30), "price": number % 4})
    for number in range(9):
        put("Note", {"id": f"n{number}", "author": USERS[number % 3], "state": "locked" if number % 2 else "free"})
    transaction.apply()
    store.commit_turn()
    return dict(database.tables)


def user_of(store: Store, name: str, role: str = "member", **permission: Any) -> User:
    """One with all rights on these tables, and of other permissions those that are given."""
    tables = {"tables": dict.fromkeys(TABLES, ALL)}
    return User(name, True, Role(role, role, {"super_user": False, DATABASE: tables, **permission}, databases=store.databases))


class Brute:
    """What users may see, found by looking at every record."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables

    def records(self, table: str) -> list[dict[str, Any]]:
        found = self._tables[table]
        return [decode(raw) for _, raw in found.scan(found.database.snapshot())]

    def seen(self, table: str, name: str, role: str = "member") -> list[dict[str, Any]]:
        """In the order of their keys."""
        test = self._test(table, name, role)
        return [record for record in self.records(table) if test(record)]

    def ids(self, table: str, name: str, role: str = "member") -> list[str]:
        return [record["id"] for record in self.seen(table, name, role)]

    def hidden(self, table: str, name: str, role: str = "member") -> list[dict[str, Any]]:
        test = self._test(table, name, role)
        return [record for record in self.records(table) if not test(record)]

    def _test(self, table: str, name: str, role: str) -> Callable[[Mapping[str, Any]], bool]:
        if table == "Project":
            return lambda record: record["open"] is True or name in record["members"]
        if table == "Issue" and role != "moderator":
            members = {project["id"]: project["members"] for project in self.records("Project")}
            return lambda record: record["public"] is True or record["owner"] == name or name in members.get(record["projectId"], ())
        if table == "Board":
            boards = {post["boardId"] for post in self.records("Post") if post["author"] == name}
            return lambda record: record["id"] in boards
        if table == "Offer":
            now = datetime.fromtimestamp(self._tables[table].database.clock.wall(), UTC)
            return lambda record: record["until"] > now
        if table == "Note":
            return lambda record: record["author"] == name
        return lambda record: True


def ids_of(rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    return [row["id"] for row in rows]
