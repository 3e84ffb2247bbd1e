"""The express lane: recognise the plain request that almost all traffic is, or decline (architecture §3).

A head is plain if h11 and every other reader of HTTP would understand it in the same way:

1. the request line is a known method, a target in origin form of visible ASCII without `#`, `HTTP/1.1`, with one space between;
2. lines end with CRLF and contain neither CR nor LF otherwise; there is no line folding;
3. a field line is a token, a colon, and visible ASCII with white space;
4. exactly one `Host`; at most one `Content-Length`, of digits only; `Connection` at most once and `keep-alive` or `close`;
5. no `Transfer-Encoding`, `Expect` or `Upgrade`.

Declining is always safe: h11 then decides. So whatever a rule does not name is declined.

Clients repeat their header block, the lines after the request line, byte for byte, so a parsed block is cached by its bytes.
"""

from __future__ import annotations

import re

from svc.errors import PeerError
from svc.messages import HeaderPairs
from svc.protocol.request_head import FIELDS_MAX, ParsedBlock, interpret_block

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"})

BLOCK_MAX = 4096  # bytes of the longest block that is remembered
_LENGTH_DIGITS_MAX = 15
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE_BYTES = bytes([0x09, *range(0x20, 0x7F)])
_ODD_NAMES = frozenset({"transfer-encoding", "expect", "upgrade"})
_ONCE_NAMES = frozenset({"host", "content-length", "connection"})


class BlockCache:
    """Header blocks by their bytes, in bounded memory.

    Two generations: a block found in the old one moves to the young one; when the young one is full it becomes the old one, and the old one is
    forgotten. So a block in use survives a flood of blocks made to push it out, as long as it is seen once per generation, and nothing is
    searched or sorted for it. `weight` estimates bytes, since many short fields take far more memory than their bytes.
    """

    def __init__(self, max_entries: int = 2048, max_weight: int = 4 << 20) -> None:
        """Limits of one generation."""
        self._max_entries = max_entries
        self._max_weight = max_weight
        self._weight = 0
        self._old: dict[bytes, ParsedBlock] = {}
        self.young: dict[bytes, ParsedBlock] = {}  # looked up directly by `recognise`

    def find(self, raw: bytes) -> ParsedBlock | None:
        """The block, remembered or parsed now. None if it is not plain."""
        parsed = self._old.get(raw) or parse_block(raw)
        if parsed is not None and len(raw) <= BLOCK_MAX:
            self._keep(raw, parsed)
        return parsed

    def _keep(self, raw: bytes, parsed: ParsedBlock) -> None:
        weight = 1000 + 2 * len(raw) + 300 * len(parsed.block.pairs)
        if len(self.young) >= self._max_entries or self._weight + weight > self._max_weight:
            self._old, self.young, self._weight = self.young, {}, 0
        self.young[raw] = parsed
        self._weight += weight

    def __len__(self) -> int:
        return len(self.young) + len(self._old)


BLOCKS = BlockCache()  # shared by all connections: a block says the same on each of them


def recognise(head: bytes, end: int, blocks: BlockCache = BLOCKS) -> tuple[str, str, ParsedBlock] | None:
    """Method, target and block of the request whose head is `head[:end]`, ending with its blank line. None: not plain."""
    line_end = head.find(b"\r\n")
    line = str(head[:line_end], "latin-1")
    if not (line.isascii() and line.isprintable()):
        return None
    parts = line.split(" ")
    if len(parts) != 3:
        return None
    method, target, version = parts
    if version != "HTTP/1.1" or method not in METHODS or target[:1] != "/" or "#" in target:
        return None
    raw = head[line_end + 2 : end - 2]
    parsed = blocks.young.get(raw) or blocks.find(raw)
    if parsed is None:
        return None
    return method, target, parsed


def parse_block(raw: bytes) -> ParsedBlock | None:
    """Parse a header block; every line of it ends with CRLF. None: not plain. O(len(raw))."""
    lines = raw.split(b"\r\n")
    if lines.pop() or len(lines) > FIELDS_MAX:
        return None
    pairs: HeaderPairs = []
    seen: set[str] = set()
    for line in lines:
        raw_name, colon, raw_value = line.partition(b":")
        if not colon or _NAME.fullmatch(raw_name) is None or raw_value.translate(None, _VALUE_BYTES):
            return None
        name = raw_name.decode("ascii").lower()
        value = raw_value.decode("ascii").strip(" \t")
        if name in _ODD_NAMES:
            return None
        if name in _ONCE_NAMES:
            if name in seen:
                return None
            seen.add(name)
            if name == "content-length" and (not value.isdigit() or len(value) > _LENGTH_DIGITS_MAX):
                return None
            if name == "connection" and value.lower() not in ("keep-alive", "close"):
                return None
        pairs.append((name, value))
    try:
        return interpret_block(pairs, "1.1")
    except PeerError:
        return None  # h11's lane reports the error
