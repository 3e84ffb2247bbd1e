"""What a session keeps in `$mqtt` of each database, so that it goes on after a restart, and a message at QoS 2 is exact (spec: mqtt §7).

key                        value
r number packet id         nothing: the client has sent it at QoS 2, and PUBREL is to come
o number packet id         it was sent to the client at QoS 2: see `SentRow`
p number                   how far the client has got, and what is under way at QoS 1: see `Position`

The kind comes first, so that the rows of open exchanges lie together: a turn with many sessions then writes few pages. `number` is that of the session: eight
random bytes, another for each new session. Rows of a number that no session has mean nothing, so nothing has to be written to two databases at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout

import msgspec

from svc.store import Database
from svc.store.env import Txn
from svc.store.side_rows import scan_rows

RECEIVED, SENT, POSITION = b"r", b"o", b"p"
KINDS = (RECEIVED, SENT, POSITION)
NUMBER_BYTES = 8

_SENT = Layout(">BQIQ")


class SentRow(msgspec.Struct, gc=False, frozen=True):
    """A message under way at QoS 2. `sequence`: it grows with each message of the session. `filter`: number of the subscription. `key`: of a current record;
    None: it is the entry `lsn` of the log. `is_released`: the client has received it, PUBREL is due.
    """

    sequence: int
    filter: int
    lsn: int
    key: bytes | None = None
    is_released: bool = False

    def encode(self) -> bytes:
        flags = self.is_released | (0 if self.key is None else 2)
        return _SENT.pack(flags, self.sequence, self.filter, self.lsn) + (self.key or b"")

    @classmethod
    def decode(cls, data: bytes) -> SentRow:
        flags, sequence, number, lsn = _SENT.unpack_from(data)
        return cls(sequence, number, lsn, data[_SENT.size :] if flags & 2 else None, flags & 1 != 0)


class Position(msgspec.Struct, gc=False, array_like=True):
    """`known`: the highest number of a subscription that it is about. `lsn`: up to which the subscriptions have got everything; `others`: those, by their
    number, that have got less, None: they are to begin with the current records. `flights`: (packet id, sequence, number of the subscription, LSN, key of a
    current record) of the messages at QoS 1 that are not acknowledged.
    """

    known: int
    lsn: int
    others: dict[int, int | None]
    flights: list[tuple[int, int, int, int, bytes | None]]

    def of(self, number: int) -> int | None:
        return self.others.get(number, self.lsn)


_encode_position = msgspec.msgpack.Encoder().encode
_decode_position = msgspec.msgpack.Decoder(Position).decode


def received_key(number: bytes, packet_id: int) -> bytes:
    return RECEIVED + number + packet_id.to_bytes(2)


def sent_key(number: bytes, packet_id: int) -> bytes:
    return SENT + number + packet_id.to_bytes(2)


def position_key(number: bytes) -> bytes:
    return POSITION + number


def encode_position(position: Position) -> bytes:
    return _encode_position(position)


def read_received(database: Database, txn: Txn, number: bytes, behind: int | None) -> Iterator[int]:
    """Packet identifiers, in ascending order. `behind`: those above it."""
    for key, _ in scan_rows(database, txn, RECEIVED + number, behind=b"" if behind is None else received_key(number, behind)):
        yield int.from_bytes(key[-2:])


def read_sent(database: Database, txn: Txn, number: bytes) -> Iterator[tuple[int, SentRow]]:
    for key, value in scan_rows(database, txn, SENT + number):
        yield int.from_bytes(key[-2:]), SentRow.decode(value)


def read_position(database: Database, txn: Txn, number: bytes) -> Position | None:
    found = txn.get(position_key(number), None, database.mqtt_rows)
    return None if found is None else _decode_position(found)
