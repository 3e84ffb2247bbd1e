"""svc.http.confirmed_writes: who may ask that other nodes confirm a write, and how."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from svc.errors import Problem
from svc.http.confirmed_writes import ConfirmedWrites, wait_confirmed
from svc.messages.call_state import CallState


class FakeRemote:
    def __init__(self, nodes: int = 2) -> None:
        self.nodes = nodes
        self.waited: list[tuple[Any, int]] = []

    def count_nodes(self) -> int:
        return self.nodes

    async def wait(self, databases: Any, count: int) -> None:
        self.waited.append((databases, count))


def request(value: str = "", *, super_user: bool | None = True) -> Any:
    """`super_user` None: anonymous."""
    user = None if super_user is None else SimpleNamespace(super_user=super_user, role=None)
    return SimpleNamespace(block=SimpleNamespace(fields={"x-replicate-to": value}), user=user, state=CallState())


@pytest.fixture(autouse=True)
def users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.http.confirmed_writes.user_of", lambda request: request.user)


def admitted(value: str, remote: Any, *, super_user: bool | None = True) -> Any:
    """The number of confirmations that is asked for, or the status of the refusal."""
    found = request(value, super_user=super_user)
    try:
        ConfirmedWrites(SimpleNamespace(remote_commits=remote)).admit(found)  # type: ignore[arg-type]
    except Problem as problem:
        return f"{problem.status_code} {problem.code}"
    return found.state.replicated_confirmation


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (";confirm=1", 1),
        ("*;confirm=2", 2),
        (" * ; confirm = 2 ", 2),
        (";CONFIRM=1", 1),
        (";confirm=0", None),
        ("*", None),
        ("", None),
        (";confirm=3", "400 VALIDATION"),
        (";confirm=999999", "400 VALIDATION"),
        ("2", "501 NOT_IMPLEMENTED"),
        ("2;confirm=1", "501 NOT_IMPLEMENTED"),
        ("node-a, node-b", "501 NOT_IMPLEMENTED"),
        ("node-a,node-b;confirm=1", "501 NOT_IMPLEMENTED"),
        ("node-a,", "400 VALIDATION"),
        (";confirm=x", "400 VALIDATION"),
        (";confirm=-1", "400 VALIDATION"),
        (";confirm=1234567", "400 VALIDATION"),
        (";confirm", "400 VALIDATION"),
        (";other=1", "400 VALIDATION"),
        (";confirm=1;confirm=2", "400 VALIDATION"),
        ("*,*", "400 VALIDATION"),
    ],
)
def test_values_of_the_header(value: str, outcome: Any) -> None:
    assert admitted(value, FakeRemote()) == outcome


def test_without_a_section_for_it_the_header_has_no_effect() -> None:
    for value in (";confirm=7", "2", "a,b;confirm=1", "*", ";confirm=x"):
        for super_user in (True, False, None):
            assert admitted(value, None, super_user=super_user) is None
    ConfirmedWrites(SimpleNamespace(remote_commits=None)).admit_operation(request(super_user=False), 1)  # type: ignore[arg-type]


def test_more_than_are_known_are_refused() -> None:
    assert admitted(";confirm=1", FakeRemote(0)) == "400 VALIDATION"


def test_only_a_super_user_may() -> None:
    assert admitted("*", FakeRemote(), super_user=False).startswith("403")
    assert admitted(";confirm=1", FakeRemote(), super_user=None).startswith("401")


def test_the_field_of_an_operation() -> None:
    writes = ConfirmedWrites(SimpleNamespace(remote_commits=FakeRemote()))  # type: ignore[arg-type]
    found = request()
    writes.admit_operation(found, 2)
    assert found.state.replicated_confirmation == 2
    for wrong in (-1, True, "1", None, 1.0, 3):
        with pytest.raises(Problem) as refusal:
            writes.admit_operation(request(), wrong)
        assert refusal.value.status_code == 400
    with pytest.raises(Problem) as refusal:
        writes.admit_operation(request(super_user=False), 1)
    assert refusal.value.status_code == 403


def test_what_is_waited_for() -> None:
    remote = FakeRemote()
    store: Any = SimpleNamespace(remote_commits=remote)
    applied: Any = SimpleNamespace(databases=(SimpleNamespace(name="data"),))

    async def work() -> None:
        await wait_confirmed(store, None, applied)
        await wait_confirmed(store, 0, applied)
        await wait_confirmed(store, 1, applied)
        await wait_confirmed(store, 2, None)
        await wait_confirmed(SimpleNamespace(remote_commits=None), 2, None)  # type: ignore[arg-type]
        for wrong in ("1", -1, True):
            with pytest.raises(TypeError):
                await wait_confirmed(store, wrong, applied)

    asyncio.run(work())
    assert remote.waited == [(["data"], 1), (None, 2)]
