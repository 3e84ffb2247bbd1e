"""A program that runs `svc` commands, and other modules, in forks of itself: `python -m tests.support.forkserver FD svc`.

It has imported all of svc, so that a command or a server starts at once. Each request comes on a connection of its own, which is accepted from
the socket FD: one message, a JSON object `module, words, cwd, umask, env` with three descriptors for standard input, output and error. The answer is
two lines, the pid and, when the process has ended, its status as `subprocess` counts it. A child that is not `svc` itself has a process group of its
own. The program, and all it has started, ends when the test process does.

A variable SVC_TEST_HOOK in `env` names a file of Python that the child runs first, as a new process would run a `sitecustomize.py`.

The last argument is there to be seen: svc knows its processes by their command line (`svc/root/lock.py`).
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import select
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import svc

MESSAGE_MAX = 1 << 20  # bytes
DESCRIPTORS_MAX = 4096  # that a process may have when it is forked
LEFT_OUT = ("svc.demo", "svc.__main__")
OBSERVED = Path(__file__).with_name("observed") / "sitecustomize.py"


def main(listener: socket.socket) -> None:
    _import_all()
    gc.collect()
    gc.freeze()
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_reader, False)
    os.set_blocking(wake_writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_writer)
    running: dict[int, socket.socket] = {}
    parent = os.getppid()
    while os.getppid() == parent:
        ready, _, _ = select.select([listener, wake_reader], [], [], 1.0)
        if wake_reader in ready:
            os.read(wake_reader, 65536)
            _report_ended(running)
        if listener in ready:
            connection, _ = listener.accept()
            pid = _fork(connection)
            running[pid] = connection
            _tell(connection, pid)
    for pid in running:  # nobody is left who would end them
        os.kill(pid, signal.SIGKILL)


def _import_all() -> None:
    for module in pkgutil.walk_packages(svc.__path__, "svc."):
        if not module.name.startswith(LEFT_OUT):
            importlib.import_module(module.name)


def _report_ended(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        connection = running.pop(pid)
        _tell(connection, os.waitstatus_to_exitcode(status))
        connection.close()


def _tell(connection: socket.socket, number: int) -> None:
    try:
        connection.sendall(b"%d\n" % number)
    except OSError:  # the test does not wait for it
        pass


def _fork(connection: socket.socket) -> int:
    """The pid of a process for the request on this connection."""
    message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_MAX, 3)
    request = json.loads(message)
    pid = os.fork()
    if not pid:
        _run(request, descriptors)
    if request["module"] != "svc":  # what starts a program may kill its group
        with suppress(OSError):
            os.setpgid(pid, pid)  # here, so that it has its group by the time its pid is told
    for descriptor in descriptors:
        os.close(descriptor)
    return pid


def _run(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """The life of a child: what `python -m MODULE WORDS` does."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.closerange(3, DESCRIPTORS_MAX)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, buffering, errors=errors, closefd=False)  # noqa: SIM115
            for number, mode, buffering, errors in ((0, "r", -1, None), (1, "w", -1, None), (2, "w", 1, "backslashreplace"))
        )
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        os.umask(request["umask"])
        time.tzset()
        random.seed()
        sys.argv = [str(Path(svc.__file__).with_name("__main__.py")), *request["words"]]
        sys.orig_argv = [sys.executable, "-m", request["module"], *request["words"]]
        if "SVC_TEST_TASKS" in os.environ:
            runpy.run_path(str(OBSERVED))
        if "SVC_TEST_FORKS" in os.environ:
            from tests.support.forked_trials import install

            install()
        if hook := os.environ.get("SVC_TEST_HOOK"):
            runpy.run_path(hook)
        if request["module"] == "svc":
            from svc.__main__ import main as run

            status = run()
        else:
            status = 0
            _run_module(request["module"])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the end of Python does
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def _run_module(name: str) -> None:
    """As a new process would, with the variables that it would heed."""
    sys.path[:0] = ["", *(path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path not in sys.path)]
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    if "PYTHONFAULTHANDLER" in os.environ:
        faulthandler.enable()
    sys.modules.pop(name, None)
    runpy.run_module(name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
