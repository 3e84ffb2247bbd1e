"""What is prepared, found by the bytes of a request, before anything is parsed.

A prepared request differs from one that has been answered in its key alone, or in its key and the entity tag that its client has:

    GET /Product/42 HTTP/1.1\\r\\nHost: ...\\r\\nIf-None-Match: "Qnm3baqAAAA"\\r\\nAccept: ...\\r\\n\\r\\n
    |--before---|  |----------middle------------------------|           |---------behind--------|

Without an entity tag all that follows the key is `behind`. A list is found by the collection and the header block, and then by the shape of its query:

    GET /Product/?price=gt=20&sort(name) HTTP/1.1\\r\\nHost: ...\\r\\n\\r\\n
    |--before----|                      |----------behind----------|

A connection keeps what its last request has found, and most repeat that: what answered it, or a `Candidate`, which declines.
"""

from __future__ import annotations

from typing import NamedTuple

from svc.analytics import Recorder
from svc.auth.identify import Identifier
from svc.connection.shared import SharedState
from svc.http.dispatch import Dispatcher
from svc.messages import Request, Response
from svc.prepared.answers import PUNCTUATION, TAG_LENGTH, Carrier
from svc.prepared.handler_reads import HandlerReads
from svc.prepared.kept import Candidate, Kept
from svc.prepared.list_reads import ListReads, PreparedLists
from svc.prepared.premises import Premises, is_complete, parsed_block
from svc.prepared.record_reads import Read, RecordReads
from svc.prepared.record_writes import RecordWrites
from svc.prepared.streams import PreparedStreams
from svc.prepared.writes import PreparedWrites
from svc.query.form import may_be_form
from svc.query.shapes import cut
from svc.resources import Resources
from svc.resources.table_base import UNCHECKED_KEY_LENGTH
from svc.rest import Rest

PLACE_MAX = 1200  # bytes of a request without its key or query, and entity tag: longer ones are not kept
QUERY_MAX = 1024  # characters of a query that is
MOST_LISTS = 256  # places of one generation; each shape that is prepared there takes about 3 KB
_GET = b"GET /"
_G = _GET[0]
_VERSION = b" HTTP/1.1\r\n"
_END = b"\r\n\r\n"
_TAG_FIELDS = (b'\r\nIf-None-Match: "', b'\r\nif-none-match: "')

Place = tuple[bytes, bytes, bytes]
"""What comes before the key, between it and the entity tag (b"": there is no tag), and behind."""


class PreparedRead(NamedTuple):
    """What answers the requests of one place, or a candidate. `key_at`, `key_end`: where in such a request the key is; `tag_end`: where the entity tag ends."""

    before: bytes
    middle: bytes
    behind: bytes
    key_at: int
    key_end: int
    tag_end: int
    read: Read

    @property
    def place(self) -> Place:
        return self.before, self.middle, self.behind

    def end_candidate(self) -> None:
        """Something is prepared in its place."""
        if isinstance(self.read, Candidate):
            self.read.is_over = True


ListPlace = tuple[bytes, bytes]
"""What comes before the query of a list, and behind it."""


