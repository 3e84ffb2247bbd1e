"""svc.api.connecting: clients that are connected to code of an application, with WebSockets and event streams, and what they may have while they are."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.users import User, UserDirectory
from svc.errors import AccessViolation, MethodNotAllowed, Problem
from svc.messages import HeaderBlock, Request
from svc.realtime import rights_watch
from svc.realtime.event import EndReason
from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE
from svc.websocket.resource_sockets import CLOSE_CODES, FAREWELL, ResourceSockets
from tests.support.application import ADMIN, Application, application, user_named
from tests.support.events import FakeWebSocket, parse_stream

CODE = """
import asyncio
from svc import Resource, get_context, get_user, tables

seen = []
may = {"ann": True, "bob": True}
asked = []
gate = asyncio.Event()

class Chat(Resource):
    load_as_instance = False
    async def connect(self, target, incoming=None):
        yield {"hello": target.id}
        async for msg in incoming:
            yield {"echo": msg}

class Instance(Resource):
    async def connect(self, incoming=None):
        yield {"id": self.get_id(), "has": incoming is not None}

class Bare(Resource):
    def connect(self):
        return iter([1])

class OnlyTarget(Resource):
    load_as_instance = False
    async def connect(self, target):
        yield {"at": target.id}
        await asyncio.Event().wait()

class WithQuery(Resource):
    async def connect(self, incoming=None, query=None):
        yield {"q": query.get("q"), "id": query.id}

class OfClass(Resource):
    @classmethod
    async def connect(cls, target, incoming=None):
        yield {"cls": cls.__name__, "q": target.get("q")}

class Listed(Resource):
    def connect(self, incoming=None):
        return iter([1, "two", None])

class Guarded(Resource):
    load_as_instance = False
    def allow_read(self, user, target):
        asked.append(user and user.username)
        return user is not None and may[user.username]
    async def connect(self, target, incoming=None):
        try:
            yield {"user": get_user().username}
            await asyncio.Event().wait()
        finally:
            seen.append(("closed", get_user().username))

class Slowly(Guarded):
    async def allow_read(self, user, target):
        await asyncio.sleep(0)
        return Guarded.allow_read(self, user, target)
    def connect(self, target, incoming=None):
        return self.subscribe(target)

class Stubborn(Guarded):
    async def connect(self, target, incoming=None):
        yield 1
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("caught")
                if len(seen) > 3:
                    raise

class Asks(tables.Seat):
    def allow_read(self, user, target):
        asked.append(user and user.username)
        return user is not None and may[user.username]

class Writes(Resource):
    load_as_instance = False
    async def connect(self, target, incoming=None):
        await tables.Seat.put("one", {"stock": 1})
        yield get_context().transaction is None
        try:
            await tables.Seat.put("two", {"stock": "not a number"})
        except Exception as error:
            yield type(error).__name__
        seat = await tables.Seat.update("one")
        seat.stock = 5
        await seat.save()
        yield await tables.Seat.get("one")
        yield [await tables.Seat.get("one")]

class Own(tables.Seat):
    async def connect(self, incoming=None):
        subscription = await super().connect(incoming)
        if incoming is not None:
            incoming.on("data", lambda message: subscription.send({"sent": message, "by": get_user().username}))
            incoming.on("close", lambda: seen.append("gone"))
        subscription.on("close", lambda: seen.append("ended"))
        return subscription

class OfTarget(tables.Seat):
    load_as_instance = False
    def connect(self, target, incoming=None):
        return super().connect(target, incoming)

class ByClass(tables.Seat):
    @classmethod
    def connect(cls, target, incoming=None):
        return super().connect(target, incoming)

class Filtered(tables.Seat):
    async def subscribe(self, request=None):
        async for event in super().subscribe(request):
            if event.value and event.value["stock"] > 5:
                yield event

class Told(Resource):
    def connect(self, incoming=None):
        subscription = self.subscribe()
        async def answer(message):
            await tables.Seat.put("told", {"stock": message})
            subscription.send((await tables.Seat.get("told")).stock)
        incoming.on("data", answer)
        return subscription

