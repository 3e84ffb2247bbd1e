"""What the fields of an HTTP/2 request mean (RFC 9113 §8.3, RFC 8441): the sibling of `request_head`, with the same result for the layers above.

`:authority` becomes `host`, cookie crumbs are joined, and what HTTP/2 forbids is refused, since a proxy that translates to HTTP/1.1 could read
another request than we do (request smuggling). Clients repeat all fields but `:path`, so the parsed form of the others is cached by them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from svc.errors import PeerError
from svc.messages import HeaderBlock, HeaderPairs
from svc.protocol.request_head import FRAGMENT, HOST, tokens

RawPairs = list[tuple[bytes, bytes]]

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_VALUE = re.compile(rb"(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?")
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(rb"/[\x21\x22\x24-\x7e]*")
_CONNECTION_FIELDS = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
_PSEUDO_FIELDS = frozenset({b":method", b":scheme", b":authority", b":protocol"})
_LENGTH_DIGITS_MAX = 15


@dataclass(slots=True)
class ParsedHead:
    """All fields of a request but its path, and what the driver has to know of them."""

    method: str
    block: HeaderBlock
    content_length: int | None  # of the body in bytes, as announced
    expects_continue: bool  # says `Expect: 100-continue`
    protocol: str  # of an extended CONNECT, in lower case


class HeadCache:
    """Heads by their fields, in bounded memory: two generations as in `express.BlockCache`, and for the same reason."""

    def __init__(self, max_entries: int = 2048, max_weight: int = 4 << 20) -> None:
        """Limits of one generation."""
        self._max_entries = max_entries
        self._max_weight = max_weight
        self._weight = 0
        self._old: dict[tuple[tuple[bytes, bytes], ...], ParsedHead] = {}
        self._young: dict[tuple[tuple[bytes, bytes], ...], ParsedHead] = {}

    def find(self, fields: RawPairs) -> ParsedHead:
        """The head of these fields, none of which is `:path`. Raises PeerError."""
        key = tuple(fields)
        head = self._young.get(key)
        if head is None:
            head = self._old.get(key)
            if head is None:
                head = parse_head(fields)
                head.block.memo["http2"] = key
            size = sum(len(name) + len(value) for name, value in fields)
            if size <= HEAD_SIZE_MAX:
                weight = 1000 + 3 * size + 400 * len(fields)
                if len(self._young) >= self._max_entries or self._weight + weight > self._max_weight:
                    self._old, self._young, self._weight = self._young, {}, 0
                self._young[key] = head
                self._weight += weight
        return head

    def __len__(self) -> int:
        return len(self._young) + len(self._old)


HEAD_SIZE_MAX = 4096  # bytes of the longest head that is remembered
HEADS = HeadCache()  # shared by all connections: a head says the same on each of them


def interpret_head(fields: RawPairs, heads: HeadCache = HEADS) -> tuple[str, ParsedHead]:
    """(target, head) of a request's fields. Raises PeerError.

    >>> target, head = interpret_head([(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/x?y"), (b"accept", b"*/*")])
    >>> target, head.method, head.block.pairs
    ('/x?y', 'GET', [('host', 'a'), ('accept', '*/*')])
    """
    for position, (name, _) in enumerate(fields):
        if name == b":path":
            path = fields[position][1]
            if position and fields[position - 1][0][:1] != b":":
                raise PeerError("A pseudo-header field after a field")
            head = heads.find(fields[:position] + fields[position + 1 :])
            break
    else:
        head = heads.find(fields)
        if head.method == "CONNECT":
            raise PeerError("Method CONNECT is not recognized", 501)
        raise PeerError("Missing :path")
    if head.method == "CONNECT":
        raise PeerError("CONNECT with a :path and without a :protocol")
    if _TARGET.fullmatch(path) is None:
        if b"#" in path:
            raise PeerError(FRAGMENT)
        if path[:1] == b"/":
            raise PeerError("Control or non-ASCII character in the request target; percent-encode it")
        if path != b"*":
            raise PeerError("The request target is neither a path nor a URL of this server")
        if head.method != "OPTIONS":
            raise PeerError("The target * is for OPTIONS only")
    return path.decode("ascii"), head


def parse_head(fields: RawPairs) -> ParsedHead:
    """Check and interpret all fields of a request but `:path`. Raises PeerError."""
    pseudo: dict[bytes, str] = {}
    pairs: HeaderPairs = []
    host: str | None = None
    cookie: int | None = None  # index in `pairs`
    for name, value in fields:
        if name[:1] == b":":
            if pairs or host is not None or name in pseudo or name not in _PSEUDO_FIELDS:
                raise _pseudo_field_error(name, pseudo)
            pseudo[name] = check_value(name, value)
            continue
        text = check_field(name, value)
        if name == b"host":
            if host is not None:
                raise PeerError("More than one Host header")
            host = text
        elif name == b"cookie" and cookie is not None:
            pairs[cookie] = ("cookie", f"{pairs[cookie][1]}; {text}")
        else:
            if name == b"cookie":
                cookie = len(pairs)
            pairs.append((name.decode("ascii"), text))
    method = pseudo.get(b":method", "")
    if _METHOD.fullmatch(method) is None:
        raise PeerError("Missing or malformed :method")
    authority = pseudo.get(b":authority", host)
    if not authority or (host is not None and host != authority) or HOST.fullmatch(authority) is None:
        raise _authority_error(authority, host)
    pairs.insert(0, ("host", authority))
    if method == "CONNECT":
        return _connect_head(pseudo, pairs)
    if pseudo.get(b":scheme") not in ("http", "https"):
        raise PeerError("Missing :scheme, or neither http nor https")
    if b":protocol" in pseudo:
        raise PeerError("A :protocol without CONNECT, or malformed")
    return ParsedHead(method, *_interpret(pairs), "")


def _pseudo_field_error(name: bytes, pseudo: dict[bytes, str]) -> PeerError:
    """The error of a pseudo-header field after those in `pseudo`."""
    if name in pseudo or name == b":path":
        return PeerError(f"{name.decode('ascii')} twice")
    if name not in _PSEUDO_FIELDS:
        return PeerError("An unknown pseudo-header field")
    return PeerError("A pseudo-header field after a field")


def _authority_error(authority: str | None, host: str | None) -> PeerError:
    if host is not None and host != authority:
        return PeerError(":authority and Host are different")
    if not authority:
        return PeerError("Missing :authority and Host header")
    return PeerError("Invalid :authority or Host header")


def _connect_head(pseudo: dict[bytes, str], pairs: HeaderPairs) -> ParsedHead:
    """The head of a CONNECT request: an extended one has a `:protocol` (RFC 8441 §4)."""
    protocol = pseudo.get(b":protocol", "")
    if not protocol:
        if b":scheme" in pseudo:
            raise PeerError("CONNECT with a :scheme and without a :protocol")
        return ParsedHead("CONNECT", HeaderBlock(pairs), None, False, "")
    if pseudo.get(b":scheme") not in ("http", "https"):
        raise PeerError("Missing :scheme, or neither http nor https")
    if _METHOD.fullmatch(protocol) is None:
        raise PeerError("A :protocol without CONNECT, or malformed")
    # The handshake is a GET for the application, as with HTTP/1.1.
    return ParsedHead("GET", *_interpret(pairs), protocol.lower())


def _interpret(pairs: HeaderPairs) -> tuple[HeaderBlock, int | None, bool]:
    block = HeaderBlock(pairs)
    fields = block.fields
    length: int | None = None
    if "content-length" in fields:
        numerals = {value for name, value in pairs if name == "content-length"}
        numeral = numerals.pop()
        if numerals or not (numeral.isascii() and numeral.isdigit()) or len(numeral) > _LENGTH_DIGITS_MAX:
            raise PeerError("Malformed Content-Length, or more than one")
        length = int(numeral)
        if fields["content-length"] != numeral:  # the same several times
            first = next(pair for pair in pairs if pair[0] == "content-length")
            block = HeaderBlock([pair for pair in pairs if pair is first or pair[0] != "content-length"])
    expects_continue = "expect" in fields and "100-continue" in tokens(fields["expect"])
    return block, length, expects_continue


def check_field(name: bytes, value: bytes) -> str:
    """The value of an ordinary field as a string. Raises PeerError (RFC 9113 §8.2)."""
    if _NAME.fullmatch(name) is None:
        raise PeerError("Invalid field name: it must be a lower-case token")
    if name in _CONNECTION_FIELDS:
        raise PeerError(f"{name.decode('ascii')} is not allowed in HTTP/2")
    text = check_value(name, value)
    if name == b"te" and text.lower() != "trailers":
        raise PeerError("te may only say trailers")
    return text


def check_value(name: bytes, value: bytes) -> str:
    if _VALUE.fullmatch(value) is None:
        raise PeerError(f"The value of {name.decode('ascii')} has control characters, or white space around it")
    return value.decode("latin-1")


def interpret_trailers(fields: RawPairs) -> HeaderPairs:
    """Trailers of a request. Raises PeerError."""
    texts = [check_field(name, value) for name, value in fields]
    return [(name.decode("ascii"), text) for (name, _), text in zip(fields, texts, strict=True)]
