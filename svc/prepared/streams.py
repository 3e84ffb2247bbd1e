"""What is prepared for streams of HTTP/2, found by the fields of a request, before they are checked.

As over HTTP/1.1 (`requests`), a prepared request differs from one that has been answered in its key alone, or in its key and the entity tag that its client
has: in the last part of `:path`, and in the value of `if-none-match`. A connection keeps what has answered its last request, and most repeat that.
"""

from __future__ import annotations

from typing import NamedTuple

from svc.connection.shared import SharedState
from svc.http.dispatch import Dispatcher
from svc.messages import Request, Response
from svc.prepared.answers import PUNCTUATION, TAG_LENGTH, StreamCarrier
from svc.prepared.kept import Kept, is_time
from svc.prepared.record_reads import Read, RecordReads
from svc.protocol.request_head import FieldTuple
from svc.resources.table_base import UNCHECKED_KEY_LENGTH

FIELDS_MAX = 1200  # bytes of the fields of a request that is kept
_FIELD_OVERHEAD = 4  # as HTTP/1.1 has it: for the limit of both
_LONGER = frozenset(("content-length", "expect"))  # fields of requests that may not end with their heads

StreamPlace = tuple[bytes, int, FieldTuple]
"""What comes before the key in the path; which of the other fields has the entity tag, -1: none; the fields but for these."""


class StreamRead(NamedTuple):
    """What answers the requests of one place. `size`: bytes of their heads in HTTP/1.1, without the path."""

    address: bytes
    tag_at: int
    fields: FieldTuple
    size: int
    read: Read


class PreparedStreams:
    """Of one port."""

    def __init__(self, dispatcher: Dispatcher, record_reads: RecordReads) -> None:
        self._dispatcher = dispatcher
        self._record_reads = record_reads
        self.reads: Kept[StreamPlace, StreamRead | int] = Kept()
        """And of places where nothing is prepared, how often the general path has answered there."""

    def answer(self, carrier: StreamCarrier, shared: SharedState, path: bytes, fields: FieldTuple) -> bool:
        """Answer the request that the protocol of the carrier has found, if it is one that is prepared. False: nothing has happened."""
        if self._dispatcher.chain is not None:
            return False
        at = path.rfind(b"/") + 1
        key, address, tag = path[at:], path[:at], b""
        known: StreamRead | None = carrier.prepared
        if known is None or known[0] != address or known[2] != fields:
            tag_at, tag, others = cut_tag(fields)
            found = self.reads.find((address, tag_at, others))
            if not isinstance(found, StreamRead):
                return False
            known = found
            if not tag:
                carrier.prepared = known
        if (
            not (key.isalnum() or key.translate(None, PUNCTUATION).isalnum())  # as `is_plain_key`
            or len(key) > UNCHECKED_KEY_LENGTH
            or known[3] + len(path) > shared.limits.max_header_size
        ):
            return False
        answered = known[4](carrier, shared, b"", key, tag)
        if answered is None:
            if self.reads.find(known[:3]) is known:
                self.reads.keep(known[:3], 1)
            carrier.prepared = None
        return bool(answered)

    def consider(self, request: Request, response: Response) -> None:
        """The general path answers a GET: prepare the next one, if it can be."""
        fields: FieldTuple | None = request.block.memo.get("http2")
        if request.query is not None or fields is None or response.status not in (200, 304) or request.peer_certificate is not None:
            return
        if not _LONGER.isdisjoint(request.block.fields):
            return
        address = request.target[: request.target.rfind("/")]
        tag_at, tag, others = cut_tag(fields)
        place = f"{address}/".encode(), tag_at, others
        found = self.reads.find(place)
        if isinstance(found, StreamRead):
            return
        size = sum([len(name) + len(value) for name, value in fields])
        if size > FIELDS_MAX:
            return
        answers = 1 if found is None else found + 1
        self.reads.keep(place, answers)
        read = self._record_reads.prepare(request, address, tag.decode("latin-1")) if is_time(answers) else None
        if read is not None:
            size += len(":path") + _FIELD_OVERHEAD * (len(fields) + 1)
            self.reads.keep(place, StreamRead(*place, size, read))


def cut_tag(fields: FieldTuple) -> tuple[int, bytes, FieldTuple]:
    """The index of `if-none-match`, the entity tag in it without quotes, and the other fields. Without a tag that could be that of a record -1, b"" and all.

    >>> cut_tag(((b":method", b"GET"), (b"if-none-match", b'"Qnm3baqAAAA"')))
    (1, b'Qnm3baqAAAA', ((b':method', b'GET'),))
    """
    for index, (name, value) in enumerate(fields):
        if name == b"if-none-match":
            if len(value) == TAG_LENGTH + 2 and value[:1] == value[-1:] == b'"':
                return index, value[1:-1], fields[:index] + fields[index + 1 :]
            break
    return -1, b"", fields
