"""An h2 connection set up for the server's side of HTTP/2, and the flow-control windows that we open for request bodies (RFC 9113 §5.2, §6.5)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from h2.config import H2Configuration
from h2.connection import ConnectionInputs, H2Connection
from h2.settings import ChangedSetting, SettingCodes, Settings
from h2.stream import StreamClosedBy

from svc.protocol.http2_fields import FieldDecoder, FieldEncoder
from svc.protocol.http2_frames import PREFACE, encode_settings

STREAM_WINDOW = 65535  # bytes of a request body that may be unread, to begin with: the default of the standard
BODY_WINDOW = 1 << 20  # ... once the body has been read that far: at 64 KiB a round trip, uploads over long lines are slow
CONNECTION_WINDOW = 4 << 20  # ... of all bodies of a connection together; a WINDOW_UPDATE after our SETTINGS opens it

_NO_RFC7540_PRIORITIES = 9  # RFC 9218 §2.1

_CONFIG = H2Configuration(
    client_side=False,
    header_encoding=None,
    validate_inbound_headers=False,
    normalize_inbound_headers=False,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)


class PeerSettings(Settings):
    """The settings of the peer. h2's own take 6 KB of each connection, and keep whatever numbers a peer makes up."""

    def __init__(self) -> None:
        """As every peer begins."""
        self._client = True  # whose they are, for `validate_received_setting`
        self._values = _PEER_DEFAULTS
        self._received: dict[SettingCodes | int, int] = {}

    def __getitem__(self, key: SettingCodes | int) -> int:
        return self._values[key]

    def __setitem__(self, key: SettingCodes | int, value: int) -> None:
        """A validated setting, in force with `acknowledge`. Unknown ones are ignored."""
        if key in _KNOWN_SETTINGS:
            self._received[key] = value

    def acknowledge(self) -> dict[SettingCodes | int, ChangedSetting]:
        received, self._received = self._received, {}
        changed = {key: ChangedSetting(key, self._values.get(key), value) for key, value in received.items()}
        if changed:
            self._values = {**self._values, **received}
        return changed

    def __delitem__(self, key: SettingCodes | int) -> None:
        raise NotImplementedError  # a peer cannot take a setting back

    def __iter__(self) -> Iterator[SettingCodes | int]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


_KNOWN_SETTINGS = frozenset(SettingCodes)
_PEER_DEFAULTS: dict[SettingCodes | int, int] = dict(Settings(client=True))


class ServerConnection(H2Connection):
    """`decoder` and `encoder` are our own codecs, which h2 uses for the streams that it knows."""

    MAX_CLOSED_STREAMS = 200  # how closed streams ended, twice as many as may be open; h2 would keep 65,536 of them, 10 MB a connection

    def __init__(self, decoder: FieldDecoder, encoder: FieldEncoder, max_streams: int) -> None:
        super().__init__(_CONFIG)
        self.local_settings = _local_settings(max_streams)
        self.remote_settings = PeerSettings()
        self.decoder = decoder
        self.encoder = encoder  # type: ignore[assignment]
        self.initiate_connection()
        self.clear_outbound_data_buffer()
        self.receive_data(PREFACE)  # that of the peer is checked by FrameReader
        self.state_machine.process_input(ConnectionInputs.RECV_HEADERS)  # h2 then lets us answer streams that it has not seen

    # For streams that h2 has not seen.

    def consume_window(self, size: int) -> None:
        """`size` bytes of DATA have come. Raises FlowControlError if the connection's window has no room for them."""
        self._inbound_flow_control_window_manager.window_consumed(size)

    def give_back_window(self, size: int) -> int:
        """`size` bytes of DATA are used: the increment to announce now for the connection's window, 0 if that can wait."""
        return self._inbound_flow_control_window_manager.process_bytes(size) or 0

    def note_reset(self, stream_id: int) -> None:
        """A stream was reset: for a while, h2 takes fields that come on it now as an error of that stream alone."""
        self._closed_streams[stream_id] = StreamClosedBy.SEND_RST_STREAM

    def was_reset(self, stream_id: int) -> bool:
        return self._stream_is_closed_by_reset(stream_id)


def first_settings(max_streams: int, max_header_size: int) -> bytes:
    """The SETTINGS frame that begins our side of the connection."""
    return encode_settings(
        {
            SettingCodes.MAX_CONCURRENT_STREAMS: max_streams,
            SettingCodes.MAX_HEADER_LIST_SIZE: max_header_size,
            SettingCodes.ENABLE_CONNECT_PROTOCOL: 1,
            _NO_RFC7540_PRIORITIES: 1,
        }
    )


@cache
def _local_settings(max_streams: int) -> Settings:
    """Our settings as h2 knows them. Shared by all connections: none changes them, and each copy would take 5 KB.

    h2 ends the connection of a peer with too many streams. Its limit is far beyond ours, so that we refuse single streams instead.
    """
    return Settings(client=False, initial_values={SettingCodes.MAX_CONCURRENT_STREAMS: 2 * max_streams + 100})
