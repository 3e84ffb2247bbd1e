"""Streams end with what let their callers in (spec: realtime §1 rule 7)."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from svc.auth.logins import SWEEP, Login, LoginWatches
from svc.auth.token_keys import TokenKeys
from svc.clock import FakeClock
from svc.errors import Problem
from svc.testing import Application
from svc.testing.application import app as start_app
from tests.unit.testing.conftest import write_application

SCHEMA = "type Product @table @export { id: ID @primaryKey stock: Int }\n"
CODE = """
    import asyncio
    from svc import Resource, Response, server

    ENDED = []


    class Ticks(Resource):
        def allow_read(self, user, target=None):
            return user is not None

        async def connect(self, incoming=None, query=None):
            try:
                yield "first"
                await asyncio.Event().wait()
            finally:
                ENDED.append("connect")


    class Raw(Resource):
        def allow_read(self, user, target=None):
            return user is not None

        def get(self, target=None):
            async def events():
                try:
                    yield b"data: 1\\n\\n"
                    await asyncio.Event().wait()
                finally:
                    ENDED.append("raw")

            return Response(events(), headers={"Content-Type": "text/event-stream"})


    async def talk(socket, request, completion, go_on):
        await completion
        async for message in socket:
            await socket.send(message)

    server.ws(talk, url_path="/talk")