class Sink(Guarded):
    async def connect(self, target, incoming=None):
        seen.append(get_user().username)
        async for message in incoming:
            seen.append(message)

class Never(Resource):
    async def connect(self, incoming=None):
        await asyncio.Event().wait()

class Later(tables.Seat):
    def connect(self, incoming=None):
        return self.subscribe(omit_current=True)

class Other(Resource):
    async def connect(self, incoming=None):
        return await tables.Seat.subscribe(conditions=[{"attribute": "id", "value": "a"}], omitCurrent=True, select=["stock"])

class Elsewhere(Resource):
    def connect(self, incoming=None):
        from svc import Response
        return Response(status=303, headers={"Location": "/Own/1"})

class Hangs(Guarded):
    async def allow_read(self, user, target):
        asked.append(user.username)
        if len(asked) > 1:
            await gate.wait()
        return may[user.username]

class Pushed(Guarded):
    async def connect(self, target, incoming=None):
        await asyncio.sleep(0)
        return self.subscribe(target)

class Farewell(Resource):
    async def connect(self, incoming=None):
        async for message in incoming:
            yield message
        await tables.Seat.put("left", {"lastBuyer": get_user().username})
        seen.append("left")

class Forgets(Resource):
    async def connect(self, incoming=None):
        async for message in incoming:
            yield message
        seen.append("waits")
        await asyncio.Event().wait()

class Fails(Resource):
    load_as_instance = False
    async def connect(self, target, incoming=None):
        yield 1
        if target.id == "exit":
            raise SystemExit(3)
        if target.id == "cancelled":
            raise asyncio.CancelledError
        from svc import ClientError, AccessViolation
        raise ClientError("mine", 400) if target.id == "mine" else AccessViolation(get_user()) if target.id == "no" else KeyError("x")

class Wrong(Resource):
    def connect(self, incoming=None):
        return 5

class Nothing(Resource):
    def get(self, query=None):
        return 1

class Silent(Resource):
    def publish(self, message, query=None):
        pass
"""


class World:
    """An application with clients. `reports`: what the protocol would log."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self.node = app.node
        self.loop = app.node._loop
        self.loop.set_exception_handler(lambda loop, context: self.reports.append(context.get("exception")))
        self.node.connections.loop.create_task = self.loop.create_task  # type: ignore[method-assign]
        self.reports: list[Any] = []
        self.failures: list[BaseException] = []
        self.sockets = ResourceSockets(self.node.resources, self.node.types, self.loop, self.reports.append)
        self.open: list[FakeWebSocket] = []

    @property
    def seen(self) -> list[Any]:
        return self.app.module.seen  # type: ignore[no-any-return]

    def web_socket(self, target: str, user: User | None = ADMIN) -> FakeWebSocket:
        """Raises what refuses the handshake. What `connect` raises later is in `failures`."""
        request = Request("GET", target, HeaderBlock([]))
        request.offers = "websocket"
        request.user = user
        service = self.sockets.find(request)
        socket = FakeWebSocket(request)
        self.open.append(socket)
        result = service(socket)
        if result is not None:
            self.loop.create_task(self._serve(socket, result))
        self.node.settle()
        return socket

    async def _serve(self, socket: FakeWebSocket, result: Any) -> None:
        try:
            await result
        except Exception as error:
            self.failures.append(error)
            socket.close_soon(1011, str(error))
        else:
            socket.close_soon()

    def values(self, socket: FakeWebSocket) -> list[Any]:
        self.node.settle()
        return [json.loads(message) for message in socket.messages]

    def say(self, socket: FakeWebSocket, value: Any) -> list[Any]:
        for result in socket.say(json.dumps(value)):
            if result is not None:
                self.loop.create_task(result)
        return self.values(socket)

    def leave(self, socket: FakeWebSocket) -> None:
        socket.close_soon(1001)
        self.node.settle()

    def stream(self, target: str) -> Any:
        """A client of an event stream: the wire."""
        wire = self.node.connect()
        wire.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
        self.node.settle()
        return wire

    @staticmethod
    def streamed(wire: Any) -> list[Any]:
        head, _, rest = wire.sock.sent.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        found = b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            found, rest = found + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        return [json.loads(event["data"]) for event in parse_stream(found.decode())]

    # --- users -----------------------------------------------------------------------------------------------------------------------

    def add_user(self, name: str, permission: dict[str, Any] | None = None) -> User:
        tables = self.node.store.databases[SYSTEM].tables
        transaction = self.node.store.begin()
        transaction.put(tables[ROLE_TABLE], name, {"role": name, "permission": permission or {}})
        transaction.put(tables[USER_TABLE], name, {"role": name, "active": True, "password": "x"})
        transaction.apply()
        self.node.settle()
        user = UserDirectory(self.node.store).get_user(name)
        assert user is not None
        return user

    def change_user(self, name: str, **changes: Any) -> None:
        transaction = self.node.store.begin()
        transaction.patch(self.node.store.databases[SYSTEM].tables[USER_TABLE], name, changes)
        transaction.apply()
        self.node.settle()

    def change_role(self, name: str, permission: dict[str, Any]) -> None:
        transaction = self.node.store.begin()
        transaction.put(self.node.store.databases[SYSTEM].tables[ROLE_TABLE], name, {"role": name, "permission": permission})
        transaction.apply()
        self.node.settle()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with application(tmp_path, CODE) as app:
        made = World(app)
        yield made
        for socket in made.open:
            made.leave(socket)
        app.node.connections.close_all()
        app.node.settle()
        gc.collect()
        app.node.settle()
        hub = app.node.realtime.hub
        assert len(hub) == 0 and not hub._watches, "something is left"
        assert not made.reports, made.reports


