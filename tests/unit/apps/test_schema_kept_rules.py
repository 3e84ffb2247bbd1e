"""svc.apps.schema_kept_rules: a table that two applications declare keeps the rules that one of them has, whatever becomes of that one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from svc.store.schema import Allow
from tests.support.node import Node

PLAIN = "type Note @table @export { id: ID }"
RULED = PLAIN.replace("@export", '@allow(read: "false")')
KEPT = (
    "Note is declared without rules about rows, and keeps those that it had until the next load: "
    "not every application that may declare them could be loaded"
)


@contextmanager
def service(path: Path, **schemas: str) -> Iterator[Node]:
    """A node that starts with these applications, in the order of their names."""
    for name, schema in schemas.items():
        directory = path / "components" / name
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "schema.graphql").write_text(schema)
    (path / "empty").mkdir(exist_ok=True)
    node = Node(path / "data", app=path / "empty")
    try:
        node.run(node.applications.load_all(path / "components"))
        yield node
    finally:
        node.close()


def rules(node: Node) -> tuple[Allow, ...]:
    return node.store.databases["data"].tables["Note"].definition.allow


def change(node: Node, path: Path, name: str, schema: str) -> list[str]:
    (path / "components" / name / "schema.graphql").write_text(schema)
    node.run(node.applications.change(name, ["schema.graphql"], reloads_code=True))
    app = node.applications.get(name)
    assert app is not None
    return app.entries["graphqlSchema"].messages


@pytest.mark.parametrize(("first", "last"), [(PLAIN, RULED), (RULED, PLAIN)])
def test_the_rules_of_one_application_hold_for_all(tmp_path: Path, first: str, last: str) -> None:
    for _ in range(2):
        with service(tmp_path, a=first, b=last) as node:
            assert rules(node) == (Allow(read="false"),)
            assert {app.status for app in node.applications} == {"healthy"}


@pytest.mark.parametrize(
    "fault", [RULED.replace("read", "reed"), RULED.replace("}", ""), RULED.replace("id: ID", "id: ID @unique @unique(")]
)
def test_they_stay_while_that_application_cannot_be_loaded(tmp_path: Path, fault: str) -> None:
    with service(tmp_path, a=PLAIN, b=RULED):
        pass
    with service(tmp_path, a=PLAIN, b=fault) as node:
        assert rules(node) == (Allow(read="false"),)
        app = node.applications.get("a")
        assert app is not None and app.entries["graphqlSchema"].messages == [KEPT] and app.status == "warning"
        assert change(node, tmp_path, "a", PLAIN.replace("ID", "ID a: Int")) == []
        assert rules(node) == (Allow(read="false"),)
        assert change(node, tmp_path, "b", RULED.replace("false", "a==1").replace("ID", "ID a: Int @indexed")) != []
        assert change(node, tmp_path, "b", RULED.replace("false", "id==1")) == []
        assert rules(node) == (Allow(read="id==1"),)


def test_they_stay_while_the_configuration_of_that_application_cannot_be_read(tmp_path: Path) -> None:
    with service(tmp_path, a=PLAIN, b=RULED):
        pass
    (tmp_path / "components" / "b" / "config.yaml").write_text("[")
    with service(tmp_path, a=PLAIN) as node:
        assert rules(node) == (Allow(read="false"),)


def test_what_no_application_declares_any_more_goes(tmp_path: Path) -> None:
    with service(tmp_path, a=PLAIN, b=RULED):
        pass
    with service(tmp_path, a=PLAIN, b="type Other @table { id: ID }") as node:
        assert rules(node) == ()
        assert {app.status for app in node.applications} == {"healthy"}
    with service(tmp_path, a=RULED):
        pass
    with service(tmp_path, a=PLAIN) as node:
        assert rules(node) == ()


def test_they_change_with_the_application_that_declares_them(tmp_path: Path) -> None:
    with service(tmp_path, a=PLAIN, b=RULED, c=PLAIN) as node:
        assert change(node, tmp_path, "a", PLAIN.replace("ID", "ID a: Int")) == []
        assert rules(node) == (Allow(read="false"),)
        assert change(node, tmp_path, "b", RULED.replace("false", "true")) == []
        assert rules(node) == (Allow(read="true"),)
        assert change(node, tmp_path, "b", PLAIN) == []
        assert rules(node) == ()


def test_the_mark_of_accounts_is_that_of_its_application(tmp_path: Path) -> None:
    with service(tmp_path, a=PLAIN.replace("@table", "@table @account"), b=PLAIN) as node:
        assert node.store.databases["data"].tables["Note"].definition.account
        assert [[each.account for each in app.definitions] for app in node.applications if app.definitions] == [[True], [False]]
