"""Processes that code of an application forks have nothing of the instance: no signals, ports, clients, locks, databases (spec: configuration §9.5)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.conftest import Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

SOURCE = """\
import multiprocessing
import os
import signal
import socket
import subprocess
import sys

from svc import Resource, run_in_thread, tables

fork = multiprocessing.get_context("fork")
children = []


def square(number):
    return number * number


def wait(pipe):
    pipe.send("ready")
    pipe.recv()


def read_seat(pipe):
    try:
        tables.Seat.get("a")
        pipe.send("read")
    except RuntimeError as error:
        pipe.send(str(error))


class Pool(Resource):
    load_as_instance = False

    def get(self, target):
        with fork.Pool(2) as pool:  # whose end is SIGTERM for each
            return {"squares": pool.map(square, [1, 2, 3])}


class Threaded(Resource):
    load_as_instance = False

    async def get(self, target):
        return {"squares": await run_in_thread(pooled)}


def pooled():
    with fork.Pool(1) as pool:
        return pool.map(square, [2])


class Child(Resource):
    load_as_instance = False

    def post(self, target, data):
        here, there = fork.Pipe()
        child = fork.Process(target=wait, args=(there,))
        child.start()
        assert here.recv() == "ready"
        children.append((child, here))
        return {"pid": child.pid, "own": [there.fileno(), here.fileno()]}

    def delete(self, target):
        for child, pipe in children:
            pipe.send("end")
            child.join()
        return {"codes": [child.exitcode for child, _ in children]}


class Reading(Resource):
    load_as_instance = False

    async def get(self, target):
        await tables.Seat.put({"id": "a"})
        rows = await tables.Seat.search().to_list()
        here, there = fork.Pipe()
        child = fork.Process(target=read_seat, args=(there,))
        child.start()
        said = here.recv()
        child.join()
        return {"said": said, "rows": len(rows), "code": child.exitcode}


class Returning(Resource):
    load_as_instance = False

    def get(self, target):
        child = os.fork()
        if child == 0:
            return {"who": "child"}
        return {"who": "parent", "status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}


PROGRAM = '''
import os

for number in range(3, 100):
    if os.path.exists(f"/proc/self/fd/{number}"):
        print(os.readlink(f"/proc/self/fd/{number}"))
'''


class Inherited(Resource):
    load_as_instance = False

    def get(self, target):
        found = subprocess.run([sys.executable, "-c", PROGRAM], close_fds=False, capture_output=True, text=True, check=True)
        return {"open": found.stdout.split()}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shop = tmp_path_factory.mktemp("forking") / "shop"
    shop.mkdir()
    (shop / "resources.py").write_text(SOURCE)
    (shop / "schema.graphql").write_text("type Seat @table @export { id: ID @primaryKey }")
    return shop


@pytest.fixture(scope="module")
def server(shop: Path) -> Iterator[Process]:
    process = Process(shop.parent / "root", shop).start()
    yield process
    process.kill()


def get(server: Process, path: str) -> Any:
    with server.client() as client:
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


def test_the_end_of_a_worker_does_not_stop_the_server(server: Process) -> None:
    assert get(server, "/Pool/") == {"squares": [1, 4, 9]}
    assert get(server, "/Pool/") == {"squares": [1, 4, 9]}
    assert get(server, "/Threaded/") == {"squares": [4]}
    assert get(server, "/Seat/") is not None
    assert "stopping" not in server.logged()


def test_a_child_has_no_tables(server: Process) -> None:
    found = get(server, "/Reading/")
    assert "was forked" in found["said"]
    assert (found["rows"], found["code"]) == (1, 0)
    assert get(server, "/Seat/") == [{"id": "a"}]


def test_a_child_that_returns_ends(server: Process) -> None:
    assert get(server, "/Returning/") == {"who": "parent", "status": 1}
    wait_until(lambda: "has forked returned from the handler" in server.logged(), server.logged)


def test_a_program_that_is_started_inherits_nothing(server: Process) -> None:
    assert get(server, "/Inherited/")["open"] == []


def test_a_child_outlives_the_server_without_its_ports_and_locks(shop: Path) -> None:
    server = Process(shop.parent / "killed", shop).start()
    with server.client() as client:
        made = client.post("/Child/", json={}).json()
        child = psutil.Process(made["pid"])
        assert child.net_connections("all") == [each for each in child.net_connections("all") if each.fd in made["own"]]
        assert [file.path for file in child.open_files() if file.path.startswith(f"{server.root}/") and "/log/" not in file.path] == []
        links = [os.readlink(f"/proc/{child.pid}/fd/{each}") for each in os.listdir(f"/proc/{child.pid}/fd")]
        of_server = [os.readlink(f"/proc/{server.pid}/fd/{each}") for each in os.listdir(f"/proc/{server.pid}/fd")]
        # The loop's is closed. Another, of the watch of files, may have been made before the child or after it.
        assert links.count("anon_inode:[eventpoll]") < of_server.count("anon_inode:[eventpoll]")
        server.kill()
        server.start()
        assert client.get("/Seat/").status_code == 200
        child.send_signal(signal.SIGTERM)
        wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the child goes on")
        assert client.get("/Seat/").status_code == 200
    assert server.stop() == 0