def test_the_example_of_the_documentation(world: World) -> None:
    socket = world.web_socket("/Chat/42")
    assert world.values(socket) == [{"hello": "42"}]
    assert world.say(socket, {"n": 1})[1:] == [{"echo": {"n": 1}}]
    assert world.say(socket, "text")[2:] == [{"echo": "text"}]


@pytest.mark.parametrize(
    ("target", "first"),
    [
        ("/Instance/7", {"id": "7", "has": True}),
        ("/WithQuery/7?q=5", {"q": "5", "id": "7"}),
        ("/OfClass/?q=5", {"cls": "OfClass", "q": "5"}),
    ],
)
def test_each_way_to_write_it_and_its_end(world: World, target: str, first: Any) -> None:
    socket = world.web_socket(target)
    assert world.values(socket) == [first] and socket.closing == (1000, "")
    wire = world.stream(target)
    assert world.streamed(wire) == [{**first, "has": False} if "has" in first else first]
    assert wire.sock.sent.endswith(b"0\r\n\r\n"), "the end of the iterator is the end of the answer"


def test_a_plain_iterator(world: World) -> None:
    assert world.values(world.web_socket("/Listed/")) == [1, "two", None]


def test_handlers_without_messages(world: World) -> None:
    assert world.values(world.web_socket("/Bare/1")) == [1]
    socket = world.web_socket("/OnlyTarget/1")
    assert world.values(socket) == [{"at": "1"}] and socket.ignores, "else what is not read would fill the connection"
    assert world.streamed(world.stream("/OnlyTarget/2")) == [{"at": "2"}]


def test_resources_that_cannot_be_connected_to(world: World) -> None:
    with pytest.raises(MethodNotAllowed):
        world.web_socket("/Nothing/1")
    wire = world.stream("/Nothing/1")
    assert wire.sock.sent.startswith(b"HTTP/1.1 405")
    socket = world.web_socket("/Silent/1")
    assert socket.closing is None and world.values(socket) == [], "there is something to listen for"


