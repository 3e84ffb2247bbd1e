"""permessage-deflate (RFC 7692): negotiation in the handshake, and both directions in bounded memory.

Memory of a connection, by zlib's own formulas: deflating takes 2^(bits + 2) + 2^(memory level + 9) bytes, inflating 2^bits, and both some 7 KiB. With
windows of 2^12 and memory level 5 that is 39 KiB and 11 KiB, or 39 KiB for inflating if the client does not let us choose its window.
Without context takeover, which is the default, neither outlives the message it is for, so a connection at rest holds nothing. With it, the 39 KiB for
deflating stay. Clients are never allowed to keep theirs: the memory that a silent peer costs is not its choice.

A message is inflated piece by piece and never further than its limit, nor, beyond RATIO_FREE bytes, to more than RATIO times the bytes received of it:
64 KiB can hold 64 MiB.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from svc.protocol.websocket_frames import BINARY, FIN, RSV1, TEXT, encode_frame, encode_head

NAME = "permessage-deflate"
BITS_LEAST = 9  # zlib cannot deflate with the window of 2^8 that RFC 7692 also has
BITS_MOST = 15
MEMORY_LEVEL = 5
LEVEL = 1  # as for HTTP responses
RATIO = 100  # inflated bytes for each byte received ...
RATIO_FREE = 1 << 20  # ... beyond so many
TAIL = b"\x00\x00\xff\xff"  # the end of every flushed message, which is not sent

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PART = re.compile(rf'[ \t]*({_TOKEN})[ \t]*(?:=[ \t]*(?:({_TOKEN})|"((?:[^"\\]|\\.)*)")[ \t]*)?(;|,|$)')
_BITS = re.compile(r"[89]|1[0-5]")


@dataclass(frozen=True)
class DeflateOptions:
    """The server's side of the negotiation."""

    window_bits: int = 12
    context_takeover: bool = False  # ours: later messages refer to earlier ones, for `2^12` and more bytes a connection
    min_size: int = 256  # bytes of payload below which a message goes as it is; 0: all are compressed, even those that grow by it

    def __post_init__(self) -> None:
        if not BITS_LEAST <= self.window_bits <= BITS_MOST:
            raise ValueError(f"window_bits must be from {BITS_LEAST} to {BITS_MOST}")


@dataclass(frozen=True)
class Agreement:
    """The negotiated parameters. `answer`: the value of `Sec-WebSocket-Extensions`."""

    server_bits: int
    client_bits: int
    context_takeover: bool
    min_size: int
    answer: str


def negotiate(offers: str, options: DeflateOptions) -> Agreement | None:
    """Accept the first offer that can be met, out of all `Sec-WebSocket-Extensions` joined with commas. None: no compression.

    >>> negotiate("permessage-deflate; client_max_window_bits", DeflateOptions()).answer
    'permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=12; client_max_window_bits=12'
    >>> negotiate("permessage-deflate; server_max_window_bits=8, x-other", DeflateOptions()) is None
    True
    """
    for name, parameters in _parse(offers):
        if name.lower() == NAME and (agreement := _agree(parameters, options)) is not None:
            return agreement
    return None


def _parse(offers: str) -> list[tuple[str, list[tuple[str, str | None]]]]:
    """Names of extensions, each with its parameters. Whatever is not well-formed ends the list."""
    found: list[tuple[str, list[tuple[str, str | None]]]] = []
    position = 0
    begins = True
    while position <= len(offers) and (match := _PART.match(offers, position)) is not None:
        name, token, quoted, separator = match.groups()
        value = token if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        if begins:
            if value is not None:
                break
            found.append((name, []))
        else:
            found[-1][1].append((name.lower(), value))
        if not separator:
            return found
        begins = separator == ","
        position = match.end()
    # The last one is cut short by the fault: it may have had parameters that we cannot see.
    return found if begins else found[:-1]


def _agree(parameters: list[tuple[str, str | None]], options: DeflateOptions) -> Agreement | None:
    server_bits, client_bits = options.window_bits, BITS_MOST
    takeover = options.context_takeover
    chosen: list[str] = []
    seen = dict(parameters)
    if len(seen) != len(parameters):
        return None
    for name, value in parameters:
        if name in ("server_no_context_takeover", "client_no_context_takeover"):
            if value is not None:
                return None
            takeover = takeover and name != "server_no_context_takeover"
        elif name == "server_max_window_bits":
            if value is None or not _BITS.fullmatch(value) or int(value) < BITS_LEAST:
                return None
            server_bits = min(server_bits, int(value))
        elif name == "client_max_window_bits":
            if value is not None and not _BITS.fullmatch(value):
                return None
            client_bits = min(options.window_bits, int(value or BITS_MOST))
        else:
            return None
    if not takeover:
        chosen.append("server_no_context_takeover")
    chosen.append("client_no_context_takeover")
    if server_bits < BITS_MOST:
        chosen.append(f"server_max_window_bits={server_bits}")
    if "client_max_window_bits" in seen:
        chosen.append(f"client_max_window_bits={client_bits}")
    return Agreement(server_bits, client_bits, takeover, options.min_size, "; ".join((NAME, *chosen)))


class Deflater:
    """Compresses our messages if that makes them smaller."""

    __slots__ = ("_agreement", "_compressor")

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self._compressor = self._new() if agreement.context_takeover else None

    def _new(self) -> zlib._Compress:
        return zlib.compressobj(LEVEL, zlib.DEFLATED, -self._agreement.server_bits, MEMORY_LEVEL)

    def encode(self, message: str | bytes) -> bytes:
        """The frame of a message."""
        payload = message.encode() if isinstance(message, str) else message
        if len(payload) < self._agreement.min_size:
            return encode_frame(message)
        compressor = self._compressor or self._new()
        data = compressor.compress(payload) + compressor.flush(zlib.Z_SYNC_FLUSH)
        size = len(data) - len(TAIL)
        # With takeover the peer has to receive all input of the compressor.
        if size >= len(payload) and self._compressor is None and self._agreement.min_size:
            return encode_frame(message)
        first = FIN | RSV1 | (TEXT if isinstance(message, str) else BINARY)
        return encode_head(first, size) + data[:size]
