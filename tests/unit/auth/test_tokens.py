"""Tokens (spec: security §2, operations §6), and how the identifier takes them."""

import json
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from svc.auth.identify import Identifier, PendingVerification
from svc.auth.token_keys import NO_KEYS, PASS_FILE, TokenKeys
from svc.auth.tokens import Tokens, read_life
from svc.auth.users import User
from svc.config import Config
from svc.errors import Problem
from svc.messages import HeaderBlock, Request
from svc.store.system import USER_TABLE
from tests.support.identifying import make_identifier

World = Any  # tests/unit/auth/conftest.py
DAY = 86_400


@pytest.fixture
def tokens(world: World, keys: TokenKeys) -> Tokens:
    return Tokens(keys, world.directory, world.clock)


def create(world: World, tokens: Tokens, username: str = "ann", **options: Any) -> dict[str, str]:
    made: dict[str, str] = world.run(lambda: tokens.create(world.directory.get_user(username), **options))
    return made


def refresh(world: World, tokens: Tokens, token: str) -> str:
    made: str = world.run(lambda: tokens.refresh(token))
    return made


def claims(token: str) -> dict[str, Any]:
    found: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return found


def forged(tokens: Tokens, headers: dict[str, Any] | None = None, **changes: Any) -> str:
    """A token that our key has signed, with these claims changed; None: left out."""
    good = {"username": "ann", "super_user": False, "iat": 1_767_225_600, "exp": 1_767_225_700, "sub": "operation", "jti": "1"}
    user = tokens._directory.get_user("ann")
    good |= {"account": "" if user is None else user.login_id}
    return jwt.encode(
        {name: value for name, value in (good | changes).items() if value is not None}, tokens.keys.private, "RS256", headers=headers
    )


def refused(work: Any) -> str:
    with pytest.raises(Problem) as caught:
        work()
    assert (caught.value.status_code, caught.value.code) == (401, "UNAUTHENTICATED")
    return caught.value.message


# --- what is issued ------------------------------------------------------------------------------------------------------------------


def test_claims(world: World, tokens: Tokens) -> None:
    made = create(world, tokens)
    assert set(made) == {"operation_token", "refresh_token"}
    now = int(world.clock.wall())
    common = {"username": "ann", "super_user": False, "iat": now, "account": world.directory.get_user("ann").login_id}
    operation, refresh_ = claims(made["operation_token"]), claims(made["refresh_token"])
    assert operation.pop("jti") != refresh_.pop("jti")
    assert operation == {**common, "exp": now + DAY, "sub": "operation"}
    assert refresh_ == {**common, "exp": now + 30 * DAY, "sub": "refresh"}
    assert claims(create(world, tokens, "admin")["operation_token"])["super_user"] is True


def test_algorithm(world: World, tokens: Tokens) -> None:
    for token in create(world, tokens).values():
        assert jwt.get_unverified_header(token) == {"alg": "RS256", "typ": "JWT"}
        assert jwt.decode(token, tokens.keys.public, ["RS256"], options={"verify_exp": False, "verify_iat": False})["username"] == "ann"


def test_lives_of_the_configuration(world: World, made_keys: Path) -> None:
    settings = {"authentication": {"operationTokenTimeout": "15m", "refreshTokenTimeout": 7200}}
    tokens = Tokens.from_config(Config.from_document(settings, made_keys.parent), world.directory, world.clock)
    assert not tokens.keys.is_ready  # no file has been read
    made = create(world, tokens)
    assert [claims(token)["exp"] - claims(token)["iat"] for token in made.values()] == [900, 7200]


@pytest.mark.parametrize(
    ("value", "seconds"), [("15m", 900), ("12h", 43_200), ("1d", DAY), ("2w", 14 * DAY), ("90", 90), (90, 90), (90.5, 90), ("45s", 45)]
)
def test_expires_in_concerns_the_operation_token(world: World, tokens: Tokens, value: object, seconds: int) -> None:
    made = create(world, tokens, expires_in=value)
    assert [claims(token)["exp"] - claims(token)["iat"] for token in made.values()] == [seconds, 30 * DAY]


