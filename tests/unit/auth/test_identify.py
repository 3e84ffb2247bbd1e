"""Who a request is from (spec: http §11.1, security §1, §10). Verifications run in the test itself, as a helper thread would."""

import asyncio
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from svc.auth import verifier as verifier_module
from svc.auth.identify import Identifier, PendingVerification, challenge_headers, decode_basic, is_loopback
from svc.auth.origin_policy import OriginPolicy
from svc.auth.passwords import Verification
from svc.errors import PreconditionFailed, Problem
from svc.messages import HeaderBlock, Request
from svc.store.system import ROLE_TABLE, USER_TABLE
from tests.support.identifying import make_identifier

World = Any  # tests/unit/auth/conftest.py


def basic(credentials: str) -> str:
    return "Basic " + b64encode(credentials.encode()).decode()


def request(authorization: str | None = None, peer: str = "10.0.0.1", **fields: str) -> Request:
    pairs = [(name.replace("_", "-"), value) for name, value in fields.items()]
    if authorization is not None:
        pairs.append(("authorization", authorization))
    made = Request("GET", "/", HeaderBlock(pairs))
    made.peer = peer
    return made


def identifier(world: World, **options: Any) -> Identifier:
    return make_identifier(world.directory, clock=world.clock, **options)


def pending(who: Identifier, made: Request) -> PendingVerification:
    found = who.identify(made)
    assert type(found) is PendingVerification
    return found


def login(who: Identifier, made: Request) -> Any:
    """Identify, and verify where that is needed."""
    found = who.identify(made)
    return found.finish(found.work()) if type(found) is PendingVerification else found


def refused(who: Identifier, made: Request) -> str:
    with pytest.raises(Problem) as caught:
        login(who, made)
    assert (caught.value.status_code, caught.value.code) == (401, "UNAUTHENTICATED")
    return caught.value.message


# --- Basic -------------------------------------------------------------------------------------------------------------------------


def test_anonymous(world: World) -> None:
    assert identifier(world).identify(request()) is None
    assert identifier(world).identify(request(peer="127.0.0.1")) is None


def test_right_password(world: World) -> None:
    user = login(identifier(world), request(basic("ann:ann")))
    assert user.username == "ann" and user is world.directory.get_user("ann")


def test_scheme_is_case_insensitive_and_split_at_the_first_colon(world: World) -> None:
    world.user("bob", "gardener", password="a:b")
    assert login(identifier(world), request(basic("bob:a:b").replace("Basic", "bAsIc"))).username == "bob"


@pytest.mark.parametrize("credentials", ["ann:no", "ann:", ":ann", "nobody:x", "x" * 3000 + ":y"])
def test_wrong_credentials(world: World, credentials: str) -> None:
    assert refused(identifier(world), request(basic(credentials))) == "Login failed"


@pytest.mark.parametrize("value", ["Basic", "Basic ", "Basic !", "Basic YW5u", "Basic /w==", basic("ann:ann") + ", " + basic("ann:ann")])
def test_undecodable_credentials(world: World, value: str) -> None:
    assert refused(identifier(world), request(value)) == "Login failed"


def test_empty_credentials_are_none(world: World) -> None:
    assert identifier(world).identify(request(basic(":"))) is None


def test_other_schemes_count_as_absent(world: World) -> None:
    assert identifier(world).identify(request("Negotiate abc")) is None
    assert identifier(world).identify(request("")) is None


def test_bearer_is_an_invalid_token(world: World) -> None:
    assert refused(identifier(world, local=True), request("Bearer abc", peer="127.0.0.1")) == "invalid token"


def test_wrong_header_never_falls_back(world: World) -> None:
    assert refused(identifier(world, local=True), request(basic("ann:no"), peer="127.0.0.1")) == "Login failed"


def test_inactive_is_told_only_with_the_right_password(world: World) -> None:
    world.user("bob", "gardener", active=False)
    assert refused(identifier(world), request(basic("bob:no"))) == "Login failed"
    assert refused(identifier(world), request(basic("bob:bob"))) == "Cannot complete request: User is inactive"


def test_user_without_role_is_known(world: World) -> None:
    world.user("bob", None)
    user = login(identifier(world), request(basic("bob:bob")))
    assert user.username == "bob" and user.role is None


# --- what is remembered --------------------------------------------------------------------------------------------------------------


def test_verified_once(world: World) -> None:
    who = identifier(world)
    made = request(basic("ann:ann"))
    user = login(who, made)
    assert who.identify(made) is user  # by the digest
    assert who.identify(made) is user  # by the block
    assert who.identify(request(basic("ann:ann"), accept="text/csv")) is user  # another block


