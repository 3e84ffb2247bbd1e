"""Tickets for addresses of WebSockets and event streams (spec: security §3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from svc.auth import tickets as module
from svc.auth.identify import Identifier, PendingVerification
from svc.auth.tickets import LIFE, Tickets, cut_ticket
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


def issue(world: World, user: User, tickets: Tickets) -> str:
    ticket, expires = world.run(lambda: tickets.issue(user))
    assert expires == int((world.clock.wall() + LIFE) * 1000)
    return str(ticket)


def take(world: World, tickets: Tickets, ticket: str) -> User:
    found: User = world.run(lambda: tickets.take(ticket))
    return found


def refused(world: World, tickets: Tickets, ticket: str) -> bool:
    with pytest.raises(Problem) as raised:
        take(world, tickets, ticket)
    return (raised.value.status_code, raised.value.message) == (401, "invalid ticket")


def outstanding(tickets: Tickets) -> int:
    return tickets.table.entry_count(tickets.table.database.snapshot())


def test_good_once(world: World, tickets: Tickets) -> None:
    ticket = issue(world, ann(world), tickets)
    assert refused(world, tickets, ticket[:-1]) and refused(world, tickets, f"{ticket[:-1]}{'b' if ticket[-1] == 'a' else 'a'}")
    assert take(world, tickets, ticket) == ann(world)
    assert (
        refused(world, tickets, ticket) and refused(world, tickets, "") and refused(world, tickets, "\ud800") and outstanding(tickets) == 0
    )


def test_of_several_that_use_it_at_once_one_succeeds(world: World, tickets: Tickets) -> None:
    ticket = issue(world, ann(world), tickets)
    other = Tickets(world.directory, world.clock)  # of another process

    async def use() -> list[Any]:
        return await asyncio.gather(*[each.take(ticket) for each in (tickets, other, tickets)], return_exceptions=True)

    found = world.run(use)
    assert found[0] == ann(world) and [each.message for each in found[1:]] == ["invalid ticket"] * 2


def test_good_for_half_a_minute(world: World, tickets: Tickets) -> None:
    first, last = (issue(world, ann(world), tickets) for _ in range(2))
    world.clock.advance(LIFE - 0.1)
    assert take(world, tickets, last)
    world.clock.advance(0.2)
    assert refused(world, tickets, first)


@pytest.mark.parametrize("change", [{"active": False}, {"login_epoch": "another"}])
def test_bound_to_the_account(world: World, tickets: Tickets, change: dict[str, Any]) -> None:
    ticket = issue(world, ann(world), tickets)
    world.alter("ann", **change)
    assert refused(world, tickets, ticket)


def test_rights_are_those_at_use(world: World, tickets: Tickets) -> None:
    ticket = issue(world, ann(world), tickets)
    world.role("gardener", {})
    role = take(world, tickets, ticket).role
    assert role is not None and role.permission == {}


def test_there_are_so_many(world: World, tickets: Tickets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PER_ACCOUNT", 3)
    mine = []
    for _ in range(4):
        mine.append(issue(world, ann(world), tickets))
        world.clock.advance(0.001)
    assert outstanding(tickets) == 3 and refused(world, tickets, mine[0]) and take(world, tickets, mine[1])
    monkeypatch.setattr(module, "MOST", outstanding(tickets))
    with pytest.raises(Overloaded):
        issue(world, world.directory.get_user("admin"), tickets)


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


def identified(world: World, identifier: Identifier, request: Request) -> User | None:
    found = identifier.identify(request)
    if not isinstance(found, PendingVerification):
        return found
    assert identifier.identify(request) is found, "a handshake may be identified several times"
    user: User | None = world.run(lambda: found.wait(asyncio.get_running_loop(), None))
    return user


def test_a_request_of_a_foreign_page(world: World, tickets: Tickets) -> None:
    identifier = make_identifier(world.directory, clock=world.clock, tickets=tickets)
    ticket = issue(world, ann(world), tickets)
    request = stream(f"/Plant/?ticket={ticket}", FOREIGN)
    shared = request.block
    assert identified(world, identifier, request) == ann(world)
    assert identified(world, identifier, request) == ann(world)  # once more, when that is known
    another = Request("GET", "/Plant/", shared)
    assert identifier.identify(another) is None  # with the same fields, and no ticket
    world.alter("ann", login_epoch="another")
    with pytest.raises(Problem, match="invalid ticket"):
        identified(world, identifier, request)


def test_a_websocket_has_a_ticket(world: World, tickets: Tickets) -> None:
    identifier = make_identifier(world.directory, clock=world.clock, tickets=tickets)
    request = Request("GET", f"/Plant/?ticket={issue(world, ann(world), tickets)}", HeaderBlock([("host", "localhost")]))
    request.offers = "websocket"
    assert identified(world, identifier, request) == ann(world)


def test_a_ticket_elsewhere_is_a_word_like_any_other(world: World, tickets: Tickets) -> None:
    ticket = issue(world, ann(world), tickets)
    identifier = make_identifier(world.directory, clock=world.clock, tickets=tickets)
    for request in (
        Request("GET", f"/Plant/?ticket={ticket}", HeaderBlock([("host", "localhost")])),
        stream(f"/Plant/?ticket={ticket}", method="POST"),
    ):
        assert identifier.identify(request) is None and request.query == f"ticket={ticket}"
    without = make_identifier(world.directory, clock=world.clock)
    assert without.identify(stream(f"/Plant/?ticket={ticket}")) is None
    assert take(world, tickets, ticket)


def test_a_wrong_one_is_no_way_to_be_someone_else(world: World, tickets: Tickets) -> None:
    identifier = make_identifier(world.directory, clock=world.clock, tickets=tickets, local=True)
    request = stream("/Plant/?ticket=wrong")
    request.peer = "127.0.0.1"
    with pytest.raises(Problem, match="invalid ticket"):
        identified(world, identifier, request)
    assert request.target == "/Plant/"  # for the log
    with pytest.raises(Problem, match="invalid ticket"):
        identified(world, identifier, request)
