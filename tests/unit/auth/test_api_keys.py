"""Requests with API keys (spec: rows §2.7)."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from svc.auth.api_key_format import _checksum, hash_of, new_key, prefix_of
from svc.auth.api_keys import USE_STEP, ApiKeys
from svc.auth.events import AuthEvents
from svc.auth.identify import Identifier
from svc.auth.logins import LoginWatches
from svc.auth.origin_policy import OriginPolicy
from svc.auth.sessions import Sessions
from svc.auth.tickets import Tickets
from svc.auth.token_keys import TokenKeys
from svc.auth.tokens import Tokens
from svc.auth.users import User, UserDirectory
from svc.errors import Problem
from svc.messages import HeaderBlock, Request
from svc.store.system import KEY_TABLE, KEY_USE_TABLE, ROLE_TABLE, SYSTEM, USER_TABLE
from svc.store.values.records import decode
from tests.support.identifying import make_identifier

World = Any  # tests/unit/auth/conftest.py


def add_key(world: World, name: str = "import", *, seconds: float | None = None, **record: Any) -> str:
    """A new key: of the role `gardener` unless `role` or `user` says otherwise."""
    key = new_key()
    if "user" in record:
        record.setdefault("account", world.directory.get_user(record["user"]).login_id.partition("/")[0])
    else:
        record.setdefault("role", "gardener")
    expires = None if seconds is None else (world.clock.wall() + seconds) * 1000
    made = {"name": name, "prefix": prefix_of(key), "secret_hash": hash_of(key), "expires": expires, **record}
    world.put(KEY_TABLE, name, world.store.databases[SYSTEM].tables[KEY_TABLE].validator.record(made))
    world.put(KEY_USE_TABLE, prefix_of(key), {"prefix": prefix_of(key)})
    return key


def of(user: bool) -> dict[str, Any]:
    """What the key is: of `ann`, or of a role."""
    return {"user": "ann"} if user else {}


def revoke(world: World, name: str = "import") -> None:
    world.drop(KEY_TABLE, name)


def identifier(world: World, **options: Any) -> Identifier:
    keys = ApiKeys(world.directory, world.clock)
    return make_identifier(world.directory, clock=world.clock, keys=lambda: keys, **options)


def request(key: str | None, **fields: str) -> Request:
    pairs = [(name.replace("_", "-"), value) for name, value in fields.items()]
    made = Request("GET", "/", HeaderBlock(pairs if key is None else [*pairs, ("authorization", f"Bearer {key}")]))
    made.peer = "10.0.0.1"
    return made


def user(who: Identifier, made: Request) -> User:
    found = who.identify(made)
    assert type(found) is User
    made.user = found
    return found


def refused(who: Identifier, made: Request) -> str:
    with pytest.raises(Problem) as caught:
        who.identify(made)
    assert (caught.value.status_code, caught.value.code) == (401, "UNAUTHENTICATED")
    return caught.value.message


def last_use(world: World, key: str) -> float | None:
    return ApiKeys(world.directory, world.clock).last_use(prefix_of(key))


# --- who asks ------------------------------------------------------------------------------------------------------------------------


def test_a_role_of_its_own(world: World) -> None:
    found = user(identifier(world), request(add_key(world)))
    assert (found.username, found.role and found.role.role, found.super_user, found.active) == ("key:import", "gardener", False, True)
    assert found.key is not None and found.key.name == "import"
    assert world.directory.get_user("key:import") is None and world.directory.named("key:import") is found
    assert found.as_record() == {"username": "key:import", "active": True, "role": found.role.as_record()}


def test_the_rights_of_a_user(world: World) -> None:
    found = user(identifier(world), request(add_key(world, user="admin")))
    admin = world.directory.get_user("admin")
    assert (found.username, found.role, found.super_user) == ("admin", admin.role, True)
    assert found.login_id != admin.login_id and found.key is not None and admin.key is None


def test_remembered_by_the_block_and_by_the_credential(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    who, key = identifier(world), add_key(world)
    made = request(key)
    found = user(who, made)
    monkeypatch.setattr(ApiKeys, "verify", None)
    assert user(who, made) is found and user(who, request(key, accept="text/csv")) is found
    known = who.verifier.known(who.verifier.digest(f"Bearer {key}"))
    assert known is not None and who.remembered(made.block) == (
        world.directory.generation,
        known.expires,
        found,
    )


@pytest.mark.parametrize("of_user", [False, True])
def test_revoked(world: World, of_user: bool) -> None:
    who, key = identifier(world), add_key(world, **of(of_user))
    made = request(key)
    found = user(who, made)
    assert user(who, made) is found is world.directory.current(found)
    revoke(world)
    assert refused(who, made) == refused(who, request(key, accept="x")) == "invalid API key" and world.directory.current(found) is None
    other = add_key(world, **of(of_user))  # of the same name
    assert refused(who, made) == "invalid API key" and user(who, request(other)).key != found.key and who.current(found) is None


def test_expired(world: World) -> None:
    who, key = identifier(world, cache_ttl=1000), add_key(world, seconds=10)
    made = request(key)
    found = user(who, made)
    world.clock.advance(9.9)
    assert user(who, made) is found and who.current(found) is found
    world.clock.advance(0.2)
    assert refused(who, made) == refused(who, request(key, accept="x")) == "The API key has expired"
    assert who.current(found) is None


def test_wrong_keys(world: World) -> None:
    who, key = identifier(world, local=True), add_key(world)
    other = new_key()
    assert refused(who, request(other)) == "invalid API key"
    forged = f"{prefix_of(key)}_{other[len(prefix_of(key)) + 1 : -6]}"  # the public part, and another secret
    assert refused(who, request(forged + _checksum(forged))) == "invalid API key"
    for text in (
        "svc_",
        key[:-1],
        key + "x",
        key[:4] + key[4:].swapcase(),
        f"{key}, {key}",
        "svc_" + "\u00e9" * 44,
        "svc_" + "x" * 16_000,
        prefix_of(key),
    ):
        assert refused(who, request(text)) == "The API key is incomplete or mistyped"
    assert refused(who, request(f"{key} {key}")) == "The API key is incomplete or mistyped"
    assert refused(who, request("SVC_" + key[4:])) == "invalid token"
    assert user(who, request(key)).username == "key:import"


def test_where_none_are_taken(world: World) -> None:
    assert refused(make_identifier(world.directory, clock=world.clock), request(add_key(world))) == "invalid token"


def test_the_role_changes(world: World) -> None:
    who, key = identifier(world), add_key(world)
    made = request(key)
    assert not user(who, made).super_user
    world.role("gardener", {"super_user": True})
    assert user(who, made).super_user
    world.drop(ROLE_TABLE, "gardener")
    assert user(who, made).role is None


def test_the_user_changes(world: World) -> None:
    who, key = identifier(world), add_key(world, user="ann")
    made = request(key)
    found = user(who, made)
    world.alter("ann", role="super_user")
    current = who.current(found)
    assert user(who, made).super_user and current is not None and current.super_user
    world.alter("ann", password="hash:other", login_epoch="other")  # a new password is no end of a key
    assert user(who, made).super_user and who.current(found) is not None
    world.alter("ann", active=False)
    assert refused(who, made) == "Cannot complete request: User is inactive" and who.current(found) is None
    world.alter("ann", active=True)
    assert user(who, made).username == "ann"
    world.drop(USER_TABLE, "ann")
    assert refused(who, made) == "invalid API key" and who.current(found) is None
    world.clock.advance(1)
    world.user("ann", "gardener")
    assert refused(who, made) == "invalid API key"  # another account


def test_another_process(world: World) -> None:
    """A directory that has kept who a key is hears of what others have committed."""
    who, key = identifier(world), add_key(world)
    user(who, request(key))
    other = UserDirectory(world.store)
    assert other.user_of_key("import") is not None
    revoke(world)
    other.refresh()
    assert other.user_of_key("import") is None


def test_foreign_pages_need_to_send_it_themselves(world: World) -> None:
    who, key = identifier(world, origins=OriginPolicy(())), add_key(world)
    assert user(who, request(key, host="a.example", origin="https://evil.example")).key is not None


def test_events(world: World) -> None:
    lines: list[str] = []

    class Log:
        def notify(self, text: str) -> None:
            lines.append(text)

        error = notify

    events = AuthEvents(Log(), world.clock, failed=True, successful=True, period=30)  # type: ignore[arg-type]
    who, key = identifier(world, events=events), add_key(world)
    user(who, request(key))
    refused(who, request(key[:-1]))
    assert ['"Key"' in line and key[15:40] not in line for line in lines] == [True, True]
    assert '"username": "key:import", "status": "success"' in lines[0] and '"username": null, "status": "failure"' in lines[1]


# --- the last use --------------------------------------------------------------------------------------------------------------------


def test_the_last_use_is_written_once_a_minute(world: World) -> None:
    who, key = identifier(world, cache_ttl=0), add_key(world)
    assert last_use(world, key) is None
    written = []
    for _ in range(130):
        user(who, request(key))
        if world.store.has_pending:
            written.append(world.clock.wall())
            world.store.commit_turn()
        world.store.end_turn()
        world.clock.advance(1)
    assert len(written) == 3 and last_use(world, key) == written[-1] * 1000


def test_one_that_another_process_has_written_counts(world: World) -> None:
    key = add_key(world)
    first, second = (ApiKeys(world.directory, world.clock) for _ in range(2))
    first.verify(key)
    world.store.commit_turn()
    world.store.end_turn()
    second.verify(key)
    assert not world.store.has_pending
    world.clock.advance(USE_STEP + 1)
    second.verify(key)
    assert world.store.has_pending
    world.store.commit_turn()


def test_the_last_use_of_a_key_that_was_revoked_leaves_nothing(world: World) -> None:
    who, key = identifier(world), add_key(world)
    table = world.store.databases[SYSTEM].tables[KEY_USE_TABLE]
    world.drop(KEY_USE_TABLE, prefix_of(key))
    user(who, request(key))
    if world.store.has_pending:
        world.store.commit_turn()
    world.store.end_turn()
    assert [decode(raw) for _, raw in table.scan(table.database.snapshot())] == []


def test_remembered_no_longer_than_its_last_use_is_exact(world: World) -> None:
    who, key = identifier(world, cache_ttl=100_000), add_key(world)
    made = request(key)
    user(who, made)
    world.store.commit_turn()
    world.store.end_turn()
    world.clock.advance(USE_STEP + 1)
    user(who, made)
    assert world.store.has_pending
    world.store.commit_turn()


# --- what a key may not make ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of_user", [False, True])
def test_no_tickets_no_tokens_no_sessions(world: World, keys: TokenKeys, of_user: bool) -> None:
    sessions = Sessions(world.store, world.directory, world.clock)
    who = identifier(world, sessions=sessions)
    made = request(add_key(world, **of(of_user)), host="localhost:9926")
    found = user(who, made)
    tokens = Tokens(keys, world.directory, world.clock)
    for work in (
        lambda: Tickets(world.directory, world.clock).issue(found),
        lambda: tokens.create(found),
        lambda: made.session.update({"user": found}),
        lambda: sessions.begin(made, found),
    ):
        with pytest.raises(Problem, match="An API key cannot make") as caught:
            world.run(work)
        assert caught.value.status_code == 403


def test_basic_credentials_are_none(world: World) -> None:
    key = add_key(world)
    made = Request("GET", "/", HeaderBlock([("authorization", "Basic " + b64encode(f"key:import:{key}".encode()).decode())]))
    pending: Any = identifier(world).identify(made)
    with pytest.raises(Problem, match="Login failed"):
        pending.finish(pending.work())


# --- streams -------------------------------------------------------------------------------------------------------------------------


class Stream:
    ended = 0

    def login_ended(self) -> None:
        self.ended += 1


@pytest.mark.parametrize("of_user", [False, True])
def test_streams_end_with_the_key(world: World, of_user: bool) -> None:
    import asyncio

    async def run() -> list[int]:
        listeners: list[Any] = []
        watches = LoginWatches(world.directory, asyncio.get_running_loop(), world.clock, listeners.append, listeners.remove)
        world.store.databases[SYSTEM].on_commit.append(lambda database, entries: [each(database, entries) for each in listeners])
        who = identifier(world, logins=watches)
        streams = [Stream() for _ in range(3)]
        for name, stream in zip(("a", "b"), streams, strict=False):
            made = request(add_key(world, name, **of(of_user)))
            user(who, made)
            who.watch_login(made, stream)
        seen = [[stream.ended for stream in streams]]
        revoke(world, "a")
        seen.append([stream.ended for stream in streams])
        if of_user:
            world.alter("ann", login_epoch="other")
            seen.append([stream.ended for stream in streams])
            world.alter("ann", active=False)
            seen.append([stream.ended for stream in streams])
        watches.close()
        return seen  # type: ignore[return-value]

    found = world.run(run)
    assert found[:2] == [[0, 0, 0], [1, 0, 0]]
    assert found[2:] == ([[1, 0, 0], [1, 1, 0]] if of_user else [])