@pytest.mark.parametrize(
    "value",
    ["", "soon", "-1d", "1y", "1 d x", 0, -5, 0.5, True, [], {}, float("nan"), float("inf"), 10**400, "9" * 400, "101d" * 2, 10**10],
)
def test_bad_expires_in(world: World, tokens: Tokens, value: object) -> None:
    with pytest.raises(Problem) as caught:
        create(world, tokens, expires_in=value)
    assert (caught.value.status_code, caught.value.message) == (400, "'expires_in' is invalid")
    assert world.directory.refresh_hash("ann") is None
    with pytest.raises(Problem):
        read_life(value)


def test_role_is_copied_and_does_not_log_in(world: World, tokens: Tokens) -> None:
    made = create(world, tokens, role="reporter")
    assert [claims(token)["role"] for token in made.values()] == ["reporter", "reporter"]
    assert refused(lambda: tokens.verify(made["operation_token"])) == "invalid token"
    renewed = refresh(world, tokens, made["refresh_token"])
    assert claims(renewed)["role"] == "reporter"  # the way round would be a login
    assert refused(lambda: tokens.verify(renewed)) == "invalid token"


def test_only_a_hash_of_the_refresh_token_is_kept(world: World, tokens: Tokens) -> None:
    made = create(world, tokens)
    stored = world.directory.refresh_hash("ann")
    assert stored == sha256(made["refresh_token"].encode()).hexdigest()
    assert world.directory.credentials("ann").password == "hash:ann"  # the rest of the user is as it was


def test_no_pair_for_a_user_who_has_been_dropped(world: World, tokens: Tokens) -> None:
    assert refused(lambda: world.run(lambda: tokens.create(User("bob")))) == "invalid token"
    assert world.directory.get_user("bob") is None  # nobody was made by it


# --- what is accepted ------------------------------------------------------------------------------------------------------------------


def test_operation_token(world: World, tokens: Tokens) -> None:
    token = create(world, tokens)["operation_token"]
    found = tokens.verify(token)
    assert found.user is world.directory.get_user("ann") and found.expires == world.clock.wall() + DAY


def test_no_clock_tolerance(world: World, tokens: Tokens) -> None:
    token = create(world, tokens, expires_in=60)["operation_token"]
    world.clock.advance(59.999)
    assert tokens.verify(token).user.username == "ann"
    world.clock.advance(0.001)
    assert refused(lambda: tokens.verify(token)) == "token expired"


def test_a_token_from_the_future_is_valid(world: World, tokens: Tokens) -> None:
    """Its signature is ours: a clock that was set back is no reason to lock everybody out."""
    token = create(world, tokens)["operation_token"]
    world.clock.advance(-3600)
    assert tokens.verify(token).user.username == "ann"


def test_rights_are_read_from_the_user(world: World, tokens: Tokens) -> None:
    token = forged(tokens, super_user=True)
    assert not tokens.verify(token).user.super_user


@pytest.mark.parametrize(
    "changes",
    [
        {"sub": "refresh"},
        {"sub": "other"},
        {"sub": None},
        {"role": "reporter"},
        {"role": ""},
        {"username": None},
        {"username": 5},
        {"username": ["ann"]},
        {"username": ""},
        {"username": "x" * 2000},
        {"username": "bob"},
        {"exp": None},
        {"iat": None},
    ],
)
def test_other_claims(world: World, tokens: Tokens, changes: dict[str, Any]) -> None:
    assert refused(lambda: tokens.verify(forged(tokens, **changes))).startswith("invalid token")


