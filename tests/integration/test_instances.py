"""Several instances of one root: they share the ports, one that ends or hangs is replaced, and a restart loses no request (spec: configuration §6.5)."""

from __future__ import annotations

import os
import re
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest

from svc.root.lock import PID_FILE
from tests.integration.conftest import LIMIT, Process, authorization
from tests.support.forked import run_command
from tests.support.instances import ADMIN, APP, answering, pids, started
from tests.support.server_hooks import QUICK_HANG
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs


def one_of_two_is_new(process: Process, before: set[int]) -> bool:
    now = pids(process)
    return len(now) == 2 and len(now & before) == 1 and set(answering(process)) == now


def test_they_share_the_ports_and_the_data(tmp_path: Path) -> None:
    with started(tmp_path, 2) as process:
        assert set(answering(process)) == pids(process) and len(pids(process)) == 2
        assert (process.root / PID_FILE).read_text() == f"{process.process.pid}\n"  # type: ignore[union-attr]
        with ExitStack() as stack:
            clients: dict[int, httpx.Client] = {}
            while len(clients) < 2:
                client = stack.enter_context(process.client())
                clients.setdefault(client.get("/Who/").json()["pid"], client)
            for number in range(20):
                first, second = list(clients.values())[:: 1 if number % 2 else -1]
                assert first.put(f"/Item/{number}", json={"value": number}).is_success
                assert second.get(f"/Item/{number}").json()["value"] == number
        assert process.operate("describe_all").status_code == 200
        found = process.operate("get_status").json()
        parent = process.process.pid  # type: ignore[union-attr]
        assert found["pid"] == parent and {each["pid"] for each in found["instances"]} == pids(process)
        core = process.operate("system_information", attributes=["svc_processes"]).json()["svc_processes"]["core"]
        assert sorted(each["pid"] for each in core) == sorted([parent, *pids(process)])
        shown = run_command(["status"], cwd=tmp_path, env=process.env, timeout=LIMIT).stdout
        assert f"  pid: {parent}\n" in shown and all(f"pid: {pid}\n" in shown for pid in pids(process))
        second_start = Process(process.root, APP)
        with pytest.raises(AssertionError, match="svc is already running"):
            second_start.start()
        assert process.stop() == 0
        assert not (process.root / PID_FILE).exists()


def test_one_that_is_killed_is_replaced(tmp_path: Path) -> None:
    with started(tmp_path, 2) as process:
        for _ in range(2):
            before = pids(process)
            victim = max(before)
            os.kill(victim, signal.SIGKILL)
            assert httpx.put(f"{process.url}/Item/{victim}", auth=ADMIN, json={"value": 1}, timeout=LIMIT).is_success, "it has left no lock"
            wait_until(lambda: one_of_two_is_new(process, before))  # noqa: B023
            assert victim not in pids(process)
        wait_until(lambda: f"(pid: {victim}) has ended by SIGKILL; it is started again" in process.logged(), process.logged)


def test_a_source_is_followed_by_one_of_them(tmp_path: Path) -> None:
    with started(tmp_path, 2) as process:

        def followers() -> set[int]:
            return {record["pid"] for record in httpx.get(f"{process.url}/Followed/", auth=ADMIN, timeout=LIMIT).json()}

        wait_until(followers)
        (first,) = followers()
        (second,) = pids(process) - {first}
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: len(followers()) == 2)
        assert followers() == {first, second}, "the one that was there before"
        wait_until(lambda: process.logged().count("successfully started") == 3)
        process.operate("restart")
        wait_until(lambda: process.operate("get_status").json().get("restarts") == 1)
        wait_until(lambda: len(pids(process)) == 2 and followers() & pids(process))
        assert len(followers() & pids(process)) == 1


def test_one_that_hangs_is_replaced_and_makes_nobody_wait(tmp_path: Path) -> None:
    with started(tmp_path, 2, SVC_TEST_HOOK=QUICK_HANG) as process:
        before = pids(process)
        stopped = min(before)
        os.kill(stopped, signal.SIGSTOP)
        assert set(answering(process)) == before - {stopped}
        wait_until(lambda: one_of_two_is_new(process, before))
        wait_until(lambda: f"(pid: {stopped}) has done nothing for 4 s" in process.logged(), process.logged)

        before = pids(process)
        with socket.create_connection(("127.0.0.1", process.port)) as sock:
            sock.sendall(b"POST /Block/ HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Type: application/json\r\nAuthorization: ")
            sock.sendall(authorization().encode() + b"\r\n\r\n{}")
            wait_until(lambda: one_of_two_is_new(process, before))
        wait_until(lambda: re.search(r'resources\.py", line \d+ in post', process.output()), process.output)  # the stacks of its threads


def test_the_parent_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, 2) as process:
        left = process.instances
        assert process.process is not None
        process.process.kill()
        process.process.wait()
        assert psutil.wait_procs(left, LIMIT)[1] == []
        process.start()
        wait_until(lambda: len(answering(process)) == 2)


def test_one_that_cannot_live_is_given_up(tmp_path: Path) -> None:
    with started(tmp_path, 1) as process:
        (process.root.parent / "broken").touch()
        os.kill(process.pid, signal.SIGKILL)
        assert process.process is not None
        assert process.process.wait(timeout=LIMIT * 2) == 1
        assert process.logged().count(") has ended ") == 5 and "has ended with status 9, as those before it" in process.logged()
        assert "svc gives up" in process.output()


def test_a_port_of_another_program(tmp_path: Path) -> None:
    """Also of one that would share it."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with pytest.raises(AssertionError, match=f"cannot listen on http.port {port}, http.host 127.0.0.1: Address already in use"):
            Process(tmp_path / "root", APP, env={"INSTANCES": "2", "HTTP_PORT": port, "HTTP_HOST": "127.0.0.1"}).start()
