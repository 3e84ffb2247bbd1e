"""What an instance has of its parent: sockets, and news (spec: configuration §6.5)."""

from __future__ import annotations

import asyncio
import mmap
import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from svc.connection.listening import ListeningSockets, SharedPort
from svc.parent.channel import Channel
from svc.parent.messages import Failed, Message, NotRestarted, Opened, OpenPath, OpenPort, Ready, Refused, Release, Restart, Retire, Succeed

BEAT = struct.Struct("=Q")
SLOTS = 64  # instances of a generation: the highest number
COMPLETED = 2 * SLOTS  # behind the beats of two generations: how often all instances have been started
RENEWING = COMPLETED + 1  # ... and whether some are still to be replaced: 1 or 0


class Link:
    """`number`: of this instance, as the one before in its place had it; None if there was none. `is_first`: of a start or a restart: the user is told what it
    finds.

    It is the `SocketSource` of the instance.
    """

    def __init__(self, channel: Channel, number: int | None, beats: mmap.mmap, slot: int, *, is_first: bool) -> None:
        """`beats`: shared with the parent, where `slot` is this instance's."""
        self.number = number
        self.is_first = is_first
        self.on_retire: Callable[[socket.socket], None] = lambda heir: None
        """Called when another instance has taken the place of this one. With the socket for what it hands over."""
        self.on_succeed: Callable[[socket.socket], None] = lambda heritage: None
        """Called with the socket from which it takes over what its predecessor hands over."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called when the parent is gone."""
        self.not_restarted: str | None = None  # why the last restart that was asked for has failed
        self._channel = channel
        self._beats = beats
        self._slot = slot
        self._count = 0
        self._arrived: list[tuple[Message, list[int]]] = []
        self._is_ending = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.begins_restart = is_first and self.is_restarting  # the first of one

    def fileno(self) -> int:
        return self._channel.sock.fileno()

    # --- sockets ----------------------------------------------------------------------------------------------------------------------

    def at_port(self, name: str, port: int, hosts: Sequence[str]) -> list[ListeningSockets]:
        groups = self._open(OpenPort(name, port, tuple(hosts)))
        number = groups[0][0][0].getsockname()[1] if groups else port
        shared = SharedPort(lambda: self._release(number, ""))
        shared.listeners = len(groups)
        return [ListeningSockets(own, others, port=shared) for own, others in groups]

    def at_path(self, path: Path) -> ListeningSockets:
        ((own, others),) = self._open(OpenPath(str(path)))
        return ListeningSockets(own, others, path, SharedPort(lambda: self._release(0, str(path))))

    def leave(self) -> None:
        """The instance ends: what it closes from now on stays open for those that follow."""
        self._is_ending = True

    def _open(self, question: OpenPort | OpenPath) -> list[tuple[tuple[socket.socket, ...], tuple[socket.socket, ...]]]:
        """Sockets for each address. The loop stands meanwhile: the parent does nothing that takes time."""
        self._channel.send(question)
        groups: list[tuple[tuple[socket.socket, ...], tuple[socket.socket, ...]]] = []
        while True:
            for position, (message, descriptors) in enumerate(arrived := self._receive(waits=True)):
                if isinstance(message, Opened):
                    found = [socket.socket(fileno=each) for each in descriptors]
                    for sock in found:
                        sock.setblocking(False)
                    groups.append((tuple(found[: message.own]), tuple(found[message.own :])))
                    if not message.is_last:
                        continue
                    self._keep(arrived[position + 1 :])
                    return groups
                if isinstance(message, Refused):
                    self._keep(arrived[position + 1 :])
                    raise OSError(message.number, message.text, message.where)
                self._keep([(message, descriptors)])

    def _keep(self, messages: list[tuple[Message, list[int]]]) -> None:
        """For when the loop runs."""
        self._arrived += messages
        if self._loop is not None and self._arrived:
            self._loop.call_soon(self._take)

    def _release(self, port: int, path: str) -> None:
        if not self._is_ending:
            self._tell(Release(port, path))

    # --- news -------------------------------------------------------------------------------------------------------------------------

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop runs."""
        self._loop = loop
        loop.add_reader(self._channel.sock, self._on_readable)
        self._keep([])

    def ready(self, errors: int, number: int) -> None:
        """The instance serves. `errors`: in its applications. `number`: that it has."""
        self._tell(Ready(errors, number))

    def failed(self, text: str) -> None:
        """The instance ends, because it cannot serve."""
        self._tell(Failed(text))

    def restart(self) -> None:
        """Have all instances replaced, once the answers under way are sent."""
        self._tell(Restart())

    @property
    def restarts(self) -> int:
        """How often all instances have been replaced."""
        return max(0, self._cell(COMPLETED) - 1)

    @property
    def is_restarting(self) -> bool:
        """Some instances are still to be replaced."""
        return bool(self._cell(RENEWING))

    def _cell(self, place: int) -> int:
        found: int = BEAT.unpack_from(self._beats, place * BEAT.size)[0]
        return found

    def beat(self, now: float = 0.0) -> None:
        """The loop turns. To be called about once a second, with the time or without."""
        self._count += 1
        BEAT.pack_into(self._beats, self._slot * BEAT.size, self._count)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._channel.sock)
            self._loop = None
        self._channel.close()

    def _tell(self, message: Message) -> None:
        try:
            self._channel.send(message)
        except OSError:
            pass  # the parent is gone, which is read from the channel

    def _receive(self, *, waits: bool) -> list[tuple[Message, list[int]]]:
        """Raises OSError if the parent is gone while it is waited for."""
        self._channel.sock.setblocking(waits)
        try:
            return self._channel.receive()
        except (EOFError, ConnectionError):
            if waits:
                raise OSError(0, "the parent process is gone", "") from None
            raise EOFError from None
        finally:
            self._channel.sock.setblocking(True)  # what it sends fits into the buffer of the socket

    def _on_readable(self) -> None:
        try:
            self._arrived += self._receive(waits=False)
        except BlockingIOError:
            return
        except EOFError:
            self.close()
            self.on_lost()
            return
        self._take()

    def _take(self) -> None:
        arrived, self._arrived = self._arrived, []
        for message, descriptors in arrived:
            sockets = [socket.socket(fileno=each) for each in descriptors]
            if isinstance(message, Retire):
                self.on_retire(sockets[0])
            elif isinstance(message, Succeed):
                self.on_succeed(sockets[0])
            elif isinstance(message, NotRestarted):
                self.not_restarted = message.reason