"""
CONFIG = """
rest: true
graphqlSchema: {files: schema.graphql}
jsResource: {files: resources.py}
graphql: {extended: true}
login: true
roles: {files: roles.yaml}
"""
ROLES = "reader: {data: {Product: {read: true}}}\n"
LIST = "subscription { Product { id } }"
GRAPHQL = {"Sec-WebSocket-Protocol": "graphql-transport-ws"}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    files = {"resources.py": CODE, "schema.graphql": SCHEMA, "roles.yaml": ROLES, "config.yaml": CONFIG}
    directory = write_application(tmp_path_factory.mktemp("streams") / "streams", files)
    with start_app(directory) as app:
        app.instance.server.accounts.tokens.keys = TokenKeys(tmp_path_factory.mktemp("keys"), bits=2048)
        app.instance.server.accounts.tokens.load()
        yield app


class Streams:
    """One of each kind, for a caller with these fields."""

    def __init__(self, app: Application, **headers: str) -> None:
        options: dict[str, Any] = {"headers": headers, "user": None}
        graphql = {"headers": {**headers, **GRAPHQL}, "user": None}
        self.events = {
            "table": app.events("/Product/", **options),
            "live": app.events("/Product/?live()", **options),
            "connect": app.events("/Ticks", **options),
            "raw": app.events("/Raw", headers={**headers, "Accept": "*/*"}, user=None),
        }
        self.sockets = {
            "table": app.connect("/Product/", **options),
            "connect": app.connect("/Ticks", **options),
            "code": app.connect("/talk", **options),
        }
        self.graphql = app.connect("/graphql", **graphql)
        self.graphql.send({"type": "connection_init"})
        self.graphql.send({"type": "subscribe", "id": "1", "payload": {"query": LIST}})

    def open(self) -> set[str]:
        found = {f"events of {name}" for name, stream in self.events.items() if stream.is_open}
        found |= {f"socket of {name}" for name, socket in self.sockets.items() if socket.is_open}
        return found | ({"graphql"} if self.graphql.is_open else set())

    def codes(self) -> set[int | None]:
        return {socket.close_code for socket in self.sockets.values()}


EVERY = {"events of table", "events of live", "events of connect", "events of raw"}
EVERY |= {"socket of table", "socket of connect", "socket of code", "graphql"}


@pytest.fixture
def ann(app: Application) -> Iterator[str]:
    app.operation("add_user", username="ann", password="secret12", role="reader", active=True)
    yield "ann"
    if any(user["username"] == "ann" for user in app.operation("list_users")):
        app.operation("drop_user", username="ann")
    app.settle()
    gc.collect()
    assert len(app.instance.server.accounts._logins) == 0


def token_of(app: Application, username: str, life: int) -> str:
    server = app.instance.server
    found = app.run(server.accounts.tokens.create(server.accounts.directory.get_user(username), expires_in=life))
    return str(found["operation_token"])


def logged_in(app: Application) -> str:
    """The cookie of a session."""
    answer = app.post("/login", {"username": "ann", "password": "secret12"}, user=None)
    assert answer.status == 200, answer
    app.cookies.clear()
    return str(answer.headers["Set-Cookie"].partition(";")[0])


def test_an_expired_token_ends_all(app: Application, ann: str) -> None:
    streams = Streams(app, Authorization=f"Bearer {token_of(app, ann, 120)}")
    app.clock.advance(119)
    assert streams.open() == EVERY
    app.clock.advance(SWEEP + 1)
    assert streams.open() == set()
    assert streams.codes() == {3000} and streams.graphql.close_code == 4403
    assert set(app.module("resources").ENDED) == {"connect", "raw"}  # the code was told


def test_logout_ends_all_at_once_and_no_other(app: Application, ann: str) -> None:
    cookie, other = logged_in(app), logged_in(app)
    streams = Streams(app, Cookie=cookie)
    others = Streams(app, Cookie=other)
    answer = app.post("/logout", headers={"Cookie": cookie}, user=None)
    assert answer.status < 300, answer
    app.cookies.clear()
    app.settle()
    assert streams.open() == set() and streams.codes() == {3000} and streams.graphql.close_code == 4403
    assert others.open() == EVERY


@pytest.mark.parametrize(
    "change",
    [
        lambda app: app.operation("alter_user", username="ann", active=False),
        lambda app: app.operation("alter_user", username="ann", password="another1"),
        lambda app: app.operation("drop_user", username="ann"),
    ],
    ids=["deactivated", "password", "dropped"],
)
def test_the_end_of_the_account_ends_all(app: Application, ann: str, change: Callable[[Application], Any]) -> None:
    streams = [Streams(app, Authorization=f"Bearer {token_of(app, ann, 3600)}"), Streams(app, Cookie=logged_in(app))]
    ticket = app.post("/ticket", headers={"Authorization": f"Bearer {token_of(app, ann, 60)}"}, user=None).json["ticket"]
    by_ticket = app.connect(f"/talk?ticket={ticket}", user=None)
    change(app)
    app.settle()
    assert [each.open() for each in streams] == [set(), set()]
    assert by_ticket.close_code == 3000


def test_a_changed_role_ends_what_it_does_not_allow(app: Application, ann: str) -> None:
    app.operation("add_role", role="nothing", permission={})
    streams = Streams(app, Cookie=logged_in(app))
    app.operation("alter_user", username="ann", role="nothing")
    app.settle()
    assert streams.open() == {"events of connect", "events of raw", "socket of connect", "socket of code", "graphql"}
    assert streams.sockets["table"].close_code == 3003
    assert streams.graphql[-1]["type"] == "error"
    for stream in streams.events.values():
        stream.close()
    for socket in (*streams.sockets.values(), streams.graphql):
        socket.close()
    app.operation("alter_user", username="ann", role="reader")
    app.operation("drop_role", id="nothing")


def test_credentials_of_connection_init_count(app: Application, ann: str) -> None:
    socket = app.connect("/graphql", headers={**GRAPHQL, "Cookie": logged_in(app)}, user=None)
    socket.send({"type": "connection_init", "payload": {"authorization": f"Bearer {token_of(app, ann, 60)}"}})
    app.settle()
    assert socket == [{"type": "connection_ack"}]
    app.clock.advance(60 + SWEEP + 1)
    assert socket.close_code == 4403


def test_callers_without_a_login_and_administrators_go_on(app: Application, ann: str) -> None:
    anonymous, admin = app.connect("/talk", user=None), app.connect("/talk")
    app.operation("alter_user", username="ann", active=False)
    app.clock.advance(300)
    assert anonymous.is_open and admin.is_open
    for socket in (anonymous, admin):
        socket.close()


# --- the watches themselves --------------------------------------------------------------------------------------------------------------


class Stream:
    def __init__(self) -> None:
        self.ended = 0

    def login_ended(self) -> None:
        self.ended += 1


class Directory:
    def refresh(self) -> None:
        pass


class Loop:
    """Keeps what it is to call."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []
        self.soon: list[Callable[[], None]] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> Any:
        assert delay == SWEEP
        self.timers.append(callback)
        return self

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def cancel(self) -> None:
        self.timers.clear()