def test_a_result_that_is_no_stream_is_a_defect(world: World) -> None:
    with pytest.raises(TypeError, match="must return an async iterator or a subscription, not int"):
        world.web_socket("/Wrong/1")
    assert world.stream("/Wrong/1").sock.sent.startswith(b"HTTP/1.1 500")


# --- rights -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Guarded", "Slowly", "Asks"])
def test_the_right_is_asked_for_once_at_the_handshake(world: World, name: str) -> None:
    ann = world.add_user("ann")
    socket = world.web_socket(f"/{name}/1", ann)
    assert world.app.module.asked == ["ann"] and socket.closing is None
    if not socket.ignores:
        world.say(socket, 1)
    assert world.app.module.asked == ["ann"]
    world.app.module.may["ann"] = False
    with pytest.raises(AccessViolation) as refused:
        world.web_socket(f"/{name}/1", ann)
        raise world.failures[0]
    assert refused.value.status_code == 403
    with pytest.raises(AccessViolation) as refused:
        world.web_socket(f"/{name}/1", None)
        raise world.failures[-1]
    assert refused.value.status_code == 401


@pytest.mark.parametrize("name", ["Guarded", "Slowly", "Asks", "Stubborn"])
def test_the_right_is_asked_for_again_when_rights_change(world: World, name: str) -> None:
    ann, bob = world.add_user("ann"), world.add_user("bob")
    sockets = [world.web_socket(f"/{name}/1", user) for user in (ann, bob)]
    world.change_role("ann", {"data": {"tables": {}}})
    assert [socket.closing for socket in sockets] == [None, None]
    assert world.app.module.asked[2:] == ["ann", "bob"]
    world.app.module.may["ann"] = False
    world.change_role("bob", {"data": {"tables": {}}})
    assert [socket.closing for socket in sockets] == [(3003, "Access denied"), None]
    world.change_user("bob", active=False)
    assert sockets[1].closing == (3000, "Login required")
    if name == "Guarded":
        assert world.seen == [("closed", "ann"), ("closed", "bob")]
    if name == "Stubborn":
        assert world.seen.count("caught") == 2, "they are told, and the clients are gone whatever they do"
        for task in asyncio.all_tasks(world.loop):
            while not task.done():
                task.cancel()
                world.node.settle()


def test_the_right_is_asked_for_every_minute(world: World) -> None:
    ann = world.add_user("ann")
    socket = world.web_socket("/Guarded/1", ann)
    world.app.module.may["ann"] = False
    world.node.realtime.hub._recheck_periodically()
    world.node.settle()
    assert socket.closing == (3003, "Access denied")
    assert world.node.realtime.hub._recheck_timer is None, "nothing is watched any more"


def test_a_change_between_the_handshake_and_the_first_item_is_seen(world: World) -> None:
    ann = world.add_user("ann")
    request = Request("GET", "/Guarded/1", HeaderBlock([]))
    request.offers, request.user = "websocket", ann
    service = world.sockets.find(request)
    socket = FakeWebSocket(request)
    world.open.append(socket)
    result = service(socket)
    transaction = world.node.store.begin()
    transaction.patch(world.node.store.databases[SYSTEM].tables[USER_TABLE], "ann", {"active": False})
    transaction.apply()
    world.node.store.commit_turn()
    world.loop.create_task(world._serve(socket, result))
    world.node.settle()
    assert socket.closing == (3000, "Login required") and socket.messages == []


def test_a_rule_that_fails_later_ends_the_connection(world: World) -> None:
    ann = world.add_user("ann")
    socket = world.web_socket("/Guarded/1", ann)
    del world.app.module.may["ann"]
    world.change_role("ann", {})
    assert socket.closing is not None and socket.closing[0] == 1011


def test_a_handler_that_returns_when_its_client_leaves_is_watched_as_well(world: World) -> None:
    ann = world.add_user("ann")
    left, refused = world.web_socket("/Sink/1", ann), world.web_socket("/Sink/1", ann)
    world.say(left, 1)
    world.leave(left)
    world.app.module.may["ann"] = False
    world.change_role("ann", {})
    assert refused.closing == (3003, "Access denied") and world.seen == ["ann", "ann", 1]
    assert not [task for task in asyncio.all_tasks(world.loop) if not task.done()]


