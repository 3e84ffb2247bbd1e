"""Who the bearer of a client certificate is (spec: security §1.1, §4): before every other credential, and nobody's but his own."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from svc.auth.events import AuthEvents
from svc.auth.identify import Identifier, PendingVerification
from svc.auth.logins import LoginWatches
from svc.auth.origin_policy import OriginPolicy
from svc.auth.users import User
from svc.config import Config
from svc.errors import Problem
from svc.logs import Logs
from svc.messages import HeaderBlock, Request
from svc.tls.mtls import ClientCertificates, Mtls
from svc.tls.peer import PeerCertificate
from tests.support.identifying import make_identifier

World = Any  # tests/unit/auth/conftest.py

BY_NAME = Mtls()
ONLY_ADMITS = Mtls(by_name=False)
ALWAYS_ANN = Mtls(user="ann", by_name=False)


def certificate(*names: str) -> PeerCertificate:
    return PeerCertificate({"subject": tuple((("commonName", name),) for name in names)}, b"der")


def basic(credentials: str) -> str:
    return "Basic " + b64encode(credentials.encode()).decode()


def identifier(world: World, mtls: Mtls | None = BY_NAME, **options: Any) -> Identifier:
    certificates = None if mtls is None else ClientCertificates(mtls)
    return make_identifier(world.directory, clock=world.clock, certificates=certificates, **options)


def login(who: Identifier, shown: PeerCertificate | None, block: HeaderBlock | None = None, peer: str = "10.0.0.1") -> User | None:
    request = Request("GET", "/", HeaderBlock([]) if block is None else block)
    request.peer = peer
    request.peer_certificate = shown
    found = who.identify(request)
    return found.finish(found.work()) if type(found) is PendingVerification else found


def refused(who: Identifier, shown: PeerCertificate | None, block: HeaderBlock | None = None) -> str:
    with pytest.raises(Problem) as caught:
        login(who, shown, block)
    assert caught.value.status_code == 401
    return caught.value.message


WRONG, RIGHT, NONE = [("authorization", basic("ann:wrong"))], [("authorization", basic("ann:ann"))], []


@pytest.mark.parametrize(
    ("mtls", "shown", "credentials", "expected"),
    [
        (BY_NAME, ["ann"], NONE, "ann"),
        (BY_NAME, ["ann"], WRONG, "ann"),
        (BY_NAME, ["admin"], RIGHT, "admin"),
        (BY_NAME, None, RIGHT, "ann"),
        (BY_NAME, None, NONE, None),
        (BY_NAME, None, WRONG, "Login failed"),
        (BY_NAME, ["nobody"], NONE, "Login failed"),
        (BY_NAME, ["nobody"], RIGHT, "Login failed"),
        (BY_NAME, ["Ann"], NONE, "Login failed"),
        (BY_NAME, [], NONE, "Login failed"),
        (BY_NAME, [""], NONE, "Login failed"),
        (BY_NAME, ["ann", "admin"], NONE, "Login failed"),
        (BY_NAME, ["x" * 5000], NONE, "Login failed"),
        (BY_NAME, ["a\0\n\udcff"], NONE, "Login failed"),
        (ALWAYS_ANN, ["whoever"], NONE, "ann"),
        (ALWAYS_ANN, [], WRONG, "ann"),
        (ALWAYS_ANN, None, NONE, None),
        (Mtls(user="nobody", by_name=False), ["ann"], NONE, "Login failed"),
        (ONLY_ADMITS, ["ann"], NONE, None),
        (ONLY_ADMITS, ["ann"], RIGHT, "ann"),
        (ONLY_ADMITS, ["admin"], RIGHT, "ann"),
        (ONLY_ADMITS, ["ann"], WRONG, "Login failed"),
        (None, ["admin"], RIGHT, "ann"),
        (None, ["admin"], NONE, None),
    ],
)
def test_matrix(world: World, mtls: Mtls | None, shown: list[str] | None, credentials: list[tuple[str, str]], expected: str | None) -> None:
    who = identifier(world, mtls)
    peer = None if shown is None else certificate(*shown)
    for _ in range(2):  # the second time with what the first has left in the block
        block = HeaderBlock(credentials)
        if expected == "Login failed":
            assert refused(who, peer, block) == expected
        else:
            user = login(who, peer, block)
            assert (None if user is None else user.username) == expected


def test_connections_share_header_blocks_but_no_users(world: World) -> None:
    """The block is one object, as the driver's cache hands it out."""
    who = identifier(world)
    block = HeaderBlock(RIGHT)
    one, other = certificate("admin"), certificate("nobody")
    for _ in range(3):
        assert login(who, None, block).username == "ann"  # type: ignore[union-attr]
        assert login(who, one, block).username == "admin"  # type: ignore[union-attr]
        assert refused(who, other, block) == "Login failed"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ([], "admin"),
        ([("origin", "http://shop.example")], "admin"),
        ([("origin", "https://app.example")], "admin"),
        ([("sec-fetch-site", "same-origin")], "admin"),
        ([("origin", "https://evil.example")], None),
        ([("origin", "null")], None),
        ([("sec-fetch-site", "cross-site")], None),
    ],
)
def test_a_foreign_page_is_not_identified_by_it(world: World, page: list[tuple[str, str]], expected: str | None) -> None:
    """The browser shows the certificate whichever page asks."""
    who = identifier(world, origins=OriginPolicy(["https://app.example"]))
    for block in (HeaderBlock([("host", "shop.example"), *page]), HeaderBlock([("host", "shop.example"), *RIGHT, *page])):
        for _ in range(2):
            found = login(who, certificate("admin"), block)
            assert (None if found is None else found.username) == expected
    assert login(who, certificate("nobody"), HeaderBlock([("origin", "https://evil.example")])) is None  # it is not even looked at


