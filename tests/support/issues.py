"""Issues of people, with rules about rows (spec: rows §1), and a filter that knows no queries beside them."""

from __future__ import annotations

from typing import Any

SCHEMA = """
type Issue @table @export
  @allow(read: "public==true|owner==$user.username|project.members==$user.username",
         create: "owner==$user.username", update: "owner==$user.username", delete: "owner==$user.username&state==draft")
  @allow(roles: ["moderator"], read: "true", update: "true", delete: "state!=published") {
  id: ID @primaryKey
  owner: ID @indexed
  public: Boolean @indexed
  state: String @indexed
  title: String @indexed
  code: String @unique
  votes: Int
  projectId: ID @indexed
  project: Project @relationship(from: projectId)
  comments: [Comment] @relationship(to: issueId)
}
type Project @table @export @allow(read: "open==true|members==$user.username") {
  id: ID @primaryKey
  name: String @indexed
  open: Boolean @indexed
  members: [ID] @indexed
  issues: [Issue] @relationship(to: projectId)
}
type Comment @table @export {
  id: ID @primaryKey
  text: String @indexed
  issueId: ID @indexed
  issue: Issue @relationship(from: issueId)
}
type Timed @table @export @allow(read: "until=gt=$now") { id: ID @primaryKey  until: Date @indexed }
"""

_ALL = "{read: true, insert: true, update: true, delete: true}"
ROLES = f"""
member:
  data: {{Issue: {_ALL}, Project: {_ALL}, Comment: {_ALL}, Timed: {_ALL}}}
moderator:
  data: {{Issue: {_ALL}, Project: {_ALL}, Comment: {_ALL}, Timed: {_ALL}}}
anonymous:
  data: {{Issue: {{read: true}}, Comment: {{read: true}}}}
"""

USERS = {"ann": "member", "bob": "member", "eve": "member", "mod": "moderator"}

PROJECTS: list[dict[str, Any]] = [
    {"id": "p0", "name": "open", "open": True, "members": ["ann"]},
    {"id": "p1", "name": "closed", "open": False, "members": ["ann", "bob"]},
    {"id": "p2", "name": "secret", "open": False, "members": ["bob"]},
]
ISSUES: list[dict[str, Any]] = [
    {
        "id": f"i{number:02}",
        "owner": ("ann", "bob", "eve")[number % 3],
        "public": number % 5 == 0,
        "state": ("draft", "open", "published")[number // 3 % 3],
        "title": f"title {number % 4}",
        "code": f"c{number}",
        "votes": number,
        "projectId": f"p{number % 4}",  # there is no p3
    }
    for number in range(24)
]
COMMENTS: list[dict[str, Any]] = [{"id": f"k{number:02}", "text": f"text {number % 2}", "issueId": f"i{number:02}"} for number in range(24)]


def may_read(issue: dict[str, Any], user: str | None) -> bool:
    """What the rule says, without the language of rules."""
    if user == "mod":
        return True
    project = next((each for each in PROJECTS if each["id"] == issue["projectId"]), None)
    return issue["public"] or (user is not None and (issue["owner"] == user or (project is not None and user in project["members"])))


def may_read_project(project: dict[str, Any], user: str | None) -> bool:
    return project["open"] or user in project["members"]


def seen(user: str | None, **equal: Any) -> list[str]:
    """The keys of the issues that a user sees, of those with these values."""
    return [each["id"] for each in ISSUES if may_read(each, user) and all(each[name] == value for name, value in equal.items())]


def fill(app: Any) -> None:
    """The records, and the users. Harmless if they are there."""
    for name, records in (("Project", PROJECTS), ("Issue", ISSUES), ("Comment", COMMENTS)):
        assert app.delete(f"/{name}/").status == 204
        assert app.put(f"/{name}/", records).status == 204
    known = {user["username"] for user in app.operation("list_users")}
    for name, role in USERS.items():
        if name not in known:
            app.operation("add_user", username=name, password="a long one", role=role, active=True)