@pytest.mark.parametrize("lacks", ["account", "jti", "iat", "exp"])
def test_a_token_of_another_version_says_so(world: World, tokens: Tokens, lacks: str) -> None:
    told = "invalid token: it was made by another version of svc, log in again"
    assert refused(lambda: tokens.verify(forged(tokens, **{lacks: None}))) == told
    assert refused(lambda: refresh(world, tokens, forged(tokens, **{"sub": "refresh", lacks: None}))) == told


def encoded(data: object) -> str:
    return urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")


def test_expiry_that_is_no_number(world: World, tokens: Tokens) -> None:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    for bad in ("never", [1], {}, True, None):
        body = f"{encoded({'alg': 'RS256'})}.{encoded({'username': 'ann', 'iat': 1, 'sub': 'operation', 'exp': bad})}"
        signature = urlsafe_b64encode(tokens.keys.private.sign(body.encode(), PKCS1v15(), SHA256())).decode().rstrip("=")
        assert refused(lambda token=f"{body}.{signature}": tokens.verify(token)).startswith("invalid token")


def test_header_does_not_choose_the_algorithm(world: World, tokens: Tokens) -> None:
    good = forged(tokens).split(".")
    payload = good[1]
    assert refused(lambda: tokens.verify(f"{encoded({'alg': 'none'})}.{payload}.")) == "invalid token"
    public = tokens.keys.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    import hmac

    body = f"{encoded({'alg': 'HS256', 'typ': 'JWT'})}.{payload}"
    signature = urlsafe_b64encode(hmac.digest(public, body.encode(), "sha256")).decode().rstrip("=")
    assert refused(lambda: tokens.verify(f"{body}.{signature}")) == "invalid token"
    other = jwt.encode({"username": "ann", "iat": 1, "exp": 1_800_000_000, "sub": "operation"}, tokens.keys.private, "RS512")
    assert refused(lambda: tokens.verify(other)) == "invalid token"


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "a.b.c", "é", "\udc80", "x" * 20_000, "." * 20_000, "[" * 9000, urlsafe_b64encode(b"[" * 9000).decode() + ".x.y"],
    ids=range(10),
)
def test_malformed(world: World, tokens: Tokens, token: str) -> None:
    assert refused(lambda: tokens.verify(token)) == "invalid token"
    assert refused(lambda: refresh(world, tokens, token)) == "invalid token"


def test_changed_anywhere(world: World, tokens: Tokens) -> None:
    token = forged(tokens)
    for position in range(0, len(token), 29):
        other = "A" if token[position] != "A" else "B"
        assert refused(lambda bad=token[:position] + other + token[position + 1 :]: tokens.verify(bad)) == "invalid token"


def test_other_keys(world: World, tokens: Tokens, tmp_path: Path) -> None:
    made = create(world, tokens)
    rotated = Tokens(TokenKeys(tmp_path / "rotated", bits=2048), world.directory, world.clock)
    assert refused(lambda: rotated.verify(made["operation_token"])) == "invalid token"
    assert refused(lambda: refresh(world, rotated, made["refresh_token"])) == "invalid token"


def test_dropped_and_inactive_users(world: World, tokens: Tokens) -> None:
    made = create(world, tokens)
    world.user("ann", "gardener", active=False)
    assert refused(lambda: tokens.verify(made["operation_token"])) == "Cannot complete request: User is inactive"
    assert refused(lambda: refresh(world, tokens, made["refresh_token"])) == "Cannot complete request: User is inactive"
    world.drop(USER_TABLE, "ann")
    assert refused(lambda: tokens.verify(made["operation_token"])) == "invalid token"
    assert refused(lambda: refresh(world, tokens, made["refresh_token"])) == "invalid token"


# --- refreshing ------------------------------------------------------------------------------------------------------------------------