def test_changes_of_users_take_effect_at_once(world: World) -> None:
    who, shown = identifier(world), certificate("bob")
    assert refused(who, shown) == "Login failed"
    world.user("bob", "gardener")
    assert login(who, shown).username == "bob"  # type: ignore[union-attr]
    world.user("bob", "gardener", active=False)
    assert "inactive" in refused(who, shown)


def test_no_certificate_does_not_close_other_ways(world: World) -> None:
    who = identifier(world, local=True, unix_socket=True)
    local = login(who, None, HeaderBlock([("host", "localhost")]), "127.0.0.1")
    assert local is not None and local.role is not None
    assert login(who, certificate("ann"), HeaderBlock([("host", "localhost")]), "127.0.0.1").username == "ann"  # type: ignore[union-attr]


def test_events(world: World, tmp_path: Path) -> None:
    config = Config.from_document({"logging": {"auditAuthEvents": {"logFailed": True, "logSuccessful": True}}}, tmp_path)
    logs = Logs.from_config(config, clock=world.clock)
    who = identifier(world, events=AuthEvents.from_config(config, logs, world.clock))
    one, other = certificate("ann"), certificate("ann")
    for _ in range(3):
        login(who, one)
    login(who, other)
    for _ in range(3):
        refused(who, certificate("nobody"))
    refused(who, certificate())
    logs.flush()
    lines = (tmp_path / "log" / "svc.log").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line[line.index("{") :]) for line in lines]
    assert {event["auth_strategy"] for event in events} == {"mTLS"}
    assert [(event["username"], event["status"]) for event in events] == [
        ("ann", "success"),
        ("ann", "success"),
        ("nobody", "failure"),
        (None, "failure"),
    ]


def test_a_certificate_may_expire_on_its_connection(world: World) -> None:
    shown = certificate("ann")
    who = make_identifier(world.directory, clock=world.clock, certificates=ClientCertificates(BY_NAME, None, world.clock.wall))
    shown.not_after = world.clock.wall() + 10
    assert login(who, shown).username == "ann"
    world.clock.advance(10)
    assert refused(who, shown) == "Certificate expired"


class Stream:
    ended = False

    def login_ended(self) -> None:
        self.ended = True


@pytest.mark.parametrize(("mtls", "fields"), [(BY_NAME, NONE), (ALWAYS_ANN, NONE), (ONLY_ADMITS, RIGHT)])
def test_streams_end_with_the_certificate(world: World, mtls: Mtls, fields: Any) -> None:
    """realtime §1 rule 7: also with one that only admits the connection."""
    loop = asyncio.new_event_loop()
    try:
        logins = LoginWatches(world.directory, loop, world.clock)
        certificates = ClientCertificates(mtls, None, world.clock.wall)
        who = make_identifier(world.directory, clock=world.clock, certificates=certificates, logins=logins)
        request = Request("GET", "/", HeaderBlock(list(fields)))
        request.peer_certificate = shown = certificate("ann")
        shown.not_after = world.clock.wall() + 10
        found = who.identify(request)
        request.user = found.finish(found.work()) if type(found) is PendingVerification else found
        stream = Stream()
        who.watch_login(request, stream)
        logins._sweep()
        assert not stream.ended and len(logins) == 1
        world.clock.advance(10)
        logins._sweep()
        assert stream.ended and len(logins) == 0
        logins.close()
    finally:
        loop.close()
