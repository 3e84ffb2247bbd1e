"""The servers under test, and what is done to them."""

from __future__ import annotations

import base64
import contextlib
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil

from fuzz.consistency.history import RELEASE, NoOutcome, Recorder
from fuzz.consistency.transport import Http
from tests.integration.conftest import Process
from tests.integration.test_deploying import version
from tests.support.archives import tar_of
from tests.support.linearizability import Action, Record
from tests.support.ports import free_port
from tests.support.server_hooks import QUICK_HANG
from tests.support.waiting import wait_until

APPLICATION = Path(__file__).parent / "application"
BEFORE_EXTRA, EXTRA = "  count: Long\n", "  extra: Int @indexed\n"  # of the schema
GROWN = 6.0  # seconds after which an instance is killed: five that end within five seconds each are given up
STOPPED = 1.5  # seconds at most


class Servers:
    """`svc run --instances N`, or as many servers with roots of their own over one directory, if they are `separate`."""

    def __init__(self, path: Path, instances: int, *, separate: bool, hangs: bool) -> None:
        self.path = path
        self.application = path / "application"
        shutil.copytree(APPLICATION, self.application, ignore=shutil.ignore_patterns("__pycache__"))
        self.each = 1 if separate else instances
        self.mqtt_ports = [free_port() for _ in range(instances if separate else 1)]
        self.databases = path / "databases"
        shared = {
            "INSTANCES": str(self.each),
            "STORAGE_PATH": str(self.databases),
            "COMPONENTSROOT": str(path / "components"),
            "LOGGING_LEVEL": "info",
            "STORAGE_RECLAMATION_THRESHOLD": "0",  # on a volume that is nearly full the log would not reach back to the beginning
            **({"SVC_TEST_HOOK": QUICK_HANG} if hangs else {}),
        }
        self.processes = [
            Process(path / f"root{number}", self.application, env={**shared, "MQTT_NETWORK_PORT": str(port)})
            for number, port in enumerate(self.mqtt_ports)
        ]

    def start(self) -> None:
        for process in self.processes:
            process.start()
            self.wait_until_whole(process)

    def wait_until_whole(self, process: Process) -> None:
        wait_until(lambda: len(process.instances) == self.each, process.logged)

    def stop(self) -> None:
        for process in self.processes:
            status = process.stop()
            assert status == 0, (status, process.output()[-5000:])

    def kill(self) -> None:
        for process in self.processes:
            process.kill()

    @property
    def _schema(self) -> Path:
        return self.application / "schema.graphql"

    @property
    def has_extra_index(self) -> bool:
        return EXTRA in self._schema.read_text()

    def change_schema(self) -> None:
        text = self._schema.read_text()
        new = self._schema.with_suffix(".new")
        new.write_text(text.replace(EXTRA, "") if EXTRA in text else text.replace(BEFORE_EXTRA, BEFORE_EXTRA + EXTRA, 1))
        os.replace(new, self._schema)

    def port_of(self, source: random.Random) -> Callable[[str], int]:
        """A port of a kind, of one of the servers."""

        def port(kind: str) -> int:
            place = source.randrange(len(self.processes))
            process = self.processes[place]
            return {"http": process.port, "operations": process.operations_port, "mqtt": self.mqtt_ports[place]}[kind]

        return port


class Faults:
    """What is done to the servers while clients are at work. Each call of a method is one, and ends when the servers are whole."""

    def __init__(self, servers: Servers, recorder: Recorder, source: random.Random) -> None:
        self._servers = servers
        self._recorder = recorder
        self._source = source
        self._http = Http(servers.port_of(source), source, recorder)
        self._release = 0

    def close(self) -> None:
        self._http.close()

    def _process(self) -> Process:
        return self._source.choice(self._servers.processes)

    def _grown(self, process: Process) -> psutil.Process:
        """An instance that is not new."""

        def found() -> list[psutil.Process]:
            return [each for each in process.instances if time.time() - each.create_time() > GROWN]

        return self._source.choice(wait_until(found, process.logged))

    def _wait_until_gone(self, process: Process, instance: psutil.Process) -> None:
        wait_until(lambda: not instance.is_running(), process.logged)
        self._servers.wait_until_whole(process)

    def kill_instance(self) -> None:
        process = self._process()
        instance = self._grown(process)
        instance.kill()
        self._wait_until_gone(process, instance)

    def pause_instance(self) -> None:
        process = self._process()
        instance = self._grown(process)
        instance.suspend()
        time.sleep(self._source.random() * STOPPED)
        with contextlib.suppress(psutil.NoSuchProcess):
            instance.resume()
        self._servers.wait_until_whole(process)

    def hang_instance(self) -> None:
        """For so long that it is replaced."""
        process = self._process()
        instance = self._grown(process)
        instance.suspend()
        self._wait_until_gone(process, instance)

    def kill_parent(self) -> None:
        process = self._process()
        process.kill()
        process.start()
        self._servers.wait_until_whole(process)

    def restart(self) -> None:
        self._restart(self._process())

    def _restart(self, process: Process, meanwhile: Callable[[], object] = lambda: None) -> None:
        before = _status(process).get("restarts", 0)
        assert process.process is not None
        process.process.send_signal(signal.SIGUSR2)
        meanwhile()

        def is_over() -> bool:
            status = _status(process)
            return (status.get("restarts", 0) > before or "restartFailed" in status) and not status.get("restarting")

        wait_until(is_over, process.logged)
        self._servers.wait_until_whole(process)

    def kill_in_restart(self) -> None:
        """The parent starts an instance that ends before it serves, or one that is to be replaced ends."""
        process = self._process()
        self._grown(process)
        self._restart(process, lambda: self._kill_any(process))

    def _kill_any(self, process: Process) -> None:
        time.sleep(self._source.random() * STOPPED)
        with contextlib.suppress(psutil.NoSuchProcess, IndexError):
            self._source.choice(process.instances).kill()

    def change_schema(self) -> None:
        """An index comes, or goes."""
        self._servers.change_schema()

    def deploy(self) -> None:
        self._release += 1
        number = self._release
        payload = base64.b64encode(tar_of(version(number, name="Release"), top="release")).decode()

        def send() -> None:
            answer = self._http.operate("deploy_component", project="release", payload=payload, restart=True)
            if answer.status != 200:
                raise NoOutcome

        self._recorder.attempt("deploy", {RELEASE: Action("put", Record(number))}, send)

    def kill_in_deploy(self) -> None:
        process = self._process()
        self._grown(process)
        thread = threading.Thread(target=self.deploy)
        thread.start()
        self._kill_any(process)
        thread.join()
        self._servers.wait_until_whole(process)


def _status(process: Process) -> dict[str, Any]:
    """Of `get_status`; empty if nobody answers."""
    try:
        answer = process.operate("get_status")
    except httpx.HTTPError:
        return {}
    return answer.json() if answer.status_code == 200 else {}