def test_a_subscription_that_is_returned_later_is_pushed_and_watched(world: World) -> None:
    ann = world.add_user("ann")
    socket = world.web_socket("/Pushed/1", ann)
    assert socket.closing is None and len(world.node.realtime.hub._watches) == 1
    world.app.module.may["ann"] = False
    world.change_role("ann", {})
    assert socket.closing == (3003, "Access denied") and not world.node.realtime.hub._watches


def test_a_rule_that_waits_is_asked_once_more_and_not_in_parallel(world: World) -> None:
    ann = world.add_user("ann")
    socket = world.web_socket("/Hangs/1", ann)
    asked = world.app.module.asked
    for _ in range(3):
        world.change_role("ann", {})
    assert asked == ["ann", "ann"], "the second question has no answer yet"
    world.app.module.gate.set()
    world.node.settle()
    assert asked == ["ann"] * 3 and socket.closing is None
    world.app.module.may["ann"] = False
    world.change_role("ann", {})
    assert socket.closing == (3003, "Access denied")


def test_a_rule_that_does_not_answer_ends_the_connection(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights_watch, "CHECK_LIMIT", 0.0)
    ann = world.add_user("ann")
    socket = world.web_socket("/Hangs/1", ann)
    world.change_role("ann", {})
    world.loop.run_until_complete(asyncio.sleep(0.01))
    assert socket.closing is not None and socket.closing[0] == 1011


