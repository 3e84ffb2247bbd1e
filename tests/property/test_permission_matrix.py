"""Who may run which operation on what: every row of the registry against a plain statement of the specification; and REST agrees (spec: security §5.4, §5.6).

The model below is written from the specification's tables, not from the rows, so a row with another permission than the specification's is found too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.auth.roles import Role
from svc.auth.users import User
from svc.errors import Problem
from svc.operations.operation import Operation
from svc.operations.registry import all_operations
from svc.query import QueryCache
from svc.store.schema import Attribute, TableDefinition
from tests.support.apps import load_app
from tests.support.node import APP, Node
from tests.support.operations import OperationsNode

# --- the specification -----------------------------------------------------------------------------------------------------------------------

NO_LOGIN = {"create_authentication_tokens", "refresh_operation_token", "login", "logout"}
ANYBODY = {"describe_all", "describe_database", "describe_table", "get_job", "cancel_job", "user_info", "registration_info", "sql"}
WHOLE_DATABASE = {"create_database", "drop_database"}
STRUCTURE = WHOLE_DATABASE | {"create_table", "drop_table", "create_attribute", "drop_attribute"}
LOADS = ("csv_data_load", "csv_file_load", "csv_url_load", "import_from_s3", "add_upload", "read_upload", "load_upload")
RIGHTS = {
    "search_by_id": ["read"],
    "search_by_value": ["read"],
    "search_by_conditions": ["read"],
    "insert": ["insert"],
    "update": ["update"],
    "upsert": ["insert", "update"],
    "delete": ["delete"],
    **{name: ["insert", "update"] for name in LOADS},
}
READ_ONLY = {
    "search_by_id", "search_by_value", "search_by_conditions", "describe_all", "describe_database", "describe_table", "user_info", "get_job",
    "get_analytics", "list_metrics", "describe_metric", "sql",
}  # fmt: skip
STANDARD = READ_ONLY | {"insert", "update", "upsert", "delete", *LOADS}
NEVER_GRANTED = {
    "get_deployment_payload",
    "set_configuration", "cluster_set_routes",
    "add_certificate", "sign_certificate",
    "deploy_component", "set_component_file", "add_component", "drop_component",
    "deploy_custom_function_project", "set_custom_function", "add_custom_function_project", "drop_custom_function",
    "drop_custom_function_project",
    "add_ssh_key", "update_ssh_key", "set_ssh_known_hosts",
    "add_node", "update_node", "set_node_replication", "configure_cluster",
}  # fmt: skip
EXPORTS = {"export_local", "export_to_s3"}  # what they search is checked too: tests/unit/operations/test_permissions.py

ROWS = all_operations()
CRUD = ("read", "insert", "update", "delete")
SYSTEM_TEXT = "The 'system' database, tables and records are used internally by svc and cannot be updated or removed."


def table(*rights: str) -> dict[str, Any]:
    return {**{right: right in rights for right in CRUD}, "attribute_permissions": []}


def plant(*rights: str, **more: Any) -> dict[str, Any]:
    return {"data": {"tables": {"plant": table(*rights)}}, **more}


WHO: dict[str, Any] = {
    "anonymous": None,
    "without role": "no role",
    "super user": {"super_user": True},
    "role without rights": {},
    **{f"only {right}": plant(right) for right in CRUD},
    "insert and update": plant("insert", "update"),
    "all rights": plant(*CRUD),
    "structure everywhere": {"structure_user": True},
    "structure of data": {"structure_user": ["data"]},
    "structure of another": {"structure_user": ["garden"]},
    "structure nowhere": {"structure_user": False},
    "no operations": plant(*CRUD, operations=[]),
    "read_only": plant(*CRUD, operations=["read_only"]),
    "standard_user": plant(*CRUD, operations=["standard_user"]),
    "listed": "listed",
    "listed with rights": "listed with rights",
}
PLACES = [
    ("data", "plant"),
    ("data", "keeper"),
    ("data", "nothing"),
    ("garden", "bed"),
    ("nowhere", "x"),
    ("system", "svc_info"),
    ("system", "svc_user"),
]
EXISTING = {("data", "plant"), ("data", "keeper"), ("garden", "bed")}


def permission_of(who: str, row: Operation) -> Any:
    found = WHO[who]
    if found == "listed":
        return {"operations": [row.name]}
    if found == "listed with rights":
        return plant(*CRUD, operations=[row.names[-1]])
    return found


def expected(permission: Any, row: Operation, name: str, database: str, table_name: str) -> Any:
    """None: it may. Else 401, or (texts, entries by table, invalid items), or the text of a 403."""
    canonical = row.name
    if canonical in NO_LOGIN:
        return None
    if permission is None:
        return 401
    if permission == "no role":
        return (["User ann has no role or permissions.  Please assign the user a valid role."], {}, [])
    rights = RIGHTS.get(canonical, [])
    has_place = {"database", "table"} & {field.name for field in row.fields}
    if permission.get("super_user"):
        if database != "system" or not has_place or (table_name == "svc_user" and canonical not in STRUCTURE):
            return None
        if canonical in STRUCTURE:
            return None if canonical == "create_database" else SYSTEM_TEXT
        if canonical == "insert":
            return ([], {"svc_info": ["insert"]}, [])
        return SYSTEM_TEXT if rights not in ([], ["read"]) or canonical == "delete_records_before" else None
    super_only = ([f"Operation '{name}' is restricted to 'super_user' roles"], {}, [])
    listed = permission.get("operations")
    if listed is not None:
        admitted = set().union(*({"read_only": READ_ONLY, "standard_user": STANDARD}.get(entry, set(row.names)) for entry in listed))
        if canonical not in admitted and not (set(row.names) & admitted):
            return super_only
    changes = (canonical in STRUCTURE and canonical != "create_database") or not {"update", "delete"}.isdisjoint(rights)
    if database == "system" and has_place and changes:
        return SYSTEM_TEXT
    structure = permission.get("structure_user")
    covered = database != "system" and (structure is True or (isinstance(structure, list) and database in structure))
    held = {right for right in CRUD if permission.get("data", {"tables": {"plant": {}}})["tables"]["plant"].get(right)}
    visible = {("data", "plant")} if held else set()
    visible |= {place for place in EXISTING if structure is True or (isinstance(structure, list) and place[0] in structure)}
    place = (database, table_name)

    def missing() -> Any:
        if database in {db for db, _ in visible}:
            return ([], {}, [f"Table '{database}.{table_name}' does not exist"])
        return ([], {}, [f"database '{database}' does not exist"])

    if canonical in STRUCTURE:
        if covered and (canonical not in WHOLE_DATABASE or structure is True):
            return None
        if listed is not None and database != "system":
            return None
        if canonical != "create_attribute":
            return ([f"User does not have access to perform '{name}' against schema '{database}'"], {}, [])
        rights = ["insert"]
    if canonical in ANYBODY:
        if canonical not in ("describe_database", "describe_table"):
            return None
        if database == "system":
            return (["Your role does not have permission to view database metadata for 'system'"], {}, [])
        if canonical == "describe_table":
            return None if place in visible else missing()
        return None if database in {db for db, _ in visible} else ([], {}, [f"database '{database}' does not exist"])
    if not rights:
        if listed is None or canonical in NEVER_GRANTED:
            return super_only
        if has_place and database == "system":
            return ([], {}, ["database 'system' does not exist"])
        return None
    if place not in visible:
        return missing()
    lacking = [] if covered else [right for right in rights if right not in held]
    return ([], {table_name: lacking}, []) if lacking else None


# --- against the rows -------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path_factory.mktemp("node")) as made:
        for database, name in sorted(EXISTING):
            attributes = (Attribute("id", primary_key=True), Attribute("name"))
            made.store.open_database(database).define_table(TableDefinition(name, database, attributes=attributes))
        yield made


def found(node: OperationsNode, user: User | None, body: dict[str, Any]) -> Any:
    try:
        node.operations.prepare(body, user)
    except Problem as problem:
        if problem.status_code == 401:
            return 401
        if problem.status_code != 403:
            return None  # it may; that something else is wrong is not the question
        refused = getattr(problem, "body", None)
        if refused is None:
            return problem.message
        texts = [entry for entry in refused["unauthorized_access"] if isinstance(entry, str)]
        tables = {
            entry["table"]: entry["required_table_permissions"] for entry in refused["unauthorized_access"] if isinstance(entry, dict)
        }
        return texts, tables, refused["invalid_schema_items"]
    return None


def user_of(node: OperationsNode, permission: Any) -> User | None:
    return None if permission is None else User("ann") if permission == "no role" else node.user("ann", permission)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_operation_for_everybody(node: OperationsNode, row: Operation) -> None:
    fields = {field.name for field in row.fields}
    for who, (database, table_name), name in product(WHO, PLACES, row.names):
        if who.startswith("listed") and row.name in EXPORTS:
            continue
        permission = permission_of(who, row)
        body: dict[str, Any] = {"operation": name, **{key: value for key, value in row.example.items() if key not in ("schema", "tables")}}
        body |= {key: value for key, value in (("database", database), ("table", table_name)) if key in fields}
        body.pop("records", None)  # attributes are the next test's
        body.pop("action", None)
        place = (database, table_name) if "database" in fields else ("data", table_name)
        assert found(node, user_of(node, permission), body) == expected(permission, row, name, *place), (who, body)


@pytest.mark.parametrize("row", [row for row in ROWS if row.name not in NO_LOGIN], ids=lambda row: row.name)
def test_impersonation_gives_the_same(node: OperationsNode, row: Operation) -> None:
    """A super user with `impersonate` gets what a user with that permission gets."""
    for who, (database, table_name) in product(WHO, PLACES):
        permission = permission_of(who, row)
        if (
            not isinstance(permission, dict)
            or permission.get("super_user")
            or (who.startswith("listed") and row.name in EXPORTS | NEVER_GRANTED)
        ):
            continue  # or it is no permission
        body = {"operation": row.name, **row.example, "database": database, "table": table_name}
        body.pop("schema", None)
        direct = found(node, user_of(node, permission), body)
        assert found(node, node.admin, {**body, "impersonate": {"role": {"permission": permission}, "username": "ann"}}) == direct, who


def test_every_operation_of_the_contract_is_one_kind() -> None:
    assert not (NO_LOGIN & ANYBODY or STRUCTURE & set(RIGHTS) or (NO_LOGIN | ANYBODY) & (STRUCTURE | set(RIGHTS)))


# --- REST and operations agree ------------------------------------------------------------------------------------------------------------

NAMES = ("id", "name", "price", "stock", "inStock", "brandId", "undeclared", "__createdtime__")
VALUES: dict[str, Any] = {"name": "N", "price": 1, "stock": 2, "inStock": True, "brandId": "b1", "undeclared": 5, "__createdtime__": 7}

flags = st.booleans()
entries = st.fixed_dictionaries({"attribute_name": st.sampled_from(NAMES), "read": flags, "insert": flags, "update": flags})
rights_on_table = st.fixed_dictionaries(
    {
        "read": flags,
        "insert": flags,
        "update": flags,
        "delete": flags,
        "attribute_permissions": st.one_of(st.none(), st.lists(entries, max_size=4, unique_by=lambda entry: entry["attribute_name"])),
    }
)
permissions = st.one_of(
    st.fixed_dictionaries({}, optional={"Product": rights_on_table, "Brand": rights_on_table}).map(
        lambda tables: {"data": {"tables": tables}}
    ),
    st.sampled_from([{"structure_user": True}, {"structure_user": ["data"]}, {"structure_user": ["other"]}, {"super_user": True}, {}]),
)


class Both:
    """The same application and records behind REST and behind operations."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self.rest = Node(factory.mktemp("rest"))
        self.operations = OperationsNode(factory.mktemp("operations"))
        load_app(APP, self.operations.store, self.operations.node.resources, QueryCache(), {})
        brand, product = {"id": "b1", "name": "Acme"}, {"id": "p1", "name": "N", "price": 1, "stock": 2, "inStock": True, "brandId": "b1"}
        for name, record in (("Brand", brand), ("Product", product)):
            self.rest.connect().ask("PUT", f"/{name}/{record['id']}", json.dumps(record).encode())
            self.operations.run("upsert", table=name, records=[record])

    def become(self, permission: dict[str, Any]) -> None:
        self.rest.as_user(User("ann", True, Role("r", "r", permission, databases=self.rest.store.databases)))
        self.user = self.operations.user("ann", permission)

    def by_rest(self, method: str, target: str, record: Any = None) -> Any:
        """The body, or False for a refusal."""
        status, _, body = self.rest.connect().ask(method, target, b"" if record is None else json.dumps(record).encode())
        if status == 403 and b'"FORBIDDEN"' in body:
            return False
        assert status < 500 and status != 401, body
        return json.loads(body) if body and status < 300 else status

    def by_operation(self, name: str, **fields: Any) -> Any:
        try:
            return self.operations.run(name, self.user, **fields)
        except Problem as problem:
            assert problem.status_code < 500, problem
            return False if problem.status_code == 403 else problem.status_code

    def close(self) -> None:
        assert not self.rest.errors
        self.rest.close()
        self.operations.close()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    made = Both(tmp_path_factory)
    yield made
    made.close()


