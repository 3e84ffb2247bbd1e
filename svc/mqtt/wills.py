"""Wills: kept from CONNECT to the end of the connection, published unless that ends with DISCONNECT (spec: mqtt §8).

They are in `system.svc_session_will`, from before CONNACK until they are published or not needed any more: so they are published too when the process has ended
to which the client was connected, by the one of those over the data directory that leads, or to which the client comes back.

A will is published by one transaction and removed by the next, which may have to wait for its turn. Until that is on the disk the record says what is not so
any more: nobody acts on it (`settle`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from svc.auth.users import UserDirectory
from svc.auth.writes import write
from svc.errors import Problem
from svc.mqtt.notes import make_note
from svc.mqtt.publishing import Publishing, Sender
from svc.mqtt.session import Session
from svc.mqtt.stored_sessions import Record, StoredSessions, will_of
from svc.protocol.mqtt_packets import Publish, Will
from svc.protocol.mqtt_properties import WILL_DELAY
from svc.store import Transaction
from svc.store.writing.mqtt_message import MqttMessage

logger = logging.getLogger("svc.mqtt")

AFTER_START = 2.0  # seconds, for clients to come back


class Wills:
    """Of one server."""

    def __init__(
        self,
        publishing: Publishing,
        stored: StoredSessions,
        directory: UserDirectory,
        loop: asyncio.AbstractEventLoop,
        write: Callable[[Transaction, Callable[[Problem | None], None]], None],
    ) -> None:
        """`write`: applies a transaction on the system database."""
        self._publishing = publishing
        self._stored = stored
        self._directory = directory
        self._loop = loop
        self._write = write
        self._kept: dict[str, Will] = {}  # by client id: what is in the table
        self._due: dict[
            str, tuple[asyncio.TimerHandle, Sender, Will, Record | None]
        ] = {}  # by client id: those whose connections have ended
        self._under_way: dict[str, asyncio.Future[None]] = {}  # by client id: those that are being published
        self._removing: dict[str, asyncio.Future[None]] = {}  # by client id: those that are removed from the table

    def collect(self, transaction: Transaction, session: Session) -> None:
        """A client has connected: its will takes the place of one that is there."""
        client_id = session.client_id
        if session.will is not None:
            self._stored.put_will(transaction, session, session.will)
            self._kept[client_id] = session.will
        elif self._kept.pop(client_id, None) is not None:
            self._stored.delete_will(transaction, client_id)

    def client_is_back(self, client_id: str, *, ends_session: bool) -> None:
        """A will that waits is published if it has no delay, or its session ends; else it is not needed any more."""
        found = self._due.pop(client_id, None)
        if found is not None:
            handle, sender, will, left = found
            handle.cancel()
            if ends_session or not will.properties.get(WILL_DELAY):
                self._publish_unless_gone(client_id, sender, will, left)

    def taken_over(self, session: Session, *, ends: bool) -> None:
        """Another connection has come for the client. `ends`: the session does not go on."""
        will, session.will = session.will, None
        if will is not None and (ends or not will.properties.get(WILL_DELAY)):
            self._publish(session.client_id, session.sender, will)

    def lost(self, session: Session) -> None:
        """The connection has ended; with DISCONNECT the session has no will any more."""
        client_id = session.client_id
        will, session.will = session.will, None
        if will is None:
            self._delete(client_id)
            return
        delay = min(float(will.properties.get(WILL_DELAY, 0)), session.expiry)
        if delay:
            self._publish_later(client_id, session.sender, will, delay)
        else:
            self._publish(client_id, session.sender, will)

    def publish_left(self, is_alive: Callable[[str], bool]) -> None:
        """Connections whose wills are there have ended with their processes, unless those are alive."""
        for record in self._stored.wills():
            if not is_alive(record.get("owner") or ""):
                self._adopt(record)

    def find_left(self, client_id: str) -> None:
        """A client has come, and whichever process it was connected to has removed its will, unless that has ended or hangs."""
        record = None if client_id in self._kept else self._stored.find_will(client_id)
        if record is not None:
            self._adopt(record)

    def _adopt(self, record: Record) -> None:
        client_id = record["id"]
        if client_id not in self._kept and client_id not in self._removing:
            self._kept[client_id] = will = will_of(record)
            self._publish_later(client_id, self._sender_of(record), will, max(AFTER_START, will.properties.get(WILL_DELAY, 0)), record)

    def forget(self, client_id: str) -> None:
        """What is stored is another process's."""
        self._kept.pop(client_id, None)
        found = self._due.pop(client_id, None)
        if found is not None:
            found[0].cancel()

    async def settle(self, client_id: str) -> None:
        """When this returns, what is stored of a client's will is so: what was removed here is gone."""
        while (removing := self._removing.get(client_id)) is not None:
            await asyncio.wait((removing,))

    async def remove(self, client_id: str) -> None:
        """When this returns, no will of a client that has come to another process is stored; one that is to be published is. Raises Problem."""
        kept = self._kept.pop(client_id, None)
        under_way = self._under_way.get(client_id)
        if under_way is not None:
            await asyncio.wait((under_way,))
        await self.settle(client_id)
        if kept is not None:
            transaction = self._stored.store.begin()
            self._stored.delete_will(transaction, client_id)
            await write(transaction)

    def _sender_of(self, record: Record) -> Sender:
        name = record["user"]
        sender = Sender(None if name is None else self._directory.named(name), self._directory, "")
        sender.session = bytes.fromhex(record["session"])
        if name is not None and sender.username is None:
            sender.is_gone = True
        return sender

    def _publish_later(self, client_id: str, sender: Sender, will: Will, delay: float, left: Record | None = None) -> None:
        """`left`: see `_publish_unless_gone`."""

        def publish() -> None:
            del self._due[client_id]
            self._publish_unless_gone(client_id, sender, will, left)

        self._due[client_id] = (self._loop.call_later(delay, publish), sender, will, left)

    def _publish_unless_gone(self, client_id: str, sender: Sender, will: Will, left: Record | None) -> None:
        """`left`: the record, of another process: the client may have come to a third one meanwhile, which has seen to it."""
        if left is not None and self._stored.find_will(client_id) != left:
            self._kept.pop(client_id, None)
        else:
            self._publish(client_id, sender, will)

    def _publish(self, client_id: str, sender: Sender, will: Will) -> None:
        under_way = self._under_way[client_id] = self._loop.create_future()

        def done(reason: int, message: str) -> None:
            under_way.set_result(None)
            if self._under_way.get(client_id) is under_way:
                del self._under_way[client_id]
            if reason:
                logger.warning("the will of %s was not published to %s: %s", client_id, will.topic, message)
            if self._kept.get(client_id) is will:
                self._delete(client_id)

        packet = Publish(will.topic, will.payload, will.qos, will.retain, properties=will.properties)
        self._publishing.publish(sender, packet, MqttMessage(make_note(packet, sender.session)), done)

    def _delete(self, client_id: str) -> None:
        if self._kept.pop(client_id, None) is None:
            return
        removing = self._removing[client_id] = self._loop.create_future()

        def removed(problem: Problem | None) -> None:
            removing.set_result(None)
            if self._removing.get(client_id) is removing:
                del self._removing[client_id]
            _log(problem)

        transaction = self._stored.store.begin()
        self._stored.delete_will(transaction, client_id)
        self._write(transaction, removed)


def _log(problem: Problem | None) -> None:
    if problem is not None:
        logger.error("a will could not be removed: %s", problem.message)