def test_refresh(world: World, tokens: Tokens) -> None:
    made = create(world, tokens, "ann", expires_in=60)
    world.clock.advance(3600)
    world.role("gardener", {"super_user": True})
    renewed = refresh(world, tokens, made["refresh_token"])
    now = int(world.clock.wall())
    found = claims(renewed)
    assert found.pop("jti") not in (claims(made["operation_token"])["jti"], claims(made["refresh_token"])["jti"])
    account = world.directory.get_user("ann").login_id
    assert found == {"username": "ann", "super_user": True, "account": account, "iat": now, "exp": now + DAY, "sub": "operation"}
    assert tokens.verify(renewed).user.username == "ann"
    assert refresh(world, tokens, made["refresh_token"])  # it stays good


def test_a_new_pair_ends_the_refresh_token_before(world: World, tokens: Tokens) -> None:
    first = create(world, tokens)
    second = create(world, tokens)  # of the same second
    assert refused(lambda: refresh(world, tokens, first["refresh_token"])) == "invalid token"
    assert refresh(world, tokens, second["refresh_token"])
    assert tokens.verify(first["operation_token"])  # operation tokens cannot be recalled


def test_without_a_stored_hash_no_refresh_token_is_good(world: World, tokens: Tokens) -> None:
    made = create(world, tokens)
    world.user("ann", "gardener")  # as a changed password leaves it
    assert refused(lambda: refresh(world, tokens, made["refresh_token"])) == "invalid token"


def test_refresh_token_expires(world: World, tokens: Tokens) -> None:
    made = create(world, tokens)
    world.clock.advance(30 * DAY)
    assert refused(lambda: refresh(world, tokens, made["refresh_token"])) == "token expired"


def test_each_token_is_good_for_one_thing(world: World, tokens: Tokens) -> None:
    made = create(world, tokens)
    assert refused(lambda: tokens.verify(made["refresh_token"])) == "invalid token"
    assert refused(lambda: refresh(world, tokens, made["operation_token"])) == "invalid token"


# --- keys ------------------------------------------------------------------------------------------------------------------------------


def test_without_readable_keys(world: World, keys: TokenKeys, tmp_path: Path) -> None:
    token = create(world, Tokens(keys, world.directory, world.clock))["operation_token"]
    (tmp_path / "keys" / PASS_FILE).write_text("wrong")
    tokens = Tokens(TokenKeys(tmp_path / "keys", bits=2048), world.directory, world.clock)
    tokens.make_keys()  # is no error
    for work in (lambda: create(world, tokens), lambda: tokens.verify(token), lambda: refresh(world, tokens, token)):
        with pytest.raises(Problem) as caught:
            work()
        assert (caught.value.status_code, caught.value.message) == (500, NO_KEYS)


def test_keys_are_made_when_a_token_is_wanted_first(world: World, tmp_path: Path) -> None:
    tokens = Tokens(TokenKeys(tmp_path / "new", bits=2048), world.directory, world.clock)
    assert tokens.verify(create(world, tokens)["operation_token"]).user.username == "ann"


# --- as a header -----------------------------------------------------------------------------------------------------------------------


def bearer(token: str, scheme: str = "Bearer") -> Request:
    made = Request("GET", "/", HeaderBlock([("authorization", f"{scheme} {token}")]))
    made.peer = "10.0.0.1"
    return made


def identifier(world: World, tokens: Tokens, **options: Any) -> Identifier:
    return make_identifier(world.directory, clock=world.clock, tokens=tokens, **options)


def test_bearer(world: World, tokens: Tokens) -> None:
    who = identifier(world, tokens)
    token = create(world, tokens)["operation_token"]
    assert who.identify(bearer(token)) is world.directory.get_user("ann")
    assert who.identify(bearer(token, "bEARER")) is world.directory.get_user("ann")


