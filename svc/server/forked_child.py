"""What a process that code of an application forks has of the instance: nothing (spec: configuration §9.5).

A child of fork(2), such as a worker of `multiprocessing.Pool`, shares what its parent has open. It would take the clients and the signals of the parent, keep
its ports and the locks of its files after it has ended, and end its transactions: those of LMDB that read are in memory which both share. So in
the child the descriptors of the instance become those of `/dev/null`, signals act as in a new program, and the databases are out of reach. Descriptors are
replaced, not closed: objects of the child still have their numbers, and would close whatever gets them next.
"""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from svc.api.thread_guard import note_forked_child
from svc.loop import TurnSelector
from svc.server.slow_turns import SlowTurns
from svc.store.disk.descriptors import open_descriptors

if TYPE_CHECKING:
    from svc.config import Config
    from svc.logs import Logs
    from svc.store import Store

_PATH_BYTES = 1024  # of F_GETPATH of macOS
_instances: WeakSet[ForkedChild] = WeakSet()
_forking = threading.local()  # `blocked`: the signals that this thread blocked before it began to fork


class ForkedChild:
    """Makes each child that is forked from now on give up one instance, until `close`.

    `sockets`: the listening sockets and the connections, when it is called. `turns`: of a loop of its own; None on that of another program, which has
    signals and sockets of its own.
    """

    def __init__(self, config: Config, store: Store, logs: Logs, sockets: Callable[[], Iterable[Any]], turns: TurnSelector | None) -> None:
        self._store = store
        self._logs = logs
        self._sockets = sockets
        self._turns = turns
        self._handlers: dict[int, object] = {}
        logged = (config.logging.path.parent, config.logging.rotation.path)
        self._directories = [path.resolve() for path in (config.root, store.path, *store.blob_paths)]
        self._shared = [path.resolve() for path in (config.components_root, *logged) if path.resolve() not in self._directories]
        _instances.add(self)

    def note_signals(self, numbers: Iterable[int]) -> None:
        """The instance has just set its handlers of these signals."""
        self._handlers |= {number: signal.getsignal(number) for number in numbers}

    def close(self) -> None:
        """The instance ends."""
        _instances.discard(self)

    def give_up(self) -> None:
        """This is a child."""
        gc.freeze()  # no transaction of the parent is ended here because the collector finds it
        if self._turns is not None:
            self._reset_signals()
            self._replace(self._open_sockets(self._turns))
            self._turns.leave(self._end)
        self._replace(self._open_files())
        self._store.give_up()
        self._logs.give_up_pending()
        note_forked_child()

    def _reset_signals(self) -> None:
        self._replace([signal.set_wakeup_fd(-1)])
        if isinstance(getattr(signal.getsignal(signal.SIGALRM), "__self__", None), SlowTurns):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for number, handler in self._handlers.items():
            if signal.getsignal(number) == handler:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    def _open_sockets(self, turns: TurnSelector) -> Iterator[int]:
        """The descriptor of the selector too: to take a socket out of it in the child would take it out in the parent."""
        yield turns.fileno()
        for each in (*self._sockets(), *turns.get_map()):
            yield each if isinstance(each, int) else each.fileno()

    def _open_files(self) -> Iterator[int]:
        """Those of the databases, and locks, but not the logs, nor what code of applications has opened beside itself."""
        for number in open_descriptors():
            path = _path_of(number)
            if path is not None and _is_in(path, self._directories) and not _is_in(path, self._shared):
                yield number

    def _replace(self, descriptors: Iterable[int]) -> None:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for number in set(descriptors):
            if number > 2:
                os.dup2(null, number, inheritable=False)
        os.close(null)

    def _end(self) -> bool:
        """The child has returned to the event loop, which is its parent's."""
        text = "a process that code of an application has forked returned from the handler; end it with os._exit(), or use multiprocessing"
        self._logs.logger.error(text)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit(1)


def _hold_signals() -> None:
    """Until the child has given up. One that ends it at once, as the end of a pool does, would be told to the parent and be lost for the child."""
    if _instances:
        _forking.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def _release_signals() -> None:
    blocked = _forking.__dict__.pop("blocked", None)
    if blocked is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _give_up_all() -> None:
    try:
        for each in list(_instances):
            each.give_up()
    except BaseException:  # such as no descriptor that is free: rather no child than one that ends what its parent has
        traceback.print_exc()
        os._exit(1)
    _release_signals()


def _path_of(descriptor: int) -> Path | None:
    """The path of an open file; None if it has none."""
    try:
        return Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    except OSError:
        pass
    try:
        if sys.platform == "darwin":
            return Path(os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(_PATH_BYTES)).rstrip(b"\0")))
    except OSError:
        pass
    return None


def _is_in(path: Path, directories: Iterable[Path]) -> bool:
    return any(path.is_relative_to(directory) for directory in directories)


os.register_at_fork(before=_hold_signals, after_in_parent=_release_signals, after_in_child=_give_up_all)
