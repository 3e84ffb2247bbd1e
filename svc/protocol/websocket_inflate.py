"""Compressed messages of a peer (RFC 7692), as an extension of wsproto. Imported with it, when the first WebSocket has agreed on compression."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from wsproto.extensions import Extension
from wsproto.frame_protocol import CloseReason, Opcode, RsvBits

from svc.protocol.websocket_deflate import NAME, RATIO, RATIO_FREE, TAIL, Agreement

if TYPE_CHECKING:
    from wsproto.frame_protocol import FrameDecoder, FrameProtocol

_NO_RSV = RsvBits(False, False, False)
_RSV1 = RsvBits(True, False, False)


class Inflater(Extension):
    """The peer's messages, for wsproto: replaces its own extension, which inflates without limit, and takes a control frame between
    two fragments for the end of the message."""

    name = NAME

    def __init__(self, agreement: Agreement, max_payload: int) -> None:
        self._bits = agreement.client_bits
        self._max_payload = max_payload
        self._decompressor: zlib._Decompress | None = None
        self._applies = False  # to the frame that is coming
        self._is_control = False  # the frame that is coming
        self._in_message = False
        self._room = 0  # bytes the message may still have
        self._sent = 0  # its compressed bytes
        self.inflated = 0  # bytes of all messages, a measure of work

    def limit(self, max_payload: int) -> None:
        """The maximum size of the messages that begin from now on."""
        self._max_payload = max_payload

    def enabled(self) -> bool:
        return True

    def offer(self) -> bool:
        return False

    def frame_inbound_header(
        self, proto: FrameDecoder | FrameProtocol, opcode: Opcode, rsv: RsvBits, payload_length: int
    ) -> CloseReason | RsvBits:
        self._is_control = opcode.iscontrol()
        if self._is_control:
            self._applies = False
            return _NO_RSV
        if opcode is Opcode.CONTINUATION:
            self._applies = self._decompressor is not None
            return _NO_RSV
        if self._in_message:
            # wsproto would find it with the first piece of the payload, before or after we find something else in it.
            return CloseReason.PROTOCOL_ERROR
        self._in_message = True
        self._applies = rsv.rsv1
        self._decompressor = zlib.decompressobj(-self._bits) if rsv.rsv1 else None
        self._room = self._max_payload
        self._sent = 0
        return _RSV1

    def frame_inbound_payload_data(self, proto: FrameDecoder | FrameProtocol, data: bytes) -> bytes | CloseReason:
        return self._inflate(data) if self._applies else data

    def frame_inbound_complete(self, proto: FrameDecoder | FrameProtocol, fin: bool) -> bytes | CloseReason | None:
        if not fin or self._is_control:
            return None
        self._in_message = False
        if not self._applies:
            return None
        data = self._inflate(TAIL)
        self._decompressor = None
        return data

    def _inflate(self, data: bytes) -> bytes | CloseReason:
        decompressor = self._decompressor
        assert decompressor is not None
        if decompressor.eof:  # a block that said it was the last; zlib would keep what follows
            return b""
        self._sent += len(data)
        room = min(self._room, max(RATIO_FREE, RATIO * self._sent) - (self._max_payload - self._room))
        try:
            inflated = decompressor.decompress(data, room + 1)
        except zlib.error:
            return CloseReason.INVALID_FRAME_PAYLOAD_DATA
        size = len(inflated)
        self.inflated += size
        self._room -= size
        return CloseReason.MESSAGE_TOO_BIG if size > room else inflated
