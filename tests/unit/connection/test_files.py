"""Parts of files as bodies: sent by the kernel over a plain socket, read in pieces over others."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.connection.file_range import PIECE, FileRange
from svc.connection.http1 import Http1Connection
from svc.messages import Response
from tests.support.connections import World

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
SIZE = 8 << 20  # more than the buffers of a socket take


class File:
    """An open file with one user."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDONLY)
        self.is_open = True

    def release(self) -> None:
        assert self.is_open
        self.is_open = False
        os.close(self.descriptor)


class RealSockets(World):
    """A connection over a pair of sockets; the other end is `peer`."""

    def __init__(self) -> None:
        super().__init__()
        own, self.peer = socket.socketpair()
        own.setblocking(False)
        self.peer.setblocking(False)
        self.connection: Http1Connection = self.connections.accept(own, "127.0.0.1")
        self.own = own

    def ask(self, data: bytes = GET) -> None:
        self.peer.send(data)
        self.loop.readers[self.own]()
        self.settle()

    def settle(self) -> None:
        turns = 0
        while self.turn():
            turns += 1
            assert turns < 10_000

    def read(self, size: int = 1 << 30) -> bytes:
        """What comes while the peer reads, up to `size` bytes."""
        found = b""
        while len(found) < size:
            try:
                piece = self.peer.recv(min(1 << 20, size - len(found)))
            except BlockingIOError:
                writer = self.loop.writers.get(self.own)
                if writer is None:
                    break
                writer()
                self.settle()
                continue
            except ConnectionError:
                break
            if not piece:
                break
            found += piece
        return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(os.urandom(1 << 10) * (SIZE >> 10))
    return path


@pytest.fixture
def world() -> Iterator[RealSockets]:
    made = RealSockets()
    yield made
    made.connections.close_all()
    made.peer.close()
    assert not made.connections.open and not made.connections.streams
    assert not made.loop.writers and made.connections.held == 0


def answer(world: World, path: Path, start: int = 0, end: int = SIZE) -> list[File]:
    """Each request gets a part of the file. Returns the files."""
    files: list[File] = []

    def respond(exchange: Any) -> Response:
        files.append(File(path))
        return Response(FileRange(files[-1], start, end), pairs=[("Content-Length", str(end - start))])

    world.application.answer = respond
    return files


def test_the_kernel_sends_a_part(world: RealSockets, path: Path) -> None:
    files = answer(world, path, 5, SIZE - 7)
    world.ask()
    head, _, body = world.read().partition(b"\r\n\r\n")
    assert f"Content-Length: {SIZE - 12}".encode() in head
    assert body == path.read_bytes()[5:-7]
    assert [file.is_open for file in files] == [False]
    assert not world.errors
    (done,) = world.application.done
    assert done.body_bytes == SIZE - 12
    assert world.connections.bytes_sent == len(head) + 4 + SIZE - 12


def test_answers_follow_each_other(world: RealSockets, path: Path) -> None:
    files = answer(world, path, 0, 300_000)
    world.ask(GET * 5)
    answers = world.read().split(b"HTTP/1.1 200 ")[1:]
    assert [each.partition(b"\r\n\r\n")[2] for each in answers] == [path.read_bytes()[:300_000]] * 5
    world.ask()
    assert world.read().endswith(path.read_bytes()[:300_000])
    assert len(world.application.done) == 6
    assert not any(file.is_open for file in files)


def test_after_the_answer_the_connection_is_idle(world: RealSockets, path: Path) -> None:
    answer(world, path)
    world.ask()
    world.read()
    assert world.connection in world.connections.open
    world.pass_time(6)
    assert world.connection.closed, "keep-alive is over"


