"""Roles that an application brings (spec: security §5.7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.apps import App
from svc.apps.roles_file import read_roles, role_of
from svc.auth.first_super_user import ensure_first_super_user
from svc.auth.users import UserDirectory
from svc.clock import FakeClock
from svc.query import QueryCache
from svc.resources import Resources
from svc.store import Store
from svc.store.system import ROLE_TABLE, ensure_system
from tests.support.apps import load_app

SCHEMA = """
type plant @table(database: "garden") { id: ID @primaryKey name: String phone: String }
type keeper @table(database: "garden") { id: ID @primaryKey name: String phone: String }
"""
CONFIG = "rest: true\nroles: {files: roles.yaml}\ngraphqlSchema: {files: '*.graphql'}\n"


class World:
    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("svc.auth.users.hash_password", lambda password, function="argon2id": "hash:" + password)
        self.app = path / "app"
        self.app.mkdir()
        self.clock = FakeClock()
        self.store = Store(path / "store", clock=self.clock)
        ensure_system(self.store)
        ensure_first_super_user(self.store, "admin", "password")
        self.directory = UserDirectory(self.store)
        self.write("schema.graphql", SCHEMA)
        self.write("config.yaml", CONFIG)

    def write(self, name: str, text: str) -> None:
        (self.app / name).write_text(text, encoding="utf-8")

    def start(self, roles: str | None = None) -> App:
        """What a start of the server does with the application."""
        if roles is not None:
            self.write("roles.yaml", roles)
        self.clock.advance(1)
        found = load_app(
            self.app, self.store, Resources(), QueryCache(), {}, operations={"read_only": True, "insert": True, "set_configuration": False}
        )
        assert not self.store.has_pending, "what was written is committed"
        return found

    def roles(self) -> dict[str, dict[str, Any]]:
        return {record["id"]: record for record in self.directory.iter_role_records()}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    found = World(tmp_path, monkeypatch)
    yield found
    found.store.close()


GARDENER = """
gardener:
  structure_user: [garden]
  access: {screens: [beds, seeds]}
  garden:
    plant: {read: true, insert: true}
    keeper:
      read: true
      update: true
      attributes:
        name: {read: true}
        phone: {read: true, update: true}
auditor:
  operations: [read_only]
  garden: {plant: {read: true}}
