"""The directory shows what the store holds, now, and never a secret (security §5.1)."""

from typing import Any

from svc.auth.system import ROLE_TABLE, USER_TABLE
from svc.auth.users import User, UserDirectory, is_username

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
    world.drop(USER_TABLE, "admin")
    world.drop(USER_TABLE, "aaron")
    assert world.directory.first_super_user() is None


def test_generations_of_directories_differ(world: World) -> None:
    assert UserDirectory(world.store).generation != world.directory.generation


def test_user_without_role() -> None:
    assert User("x").as_record() == {"username": "x", "active": True, "role": None}