def test_a_slow_reader_holds_no_memory_and_is_not_disconnected_while_it_reads(world: RealSockets, path: Path) -> None:
    files = answer(world, path)
    world.ask()
    found = b""
    while files[0].is_open:
        assert world.connections.held == 0 and not world.connection.closed
        found += world.read(SIZE // 10)
        if files[0].is_open:
            world.pass_time(15)
    found += world.read()
    assert found.partition(b"\r\n\r\n")[2] == path.read_bytes()


def test_a_peer_that_does_not_read_is_disconnected(world: RealSockets, path: Path) -> None:
    files = answer(world, path)
    world.ask()
    world.pass_time(19)
    assert not world.connection.closed
    world.pass_time(2)
    assert world.connection.closed
    assert not files[0].is_open


def test_the_time_that_the_disk_needs_is_not_the_peers(world: RealSockets, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = answer(world, path)
    world.ask()
    world.read(SIZE // 10)

    def slow_disk(target: int, source: int, position: int, size: int) -> int:
        world.clock.advance(2)
        return size

    monkeypatch.setattr(os, "sendfile", slow_disk)
    while files[0].is_open:
        if world.own in world.loop.writers:
            world.loop.writers[world.own]()
        world.pass_time(0)
        assert not world.connection.closed


def test_a_peer_that_leaves_closes_the_file(world: RealSockets, path: Path) -> None:
    files = answer(world, path)
    world.ask()
    assert files[0].is_open
    world.peer.close()
    world.loop.writers[world.own]()
    world.settle()
    assert world.connection.closed
    assert not files[0].is_open
    assert not world.errors


@pytest.mark.parametrize("left", [0, 3 << 20])
def test_a_file_that_becomes_shorter_ends_the_connection(world: RealSockets, path: Path, left: int) -> None:
    files = answer(world, path)
    world.peer.send(GET)
    world.loop.readers[world.own]()
    os.truncate(path, left)
    world.settle()
    found = world.read()
    assert len(found) < SIZE and world.connection.closed
    assert not files[0].is_open
    ((where, error),) = world.errors
    assert "a file has become shorter while it was sent" in where and error is None


def test_where_the_kernel_cannot_send_the_file_it_is_read(world: RealSockets, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise OSError(errno.EINVAL, "not this one")

    monkeypatch.setattr(os, "sendfile", refuse)
    files = answer(world, path)
    world.ask()
    assert world.connections.held < 1 << 20
    assert world.read().endswith(path.read_bytes())
    assert not files[0].is_open
    assert not world.errors


def test_a_disk_that_fails_ends_the_connection(world: RealSockets, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "sendfile", fail)
    files = answer(world, path)
    world.ask()
    assert world.connection.closed and not files[0].is_open
    assert [str(error) for _, error in world.errors] == ["[Errno 5] broken"]


def test_head_reads_nothing(world: RealSockets, path: Path) -> None:
    files = answer(world, path)
    world.ask(GET.replace(b"GET", b"HEAD"))
    assert world.read().endswith(f"Content-Length: {SIZE}\r\n\r\n".encode())
    assert not files[0].is_open


def test_an_empty_part(world: RealSockets, path: Path) -> None:
    files = answer(world, path, 9, 9)
    world.ask()
    assert world.read().endswith(b"Content-Length: 0\r\n\r\n")
    assert not files[0].is_open


def test_over_other_sockets_it_is_read_in_pieces(path: Path) -> None:
    world = World()
    files = answer(world, path, 1, SIZE)
    world.sock.room = 0
    world.receive(GET)
    while world.turn():
        pass
    assert world.connections.held < 1 << 20
    world.writable()
    while world.turn() or world.loop.writers:
        world.writable()
    assert world.bodies() == [path.read_bytes()[1:]]
    assert not files[0].is_open and len(world.application.done) == 1


def test_a_file_that_becomes_shorter_while_it_is_read(path: Path) -> None:
    file = File(path)
    part = FileRange(file, 0, SIZE)
    assert len(next(part)) == PIECE
    os.truncate(path, PIECE)
    with pytest.raises(Exception, match="8323072 bytes of it are missing"):
        next(part)
    part.close()
    assert not file.is_open
    assert list(part) == []


def test_an_answer_that_comes_too_late_is_closed(world: RealSockets, path: Path) -> None:
    world.application.answer = lambda exchange: None
    world.ask()
    world.peer.close()
    world.loop.readers[world.own]()
    world.settle()
    world.connection.close_now()
    file = File(path)
    world.application.handled[0].respond(Response(FileRange(file, 0, 5), pairs=[("Content-Length", "5")]))
    assert not file.is_open
