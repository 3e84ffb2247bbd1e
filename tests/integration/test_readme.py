"""README.md and docs/ say what the demo answers. This holds them to their word: the same lines, against the program as it is started there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.conftest import free_port
from tests.support.waiting import LIMIT

pytestmark = pytest.mark.programs

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [
    README,
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "rest",
            "browser",
            "clients",
            "querying",
            "sql",
            "operations/README",
            "security",
            "browser-login",
            "graphql",
            "realtime",
            "mqtt",
        )
    ),
]
KEYS = {"Airline": "code", "Plane": "tailNumber"}
"""The primary keys of the tables that pages change."""
ADDRESS = "http://localhost:9926/"
OPERATIONS_ADDRESS = "http://localhost:9925/"
START_LIMIT = 60.0  # seconds
COMMAND_LINE = re.compile(r"^svc (?=\w)")
MOSQUITTO = re.compile(r"\bmosquitto_(pub|sub)\b")
FOLLOWS = re.compile(r"-m (\d+) ")


def examples(page: Path) -> list[tuple[str, str]]:
    """(command, its output) for each line with a `$` in the blocks marked `console`.

    A line that ends with a backslash continues in the next one; a command with `<<'EOF'` ends with the line `EOF`.
    """
    blocks = re.findall(r"^```console\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    found = []
    for part in (part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]):
        command, output = part.split("\n", 1)
        while command.endswith("\\"):
            line, output = output.split("\n", 1)
            command = f"{command}\n{line}"
        if "<<'EOF'" in command:
            body, output = output.split("\nEOF\n", 1)
            command = f"{command}\n{body}\nEOF\n"
        found.append((command, output))
    return found


def programs(page: Path) -> list[tuple[str, str]]:
    """(program, what it prints) for each block marked `python` with one marked `text` behind it."""
    return re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


class Demo:
    """`svc demo` on a free port, in a directory that does not exist yet."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.operations_port = free_port()
        self.mqtt_port = free_port()
        self.output = directory / "output.txt"
        self.root = directory / "demo"
        command = [sys.executable, "-m", "svc", "demo", "--dir", str(self.root), "--port", str(self.port)]
        command += ["--operations-port", str(self.operations_port), "--MQTT_NETWORK_PORT", str(self.mqtt_port)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SVC_")} | {"HOME": str(directory)}
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)

    def wait_for(self, pattern: str) -> str:
        """The first group of `pattern` in what was printed, as soon as it is there."""
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            text = self.output.read_text()
            if match := re.search(pattern, text):
                return match[1]
            assert self.process.poll() is None, text
            time.sleep(0.05)
        raise AssertionError(f"{pattern} was not printed: {self.output.read_text()}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(START_LIMIT)

    def client(self) -> httpx.Client:
        user, _, password = self.wait_for(r"curl -gu '(admin:[^']+)'").partition(":")
        return httpx.Client(base_url=f"http://localhost:{self.port}", auth=(user, password))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    running = Demo(tmp_path_factory.mktemp("demo"))
    yield running
    assert running.stop() == 0, running.output.read_text()


@pytest.fixture
def restored(demo: Demo) -> Iterator[None]:
    """Afterwards the tables are as they were: a page shows records that another one changes."""
    with demo.client() as client:
        before = {table: records_of(client, table) for table in KEYS}
        yield
        for table, records in before.items():
            after = records_of(client, table)
            for key in after.keys() - records.keys():
                assert client.delete(f"/{table}/{key}").status_code == 204
            for key, record in records.items():
                if after.get(key) != record:
                    assert client.put(f"/{table}/{key}", json=record).status_code == 204
            assert records_of(client, table) == records


def records_of(client: httpx.Client, table: str) -> dict[str, Any]:
    return {record[KEYS[table]]: record for record in client.get(f"/{table}/").json()}


def test_readme_shows_eight_examples() -> None:
    assert len(examples(README)) == 8


PATIENCE = (0.25, 1, 30)
"""Times what the page says, for commands that follow changes for some seconds (`curl -m 2`). Two seconds may be too few on a machine that is busy."""


def check_answer(demo: Demo, command: str, expected: str) -> None:
    login = demo.wait_for(r"curl -gu '(admin:[^']+)'")
    local = command.replace(ADDRESS, f"http://localhost:{demo.port}/").replace(
        OPERATIONS_ADDRESS, f"http://localhost:{demo.operations_port}/"
    )
    local = MOSQUITTO.sub(lambda match: f"{match[0]} -p {demo.mqtt_port}", local)
    local = COMMAND_LINE.sub(f"'{sys.executable}' -m svc ", local)
    assert local != command
    local = re.sub(r"\bcurl ", "curl -sS ", local)
    environment = {
        "PATH": os.environ["PATH"],
        "LOGIN": login,
        "HOME": str(demo.root.parent),
        "ROOTPATH": str(demo.root),
        "PYTHONPATH": str(ROOT),
    }
    for times in PATIENCE if FOLLOWS.search(command) else (1,):
        limited = FOLLOWS.sub(lambda match, times=times: f"-m {int(match[1]) * times:g} ", local)
        done = subprocess.run(["bash", "-c", limited], env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
        if (done.returncode, done.stdout.rstrip("\n")) == (0, expected.rstrip("\n")):
            return
    raise AssertionError((command, done.returncode, done.stdout, done.stderr))


# One test a page, because the last lines build on what the ones before them wrote. Those that follow changes for some seconds build on nothing.
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_examples_answer_as_written(demo: Demo, page: Path, restored: None) -> None:
    found = examples(page)
    if shutil.which("mosquitto_pub") is None and any(MOSQUITTO.search(command) for command, _ in found):
        pytest.skip("mosquitto-clients is not installed")
    streams = [(command, expected) for command, expected in found if "curl -m " in command]
    with ThreadPoolExecutor(max(len(streams), 1)) as pool:
        followed = [pool.submit(check_answer, demo, command, expected) for command, expected in streams]
        for command, expected in found:
            if (command, expected) not in streams:
                check_answer(demo, command, expected)
        for future in followed:
            future.result()


def test_programs_print_what_is_written(demo: Demo) -> None:
    login = demo.wait_for(r"curl -gu '(admin:[^']+)'")
    found = [program for page in PAGES for program in programs(page)]
    assert found
    for program, expected in found:
        local = program.replace("localhost:9926/", f"localhost:{demo.port}/")
        assert local != program
        command = [sys.executable, "-c", local]
        done = subprocess.run(command, env={"LOGIN": login}, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert (done.returncode, done.stdout) == (0, expected), (program, done.stderr)