def test_bearer_is_checked_once(world: World, tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    who = identifier(world, tokens)
    token = create(world, tokens)["operation_token"]
    made = bearer(token)
    user = who.identify(made)
    monkeypatch.setattr(tokens, "verify", lambda token: pytest.fail("verified again"))
    assert who.identify(made) is user and who.identify(bearer(token)) is user


def test_bearer_expires_though_it_is_remembered(world: World, tokens: Tokens) -> None:
    who = identifier(world, tokens, cache_ttl=3600)
    made = bearer(create(world, tokens, expires_in=10)["operation_token"])
    assert who.identify(made) is not None and who.identify(made) is not None
    world.clock.advance(10)
    assert refused(lambda: who.identify(made)) == "token expired"


def test_bearer_of_a_user_who_changes(world: World, tokens: Tokens) -> None:
    """Acceptance example 7."""
    who = identifier(world, tokens)
    made = bearer(create(world, tokens)["operation_token"])
    first = who.identify(made)
    world.alter("ann", role="super_user")
    second = who.identify(made)
    assert isinstance(first, User) and isinstance(second, User) and second.super_user and not first.super_user
    world.alter("ann", active=False)
    assert refused(lambda: who.identify(made)) == "Cannot complete request: User is inactive"
    world.drop(USER_TABLE, "ann")
    assert refused(lambda: who.identify(made)) == "invalid token"


def test_bearer_is_not_remembered_without_cache(world: World, tokens: Tokens) -> None:
    who = identifier(world, tokens, cache_ttl=0)
    token = create(world, tokens)["operation_token"]
    assert who.identify(bearer(token)) is not None
    assert who.verifier.known(who.verifier.digest(f"Bearer {token}")) is None


def test_wrong_bearer_never_falls_back(world: World, tokens: Tokens) -> None:
    who = identifier(world, tokens, local=True, unix_socket=True)
    for peer in ("127.0.0.1", "unix"):
        made = bearer("nonsense")
        made.peer = peer
        assert refused(lambda request=made: who.identify(request)) == "invalid token"


def test_refresh_token_as_bearer(world: World, tokens: Tokens) -> None:
    """Acceptance example 9, and the one operation that takes it."""
    token = create(world, tokens)["refresh_token"]
    assert refused(lambda: identifier(world, tokens).identify(bearer(token))) == "invalid token"
    who = identifier(world, tokens, refresh_tokens=True, unix_socket=True)
    for _ in range(2):
        made = bearer(token)
        made.peer = "unix"
        assert who.identify(made) is None and made.refresh_token == token
    plain = bearer(create(world, tokens)["operation_token"])
    assert who.identify(plain) is not None and plain.refresh_token is None
    world.clock.advance(30 * DAY)
    assert refused(lambda: who.identify(bearer(token))) == "token expired"


def test_bearer_before_the_keys_are_read(world: World, keys: TokenKeys, tmp_path: Path) -> None:
    made = create(world, Tokens(keys, world.directory, world.clock))
    tokens = Tokens(TokenKeys(tmp_path / "keys", bits=2048), world.directory, world.clock)
    who = identifier(world, tokens, refresh_tokens=True)
    pending = who.identify(bearer(made["operation_token"]))
    assert type(pending) is PendingVerification
    assert world.run(lambda: pending.wait(_loop(), None)).username == "ann"
    assert type(who.identify(bearer(made["operation_token"]))) is User

    tokens = Tokens(TokenKeys(tmp_path / "keys", bits=2048), world.directory, world.clock)
    who = identifier(world, tokens, refresh_tokens=True)
    request = bearer(made["refresh_token"])
    pending = who.identify(request)
    assert type(pending) is PendingVerification
    assert world.run(lambda: pending.wait(_loop(), None)) is None and request.refresh_token == made["refresh_token"]

    tokens = Tokens(TokenKeys(tmp_path / "keys", bits=2048), world.directory, world.clock)
    pending = identifier(world, tokens).identify(bearer("nonsense"))
    assert type(pending) is PendingVerification
    assert refused(lambda: world.run(lambda: pending.wait(_loop(), None))) == "invalid token"


def _loop() -> Any:
    import asyncio

    return asyncio.get_running_loop()
