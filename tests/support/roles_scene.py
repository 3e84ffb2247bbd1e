"""An application with tables of all kinds of rights, and people with few of them, for tests of what pages offer to whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from svc.operations.operation_lists import known_entries
from svc.testing.application import Application
from tests.support.crawler import Browser

CONFIG = "rest: true\nlogin: true\nresources: {files: resources.py}\ngraphqlSchema: {files: '*.graphql'}\n"
SCHEMA = """
type Tool @table @export { id: ID @primaryKey name: String! @indexed kind: Kind @indexed price: Float @indexed cost: Float @indexed note: String
  makerId: ID @indexed maker: Maker @relationship(from: "makerId") data: Bytes }
enum Kind { HAND POWER }
type Maker @table @export { id: ID @primaryKey name: String! @indexed tools: [Tool] @relationship(to: "makerId") }
"Everybody has those they have borrowed."
type Loan @table @export @allow(read: "borrower==$user.username", create: "borrower==$user.username", update: "borrower==$user.username",
  delete: "false") { id: ID @primaryKey borrower: String @indexed toolId: ID @indexed tool: Tool @relationship(from: "toolId") }
type Notice @table { id: ID @primaryKey text: String }
type Rate @table @export { id: ID @primaryKey value: Float }
type Vault @table @export { id: ID @primaryKey toolId: ID @indexed tool: Tool @relationship(from: "toolId") }
type Ledger @table(database: "treasury") @export { id: ID @primaryKey sum: Float }
"""
RESOURCES = '''
class Notice(tables.Notice):
    """Read by everybody, written by code of the application only."""
    def allow_read(self, *_): return True
    def allow_create(self, *_): return False
    def allow_update(self, *_): return False
    def allow_delete(self, *_): return False
'''
ALL = {"read": True, "insert": True, "update": True, "delete": True}
NONE = dict.fromkeys(ALL, False)
CLERK = {
    "data": {
        "tables": {
            "Tool": {
                **ALL,
                "delete": False,
                "attribute_permissions": [
                    {"attribute_name": "id", "read": True, "insert": True, "update": False},
                    {"attribute_name": "name", "read": True, "insert": True, "update": True},
                    {"attribute_name": "price", "read": True, "insert": False, "update": False},
                ],
            },
            "Rate": {**NONE, "read": True, "attribute_permissions": []},
        }
    }
}
LENDER = {"data": {"tables": {"Loan": {**ALL, "attribute_permissions": []}, "Tool": {**NONE, "read": True, "attribute_permissions": []}}}}
OPERATOR = {
    "operations": ["read_log", "list_users", "get_configuration", "sql", "get_analytics", "get_status", "get_job", "describe_all"],
    "data": {"tables": {"Maker": {**NONE, "read": True, "attribute_permissions": []}}},
}
TELLING = ("list_", "get_", "describe_", "search_", "read_", "cluster_status", "cluster_get", "system_")
OBSERVER = {
    "operations": [name for name, may_grant in sorted(known_entries().items()) if may_grant and name.startswith(TELLING)],
    "data": {"tables": {"Tool": {**NONE, "read": True, "attribute_permissions": [{"attribute_name": "name", **NONE, "read": True}]}}},
}
"""May run whatever only tells something, as far as it can be given."""
ROLES: dict[str, dict[str, Any]] = {
    "structure": {"structure_user": ["data"]},
    "operator": OPERATOR,
    "observer": OBSERVER,
    "clerk": CLERK,
    "lender": LENDER,
}
"""Name of the role, and of the one user who has it. Besides them there are the super user `admin`, `nobody` without a role, and callers without a login."""
PASSWORD = "password"


def make_application(path: Path) -> Path:
    directory = path / "toolshed"
    directory.mkdir()
    (directory / "config.yaml").write_text(CONFIG)
    (directory / "schema.graphql").write_text(SCHEMA)
    (directory / "resources.py").write_text(RESOURCES)
    return directory


def fill(app: Application) -> None:
    for number, name in enumerate(("Ash", "Birch")):
        put(app, f"/Maker/m{number}", {"name": name})
    for number in range(6):
        tool = {"name": f"Tool {number}", "kind": ("HAND", "POWER")[number % 2], "price": number + 0.5, "cost": 41000 + number % 3}
        put(app, f"/Tool/t{number}", {**tool, "note": f"hidden-note-{number}", "makerId": f"m{number % 2}"})
        put(app, f"/Loan/l{number}", {"borrower": "lender" if number % 2 else "somebody-else", "toolId": f"t{number}"})
        put(app, f"/Vault/v{number}", {"toolId": f"t{number}"})
    put(app, "/Tool/t0", {"name": "Tool 0", "kind": "HAND", "price": 1.5, "cost": 41001, "note": "hidden-note-0", "makerId": "m1"})
    app.run(app.tables["Notice"]._table.put({"id": "n1", "text": "Closed"}))
    put(app, "/Rate/r1", {"value": 2.5})
    put(app, "/Ledger/x1", {"sum": 77.25})
    for name, permission in ROLES.items():
        app.operation("add_role", role=name, permission=permission)
        add_user(app, name, name)
    make_nobody(app)
    app.operation("create_key", name="robot", role="clerk")


def put(app: Application, path: str, record: dict[str, Any]) -> None:
    answer = app.put(path, record)
    assert answer.status in (200, 201, 204), answer


def add_user(app: Application, name: str, role: str) -> None:
    app.operation("add_user", username=name, password=PASSWORD, role=role, active=True)


def make_nobody(app: Application) -> None:
    """A user without a role: the one there was is gone."""
    app.operation("add_role", role="gone", permission={})
    add_user(app, "nobody", "gone")
    app.operation("alter_user", username="nobody", active=False)
    app.operation("drop_role", id="gone")
    app.operation("alter_user", username="nobody", active=True)


def dump(app: Application) -> dict[str, Any]:
    """What there is in all databases, without what is noted about requests themselves."""
    found: dict[str, Any] = {}
    for name, database in app.instance.server.store.databases.items():
        for table_name, table in list(database.tables.items()):
            if table_name not in NOTED:
                txn = database.snapshot()
                found[f"{name}.{table_name}"] = [(key, raw) for key, raw in table.scan(txn)]
    return found


NOTED = ("svc_session", "svc_raw_analytics", "svc_analytics", "svc_key_use", "svc_info", "svc_status", "svc_durable_session")


def browser(app: Application, name: str | None) -> Browser:
    return Browser(app.instance, name, PASSWORD)