def test_forgotten_in_time(world: World) -> None:
    who = identifier(world, cache_ttl=30)
    made = request(basic("ann:ann"))
    login(who, made)
    world.clock.advance(29.9)
    assert type(who.identify(made)) is not PendingVerification
    world.clock.advance(0.2)
    assert type(who.identify(made)) is PendingVerification


def test_ttl_of_zero_remembers_nothing(world: World) -> None:
    who = identifier(world, cache_ttl=0)
    login(who, request(basic("ann:ann")))
    assert type(who.identify(request(basic("ann:ann")))) is PendingVerification


def test_failures_are_not_remembered(world: World) -> None:
    who = identifier(world)
    made = request(basic("bob:bob"))
    assert refused(who, made) == "Login failed"
    world.user("bob", "gardener")
    assert login(who, made).username == "bob"


def test_changes_take_effect_at_once_and_cost_others_no_verification(world: World) -> None:
    who = identifier(world)
    made, other = request(basic("ann:ann")), request(basic("admin:admin"))
    login(who, made), login(who, other)
    assert who.identify(made).role.permission != {"super_user": True}
    world.role("gardener", {"super_user": True})
    assert who.identify(made).super_user
    world.user("ann", "gardener", password="new")
    assert who.identify(other).username == "admin"
    assert refused(who, made) == "Login failed"
    assert login(who, request(basic("ann:new"))).username == "ann"
    world.user("ann", "gardener", password="new", active=False)
    assert refused(who, request(basic("ann:new"))) == "Cannot complete request: User is inactive"
    world.drop(USER_TABLE, "ann")
    assert refused(who, request(basic("ann:new"))) == "Login failed"
    world.role("root", {"super_user": True})
    world.user("zoe", "root")
    world.drop(ROLE_TABLE, "super_user")
    assert who.identify(other).role is None


def test_cache_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier_module, "CACHE_ENTRIES", 2)
    who = identifier(world)
    for name in ("b", "c", "d"):
        world.user(name, "gardener")
        login(who, request(basic(f"{name}:{name}")))
    assert len(who.verifier._verified) == 2
    assert type(who.identify(request(basic("b:b")))) is PendingVerification
    assert type(who.identify(request(basic("d:d")))) is not PendingVerification


def test_no_clear_text_is_kept(world: World) -> None:
    who = identifier(world)
    world.user("bob", "gardener", password="correct horse")
    login(who, request(basic("bob:correct horse")))
    ((digest, verified),) = who.verifier._verified.items()
    assert len(digest) == 32 and not who.verifier._pending
    assert verified.stored == "hash:correct horse"  # the hash of these tests


def test_identifiers_may_share_a_verifier(world: World) -> None:
    one = identifier(world)
    two = identifier(world, local=True, verifier=one.verifier)
    made = request(basic("ann:ann"))
    user = login(one, made)
    assert two.identify(made) is user


def test_memo_of_another_directory_does_not_count(world: World) -> None:
    from svc.auth.users import UserDirectory

    made = request(basic("ann:ann"))
    who = identifier(world)
    login(who, made), who.identify(made)
    assert type(make_identifier(UserDirectory(world.store), clock=world.clock).identify(made)) is PendingVerification


# --- verifications under way ---------------------------------------------------------------------------------------------------------


def test_identical_requests_join(world: World) -> None:
    who = identifier(world)
    first = pending(who, request(basic("ann:ann")))
    assert pending(who, request(basic("ann:ann"), accept="text/csv")) is first
    assert pending(who, request(basic("ann:no"))) is not first


def test_limit_of_outstanding_ones(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier_module, "MAX_OUTSTANDING", 3)
    who = identifier(world)
    waiting = [pending(who, request(basic(f"{n}:x"))) for n in range(3)]
    with pytest.raises(Problem) as caught:
        who.identify(request(basic("ann:ann")))
    assert (caught.value.status_code, caught.value.code, caught.value.retryable) == (503, "OVERLOADED", True)
    waiting[0].abandon()
    waiting[0].abandon()
    assert login(who, request(basic("ann:ann"))).username == "ann"


def test_limit_per_name_and_address(world: World) -> None:
    who = identifier(world)
    waiting = [pending(who, request(basic(f"ann:{n}"))) for n in range(8)]
    with pytest.raises(Problem) as caught:
        who.identify(request(basic("ann:9")))
    assert caught.value.status_code == 503
    pending(who, request(basic("ann:9"), peer="10.0.0.2"))
    pending(who, request(basic("bob:9")))
    for one in waiting:
        one.abandon()
    assert len(who.verifier._pending) == 2 and sum(who.verifier._attempts.values()) == 2