class PreparedRequests:
    """Of one port."""

    def __init__(self, dispatcher: Dispatcher, rest: Rest, resources: Resources, identifier: Identifier, recorder: Recorder) -> None:
        self._dispatcher = dispatcher
        premises = Premises(dispatcher, rest, resources, identifier)
        self._record_reads = RecordReads(premises, dispatcher, rest, recorder)
        self._handler_reads = HandlerReads(premises, dispatcher, rest, recorder)
        self._list_reads = ListReads(premises, dispatcher, rest, recorder)
        self.writes = PreparedWrites(RecordWrites(premises, dispatcher, rest, recorder))
        self.reads: Kept[Place, PreparedRead] = Kept()
        self.lists: Kept[ListPlace, PreparedLists] = Kept(MOST_LISTS)
        self.streams = PreparedStreams(dispatcher, self._record_reads)
        self.answer_stream = self.streams.answer
        self._declined: tuple[PreparedRead, bytes] | None = None  # of the request under way; the second: its entity tag
        self._declined_list: ListPlace | None = None

    def answer(self, carrier: Carrier, shared: SharedState, data: bytes) -> bool:
        """Answer a request, now or at the end of the turn, if all that has arrived is one that is prepared. False: nothing has happened."""
        self._declined = self._declined_list = None
        if self._dispatcher.chain is not None:
            return False
        if data[0] != _G:
            return self.writes.answer(carrier, shared, data)
        known = carrier.prepared
        if isinstance(known, PreparedRead):
            before, middle, behind, key_at, key_end, tag_end, read = known
            if not data.startswith(before) or not data.endswith(behind) or (middle and not data.endswith(middle, 0, tag_end - TAG_LENGTH)):
                known = None
        elif isinstance(known, PreparedLists) and data.startswith(known.before) and data.endswith(known.behind):
            return self._answer_list(carrier, shared, data, known)
        else:
            known = None
        if known is None:
            known = self._find(data) if len(data) <= shared.limits.max_header_size - UNCHECKED_KEY_LENGTH else None  # with the longest key
            if known is None:
                if self._declined is not None:
                    carrier.prepared = self._declined[0]
                return False
            carrier.prepared = known
            if isinstance(known, PreparedLists):
                return self._answer_list(carrier, shared, data, known)
            before, middle, behind, key_at, key_end, tag_end, read = known
        key = data[key_at:key_end]
        if (key.isalnum() or key.translate(None, PUNCTUATION).isalnum()) and len(key) <= UNCHECKED_KEY_LENGTH:  # as `is_plain_key`
            tag = data[tag_end - TAG_LENGTH : tag_end] if middle else b""
            answered = read(carrier, shared, data, key, tag)
            if answered:
                return True
            if answered is None:
                return self._answer_anew(carrier, shared, data, known, key, tag)
        elif b"?" in key:
            lists = self._find(data)
            if isinstance(lists, PreparedLists):
                carrier.prepared = lists
                return self._answer_list(carrier, shared, data, lists)
        return False

    def _answer_anew(self, carrier: Carrier, shared: SharedState, data: bytes, known: PreparedRead, key: bytes, tag: bytes) -> bool:
        """With what is prepared by now in place of what the connection knows; else it is time to prepare that."""
        found = self.reads.find(known.place)
        if found is not None and found is not known and not isinstance(found.read, Candidate):
            carrier.prepared = found
            return bool(found.read(carrier, shared, data, key, tag))
        if not isinstance(known.read, Candidate) or known.read.is_over:
            known = carrier.prepared = known._replace(read=Candidate(2))
            self.reads.keep(known.place, known)
        self._declined = known, tag
        return False

    def _answer_list(self, carrier: Carrier, shared: SharedState, data: bytes, known: PreparedLists) -> bool:
        if len(data) <= shared.limits.max_header_size and known.answer(carrier, shared, data):
            return True
        self._declined_list = known.before, known.behind
        return False

    def consider(self, request: Request, response: Response | None) -> None:
        """The general path answers a GET, if it was HTTP/1.1 within the call of `answer` that has declined it: prepare the next one, if it can be. None: a
        handler waits."""
        if request.http_version == "2":
            if response is not None:
                self.streams.consider(request, response)
            return
        if request.query is not None:
            if response is not None:
                self._consider_list(request, response)
            return
        declined, self._declined = self._declined, None
        if declined is None or (response is not None and response.status not in (200, 304)):
            return
        known, tag = declined
        before, middle, behind = place = known.place
        found = self.reads.find(place)
        if found is None:
            found = known
            self.reads.keep(place, known)
        elif not isinstance(found.read, Candidate):
            known.end_candidate()
            return
        if isinstance(known.read, Candidate) and not known.read.is_due():
            return
        parsed = parsed_block((middle + tag + behind)[len(_VERSION) : -2], request)
        if parsed is None or not is_complete(parsed):
            return
        address = before[len(_GET) - 1 : -1].decode("latin-1")
        read = self._record_reads.prepare(request, address, tag.decode("latin-1"))
        if read is None and not tag:
            read = self._handler_reads.prepare(request, address)
        if read is not None:
            self.reads.keep(place, known._replace(read=read))
            known.end_candidate()
            found.end_candidate()

    def _consider_list(self, request: Request, response: Response) -> None:
        place, self._declined_list = self._declined_list, None
        query = request.query or ""
        if place is None or response.status != 200 or len(query) > QUERY_MAX:
            return
        before, behind = place
        known = self.lists.find(place)
        if known is None:
            known = PreparedLists(before, behind)
            self.lists.keep(place, known)
        if not known.is_worth_a_look() or may_be_form(query):
            return
        found, parsed = cut(query), parsed_block(behind[len(_VERSION) : -2], request)
        if found is None or parsed is None or not is_complete(parsed) or not known.is_due(found[0]):
            return
        made = self._list_reads.prepare(request, before[len(_GET) - 1 : -2].decode("latin-1"), query)
        if made is not None:
            known.keep(made)

    def consider_write(self, request: Request) -> None:
        """The general path has applied the writes of a request without a query: prepare the next one, if it can be."""
        self.writes.consider(request)

    def _find(self, data: bytes) -> PreparedRead | PreparedLists | None:
        end = data.find(_VERSION, 5)
        if end < 0 or data[:5] != _GET or data[-4:] != _END:
            return None
        mark = data.find(b"?", 5, end)
        if mark >= 0:
            if data[mark - 1 : mark] != b"/" or len(data) - (end - mark) > PLACE_MAX:
                return None
            self._declined_list = data[: mark + 1], data[end:]
            return self.lists.find(self._declined_list)
        at = data.rfind(b"/", 4, end) + 1
        middle, tag, behind = cut_tag(data[end:])
        place = data[:at], middle, behind
        known = self.reads.find(place)
        if known is None and sum(map(len, place)) <= PLACE_MAX:
            end = -len(behind)
            known = PreparedRead(*place, at, end - len(middle) - TAG_LENGTH if middle else end, end, Candidate())
            self._declined = known, tag
            return None
        return known


def cut_tag(head: bytes) -> tuple[bytes, bytes, bytes]:
    """A head from the version on: what is before the entity tag of `If-None-Match`, that tag without quotes, and the rest. Without a tag that could be that of
    a record b"", b"" and all of it.

    >>> cut_tag(b' HTTP/1.1\\r\\nIf-None-Match: "Qnm3baqAAAA"\\r\\n\\r\\n')
    (b' HTTP/1.1\\r\\nIf-None-Match: "', b'Qnm3baqAAAA', b'"\\r\\n\\r\\n')
    """
    for field in _TAG_FIELDS:
        at = head.find(field)
        if at >= 0:
            at += len(field)
            end = at + TAG_LENGTH
            if head[end : end + 3] == b'"\r\n':
                return head[:at], head[at:end], head[end:]
    return b"", b"", head
