"""The meaning of the head of an HTTP/1 request, after its lines are parsed (RFC 9110, RFC 9112). Both lanes of `http1` end here.

The syntax of single lines is the business of the two readers, `express` and h11. Here are the rules that span fields, because a peer in front of
us and we must never disagree on where a request ends or for which host it is: framing, `Host`, target, `Connection`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from svc.errors import PeerError
from svc.messages import HeaderBlock, HeaderPairs

# uri-host [ ":" port ] of RFC 9110 §7.2, without the comma: `a, b` is what a careless intermediary makes of two fields. May be empty.
HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9._~!$&'()*+;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?")
_ABSOLUTE = re.compile(r"https?://([^/?#]*)(.*)", re.IGNORECASE)
FIELDS_MAX = 256  # header fields of a request: each costs some microseconds, however short it is
FRAGMENT = "'#' in the request target: fragments are not sent to servers (RFC 9112 §3.2); percent-encode it as %23"
_REQUEST_LINE_PARTS = re.compile(rb"[^ ]+ [^ ]+ [^ ]+")


FieldTuple = tuple[tuple[bytes, bytes], ...]
"""Fields of a request of HTTP/2, as they have come."""


@dataclass(slots=True)
class ParsedBlock:
    """A header block, and the values of it that the driver needs."""

    block: HeaderBlock
    content_length: int  # of the body in bytes; 0 if there is none, or if it is chunked
    chunked: bool
    keep_alive: bool  # the peer does not ask to close
    expects_continue: bool  # says `Expect: 100-continue`
    upgrades: bool  # asks for another protocol


def interpret_block(pairs: HeaderPairs, http_version: str) -> ParsedBlock:
    """Apply the rules that span fields. `pairs`: lower-case names, values without outer white space, Content-Length a numeral.

    Raises PeerError. HTTP/1.0 never keeps a connection: without chunks it could do so only where a length is known beforehand, and `Keep-Alive`
    through an old proxy hangs (RFC 9112, appendix C.2.2).
    """
    block = HeaderBlock(pairs)
    fields = block.fields
    modern = http_version != "1.0"
    host = fields.get("host")
    if host is None:
        if modern:
            raise PeerError("Missing Host header")
    elif HOST.fullmatch(host) is None:
        raise PeerError("Invalid Host header")
    chunked = "transfer-encoding" in fields  # the readers let no other coding pass
    if chunked:
        if "content-length" in fields:
            raise PeerError("Both Content-Length and Transfer-Encoding")
        if not modern:
            raise PeerError("Transfer-Encoding in an HTTP/1.0 request")  # RFC 9112 §6.1: the framing is faulty
    options = tokens(fields["connection"]) if "connection" in fields else ()
    return ParsedBlock(
        block,
        content_length=int(fields.get("content-length", "0")),
        chunked=chunked,
        keep_alive=modern and "close" not in options,
        expects_continue=modern and "expect" in fields and "100-continue" in tokens(fields["expect"]),
        upgrades=modern and "upgrade" in fields and "upgrade" in options,
    )


def tokens(value: str) -> tuple[str, ...]:
    """The elements of a comma-separated list, in lower case: `Connection`, `Expect`, `Upgrade`.

    >>> tokens("Keep-Alive, ,UPGRADE")
    ('keep-alive', 'upgrade')
    """
    return tuple(token for part in value.lower().split(",") if (token := part.strip(" \t")))


def reduce_target(method: str, target: str, pairs: HeaderPairs) -> str:
    """The target in origin form, or `*` (RFC 9112 §3.2). Raises PeerError.

    The host of an absolute form replaces the one in `pairs`, which is changed in place: RFC 9112 §3.2.2 has the server ignore the field.

    >>> pairs = [("host", "other")]
    >>> reduce_target("GET", "http://example.org?a=1", pairs), pairs
    ('/?a=1', [('host', 'example.org')])
    """
    if method == "CONNECT":
        raise PeerError("Method CONNECT is not recognized", 501)
    if "#" in target:
        raise PeerError(FRAGMENT)
    if target.startswith("/"):
        return target
    if target == "*":
        if method != "OPTIONS":
            raise PeerError("The target * is for OPTIONS only")
        return target
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        raise PeerError("The request target is neither a path nor a URL of this server")
    host, rest = match.groups()
    if not host or HOST.fullmatch(host) is None:  # also refuses `user@host` (RFC 9110 §4.2.4)
        raise PeerError("Invalid host in the request target")
    for position, (name, _) in enumerate(pairs):
        if name == "host":
            pairs[position] = ("host", host)
            break
    else:
        pairs.insert(0, ("host", host))
    if rest.startswith("/"):
        return rest
    return "*" if method == "OPTIONS" and not rest else "/" + rest


def explain_request_line(head: bytes) -> str:
    """A message for the peer: why the first line of this head, which h11 has refused, is not a valid request line."""
    line = head[: head.find(b"\n")].removesuffix(b"\r")
    if any(byte >= 0x7F or byte < 0x20 for byte in line):
        return "Control or non-ASCII character in the request line; percent-encode it"
    if _REQUEST_LINE_PARTS.fullmatch(line) is None:
        return "The request line is not: method, one space, target, one space, HTTP version"
    if not line.rpartition(b" ")[2].startswith(b"HTTP/"):
        return "The request line does not end with an HTTP version"
    return "Malformed method or HTTP version in the request line"