def test_failure_delays(world: World) -> None:
    who = identifier(world)
    for number in range(5):
        found = pending(who, request(basic(f"ann:no{number}")))
        assert found.delay == 0
        with pytest.raises(Problem):
            found.finish(found.work())
    delayed = pending(who, request(basic("ann:ann")))
    assert delayed.delay == 0.1
    assert pending(who, request(basic("admin:x"))).delay == 0
    assert pending(who, request(basic("ann:x"), peer="10.0.0.2")).delay == 0
    delayed.finish(delayed.work())
    assert pending(who, request(basic("ann:y"))).delay == 0


def test_failure_delays_can_be_off(world: World) -> None:
    who = identifier(world, failure_delay=False)
    for number in range(9):
        refused(who, request(basic(f"ann:no{number}")))
    assert pending(who, request(basic("ann:x"))).delay == 0


def test_password_changed_while_it_was_verified(world: World) -> None:
    who = identifier(world)
    found = pending(who, request(basic("ann:ann")))
    result = found.work()
    world.user("ann", "gardener", password="new")
    with pytest.raises(Problem) as caught:
        found.finish(result)
    assert caught.value.status_code == 503
    assert refused(who, request(basic("ann:ann"))) == "Login failed"


def test_user_dropped_while_it_was_verified(world: World) -> None:
    who = identifier(world)
    found = pending(who, request(basic("ann:ann")))
    result = found.work()
    world.drop(USER_TABLE, "ann")
    with pytest.raises(Problem, match="Login failed"):
        found.finish(result)


def test_old_hash_is_replaced(world: World) -> None:
    who = identifier(world)
    world.put(USER_TABLE, "bob", {"username": "bob", "password": "old:pw", "hash_function": "md5", "role": "gardener", "active": True})
    assert login(who, request(basic("bob:pw"))).username == "bob"
    world.store.commit_turn()
    assert world.directory.credentials("bob").password == "hash:pw"
    assert who.identify(request(basic("bob:pw"))).username == "bob"  # and it is still known


def test_a_better_hash_does_not_undo_a_change_of_the_password(world: World) -> None:
    """The change came with another request of the turn, or from another process: the snapshot does not have it yet."""
    bob = {"username": "bob", "password": "old:pw", "hash_function": "md5", "role": "gardener", "active": True}
    world.put(USER_TABLE, "bob", bob)
    users = world.store.databases["system"].tables[USER_TABLE]
    for change in ("password", "drop"):
        transaction = world.store.begin()
        if change == "drop":
            transaction.delete(users, "bob")
        else:
            transaction.patch(users, "bob", {"password": "hash:new"})
        transaction.apply()
        with pytest.raises(PreconditionFailed):
            world.directory.store_hash("bob", "hash:pw", "old:pw")
        world.store.commit_turn()
        credentials = world.directory.credentials("bob")
        assert credentials is None if change == "drop" else credentials.password == "hash:new"


