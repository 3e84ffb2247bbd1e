"""One PUBLISH as a verb of a resource: PUT or DELETE of the record with RETAIN, else a message (spec: mqtt §5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from svc.auth.users import User, UserDirectory
from svc.awaitables import is_waiting
from svc.errors import AccessViolation, KeyConflict, MethodNotAllowed, NotFound, Problem
from svc.loop import contained
from svc.messages import HeaderBlock, Request
from svc.messages.call_state import AppliedWrites
from svc.mqtt.addresses import Address, Addresses
from svc.mqtt.payloads import LONG, Payloads
from svc.mqtt.rows import NUMBER_BYTES
from svc.protocol.mqtt_packets import Publish
from svc.protocol.mqtt_properties import CONTENT_TYPE
from svc.protocol.mqtt_values import NOT_AUTHORIZED, PAYLOAD_INVALID, SUCCESS, TOPIC_INVALID, UNSPECIFIED
from svc.resources import RequestTarget, Resource
from svc.resources.table_writing import TableWriting
from svc.store import Database
from svc.store.side_rows import SideRows
from svc.store.writing.commit import wait_committed
from svc.store.writing.mqtt_message import MqttMessage

OnDone = Callable[[int, str], None]
"""Called once with a reason code of version 5, SUCCESS when all is on the disk, and why not."""


NO_HEADERS = HeaderBlock([])
"""Of requests over TCP: one for all of them, with nothing in it that is a client's own."""


class Sender:
    """In whose name a client reads and writes. `block`: the head of the request with which it has come, over WebSocket."""

    __slots__ = ("_directory", "_generation", "_user", "block", "content_type", "is_gone", "peer", "session", "username")

    def __init__(self, user: User | None, directory: UserDirectory, peer: str, block: HeaderBlock | None = None) -> None:
        self._user = user
        self._directory = directory
        self._generation = directory.generation
        self.username = None if user is None else user.username
        self.peer = peer
        self.block = NO_HEADERS if block is None else block
        self.session = bytes(NUMBER_BYTES)  # number of the session
        self.content_type: str | None = None  # of messages that do not name one
        self.is_gone = False  # the account, before this was made

    @property
    def user(self) -> User | None:
        """The user with the rights of now; None: anonymous. Raises AccessViolation if the account is gone, or its logins have ended."""
        user = self._user
        if self.is_gone:
            raise AccessViolation(None)
        if user is not None and self._generation != self._directory.generation:
            found = self._directory.current(user)
            if found is None:
                raise AccessViolation(None)
            self._user, self._generation = found.with_claims_of(user), self._directory.generation
            return self._user
        return user


def _is_plain(resource: type[Resource], verb: str) -> bool:
    """Whether a verb of a resource is that of tables, which makes one transaction."""
    name = "on_" + verb
    return getattr(getattr(resource, name), "__func__", None) is getattr(TableWriting, name).__func__


class _Both:
    """Calls `on_done` when it was called twice itself, with what has failed."""

    def __init__(self, on_done: OnDone) -> None:
        self._on_done = on_done
        self._outcome: tuple[int, str] | None = None

    def done(self, reason: int, message: str) -> None:
        before = self._outcome
        if before is None:
            self._outcome = (reason, message)
        else:
            self._on_done(*(before if before[0] else (reason, message)))


