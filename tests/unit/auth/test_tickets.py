"""Tickets for addresses of WebSockets and event streams (spec: security §3)."""

from __future__ import annotations

from typing import Any

import pytest

from svc.auth import tickets as module
from svc.auth.tickets import LIFE, MOST_PER_ACCOUNT, Tickets, cut_ticket
from svc.auth.users import User
from svc.errors import Overloaded, Problem
from svc.messages import HeaderBlock, Request
from tests.support.identifying import make_identifier

World = Any  # tests/unit/auth/conftest.py


@pytest.fixture
def tickets(world: World) -> Tickets:
    return Tickets(world.directory, world.clock)


def stream(target: str, *fields: tuple[str, str], method: str = "GET") -> Request:
    return Request(method, target, HeaderBlock([("host", "localhost"), ("accept", "text/event-stream"), *fields]))


def ann(world: World) -> User:
    found: User = world.directory.get_user("ann")
    return found


def refused(tickets: Tickets, ticket: str) -> bool:
    with pytest.raises(Problem) as raised:
        tickets.take(ticket)
    return (raised.value.status_code, raised.value.message) == (401, "invalid ticket")


def test_good_once(world: World, tickets: Tickets) -> None:
    ticket, expires = tickets.issue(ann(world))
    assert expires == (world.clock.wall() + LIFE) * 1000
    assert tickets.take(ticket) == ann(world)
    assert refused(tickets, ticket) and refused(tickets, "") and refused(tickets, "\ud800") and len(tickets) == 0


def test_good_for_half_a_minute(world: World, tickets: Tickets) -> None:
    first, last = (tickets.issue(ann(world))[0] for _ in range(2))
    world.clock.advance(LIFE - 0.1)
    assert tickets.take(last)
    world.clock.advance(0.2)
    assert refused(tickets, first) and len(tickets) == 0


@pytest.mark.parametrize("change", [{"active": False}, {"login_epoch": "another"}])
def test_bound_to_the_account(world: World, tickets: Tickets, change: dict[str, Any]) -> None:
    ticket, _ = tickets.issue(ann(world))
    world.alter("ann", **change)
    assert refused(tickets, ticket)


def test_rights_are_those_at_use(world: World, tickets: Tickets) -> None:
    ticket, _ = tickets.issue(ann(world))
    world.role("gardener", {})
    role = tickets.take(ticket).role
    assert role is not None and role.permission == {}


def test_there_are_so_many(world: World, tickets: Tickets, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = [tickets.issue(ann(world))[0] for _ in range(MOST_PER_ACCOUNT + 1)]
    assert len(tickets) == MOST_PER_ACCOUNT and refused(tickets, mine[0]) and tickets.take(mine[1])
    monkeypatch.setattr(module, "MOST", len(tickets))
    with pytest.raises(Overloaded):
        tickets.issue(world.directory.get_user("admin"))
    world.clock.advance(LIFE)
    assert tickets.issue(world.directory.get_user("admin")) and len(tickets) == 1
    assert dict(tickets._counts) == {module._account("admin", world.directory.get_user("admin").login_id): 1}


@pytest.mark.parametrize(
    ("target", "expected", "left"),
    [
        ("/Plant/?ticket=abc", "abc", "/Plant/"),
        ("/Plant/?ticket=abc&name=fern", "abc", "/Plant/?name=fern"),
        ("/Plant/?name=fern&ticket=abc&limit(2)", "abc", "/Plant/?name=fern&limit(2)"),
        ("/Plant/?name=fern&ticket=", "", "/Plant/?name=fern"),
        ("/Plant/?myticket=abc&ticketed=1", None, "/Plant/?myticket=abc&ticketed=1"),
        ("/Plant/?or(name=fern&ticket=abc&x=1)", None, "/Plant/?or(name=fern&ticket=abc&x=1)"),
        ("/Plant/?shop[city=x&ticket=5]&(a=1|b=2)&ticket=abc", "abc", "/Plant/?shop[city=x&ticket=5]&(a=1|b=2)"),
        ("/Plant/", None, "/Plant/"),
    ],
)
def test_it_is_cut_out_of_the_address(target: str, expected: str | None, left: str) -> None:
    request = stream(target)
    assert cut_ticket(request) == expected
    assert request.target == left and request.query == (left.partition("?")[2] or None)


def test_two_tickets_are_none() -> None:
    request = stream("/Plant/?ticket=a&name=fern&ticket=b")
    with pytest.raises(Problem, match="invalid ticket"):
        cut_ticket(request)
    assert request.target == "/Plant/?name=fern"
    request = stream(f"/Plant/?a=1{'&ticket=b' * 1800}&c=2&ticket=x")
    with pytest.raises(Problem, match="invalid ticket"):
        cut_ticket(request)
    assert request.target == "/Plant/?a=1&c=2"


# --- who the request is from -------------------------------------------------------------------------------------------------------------------

FOREIGN = ("origin", "https://elsewhere.example")


def test_a_request_of_a_foreign_page(world: World, tickets: Tickets) -> None:
    identifier = make_identifier(world.directory, clock=world.clock, tickets=tickets)
    ticket, _ = tickets.issue(ann(world))
    request = stream(f"/Plant/?ticket={ticket}", FOREIGN)
    shared = request.block
    assert identifier.identify(request) == ann(world)
    assert identifier.identify(request) == ann(world)  # a handshake may be identified several times
    another = Request("GET", "/Plant/", shared)
    assert identifier.identify(another) is None  # with the same fields, and no ticket
    world.alter("ann", login_epoch="another")
    with pytest.raises(Problem, match="invalid ticket"):
        identifier.identify(request)


def test_a_websocket_has_a_ticket(world: World, tickets: Tickets) -> None:
    identifier = make_identifier(world.directory, clock=world.clock, tickets=tickets)
    request = Request("GET", f"/Plant/?ticket={tickets.issue(ann(world))[0]}", HeaderBlock([("host", "localhost")]))
    request.offers = "websocket"
    assert identifier.identify(request) == ann(world)


def test_a_ticket_elsewhere_is_a_word_like_any_other(world: World, tickets: Tickets) -> None:
    ticket, _ = tickets.issue(ann(world))
    identifier = make_identifier(world.directory, clock=world.clock, tickets=tickets)
    for request in (
        Request("GET", f"/Plant/?ticket={ticket}", HeaderBlock([("host", "localhost")])),
        stream(f"/Plant/?ticket={ticket}", method="POST"),
    ):
        assert identifier.identify(request) is None and request.query == f"ticket={ticket}"
    without = make_identifier(world.directory, clock=world.clock)
    assert without.identify(stream(f"/Plant/?ticket={ticket}")) is None
    assert tickets.take(ticket)


def test_a_wrong_one_is_no_way_to_be_someone_else(world: World, tickets: Tickets) -> None:
    identifier = make_identifier(world.directory, clock=world.clock, tickets=tickets, local=True)
    request = stream("/Plant/?ticket=wrong")
    request.peer = "127.0.0.1"
    with pytest.raises(Problem, match="invalid ticket"):
        identifier.identify(request)
    assert request.target == "/Plant/"  # for the log
