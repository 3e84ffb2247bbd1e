"""Auth events in the log (spec: security §8)."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.events import AuthEvents
from svc.auth.identify import PendingVerification
from svc.auth.sessions import Sessions
from svc.auth.token_keys import TokenKeys
from svc.auth.tokens import Tokens
from svc.config import Config
from svc.errors import Problem
from svc.logs import Logs
from svc.messages import HeaderBlock, Request
from tests.support.identifying import make_identifier

World = Any  # tests/unit/auth/conftest.py
Observe = Callable[..., "Observed"]


class Observed:
    """An identifier whose events are read from a log file."""

    def __init__(self, world: World, path: Path, *, failed: bool = True, successful: bool = True, **options: Any) -> None:
        document = {"logging": {"auditAuthEvents": {"logFailed": failed, "logSuccessful": successful}}}
        config = Config.from_document(document, path)
        self.file = path / "log" / "svc.log"
        self.world = world
        self.logs = Logs.from_config(config, clock=world.clock)
        self.events = AuthEvents.from_config(config, self.logs, world.clock)
        self.identifier = make_identifier(world.directory, clock=world.clock, events=self.events, **options)

    def send(self, authorization: str | None = None, peer: str = "10.0.0.1", path: str = "/", method: str = "GET", **fields: str) -> None:
        pairs = [(name.replace("_", "-"), value) for name, value in fields.items()]
        if authorization is not None:
            pairs.append(("authorization", authorization))
        request = Request(method, path, HeaderBlock(pairs))
        request.peer = peer
        try:
            found = self.identifier.identify(request)
            if type(found) is PendingVerification:
                found.finish(found.work())
        except Problem:
            pass

    def lines(self) -> list[str]:
        self.logs.flush()
        return self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(line[line.index("{") :]) for line in self.lines()]


@pytest.fixture
def observe(world: World, tmp_path: Path) -> Iterator[Observe]:
    made: list[Observed] = []

    def observe_(**options: Any) -> Observed:
        made.append(Observed(world, tmp_path, **options))
        return made[-1]

    yield observe_
    for observed in made:
        observed.logs.close()


@pytest.fixture
def observed(observe: Observe) -> Observed:
    return observe()


def basic(credentials: str) -> str:
    return "Basic " + b64encode(credentials.encode()).decode()


def test_failure(observed: Observed) -> None:
    origin = "http://console.example"
    observed.send(
        basic("ann:secret"), method="POST", path="/plant/?x=1", host="console.example", origin=origin, x_forwarded_for="198.51.100.7"
    )
    assert observed.read() == [
        {
            "username": "ann",
            "status": "failure",
            "type": "authentication",
            "originating_ip": "10.0.0.1",
            "unverified_ip": "198.51.100.7",
            "request_method": "POST",
            "path": "/plant/",
            "auth_strategy": "Basic",
            "origin": "http://console.example",
        }
    ]
    assert "[error] [auth-event]" in observed.lines()[0]


def test_success_is_logged_when_it_is_verified(observed: Observed) -> None:
    for _ in range(3):
        observed.send(basic("ann:ann"))
    assert observed.read() == [
        {
            "username": "ann",
            "status": "success",
            "type": "authentication",
            "originating_ip": "10.0.0.1",
            "request_method": "GET",
            "path": "/",
            "auth_strategy": "Basic",
        }
    ]
    assert "[notify] [auth-event]" in observed.lines()[0]


@pytest.mark.parametrize(("failed", "successful"), [(False, False), (True, False), (False, True)])
def test_switches(observe: Observe, failed: bool, successful: bool) -> None:
    observed = observe(failed=failed, successful=successful)
    observed.send(basic("ann:ann"))
    observed.send(basic("ann:no"))
    assert [event["status"] for event in observed.read()] == ["failure"] * failed + ["success"] * successful
    assert observed.events.enabled == (failed or successful)


def test_nothing_is_asked_when_it_is_off(observe: Observe) -> None:
    observed = observe(failed=False, successful=False)
    assert observed.identifier._events is None and observed.identifier.verifier.events is None


def test_repeated_failures(observed: Observed) -> None:
    for _ in range(3):
        observed.send(basic("ann:no"))
    assert len(observed.read()) == 1
    observed.send(basic("ann:another"))  # nothing that is shown differs
    assert len(observed.read()) == 1
    observed.send(basic("ann:no"), path="/other")
    observed.send(basic("ann:no"), peer="10.0.0.2")
    observed.send(basic("bob:no"))
    assert len(observed.read()) == 4
    observed.world.clock.advance(29.9)
    observed.send(basic("ann:no"))
    assert len(observed.read()) == 4
    observed.world.clock.advance(0.1)
    observed.send(basic("ann:no"))
    assert len(observed.read()) == 5


def test_memory_of_failures_is_bounded(observed: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.auth.events.MAX_FAILURES", 10)
    request = Request("GET", "/", HeaderBlock([]))
    for number in range(50):
        observed.events.failure(request, "Basic", f"user{number}")
    assert len(observed.events._logged) == 10


def test_what_clients_send_is_cut_and_escaped(observed: Observed) -> None:
    name = "ann\n2026-01-01 [main/0] [notify] forged\x1b[31m\x85\u2028" + "x" * 1000
    observed.send(basic(f"{name}:pw"), path="/" + "p" * 1000, referer="https://a.example/" + "r" * 1000, x_forwarded_for="f" * 1000)
    lines = observed.lines()
    assert len(lines) == 1 and lines[0].isascii() and lines[0].isprintable()
    (event,) = observed.read()
    assert event["username"] == name[:250]
    assert [len(event[key]) for key in ("path", "referer", "unverified_ip")] == [250, 250, 250]


def test_the_client_of_a_trusted_proxy(observed: Observed) -> None:
    request = Request("GET", "/plant/", HeaderBlock([("x-forwarded-for", "203.0.113.9, 198.51.100.7")]))
    request.peer, request.proxy = "198.51.100.7", "10.0.0.1"
    observed.events.failure(request, "Basic", "ann")
    (event,) = observed.read()
    assert (event["originating_ip"], event["peer_ip"]) == ("198.51.100.7", "10.0.0.1")
    assert "unverified_ip" not in event


def test_undecodable_credentials(observed: Observed) -> None:
    observed.send("Basic !!!")
    observed.send(basic("no colon"))
    (event,) = observed.read()
    assert (event["username"], event["status"], event["auth_strategy"]) == (None, "failure", "Basic")


def test_anonymous_callers_are_no_events(observed: Observed) -> None:
    observed.send()
    observed.send(basic(":"))
    observed.send("Negotiate abc")
    assert observed.read() == []


def test_tokens(world: World, keys: TokenKeys, observe: Observe) -> None:
    tokens = Tokens(keys, world.directory, world.clock)
    observed = observe(tokens=tokens)
    made = world.run(lambda: tokens.create(world.directory.get_user("ann"), expires_in=60))
    observed.send(f"Bearer {made['operation_token']}")
    observed.send(f"Bearer {made['operation_token']}")
    observed.send(f"Bearer {made['refresh_token']}")
    observed.send("Bearer nonsense")
    world.clock.advance(60)
    observed.send(f"Bearer {made['operation_token']}")
    shown = [(event["status"], event["auth_strategy"], event["username"]) for event in observed.read()]
    assert shown == [("success", "JWT", "ann"), ("failure", "JWT", "ann"), ("failure", "JWT", None), ("failure", "JWT", "ann")]


def test_no_secret_appears(world: World, keys: TokenKeys, observe: Observe) -> None:
    tokens = Tokens(keys, world.directory, world.clock)
    observed = observe(tokens=tokens, sessions=Sessions(world.store, world.directory, world.clock))
    token = world.run(lambda: tokens.create(world.directory.get_user("ann")))["refresh_token"]
    session_id = "01234567-89ab-4cde-8f01-23456789abcd"
    for authorization in (basic("ann:s3cret"), f"Bearer {token}", f"Bearer {token}x"):
        observed.send(
            authorization,
            path=f"/x?token={token}",
            host="h",
            cookie=f"svc-session={session_id}",
            referer=f"https://a.example/p?password=s3cret&token={token}",
        )
    text = "\n".join(observed.lines())
    assert "s3cret" not in text and token not in text and session_id not in text and "Bearer" not in text
    assert basic("ann:s3cret").split()[1] not in text
    assert {event["session_id"] for event in observed.read()} == {"01234567"}
    assert {event["referer"] for event in observed.read()} == {"https://a.example/p"}


def test_logins_that_are_no_header(world: World, observe: Observe) -> None:
    sessions = Sessions(world.store, world.directory, world.clock)
    observed = observe(sessions=sessions, verifier=sessions.verifier)
    request = Request("POST", "/login", HeaderBlock([("host", "h")]))
    request.peer = "10.0.0.9"
    request.sessions = sessions
    world.run(lambda: request.login("ann", "ann"))
    with pytest.raises(Problem):
        world.run(lambda: request.login("ann", "no"))
    shown = [(event["status"], event["auth_strategy"], event["username"], event["path"]) for event in observed.read()]
    assert shown == [("success", "Login", "ann", "/login"), ("failure", "Login", "ann", "/login")]


def test_an_overload_is_no_failure(observed: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.auth.verifier.MAX_OUTSTANDING", 0)
    observed.send(basic("ann:no"))
    assert observed.read() == []