class TickingClock(FakeClock):
    """Every look at it takes a millisecond."""

    def __init__(self) -> None:
        super().__init__()
        self.monotonic = self._tick

    def _tick(self) -> float:
        self.advance(0.001)
        return self._monotonic


def watches(clock: FakeClock | None = None) -> tuple[LoginWatches, Loop, list[str]]:
    loop, followed = Loop(), []
    made = LoginWatches(
        Directory(),  # type: ignore[arg-type]
        loop,  # type: ignore[arg-type]
        clock or FakeClock(),
        lambda listener: followed.append("follow"),
        lambda listener: followed.append("unfollow"),
    )
    return made, loop, followed


def test_one_timer_serves_all_and_ends_with_the_last() -> None:
    made, loop, followed = watches()
    streams = [Stream() for _ in range(3)]
    for stream in streams:
        made.watch(Login("ann", lambda: True), stream)
    assert len(loop.timers) == 1 and followed == ["follow"]
    streams.clear()
    del stream
    assert len(made) == 0 and not made._by_row
    loop.timers.pop()()
    assert loop.timers == [] and followed == ["follow", "unfollow"]


def test_a_sweep_is_done_in_slices() -> None:
    made, loop, _ = watches(TickingClock())
    asked: list[int] = []

    def login(number: int) -> Login:
        def counts() -> bool:
            asked.append(number)
            return True

        return Login("ann", counts)

    streams = [Stream() for _ in range(20)]
    for number, stream in enumerate(streams):
        made.watch(login(number), stream)
    asked.clear()
    loop.timers.pop()()
    turns = 1
    while loop.soon:
        loop.soon.pop()()
        turns += 1
    assert asked == list(range(20)) and turns > 5


def test_what_cannot_be_found_out_ends_nothing() -> None:
    made, loop, _ = watches()
    answers: list[Any] = [True, Problem("disk", 503), Problem("token expired", 401)]

    def counts() -> bool:
        found = answers.pop(0)
        if isinstance(found, Problem):
            raise found
        return bool(found)

    stream = Stream()
    made.watch(Login("ann", counts), stream)
    loop.timers.pop()()
    assert stream.ended == 0
    loop.timers.pop()()
    assert stream.ended == 1 and len(made) == 0


def test_another_login_of_a_stream_replaces_the_first() -> None:
    made, _, _ = watches()
    stream = Stream()
    made.watch(Login("ann", lambda: True, "session"), stream)
    made.watch(Login("bob", lambda: True), stream)
    assert len(made) == 1 and list(made._by_row) == [("svc_user", "bob")]


def test_a_login_that_has_ended_meanwhile_ends_the_stream_at_once() -> None:
    made, _, _ = watches()
    stream = Stream()
    made.watch(Login("ann", lambda: False), stream)
    assert stream.ended == 1


def test_a_login_whose_rows_are_written_to_often_waits_once() -> None:
    made, _, _ = watches(TickingClock())
    streams = [Stream() for _ in range(20)]
    for stream in streams:
        made.watch(Login("ann", lambda: True), stream)
    for _ in range(50):
        made.accounts_changed(None, [SimpleNamespace(table="svc_user", id="ann")])  # type: ignore[arg-type, list-item]
    assert len(made._to_ask) <= len(streams)


def test_a_defect_in_asking_one_login_does_not_end_the_sweeps() -> None:
    made, loop, _ = watches()
    streams, answers = [Stream() for _ in range(3)], [True, True]

    def fails() -> bool:
        if not answers[0]:
            raise RuntimeError("a defect")
        return True

    made.watch(Login("ann", fails), streams[0])
    made.watch(Login("bob", lambda: answers[1]), streams[1])
    answers[0] = answers[1] = False
    with pytest.raises(RuntimeError):
        loop.timers.pop()()
    with pytest.raises(RuntimeError):
        loop.timers.pop()()
    assert streams[1].ended == 1