def test_store_that_cannot_take_the_new_hash_is_no_reason_to_refuse(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(username: str, stored: str, verified: str) -> None:
        raise Problem("No space left for this write", 507)

    who = identifier(world)
    world.put(USER_TABLE, "bob", {"username": "bob", "password": "old:pw", "hash_function": "md5", "role": "gardener", "active": True})
    monkeypatch.setattr(world.directory, "store_hash", fail)
    assert login(who, request(basic("bob:pw"))).username == "bob"
    assert who.identify(request(basic("bob:pw"))).username == "bob"
    assert "could not be stored" in caplog.text and "pw" not in caplog.text


def test_wait_joins_survives_cancellation_and_tells_everybody(world: World) -> None:
    who = identifier(world)
    runs: list[int] = []

    async def scenario(pool: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        right, wrong = pending(who, request(basic("ann:ann"))), pending(who, request(basic("ann:no")))
        work = right.work

        def counted() -> Verification:
            runs.append(1)
            return work()

        right.work = counted
        leaver = loop.create_task(right.wait(loop, pool))
        waiting = [loop.create_task(right.wait(loop, pool)) for _ in range(3)]
        failing = [loop.create_task(wrong.wait(loop, pool)) for _ in range(2)]
        await asyncio.sleep(0)
        leaver.cancel()
        users = await asyncio.gather(*waiting)
        assert {user.username for user in users} == {"ann"}
        for outcome in await asyncio.gather(*failing, return_exceptions=True):
            assert isinstance(outcome, Problem) and outcome.message == "Login failed"

    with ThreadPoolExecutor(1) as pool:
        asyncio.run(scenario(pool))
    assert runs == [1] and not who.verifier._pending and not who.verifier._attempts


# --- authorizeLocal ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
def test_local_caller_is_the_first_super_user(world: World, peer: str) -> None:
    who = identifier(world, local=True)
    assert who.identify(request(peer=peer)).username == "admin"
    assert who.identify(request("Negotiate x", peer=peer, host="localhost:9926", origin="http://localhost:9926")).username == "admin"
    assert who.identify(request(peer=peer, host="localhost:9926", origin="http://localhost:3000")) is None
    who = identifier(world, local=True, origins=OriginPolicy(["http://localhost:*"]))
    assert who.identify(request(peer=peer, host="localhost:9926", origin="http://localhost:3000")).username == "admin"


@pytest.mark.parametrize("peer", ["10.0.0.1", "", "::2", "::ffff:10.0.0.1", "localhost", "unix"])
def test_other_peers_are_not_local(world: World, peer: str) -> None:
    assert identifier(world, local=True).identify(request(peer=peer)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"x_forwarded_for": "127.0.0.1"},
        {"forwarded": "for=127.0.0.1"},
        {"via": "1.1 proxy"},
        {"x_real_ip": "127.0.0.1"},
        {"x_forwarded_host": "example.com"},
        {"x_forwarded_proto": ""},
        {"x_original_forwarded_for": "127.0.0.1"},
        {"x_original_host": "example.com"},
        {"cf_connecting_ip": "127.0.0.1"},
        {"cf_ray": "1"},
        {"true_client_ip": "127.0.0.1"},
        {"x_client_ip": "127.0.0.1"},
        {"x_envoy_external_address": "127.0.0.1"},
        {"x_amzn_trace_id": "Root=1"},
        {"cdn_loop": "cloudflare"},
        {"host": "localhost:9926", "origin": "https://evil.example"},
        {"host": "localhost:9926", "origin": "null"},
        {"host": "localhost:9926", "origin": ""},
        {"host": "localhost:9926", "origin": "http://localhost.evil.example:9926"},
        {"host": "localhost:9926", "sec_fetch_site": "cross-site"},
        {"host": "evil.example"},
        {"host": "evil.example", "origin": "http://evil.example"},
        {"host": "localhost.evil.example"},
    ],
)
def test_forwarded_and_foreign_requests_are_not_local(world: World, fields: dict[str, str]) -> None:
    assert identifier(world, local=True).identify(request(peer="127.0.0.1", **fields)) is None


def test_a_trusted_proxy_is_not_local_whatever_it_says(world: World) -> None:
    """`Request.proxy` is set by `http.behind_proxies`."""
    who = identifier(world, local=True)
    made = request(peer="127.0.0.1", host="localhost")
    made.proxy = "127.0.0.1"
    assert who.identify(made) is None
    assert who.identify(request(peer="127.0.0.1", host="localhost")).username == "admin"


def test_a_forwarded_request_on_the_socket_needs_credentials(world: World) -> None:
    who = identifier(world, unix_socket=True)
    assert who.identify(request(peer="unix")).username == "admin"
    for fields in ({"x_forwarded_for": "192.0.2.7"}, {"forwarded": "for=unknown"}, {"via": "1.1 x"}):
        assert who.identify(request(peer="unix", **fields)) is None


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9926", "127.0.0.1:9926", "[::1]:9926", "app.localhost", "Node-1:80"])
def test_names_of_this_machine(world: World, host: str) -> None:
    who = identifier(world, local=True, host_name="node-1")
    assert who.identify(request(peer="127.0.0.1", host=host, origin=f"http://{host}")).username == "admin"


def test_same_block_from_another_peer_is_not_local(world: World) -> None:
    who = identifier(world, local=True)
    made = request(peer="127.0.0.1", host="localhost")
    assert who.identify(made) is not None
    made.peer = "10.0.0.1"
    assert who.identify(made) is None


# --- small functions -----------------------------------------------------------------------------------------------------------------


def test_decode_basic() -> None:
    assert decode_basic(b64encode("jürgen:ä:b".encode()).decode()) == ("jürgen", "ä:b")


def test_is_loopback() -> None:
    assert not is_loopback("fe80::1%eth0")


def test_challenge() -> None:
    two = (("WWW-Authenticate", 'Basic realm="svc", charset="UTF-8"'), ("WWW-Authenticate", 'Bearer realm="svc"'))
    assert challenge_headers(request()) == two
    assert challenge_headers(request(x_requested_with="XMLHttpRequest")) == ()
    foreign = request()
    foreign.foreign = "a page of another site"
    assert challenge_headers(foreign) == two[1:]  # a dialog for a password would lead nowhere
