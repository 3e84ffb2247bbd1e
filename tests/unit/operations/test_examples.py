"""The examples in docs/operations/ are taken: each runs on a node that has what it speaks of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.errors import Problem
from svc.operations.registry import all_operations
from tests.support.operations import OperationsNode

NEEDS_MORE = {
    # what it is about stands outside the node, or is shortened on the page
    "refresh_operation_token": 401,
    "login": 400,
    "logout": 400,
    "add_certificate": 400,
    "remove_certificate": 404,
    "create_csr": 404,
    "sign_certificate": 404,
    "cancel_job": 404,
    "export_local": 400,
    "csv_file_load": 400,
    "read_upload": 404,
    "load_upload": 404,
    "delete_backup": 404,
    "verify_backup": 404,
    "restore_backup": 404,
    "run_scheduled_job": 404,
    "list_accounts": 404,
    "end_session": 404,
    "list_mails": 501,
    "retry_mails": 501,
    "set_configuration": 501,
    "cluster_set_routes": 501,
    "cluster_delete_routes": 501,
    "deploy_component": 400,
    "deploy_custom_function_project": 400,
    "get_deployment": 404,
    "get_deployment_payload": 404,
    "delete_deployment_payload": 404,
}

ELSEWHERE = {"csv_url_load", "import_from_s3", "export_to_s3"}  # they would ask servers that are not ours


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as made:
        records = [{"id": 7, "species": "fern", "height": 12, "name": "x"}, {"id": 9, "species": "moss", "height": 2, "potted": True}]
        for database in ("garden", "data"):
            for table in ("plant", "orders", "dog"):
                made.run("create_table", database=database, table=table)
                made.run("insert", database=database, table=table, records=records)
        made.run("create_table", database="dev", table="cat")
        made.run("create_table", database="dev", table="dog")
        made.run("add_role", role="gardener", permission={})
        made.run("add_role", role="unused", permission={})
        made.run("add_user", username="ann", password="s3cret", role="gardener", active=True)
        shop = made.config.components_root / "shop"
        (shop / "helpers").mkdir(parents=True)
        (shop / "config.yaml").write_text("rest: true\n")
        (shop / "helpers" / "prices.py").write_text("VAT = 0.19\n")
        yield made


@pytest.mark.parametrize("row", [row for row in all_operations() if row.name not in ELSEWHERE], ids=lambda row: row.name)
def test_the_example_is_taken(node: OperationsNode, row) -> None:  # type: ignore[no-untyped-def]
    prepared = {
        "create_database": ("drop_database", {"database": "dev"}),
        "create_table": ("drop_table", {"database": "dev", "table": "dog"}),
        "drop_attribute": ("create_attribute", {**row.example, "type": "String"}),
        "add_user": ("drop_user", {"username": "ann"}),
        "drop_role": ("drop_user", {"username": "ann"}),
        "add_role": ("drop_user", {"username": "ann"}),
        "update_ssh_key": ("add_ssh_key", {**row.example, "host": "h", "hostname": "h"}),
        "get_ssh_key": ("add_ssh_key", None),
        "delete_ssh_key": ("add_ssh_key", None),
        "get_ssh_known_hosts": None,
        "remove_node": ("add_node", None),
        "revoke_key": ("create_key", None),
    }.get(row.name)
    if prepared is not None:
        name, fields = prepared
        example = next(other.example for other in all_operations() if other.name == name)
        node.run(name, **(example if fields is None else fields))
    if row.name == "add_role":
        node.run("drop_role", id="gardener")
    try:
        node.run(row.name, **row.example)
    except Problem as problem:
        always = (problem.status_code == 501 and "not" in problem.message) or "deploy_component" in problem.message
        assert always or problem.status_code == NEEDS_MORE.get(row.name), (row.name, problem.status_code, problem.message)
