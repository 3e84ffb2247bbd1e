"""svc as the first process of a container (PID 1), which the kernel makes the parent of every orphan.

Such a process has to wait for children that it never started, or they stay as zombies; and a signal that it does not handle is lost. svc waits for its
own children only, each where it was started. So the first process does nothing but that, and svc is its child:

    1  svc run      waits for all that ends, passes signals on, ends with the status of svc
    7  svc run      the server, in a process group of its own: Ctrl+C of a terminal comes to it once
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}
_OF_A_TERMINAL = {signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP}
_NOT_FORWARDED = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, *_FAULTS, *_OF_A_TERMINAL}
SIGNALLED = 128  # added to the number of the signal that ended a process: what shells report


def continue_in_child() -> None:
    """Returns in a new process, which does the work. This one never returns: it ends with the status of that, as soon as that ends.

    To be called before threads are started or anything is printed.
    """
    waited = (set(signal.valid_signals()) - _NOT_FORWARDED) | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)  # none is lost between here and the wait
    child = os.fork()
    if child == 0:
        _lead_own_group()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    status = _supervise(child, waited)
    os._exit(status if status >= 0 else SIGNALLED - status)


def _lead_own_group() -> None:
    """Become the foreground process group of the terminal, if there is one."""
    os.setpgid(0, 0)
    if sys.stdin is None or not sys.stdin.isatty():
        return
    former = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # which a background process gets for this
    with suppress(OSError):
        os.tcsetpgrp(sys.stdin.fileno(), os.getpgrp())
    signal.signal(signal.SIGTTOU, former)


def _supervise(child: int, waited: set[signal.Signals]) -> int:
    """Returns the status of the child: that of its exit, or the negative number of the signal that ended it."""
    while True:
        number = signal.sigwait(waited)
        if number != signal.SIGCHLD:
            with suppress(ProcessLookupError):
                os.kill(child, number)
            continue
        ended = _reap()
        if child in ended:
            return os.waitstatus_to_exitcode(ended[child])


def _reap() -> dict[int, int]:
    """Wait for all processes that have ended: their statuses by process id."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):  # none is left
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                break
            ended[process] = status
    return ended
