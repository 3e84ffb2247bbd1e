"""A stand-in for systemd: it opens sockets for a server, starts it with the variables that go with them, and hears what it says.

As a program, `python -m tests.support.systemd NUMBERS COMMAND...`: gives the sockets of these descriptors to the command, which it executes.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from pathlib import Path

from tests.integration.conftest import APP, Process
from tests.support.waiting import wait_until


class Systemd:
    """`heard`: the messages of the server, each as its lines."""

    def __init__(self, folder: Path, *sockets: socket.socket, app: Path = APP, **env: str) -> None:
        """`sockets`: given to the server, which has the variables `env` as well."""
        self.heard: list[list[str]] = []
        self._notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notices.bind(str(folder / "notify"))
        self._notices.setblocking(False)
        self.process = Process(folder / "root", app, env={"NOTIFY_SOCKET": str(folder / "notify"), **env}, forked=False)
        self.process.pass_fds = tuple(sock.fileno() for sock in sockets)
        self.process.wrapper = [sys.executable, "-m", "tests.support.systemd", ",".join(map(str, self.process.pass_fds))]

    def listen(self) -> list[list[str]]:
        """Take what has been said since, and return all."""
        while True:
            try:
                self.heard.append(self._notices.recv(4096).decode().split("\n"))
            except BlockingIOError:
                return self.heard

    def await_notice(self, line: str, count: int = 1) -> None:
        """Until it has been said so many times."""
        wait_until(lambda: sum(line in lines for lines in self.listen()) >= count, lambda: f"{self.heard}; {self.process.output()}")

    def close(self) -> None:
        self.process.kill()
        self._notices.close()


def give(numbers: list[int], command: list[str]) -> None:
    above = [fcntl.fcntl(number, fcntl.F_DUPFD, 100) for number in numbers]  # those that they will have are free then
    for position, number in enumerate(above):
        os.dup2(number, 3 + position, inheritable=True)
    os.environ.setdefault("LISTEN_PID", str(os.getpid()))
    os.environ["LISTEN_FDS"] = str(len(numbers))
    os.execv(command[0], command)


if __name__ == "__main__":
    give([int(number) for number in sys.argv[1].split(",") if number], sys.argv[2:])