def test_many_are_asked_in_slices(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = world.add_user("ann")
    sockets = [world.web_socket("/Guarded/1", ann) for _ in range(5)]
    hub, asked = world.node.realtime.hub, world.app.module.asked
    before = len(asked)
    monkeypatch.setattr(hub, "now", iter(range(1_000_000)).__next__)  # each look at the clock is the end of a slice
    hub.recheck()
    assert len(asked) == before + 1
    world.app.module.may["ann"] = False
    world.node.settle()
    assert len(asked) == before + 5 and [socket.closing for socket in sockets] == [None] + 4 * [(3003, "Access denied")]


def test_an_event_stream_that_is_not_made_in_time_is_an_error(world: World) -> None:
    wire, socket = world.stream("/Never/1"), world.web_socket("/Never/1")
    assert wire.sock.sent == b""
    world.node.interface.running.sweep(world.node.clock.monotonic() + 10_000)
    world.node.settle()
    assert wire.sock.sent.startswith(b"HTTP/1.1 504")
    assert socket.closing is None, "it may listen to its client all that time"


def test_an_event_stream_ends_when_the_right_is_gone(world: World) -> None:
    ann = world.add_user("ann")
    world.node.as_user(ann)
    wire = world.stream("/Guarded/1")
    assert world.streamed(wire) == [{"user": "ann"}]
    world.app.module.may["ann"] = False
    world.change_role("ann", {})
    assert wire.sock.sent.endswith(b"0\r\n\r\n") and world.seen == [("closed", "ann")]


def test_subscriptions_by_role_are_those_of_the_role(world: World) -> None:
    readable = {"data": {"tables": {"Seat": {"read": True, "insert": False, "update": False, "delete": False}}}}
    ann = world.add_user("ann", readable)
    socket = world.web_socket("/Own/1", ann)
    world.app.ask("PUT", "/Own/1", {"stock": 1})
    assert [event["value"]["stock"] for event in world.values(socket)] == [1]
    world.change_role("ann", {})
    assert socket.closing == (3003, "Access denied")
    with pytest.raises(AccessViolation):
        world.web_socket("/Own/1", user_named("nobody"))


# --- transactions, context ------------------------------------------------------------------------------------------------------------------


def test_each_write_commits_by_itself(world: World) -> None:
    socket = world.web_socket("/Writes/1")
    assert world.values(socket) == [True, "ValidationError", {"stock": 5, "id": "one"}, [{"stock": 5, "id": "one"}]]
    assert world.app.ask("GET", "/Own/one") == (200, {"stock": 5, "id": "one"})
    assert world.app.ask("GET", "/Own/two")[0] == 404


def test_callbacks_run_in_the_context_of_the_handshake(world: World) -> None:
    socket = world.web_socket("/Told/1", ADMIN)
    assert world.say(socket, 3) == [3]
    assert world.app.run(_history(world)) == ["admin"]


async def _history(world: World) -> list[Any]:
    found: list[Any] = []
    async for event in world.app.tables.Seat.subscribe("told", previous_count=1, raw_events=True):
        found.append(event.user)
        break
    return found


# --- subscriptions ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Own", "OfTarget", "ByClass"])
def test_the_default_is_the_subscription(world: World, name: str) -> None:
    world.app.ask("PUT", "/Own/a", {"stock": 1})
    socket = world.web_socket(f"/{name}/a")
    wire = world.stream(f"/{name}/a")
    world.app.ask("PUT", "/Own/a", {"stock": 2})
    world.app.ask("PUT", "/Own/b", {"stock": 3})
    for events in (world.values(socket), world.streamed(wire)):
        assert [(event["type"], event["id"], event["value"]["stock"]) for event in events] == [("put", "a", 1), ("put", "a", 2)]
    root = world.web_socket(f"/{name}/?id=gt=a")
    assert [event["id"] for event in world.values(root)] == ["b"]


def test_options_of_the_subscription_of_a_handler(world: World) -> None:
    world.app.ask("PUT", "/Own/a", {"stock": 1})
    later, other = world.web_socket("/Later/a"), world.web_socket("/Other/")
    world.app.ask("PUT", "/Own/a", {"stock": 2})
    assert [event["value"] for event in world.values(later)] == [{"stock": 2, "id": "a"}]
    assert [event["value"] for event in world.values(other)] == [{"stock": 2}]


def test_a_live_query_with_rights_of_the_application(world: World) -> None:
    ann = world.add_user("ann")
    socket, left = world.web_socket("/Asks/?live()", ann), world.web_socket("/Asks/?live()", ann)
    world.app.ask("PUT", "/Own/a", {"stock": 1})
    assert [event["type"] for event in world.values(socket)] == ["ready", "enter"]
    world.leave(left)
    hub = world.node.realtime.hub
    hub.recheck()
    assert len(hub._watches) == 1, "that of the client who has left is noticed"
    world.app.module.may["ann"] = False
    world.change_role("ann", {})
    assert socket.closing == (3003, "Access denied") and not hub._watches


def test_a_response_instead_of_a_stream(world: World) -> None:
    assert world.stream("/Elsewhere/").sock.sent.startswith(b"HTTP/1.1 303")
    socket = world.web_socket("/Elsewhere/")
    assert socket.closing is not None and isinstance(world.failures[0], TypeError)


def test_items_are_sent_between_the_events_and_the_end_is_told(world: World) -> None:
    socket = world.web_socket("/Own/a")
    assert world.say(socket, "x") == [{"sent": "x", "by": "admin"}]
    world.leave(socket)
    assert sorted(world.seen) == ["ended", "gone"]


def test_a_subscribe_of_its_own_is_what_connect_sends(world: World) -> None:
    socket = world.web_socket("/Filtered/")
    for stock in (1, 9):
        world.app.ask("PUT", "/Own/a", {"stock": stock})
    assert [event["value"]["stock"] for event in world.values(socket)] == [9]
    world.leave(socket)
    world.node.settle()


def test_last_event_id_resumes_a_subscription_of_a_handler(world: World) -> None:
    for stock in range(3):
        world.app.ask("PUT", "/Own/a", {"stock": stock})
    first = world.values(world.web_socket("/Own/a"))[0]["localTime"]
    wire = world.node.connect()
    wire.send(f"GET /Own/a HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nLast-Event-ID: {first - 1}\r\n\r\n".encode())
    world.node.settle()
    assert [event["value"]["stock"] for event in world.streamed(wire)] == [2]


def test_faults_of_a_query_are_found(world: World) -> None:
    for target in ("/Asks/?stock=gt=x", "/Asks/?none=1", "/Asks/?limit(5)"):
        world.add_user("ann")
        with pytest.raises(Problem) as fault:
            world.web_socket(target, world.add_user("ann"))
        assert fault.value.status_code == 400
        assert world.stream(target.replace("Asks", "Own")).sock.sent.startswith(b"HTTP/1.1 400")


# --- ends -------------------------------------------------------------------------------------------------------------------------------


def test_what_follows_the_loop_over_the_messages_is_done(world: World) -> None:
    socket = world.web_socket("/Farewell/1")
    world.say(socket, 1)
    world.leave(socket)
    assert world.seen == ["left"]
    assert world.app.ask("GET", "/Own/left") == (200, {"lastBuyer": "admin", "id": "left"})


def test_but_not_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[Any] = []
    real = world.loop.call_later

    def call_later(seconds: float, callback: Any, *arguments: Any) -> Any:
        if seconds == FAREWELL:
            timers.append(callback)
            seconds = 0.0
        return real(seconds, callback, *arguments)

    monkeypatch.setattr(world.loop, "call_later", call_later)
    socket = world.web_socket("/Forgets/1")
    world.leave(socket)
    world.loop.run_until_complete(asyncio.sleep(0.01))
    assert world.seen == ["waits"] and len(timers) == 1
    assert not [task for task in asyncio.all_tasks(world.loop) if not task.done()]


def test_a_client_that_leaves_closes_the_iterator(world: World) -> None:
    socket = world.web_socket("/Guarded/1", world.add_user("ann"))
    world.leave(socket)
    assert world.seen == [("closed", "ann")]
    world.node.as_user(world.add_user("bob"))
    wire = world.stream("/Guarded/1")
    wire.send(b"")
    world.node.settle()
    assert world.seen == [("closed", "ann"), ("closed", "bob")]


def test_a_reader_that_is_slow_slows_its_handler(world: World) -> None:
    module: Any = world.app.module
    made: list[int] = []

    class Many(module.Resource):  # type: ignore[misc]
        async def connect(self, incoming: Any = None) -> Any:
            for number in range(10_000):
                made.append(number)
                yield "x" * 1000

    from svc.api.served import serve

    world.node.resources.set("Many", serve(Many, "Many"))
    socket = world.web_socket("/Many/")
    assert 0 < len(made) < 100
    before = len(made)
    socket.read()
    world.node.settle()
    assert before < len(made) < 200


def test_ten_thousand_items_that_are_not_taken_end_the_subscription(world: World) -> None:
    socket = world.web_socket("/Told/1")
    socket.pending = 1 << 30  # the client reads nothing
    subscription: Any = next(each for each in gc.get_objects() if type(each).__name__ == "DeliveryQueue" and each.ended is None)
    for number in range(10_001):
        subscription.send(number)
    assert subscription.ended is EndReason.TOO_SLOW and CLOSE_CODES[subscription.ended] == 1013
    socket.read()
    world.node.settle()
    assert socket.closing is not None and socket.closing[0] == 1013


@pytest.mark.parametrize(
    ("how", "kind"), [("mine", Problem), ("no", AccessViolation), ("bug", KeyError), ("exit", RuntimeError), ("cancelled", RuntimeError)]
)
def test_what_is_raised_is_for_the_protocol(world: World, how: str, kind: type[Exception]) -> None:
    socket = world.web_socket(f"/Fails/{how}")
    assert world.values(socket) == [1] and socket.closed
    assert isinstance(world.failures[0], kind)
    wire = world.stream(f"/Fails/{how}")
    assert world.streamed(wire) == [1] and wire.sock.sent.endswith(b"0\r\n\r\n")
    defects = [error for _, error in world.node.errors]
    assert (not defects) if issubclass(kind, Problem) else isinstance(defects[0], kind)