class Publishing:
    """Of one server."""

    def __init__(
        self,
        addresses: Addresses,
        payloads: Payloads,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[BaseException], None],
        rows_of: Callable[[Database], SideRows],
        system: Database,
    ) -> None:
        """`report`: logs a defect, or what code of an application has raised. `rows_of`: the rows of a database. `system`: the one of the system."""
        self._rows_of = rows_of
        self._system = system
        self._addresses = addresses
        self._payloads = payloads
        self._loop = loop
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()

    def publish(self, sender: Sender, packet: Publish, message: MqttMessage, on_done: OnDone) -> bool:
        """Write what a message says. True if that is applied, so that the next one may follow: what remains is the turn's commit. False: it takes longer.

        The row of `message` is written with it: by the transaction of the write, if that is the table's own verb; else behind what code of an application has
        done, which it then follows.
        """
        topic, payload, retain = packet.topic, packet.payload, packet.retain
        content_type = packet.properties.get(CONTENT_TYPE, sender.content_type)
        try:
            address = self._addresses.find(topic)
            if address is None or (retain and not address.text):
                raise NotFound("There is no such topic" if address is None else "The topic of a resource has no record")
            verb, data = "publish", None
            request = Request("PUBLISH", "/" + topic, sender.block, payload)
            request.scheme, request.peer, request.user = "mqtt", sender.peer, sender.user
            request.handler_path = address.registration.path
            if retain:
                verb = "put" if payload else "delete"
                request.method = verb.upper()
            request.mqtt = message if message.row is None or _is_plain(address.resource, verb) else MqttMessage(message.note)
            target = self._target(address)
            handle = address.resource.handle
            if len(payload) > LONG:
                result = self._decode_and_handle(handle, verb, target, content_type, request, topic if address.is_free else None)
            else:
                if payload and address.is_free:
                    data, request.native_body = self._payloads.keep(topic, payload, content_type), True
                elif payload:
                    data, request.native_body = self._payloads.decode(payload, content_type)
                result = handle(verb, target, data, request)
        except BaseException as error:
            on_done(*self._reason(contained(error)))
            return True
        if is_waiting(result):
            task = self._loop.create_task(self._finish(result, request, message, on_done))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return False
        applied = request.pending_commit
        if message.row is not None and message.database is None:
            on_done = self._keep_row(message, applied, on_done)
        if applied is None:
            on_done(SUCCESS, "")
        else:
            applied.on_done = lambda problem: on_done(*((SUCCESS, "") if problem is None else self._reason(problem)))
        return True

    def _keep_row(self, message: MqttMessage, applied: AppliedWrites | None, on_done: OnDone) -> OnDone:
        """Write the row of a message behind what was done for it: in the database that is committed last, or that of the system. Returns what is to be called
        instead of `on_done`, which follows when both are on the disk."""
        assert message.row is not None
        databases: tuple[Database, ...] = () if applied is None else applied.databases
        database = message.database = max(databases, key=lambda database: database.name, default=None) or self._system
        both = _Both(on_done)
        self._rows_of(database).put(
            message.row, b"", lambda problem: both.done(*((SUCCESS, "") if problem is None else self._reason(problem)))
        )
        return both.done

    async def _decode_and_handle(
        self,
        handle: Callable[..., Any],
        verb: str,
        target: RequestTarget,
        content_type: str | None,
        request: Request,
        free_topic: str | None,
    ) -> Any:
        if free_topic is not None:
            data, request.native_body = await self._payloads.keep_slowly(free_topic, request.content, content_type), True
        else:
            data, request.native_body = await self._payloads.decode_slowly(request.content, content_type)
        return handle(verb, target, data, request)

    @staticmethod
    def _target(address: Address) -> RequestTarget:
        try:
            return address.target()
        except Problem as problem:
            raise NotFound(problem.message) from None  # a text that is no key

    async def _finish(self, result: Any, request: Request, message: MqttMessage, on_done: OnDone) -> None:
        try:
            while is_waiting(result):
                result = await result
            if message.row is not None and message.database is None:
                on_done = self._keep_row(message, request.pending_commit, on_done)
            if request.pending_commit is not None:
                await wait_committed(request.pending_commit)
        except BaseException as error:
            on_done(*self._reason(contained(error)))
            return
        on_done(SUCCESS, "")

    def _reason(self, error: BaseException) -> tuple[int, str]:
        if not isinstance(error, Problem):
            self._report(error)
            return UNSPECIFIED, ""
        if isinstance(error, AccessViolation) or error.status_code in (401, 403):
            return NOT_AUTHORIZED, error.message
        if isinstance(error, NotFound | MethodNotAllowed | KeyConflict):
            return TOPIC_INVALID, error.message
        if error.status_code < 500:
            return PAYLOAD_INVALID, error.message
        return UNSPECIFIED, error.message