@given(permissions, st.lists(st.sampled_from(NAMES[1:]), min_size=1, max_size=3, unique=True))
def test_rest_and_operations_agree(both: Both, permission: dict[str, Any], names: list[str]) -> None:
    both.become(permission)
    record = {name: VALUES[name] for name in names}
    read, found_records = both.by_rest("GET", "/Product/p1"), both.by_operation("search_by_id", table="Product", ids=["p1"])
    assert (read is False) == (found_records is False)
    if read is not False:
        # Times are set by two clocks; that they are shown is what matters.
        assert read.keys() == found_records[0].keys()
        assert {name: value for name, value in read.items() if name in VALUES} == {
            name: value for name, value in found_records[0].items() if name in VALUES
        }
    for attribute in ("name", "price", "brandId", "id", "brand.name", "brand.id"):
        by_rest = both.by_rest("GET", f"/Product/?{attribute}=b1" if attribute != "price" else "/Product/?price=1")
        value = 1 if attribute == "price" else "b1"
        by_operation = both.by_operation("search_by_conditions", table="Product", conditions=[{"attribute": attribute, "value": value}])
        assert (by_rest is False) == (by_operation is False), attribute
    new = both.by_rest("PUT", "/Product/new", record), both.by_operation("insert", table="Product", records=[{"id": "new", **record}])
    assert (new[0] is False) == (new[1] is False), (record, new)
    changed = both.by_rest("PATCH", "/Product/p1", record), both.by_operation("update", table="Product", records=[{"id": "p1", **record}])
    assert (changed[0] is False) == (changed[1] is False), (record, changed)
    dropped = both.by_rest("DELETE", "/Product/new"), both.by_operation("delete", table="Product", ids=["new"])
    assert (dropped[0] is False) == (dropped[1] is False)
    both.become({"super_user": True})
    both.by_rest("DELETE", "/Product/new")
    both.by_operation("delete", table="Product", ids=["new"])
    original = {"name": "N", "price": 1, "stock": 2, "inStock": True, "brandId": "b1"}
    both.by_rest("PUT", "/Product/p1", original)
    both.by_operation("delete", table="Product", ids=["p1"])
    both.by_operation("insert", table="Product", records=[{"id": "p1", **original}])
