"""TlsSocket between OpenSSL as the client and a fake socket: bytes cut anywhere, full sockets, ends of all kinds."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.connection.tls import MOST_AT_ONCE, PIECE, RECORD, TlsSocket
from tests.support.certificates import TlsClient, client_context, server_context
from tests.support.fakes import FakeSocket
from tests.support.profile import examples

VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
OVERHEAD = 64  # bytes that a record of ciphertext is longer than its plaintext, at most


class Ends:
    """Both ends after their handshake; `tls` is ours."""

    def __init__(self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        self.raw = FakeSocket()
        self.tls = TlsSocket(self.raw)  # type: ignore[arg-type]
        self.client = TlsClient(client_context(version))
        self.tls.begin(server_context())
        for _ in range(4):
            if self.tls.shake_hands(self.client.take()):
                break
            self.deliver()
        self.deliver()
        assert self.client.done

    def deliver(self) -> None:
        """What our end has sent reaches the client."""
        data, self.raw.sent = self.raw.sent, b""
        self.client.receive(data)

    def arrive(self, *pieces: bytes) -> None:
        self.raw.incoming += pieces

    def receive_all(self) -> bytes:
        """What `recv` gives for all that has arrived, as a loop would call it: once for each piece."""
        received = b""
        for _ in range(len(self.raw.incoming)):
            try:
                received += self.tls.recv(1 << 16)
            except BlockingIOError:
                pass
        return received


def cut(data: bytes, places: list[int]) -> Iterator[bytes]:
    ends = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    for one, other in pairwise(ends):
        yield data[one:other]


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_go_both_ways(version: ssl.TLSVersion) -> None:
    ends = Ends(version)
    ends.client.write(b"question")
    ends.arrive(ends.client.take())
    assert ends.tls.recv(100) == b"question"
    assert ends.tls.send(b"answer") == 6
    ends.deliver()
    assert ends.client.received == b"answer"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_handshake_cut_into_bytes(version: ssl.TLSVersion) -> None:
    raw = FakeSocket()
    tls = TlsSocket(raw)  # type: ignore[arg-type]
    client = TlsClient(client_context(version))
    tls.begin(server_context())
    done = False
    for _ in range(4):
        for byte in client.take():
            assert not done
            done = tls.shake_hands(bytes([byte]))
        client.receive(raw.sent)
        raw.sent = b""
    assert done and client.done


@settings(max_examples=examples(60))
@given(
    st.sampled_from(VERSIONS),
    st.lists(st.binary(max_size=300), max_size=8),
    st.integers(0, 60_000),
    st.lists(st.integers(0, 1 << 20), max_size=12),
)
def test_what_comes_is_decrypted_however_it_is_cut(version: ssl.TLSVersion, messages: list[bytes], bulk: int, places: list[int]) -> None:
    ends = Ends(version)
    messages = [message for message in messages if message] + [b"x" * bulk + b"end"]
    for message in messages:
        ends.client.write(message)
    ends.arrive(*cut(ends.client.take(), places))
    assert ends.receive_all() == b"".join(messages)
    assert not ends.tls.holds_input
    with pytest.raises(BlockingIOError):
        ends.tls.recv(100)


def test_all_that_has_come_is_given_at_once() -> None:
    ends = Ends()
    ends.client.write(b"x" * 60_000)
    ends.client.write(b"y")
    ends.arrive(ends.client.take())
    assert ends.tls.recv(1) == b"x" * 60_000 + b"y"


def test_part_of_a_record_is_nothing_yet() -> None:
    ends = Ends()
    ends.client.write(b"whole")
    data = ends.client.take()
    ends.arrive(data[:9], data[9:])
    with pytest.raises(BlockingIOError):
        ends.tls.recv(100)
    assert ends.tls.recv(100) == b"whole"


def test_what_came_right_behind_the_handshake_is_there() -> None:
    raw = FakeSocket()
    tls = TlsSocket(raw)  # type: ignore[arg-type]
    client = TlsClient(client_context(ssl.TLSVersion.TLSv1_3))
    tls.begin(server_context())
    assert not tls.shake_hands(client.take())
    client.receive(raw.sent)
    client.write(b"early")
    assert tls.shake_hands(client.take())
    assert tls.holds_input
    raw.incoming.append(b"")  # and its FIN behind it
    assert tls.recv(100) == b"early"
    raw.incoming.append(b"")
    assert tls.recv(100) == b""


# --- sending ---------------------------------------------------------------------------------------------------------------------------


def pump(ends: Ends, data: bytes, rooms: list[int]) -> list[int]:
    """Send `data` as a connection does, with so much room in the socket at each call, then with plenty. The room that was left each time."""
    held = []
    out = data
    for room in [*rooms, *([1 << 30] * (len(data) // MOST_AT_ONCE + 2))]:
        if not out:
            break
        ends.raw.room = room
        try:
            sent = ends.tls.send(out)
            assert sent > 0
        except BlockingIOError:
            sent = 0
        out = out[sent:]
        held.append(len(ends.tls._held))
        ends.deliver()
    assert not out
    return held


@settings(max_examples=examples(60))
@given(st.sampled_from(VERSIONS), st.integers(1, 400_000), st.lists(st.integers(0, 150_000), max_size=20))
def test_what_is_sent_arrives_however_full_the_socket_is(version: ssl.TLSVersion, size: int, rooms: list[int]) -> None:
    ends = Ends(version)
    data = bytes(range(256)) * (size // 256 + 1)
    held = pump(ends, data[:size], rooms)
    assert ends.client.received == data[:size]
    assert max(held) <= PIECE + PIECE // RECORD * OVERHEAD, "what is held for a slow peer is bounded"
    assert not ends.tls._held


def test_nothing_counts_as_sent_before_its_ciphertext_is_out() -> None:
    ends = Ends()
    ends.raw.room = 10
    with pytest.raises(BlockingIOError):
        ends.tls.send(b"x" * 1000)
    ends.raw.room = 20
    with pytest.raises(BlockingIOError):
        ends.tls.send(b"x" * 1000)
    ends.raw.room = 1 << 20
    assert ends.tls.send(b"x" * 1000 + b"more") == 1004
    ends.deliver()
    assert ends.client.received == b"x" * 1000 + b"more"


class WatchedBuffer:
    """A MemoryBIO that knows the most it has held."""

    def __init__(self, buffer: ssl.MemoryBIO) -> None:
        self._buffer = buffer
        self.most = 0

    @property
    def pending(self) -> int:
        return self._buffer.pending

    def read(self, size: int = -1) -> bytes:
        self.most = max(self.most, self.pending)
        return self._buffer.read(size)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_buffer_that_never_becomes_smaller_holds_one_record(version: ssl.TLSVersion) -> None:
    ends = Ends(version)
    outgoing = WatchedBuffer(ends.tls._outgoing)
    ends.tls._outgoing = outgoing  # type: ignore[assignment]
    sent = bytes(range(256)) * 1000
    assert ends.tls.send(sent) == len(sent)
    ends.deliver()
    assert ends.client.received == sent
    assert RECORD < outgoing.most <= RECORD + OVERHEAD


def test_a_large_answer_is_taken_in_shares() -> None:
    ends = Ends()
    data = b"x" * (MOST_AT_ONCE + 5)
    assert ends.tls.send(data) == MOST_AT_ONCE
    assert ends.tls.send(data[MOST_AT_ONCE:]) == 5


def test_a_reset_is_an_oserror() -> None:
    ends = Ends()
    ends.raw.incoming.append(ConnectionResetError())
    with pytest.raises(ConnectionResetError):
        ends.tls.recv(100)


# --- ends ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_goodbye_and_fin_are_both_the_end(version: ssl.TLSVersion) -> None:
    ends = Ends(version)
    ends.client.write(b"last")
    ends.client.say_goodbye()
    ends.arrive(ends.client.take(), b"", b"")
    assert ends.tls.recv(100) == b"last"
    assert ends.tls.recv(100) == b""
    assert ends.tls.recv(100) == b""
    assert ends.tls.send(b"answer") == 6, "we may still answer"
    ends.deliver()


def test_goodbye_alone_is_the_end() -> None:
    ends = Ends()
    ends.client.say_goodbye()
    ends.arrive(ends.client.take())
    assert ends.tls.recv(100) == b""


def test_fin_without_goodbye_is_the_end() -> None:
    ends = Ends()
    ends.arrive(b"")
    assert ends.tls.recv(100) == b""


def test_fin_in_a_record_is_the_end() -> None:
    ends = Ends()
    ends.client.write(b"whole")
    ends.arrive(ends.client.take()[:9], b"")
    with pytest.raises(BlockingIOError):
        ends.tls.recv(100)
    assert ends.tls.recv(100) == b""


@pytest.mark.parametrize("version", VERSIONS)
def test_half_close_says_goodbye_and_reads_on(version: ssl.TLSVersion) -> None:
    ends = Ends(version)
    ends.tls.shutdown(socket.SHUT_WR)
    assert ends.raw.half_closed
    ends.deliver()
    assert ends.client.ended
    ends.client.write(b"later")
    ends.arrive(ends.client.take())
    assert ends.tls.recv(100) == b"later"
    ends.tls.close()
    assert ends.raw.closed
    assert ends.raw.sent == b"", "one goodbye"


def test_close_says_goodbye() -> None:
    ends = Ends()
    ends.tls.close()
    ends.deliver()
    assert ends.client.ended
    assert ends.raw.closed


def test_close_in_a_record_says_nothing_more() -> None:
    ends = Ends()
    ends.raw.room = 10
    with pytest.raises(BlockingIOError):
        ends.tls.send(b"x" * 1000)
    ends.raw.room = 1 << 20
    ends.tls.close()
    assert len(ends.raw.sent) == 10
    assert ends.raw.closed


def test_close_before_and_during_the_handshake() -> None:
    for flights in (0, 1):
        raw = FakeSocket()
        tls = TlsSocket(raw)  # type: ignore[arg-type]
        if flights:
            tls.begin(server_context())
            tls.shake_hands(TlsClient(client_context()).take())
        tls.close()
        assert raw.closed


# --- what is wrong ---------------------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(60))
@given(st.binary(min_size=1, max_size=200), st.integers(0, 200))
def test_garbage_is_an_oserror_or_nothing_yet(garbage: bytes, place: int) -> None:
    ends = Ends()
    ends.client.write(b"x" * 100)
    data = ends.client.take()
    place %= len(data)
    ends.arrive(data[:place] + garbage + data[place:])
    try:
        received = ends.tls.recv(1 << 16)
    except OSError:
        received = b""
    assert received in (b"", b"x" * 100)
    ends.tls.close()
    assert ends.raw.closed


def test_a_forged_record_is_refused_with_an_alert() -> None:
    ends = Ends()
    ends.client.write(b"x" * 100)
    data = bytearray(ends.client.take())
    data[30] ^= 1
    ends.arrive(bytes(data))
    with pytest.raises(ssl.SSLError):
        ends.tls.recv(1 << 16)
    assert ends.raw.sent, "the alert"


def test_renegotiation_is_refused() -> None:
    assert server_context().options & ssl.OP_NO_RENEGOTIATION


def test_no_handshake_with_old_versions() -> None:
    raw = FakeSocket()
    tls = TlsSocket(raw)  # type: ignore[arg-type]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = ssl.TLSVersion.TLSv1_1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    client = TlsClient(context)
    tls.begin(server_context())
    with pytest.raises(ssl.SSLError):
        tls.shake_hands(client.take())
    assert raw.sent[:1] == b"\x15", "an alert"
