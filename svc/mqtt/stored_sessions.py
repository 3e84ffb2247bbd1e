"""Sessions and wills as the system database keeps them, and how a session is made of that again (spec: mqtt §7, §8).

A record of `svc_durable_session` has who may use the session, how long it lasts and what it has subscribed to; how far its client has got is in `$mqtt` of each
database (`rows`). The two are not in one commit, and need not be: rows count only under the number that the record has.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from itertools import islice
from math import inf
from typing import Any

from svc.errors import PreconditionFailed
from svc.mqtt.delivery import Delivery
from svc.mqtt.group_rows import GROUP, decode_group, encode_group
from svc.mqtt.publishing import Sender
from svc.mqtt.rows import KINDS, NUMBER_BYTES, Position, SentRow, read_position, read_received, read_sent
from svc.mqtt.session import Flight, Session, SessionRows
from svc.mqtt.shared import GroupParts, SharedGroup, delivery_of
from svc.protocol.mqtt_exchanges import ReceivedExchanges
from svc.protocol.mqtt_packets import Subscription, Will
from svc.protocol.mqtt_properties import WILL, encode_properties, read_properties
from svc.protocol.mqtt_states import Sent
from svc.store import Database, Store, Table, Transaction
from svc.store.side_rows import SideRows, scan_rows
from svc.store.system import DURABLE_SESSION_TABLE, SESSION_WILL_TABLE, SYSTEM
from svc.store.values.records import decode, expiry_of

Record = dict[str, Any]

STEP = 100  # rows read at a time


class StoredSessions:
    """Of one server. `identity`: of this process, in the records of sessions and wills whose clients have come to it."""

    def __init__(
        self,
        store: Store,
        wall: Callable[[], float],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        identity: str,
        is_alive: Callable[[str], bool],
    ) -> None:
        """`wall`: seconds since the epoch. `spawn`: runs a coroutine. `is_alive`: whether the process of an identity lives."""
        self.identity = identity
        self.store = store
        self._wall = wall
        self._spawn = spawn
        self._is_alive = is_alive
        self._rows: dict[Database, SideRows] = {}
        self.live_groups: Mapping[str, SharedGroup] = {}  # shared subscriptions that have members now, by name

    @property
    def system(self) -> Database:
        return self.store.databases[SYSTEM]

    @property
    def _table(self) -> Table:
        return self.system.tables[DURABLE_SESSION_TABLE]

    @property
    def _wills(self) -> Table:
        return self.system.tables[SESSION_WILL_TABLE]

    # --- rows ----------------------------------------------------------------------------------------------------------------------------

    def rows_of(self, database: Database) -> SideRows:
        found = self._rows.get(database)
        if found is None:
            found = self._rows[database] = SideRows(database, self._spawn)
        return found

    def _find_rows(self, name: str) -> SideRows | None:
        database = self.store.databases.get(name)
        return None if database is None or database.is_dropped else self.rows_of(database)

    def session_rows(self, session: Session) -> SessionRows:
        return SessionRows(session.number, self._find_rows)

    def remove_rows(self, number: bytes) -> Iterator[None]:
        """Remove the rows of a session that has ended, in short steps."""
        for database in list(self.store.databases.values()):
            rows = self.rows_of(database)
            for kind in KINDS:
                key = b""
                while found := list(islice(scan_rows(database, database.snapshot(), kind + number, behind=key), STEP)):
                    for key, _ in found:
                        rows.delete(key)
                    yield
        yield from self._remove_members()

    def remove_unknown_rows(self) -> Iterator[None]:
        """Remove the rows of all numbers that no session has, in short steps."""
        unknown: set[bytes] = set()
        for database in self._databases():
            key = b""
            while found := list(islice(scan_rows(database, database.snapshot(), b"", behind=key), STEP)):
                unknown.update(each[1 : 1 + NUMBER_BYTES] for each, _ in found)
                key = found[-1][0]
                yield
        # A session is stored before its rows: so those that are made meanwhile are found.
        for record in self.each() if unknown else ():
            if record is not None:
                unknown.discard(bytes.fromhex(record["number"]))
            yield
        for number in unknown:
            yield from self.remove_rows(number)
        yield from self._remove_members()

    def _remove_members(self) -> Iterator[None]:
        """Sessions that have ended are no members of shared subscriptions any more."""
        for group in list(self.live_groups.values()):
            for client_id, number in list(group.lasting.items()):
                if not self.is_session(client_id, number):
                    group.keep(client_id, None)
            yield
        for database in self._databases():
            for key, data in list(scan_rows(database, database.snapshot(), GROUP)):
                if self._without_ended(bytes(data)) != data:
                    self.rows_of(database).update(key, self._without_ended)
                yield

    def _without_ended(self, data: bytes | None) -> bytes | None:
        """The row of a group without sessions and processes that have ended."""
        if data is None:
            return None
        row = decode_group(data)
        row.release_dead(self._is_alive)
        row.members = {client_id: number for client_id, number in row.members.items() if self.is_session(client_id, number)}
        return encode_group(row)

    def is_session(self, client_id: str, number: bytes) -> bool:
        """Whether a session lasts."""
        record = self.find(client_id)
        return record is not None and record["number"] == number.hex()

    def _databases(self) -> list[Database]:
        return [database for database in self.store.databases.values() if not database.is_dropped]

    # --- sessions ------------------------------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        entries: int = self.system.snapshot().stat(self._table.primary)["entries"]
        return entries

    def find(self, client_id: str) -> Record | None:
        """The record of a session that has not ended. Raises BadValue for an id that no key can be."""
        raw = self._table.get_raw(client_id)
        if raw is None:
            return None
        record = decode(raw)
        record["ends"] = expiry_of(raw)
        return record

    def is_ours(self, session: Session) -> bool:
        """Whether the client has not come to another process since, while this one has not answered."""
        if session.rows is not None:
            record = self.find(session.client_id)
            return record is not None and record["number"] == session.number.hex() and record.get("owner") == self.identity
        record = None if session.will is None else self.find_will(session.client_id)
        return record is None or record.get("owner") == self.identity

    def each(self) -> Iterator[Record | None]:
        """All sessions, in short steps; None in between."""
        table = self._table
        behind = None
        while True:
            found = list(islice(table.scan(self.system.snapshot(), None, None, behind=behind), STEP))
            if not found:
                return
            behind = found[-1][0]
            for _, raw in found:
                if table.is_live(raw, self._wall() * 1000):
                    yield {**decode(raw), "ends": expiry_of(raw)}
            yield None

    def put(self, transaction: Transaction, session: Session, *, is_connected: bool = True) -> None:
        """Write the record of a session. One whose client is away, and that is not for good, ends by itself."""
        if session.former:
            under_way = {flight.delivery for flight in session.flying.values()}
            session.former = [each for each in session.former if each in under_way]
        record = {
            "user": session.sender.username,
            "number": session.number.hex(),
            "expiry": None if session.expiry == inf else session.expiry,
            "owner": self.identity,
            "subscriptions": [_subscription_of(each) for each in session.deliveries.values() if isinstance(each, Delivery)]
            + [{**_subscription_of(each), "ended": True} for each in session.former if isinstance(each, Delivery)],
        }
        ends = None if is_connected or session.expiry == inf else self._wall() * 1000 + session.expiry * 1000
        transaction.put(self._table, session.client_id, record, expires_at=ends)

    def set_end(self, transaction: Transaction, record: Record) -> None:
        """The time of a session begins now. Its application raises PreconditionFailed if the client has come to another process meanwhile."""

        def unchanged(asked: Record, found: Mapping[str, Any] | None) -> Record:
            if found is None or found.get("owner") != record.get("owner"):
                raise PreconditionFailed("The session goes on")
            return asked

        kept = {name: value for name, value in record.items() if name not in ("id", "ends")}
        transaction.put(self._table, record["id"], kept, expires_at=self._wall() * 1000 + record["expiry"] * 1000, decide=unchanged)

    def delete(self, transaction: Transaction, client_id: str) -> None:
        transaction.delete(self._table, client_id)

    def restore(self, record: Record, sender: Sender, parts: GroupParts) -> Iterator[Session]:
        """The session of a record, complete after the last one of some short steps."""
        expiry = record.get("expiry")
        session = Session(record["id"], sender, inf if expiry is None else expiry, bytes.fromhex(record["number"]))
        session.rows = self.session_rows(session)
        deliveries: dict[int, Delivery] = {}
        for each in record.get("subscriptions") or ():
            delivery = deliveries[each["number"]] = _delivery_of(each, session, parts)
            session.last_number = max(session.last_number, delivery.number)
            if each.get("ended"):
                session.former.append(delivery)
            else:
                session.deliveries[delivery.subscription.filter] = delivery
        yield session
        received: list[int] = []
        flights: list[tuple[int, Flight, Sent]] = []
        for database in self._databases():
            last = None
            while found := list(islice(read_received(database, database.snapshot(), session.number, last), STEP)):
                received += found
                session.noted.update(dict.fromkeys(found, database.name))
                last = found[-1]
                yield session
            txn = database.snapshot()
            position = read_position(database, txn, session.number)
            here = [each for each in deliveries.values() if each.database == database.name]
            for delivery in here:
                if position is not None and delivery.number <= position.known:
                    delivery.position = position.of(delivery.number)
            unknown = Delivery(session, Subscription("", 2), parts, 0)  # in place of a subscription that is not there any more
            unknown.database = database.name
            flights += _flights(deliveries, unknown, position, list(read_sent(database, txn, session.number)))
            yield session
        session.received = ReceivedExchanges(tuple(received))
        flights.sort(key=lambda each: each[1].sequence)
        for packet_id, flight, state in flights:
            session.restore(packet_id, flight, state)
            if flight.qos == 2 and flight.key is None and isinstance(flight.delivery, Delivery):
                flight.delivery.exact_until = max(flight.delivery.exact_until, flight.lsn)
        yield session

    # --- wills ---------------------------------------------------------------------------------------------------------------------------

    def put_will(self, transaction: Transaction, session: Session, will: Will) -> None:
        record = {
            "topic": will.topic,
            "data": will.payload,
            "qos": will.qos,
            "retain": will.retain,
            "user": session.sender.username,
            "session": session.number.hex(),
            "owner": self.identity,
            "properties": encode_properties(will.properties),
        }
        transaction.put(self._wills, session.client_id, record)

    def delete_will(self, transaction: Transaction, client_id: str) -> None:
        transaction.delete(self._wills, client_id)

    def find_will(self, client_id: str) -> Record | None:
        raw = self._wills.get_raw(client_id)
        return None if raw is None else decode(raw)

    def wills(self) -> Iterator[Record]:
        """All that are stored."""
        for _, raw in list(self._wills.scan(self.system.snapshot(), None, None)):
            yield decode(raw)


def will_of(record: Record) -> Will:
    found, _ = read_properties(record["properties"], 0, len(record["properties"]), WILL)
    return Will(record["topic"], record["data"], record["qos"], record["retain"], found)


def _subscription_of(delivery: Delivery) -> Record:
    asked = delivery.subscription
    return {
        "topic": asked.filter,
        "qos": asked.qos,
        "startTime": delivery.started,
        "number": delivery.number,
        "database": delivery.database,
        "start": delivery.start,
        "records": delivery.begins_with_records,
        "noLocal": asked.no_local,
        "retainAsPublished": asked.retain_as_published,
        "retainHandling": asked.retain_handling,
        "identifier": delivery.identifier,
    }


def _delivery_of(record: Record, session: Session, parts: GroupParts) -> Delivery:
    asked = Subscription(record["topic"], record["qos"], record["noLocal"], record["retainAsPublished"], record["retainHandling"])
    delivery = delivery_of(session, asked, parts, record["identifier"])
    delivery.number, delivery.database = record["number"], record["database"]
    delivery.started, delivery.start = record["startTime"], record["start"]
    delivery.begins_with_records = record["records"]
    if not record["records"]:
        delivery.position = delivery.start
    return delivery


def _flights(
    deliveries: dict[int, Delivery], unknown: Delivery, position: Position | None, sent: list[tuple[int, SentRow]]
) -> Iterator[tuple[int, Flight, Sent]]:
    """What was under way. A message of a subscription that is not known any more can only be released."""
    for packet_id, row in sent:
        delivery = deliveries.get(row.filter, unknown)
        is_released = row.is_released or delivery is unknown
        yield packet_id, Flight(delivery, None, 2, row.sequence, row.lsn, row.key), Sent.RELEASED if is_released else Sent.SENT
    if position is not None:
        for packet_id, sequence, number, lsn, key in position.flights:
            if number in deliveries:
                yield packet_id, Flight(deliveries[number], None, 1, sequence, lsn, key), Sent.UNCONFIRMED
