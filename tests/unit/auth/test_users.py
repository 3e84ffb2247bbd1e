"""The directory shows what the store holds, now, and never a secret (spec: security §5.1)."""

import asyncio
from typing import Any

import pytest

from svc.auth.users import User, UserDirectory, is_username
from svc.errors import Problem
from svc.store import Store
from svc.store.system import ROLE_TABLE, USER_TABLE, ensure_system

World = Any  # tests/unit/auth/conftest.py


def test_user_object(world: World) -> None:
    world.role("clerk", {"data": {}}, access={"screens": ["beds"]})
    world.user("bob", "clerk")
    bob = world.directory.get_user("bob")
    assert bob is not None and bob.get_id() == bob.username == "bob" and bob.active and not bob.super_user
    assert bob.as_record() == {
        "username": "bob",
        "active": True,
        "role": {"id": "clerk", "role": "clerk", "permission": {"data": {}}, "access": {"screens": ["beds"]}},
    }
    assert "hash" not in repr(bob) and "hash" not in repr(world.directory.credentials("bob"))


def test_unknown_and_impossible_names(world: World) -> None:
    for name in ("", "nobody", "x" * 5000, "ü" * 1000):
        assert world.directory.get_user(name) is None
        assert world.directory.credentials(name) is None
    assert is_username("a") and not is_username("")


def test_kept_until_something_changes(world: World) -> None:
    ann = world.directory.get_user("ann")
    assert world.directory.get_user("ann") is ann
    generation = world.directory.generation
    world.user("bob", "gardener")
    assert world.directory.generation > generation
    assert world.directory.get_user("ann") is not ann
    generation = world.directory.generation
    world.put("svc_info", "version", {"id": "version"})
    assert world.directory.generation == generation


def test_role_changes_take_effect(world: World) -> None:
    assert not world.directory.get_user("ann").super_user
    world.role("gardener", {"super_user": True})
    assert world.directory.get_user("ann").super_user
    world.drop(ROLE_TABLE, "gardener")
    assert world.directory.get_user("ann").role is None
    world.drop(USER_TABLE, "ann")
    assert world.directory.get_user("ann") is None


def test_only_true_is_active(world: World) -> None:
    for value in (False, None, "true"):
        world.user("bob", "gardener", active=value)
        assert not world.directory.get_user("bob").active


def test_malformed_role_gives_nothing(world: World) -> None:
    world.role("odd", "everything")
    world.user("bob", "odd")
    bob = world.directory.get_user("bob")
    assert bob.role.permission == {} and not bob.super_user


def test_first_super_user(world: World) -> None:
    assert world.directory.first_super_user().username == "admin"
    world.user("aaron", "super_user", active=False)
    assert world.directory.first_super_user().username == "admin"
    world.user("aaron", "super_user")
    assert world.directory.first_super_user().username == "aaron"
    world.drop(USER_TABLE, "aaron")
    assert world.directory.first_super_user().username == "admin"


def test_generations_of_directories_differ(world: World) -> None:
    assert UserDirectory(world.store).generation != world.directory.generation


def test_user_without_role() -> None:
    assert User("x").as_record() == {"username": "x", "active": True, "role": None}


# --- the last active super user ------------------------------------------------------------------------------------------------------


def put(world: World, table: str, key: str, record: Any) -> Any:
    """Collect and apply in one transaction; not committed."""
    transaction = world.store.begin()
    if record is None:
        transaction.delete(world.store.databases["system"].tables[table], key)
    else:
        transaction.patch(world.store.databases["system"].tables[table], key, record)
    transaction.apply()
    return transaction


REMOVALS = [
    (USER_TABLE, "admin", None),
    (USER_TABLE, "admin", {"active": False}),
    (USER_TABLE, "admin", {"role": "gardener"}),
    (USER_TABLE, "admin", {"role": "no such role"}),
    (ROLE_TABLE, "super_user", None),
    (ROLE_TABLE, "super_user", {"permission": {}}),
    (ROLE_TABLE, "super_user", {"permission": {"super_user": 1}}),
]


@pytest.mark.parametrize(("table", "key", "change"), REMOVALS)
def test_a_super_user_remains(world: World, table: str, key: str, change: Any) -> None:
    with pytest.raises(Problem, match="Cannot remove the last active super_user") as refused:
        put(world, table, key, change)
    assert refused.value.status_code == 409
    world.store.commit_turn()
    assert world.directory.first_super_user().username == "admin"
    world.store.check()


@pytest.mark.parametrize(("table", "key", "change"), REMOVALS)
def test_a_second_super_user_may_take_over(world: World, table: str, key: str, change: Any) -> None:
    world.role("root", {"super_user": True})
    world.user("zoe", "root")
    put(world, table, key, change)
    # In the same turn, before the commit: what was just applied counts.
    with pytest.raises(Problem, match="Cannot remove the last"):
        put(world, USER_TABLE, "zoe", None)
    world.store.commit_turn()
    assert world.directory.first_super_user().username == "zoe"
    with pytest.raises(Problem, match="Cannot remove the last"):
        put(world, ROLE_TABLE, "root", None)


def test_inactive_and_unfit_ones_do_not_count(world: World) -> None:
    world.role("true", {"super_user": "true"})
    world.user("bob", "super_user", active=False)
    world.user("carl", "true")
    world.user("dora", None)
    with pytest.raises(Problem, match="Cannot remove the last"):
        put(world, USER_TABLE, "admin", None)


def test_what_concerns_nobody_is_let_through(world: World) -> None:
    put(world, USER_TABLE, "ann", None)
    put(world, USER_TABLE, "admin", {"password": "hash:new"})
    put(world, ROLE_TABLE, "gardener", None)
    put(world, "svc_info", "x", {"version": "1"})
    world.store.commit_turn()
    assert world.directory.get_user("ann") is None


def test_without_any_super_user_nothing_is_refused(tmp_path: Any) -> None:
    store = Store(tmp_path / "store")
    ensure_system(store)
    directory = UserDirectory(store)
    users = store.databases["system"].tables[USER_TABLE]
    for change in ({"role": "x", "active": True}, {"active": False}):
        transaction = store.begin()
        transaction.patch(users, "bob", change)
        transaction.apply()
    store.commit_turn()
    assert directory.get_user("bob") is not None
    store.close()


def test_a_long_write_is_guarded_too(world: World) -> None:
    async def run() -> None:
        users = world.store.databases["system"].tables[USER_TABLE]
        transaction = world.store.begin()
        for number in range(100):
            transaction.patch(users, f"user{number}", {"active": True, "role": "gardener"})
        transaction.delete(users, "admin")
        await transaction.apply_long()

    with pytest.raises(Problem, match="Cannot remove the last"):
        asyncio.run(run())
    assert world.directory.get_user("user1") is None and world.directory.get_user("admin") is not None
    world.store.check()