nobody:
"""


def test_roles_are_made(world: World) -> None:
    app = world.start(GARDENER)
    assert app.entries["roles"].status == "healthy", app.entries["roles"].messages
    found = world.roles()
    assert list(found) == ["auditor", "gardener", "nobody", "super_user"]
    gardener = found["gardener"]
    assert (gardener["id"], gardener["role"], gardener["access"]) == ("gardener", "gardener", {"screens": ["beds", "seeds"]})
    assert gardener["permission"] == {
        "structure_user": ["garden"],
        "garden": {
            "tables": {
                "plant": {"read": True, "insert": True, "update": False, "delete": False, "attribute_permissions": []},
                "keeper": {
                    "read": True,
                    "insert": False,
                    "update": True,
                    "delete": False,
                    "attribute_permissions": [
                        {"attribute_name": "name", "read": True, "insert": False, "update": False},
                        {"attribute_name": "phone", "read": True, "insert": False, "update": True},
                    ],
                },
            }
        },
    }
    assert "access" not in found["auditor"] and found["auditor"]["permission"]["operations"] == ["read_only"]
    assert found["nobody"]["permission"] == {}
    assert {"__createdtime__", "__updatedtime__"} <= set(gardener)


@pytest.mark.parametrize(
    "text",
    [
        "r: {garden: {plant: {read: true}}}",
        "r: {garden: {tables: {plant: {read: true}}}}",
        "r: {permission: {garden: {plant: {read: true}}}}",
        "r: {permission: {garden: {tables: {plant: {read: true}}}}}",
        "r: {permission: {garden: {tables: {plant: {read: true, insert: false, attribute_permissions: []}}}}}",
        "r: {garden: {describe: true, plant: {read: true, attribute_permissions: null}}}",
    ],
)
def test_short_and_long_forms(world: World, text: str) -> None:
    app = world.start(text)
    assert not app.entries["roles"].messages
    expected = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
    assert world.roles()["r"]["permission"] == {"garden": {"tables": {"plant": expected}}}


def test_a_table_may_be_called_tables() -> None:
    role = role_of("r", {"data": {"tables": {"read": True}}})
    assert role.permission["data"]["tables"]["tables"]["read"] is True


def test_changed_skipped_and_kept(world: World) -> None:
    world.start(GARDENER)
    before = world.roles()
    lsn = world.store.databases["system"].log.last_lsn
    world.start()
    assert world.store.databases["system"].log.last_lsn == lsn and world.roles() == before
    world.start(GARDENER.replace("insert: true}", "delete: true}").replace("nobody:", "somebody:"))
    after = world.roles()
    assert after["gardener"]["permission"]["garden"]["tables"]["plant"]["delete"] is True
    assert after["gardener"]["__createdtime__"] == before["gardener"]["__createdtime__"]
    assert after["gardener"]["__updatedtime__"] > before["gardener"]["__updatedtime__"]
    assert after["auditor"] == before["auditor"]
    assert {"nobody", "somebody"} <= set(after), "a role that vanishes from the file stays"
    assert world.directory.get_role("gardener").permission["garden"]["tables"]["plant"]["insert"] is False


def test_a_role_edited_by_an_operation_is_overwritten(world: World) -> None:
    world.start("r: {access: {a: 1}, garden: {plant: {read: true}}}")
    roles = world.store.databases["system"].tables[ROLE_TABLE]
    transaction = world.store.begin()
    transaction.patch(roles, "r", {"permission": {"structure_user": True}})
    transaction.apply()
    world.store.commit_turn()
    world.start()
    assert "structure_user" not in world.roles()["r"]["permission"]
    world.start("r: {garden: {plant: {read: true}}}")
    assert "access" not in world.roles()["r"]


def test_the_id_is_kept(world: World) -> None:
    roles = world.store.databases["system"].tables[ROLE_TABLE]
    transaction = world.store.begin()
    transaction.put(roles, "0815", {"id": "0815", "role": "r", "permission": {}})
    transaction.apply()
    world.store.commit_turn()
    world.start("r: {garden: {plant: {read: true}}}")
    found = world.roles()
    assert "r" not in found and found["0815"]["permission"]["garden"]["tables"]["plant"]["read"] is True


@pytest.mark.parametrize(
    ("role", "text"),
    [
        ("bad: {nope: {plant: {read: true}}}", "roles.yaml:2: role bad: database 'nope' does not exist"),
        ("bad: {garden: {nope: {read: true}}}", "roles.yaml:2: role bad: Table 'garden.nope' does not exist"),
        ("bad: {garden: {plnat: {read: true}}}", "Table 'garden.plnat' does not exist, did you mean 'garden.plant'?"),
        ("bad: {garden: {plant: {read: 1}}}", "roles.yaml:2: role bad: garden_plant: Table READ permission must be a boolean"),
        ("bad: {garden: {plant: {reed: true}}}", "roles.yaml:2: role bad: garden_plant: Invalid table permission key value 'reed'"),
        (
            "bad: {garden: {plant: {read: true, attributes: {nope: {read: true}}}}}",
            "roles.yaml:2: role bad: garden_plant: Invalid attribute 'nope' in 'attribute_permissions'",
        ),
        ("bad: {garden: {plant: true}}", "roles.yaml:2: role bad: garden_plant: Value for 'garden.plant' permission must be an object"),
        ("bad: {garden: 5}", "roles.yaml:2: role bad: Value for 'garden' permission must be an object"),
        ("bad: {operations: [nope]}", "roles.yaml:2: role bad: Invalid operation 'nope' in 'operations'"),
        ("bad: {super_user: true, structure_user: true}", "Roles with 'super_user' set to true cannot have other permissions set."),
        ("bad: {system: {svc_user: {read: true}}}", "roles.yaml:2: role bad: database 'system' does not exist"),
        ("bad: [1]", "roles.yaml:2: role bad: must be a mapping of rights"),
        ("bad: {access: x}", "roles.yaml:2: role bad: 'access' must be an object"),
        ("bad: {permission: x}", "roles.yaml:2: role bad: 'permission' must be an object"),
        ("a bad name: {}", "roles.yaml:2: role a bad name: Role is invalid: its name must consist of letters, digits, _ and -"),
        ("17: {}", "role 17: Role is invalid"),
        ("super_user: {}", "roles.yaml:2: role super_user: Cannot remove the last active super_user"),
        (
            "bad: {garden: {plant: {read: true, attributes: {name: {read: true}}, insert: false, 5: 1}}}",
            "Invalid table permission key value '5'",
        ),
    ],
)
def test_a_bad_role_hinders_no_other(world: World, role: str, text: str) -> None:
    app = world.start(f"first: {{garden: {{plant: {{read: true}}}}}}\n{role}\nlast: {{structure_user: true}}\n")
    status = app.entries["roles"]
    assert status.status == "error" and len(status.messages) == 1 and text in status.messages[0], status.messages
    assert list(world.roles()) == ["first", "last", "super_user"]
    assert world.roles()["super_user"]["permission"] == {"super_user": True}
    assert app.entries["graphqlSchema"].status == "healthy"


@pytest.mark.parametrize("text", ["a: [", "- a\n- b", "just text", "a: !!python/object:os.system {}", "\0"])
def test_a_bad_file(world: World, text: str) -> None:
    app = world.start(text)
    assert app.entries["roles"].status == "error"
    assert list(world.roles()) == ["super_user"]


def test_files_that_are_not_there(world: World) -> None:
    assert world.start().entries["roles"].status == "warning"
    assert world.start("").entries["roles"].status == "healthy"
    world.write("config.yaml", "roles: {files: ../roles.yaml}")
    assert world.start().entries["roles"].status == "error"
    world.write("roles.yaml", "\xff")
    (world.app / "roles.yaml").write_bytes(b"\xff\xfe\xff")
    world.write("config.yaml", CONFIG)
    assert world.start().entries["roles"].status == "error"


def test_without_a_configuration_the_file_counts_too(world: World) -> None:
    (world.app / "config.yaml").unlink()
    assert world.start().entries["roles"].status == "healthy"
    world.start("r: {garden: {plant: {read: true}}}")
    assert "r" in world.roles()


def test_several_files(world: World) -> None:
    world.write("config.yaml", CONFIG.replace("roles.yaml", "'roles/*.yaml'"))
    (world.app / "roles").mkdir()
    world.write("roles/a.yaml", "a: {garden: {plant: {read: true}}}")
    world.write("roles/b.yaml", "b: {nope: {}}\nc: {}")
    app = world.start()
    assert app.entries["roles"].messages == ["roles/b.yaml:1: role b: database 'nope' does not exist"]
    assert {"a", "c"} <= set(world.roles())


def test_hostile_files(tmp_path: Path) -> None:
    """Whatever YAML can say: roles or a fault, nothing else."""
    path = tmp_path / "roles.yaml"
    for text in (
        "a: {b: {c: 2026-01-01}}",
        "a: {b: !!binary aGk=}",
        "? [1, 2]\n: x",
        "a: &x {b: *x}",
        "a: {data: {tables: {t: {attributes: [1]}}}}",
    ):
        path.write_text(text)
        try:
            read_roles(path)
        except ValueError:
            pass
