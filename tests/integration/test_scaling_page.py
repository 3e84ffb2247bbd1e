"""docs/scaling.md, done as it says: its commands, and its configurations of proxies in front of two servers over one directory."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from websockets.sync.client import connect

from tests.integration.conftest import LIMIT, PASSWORD, authorization
from tests.support.mqtt_clients import Client
from tests.support.ports import free_port
from tests.support.prepared import place_token_keys
from tests.support.proxies import HAPROXY, NGINX, nginx_command
from tests.support.waiting import wait_until
from tests.support.walkthrough import blocks

pytestmark = pytest.mark.programs

PAGE = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text("utf-8")
PORTS = {
    "80": "http",
    "8883": "mqtt",
    "9926": "first http",
    "9925": "first operations",
    "1883": "first mqtt",
    "9936": "second http",
    "9935": "second operations",
    "1893": "second mqtt",
}
"""What the ports of the page are for."""


def texts(language: str) -> list[str]:
    return [block.text for block in blocks(PAGE) if block.language == language]


class Reader:
    """Does what the page says, with other ports, and below a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = {number: free_port() for number in PORTS}
        app = directory / "shop"
        app.mkdir()
        (app / "config.yaml").write_text("rest: true\ngraphqlSchema: {files: '*.graphql'}\nresources: {files: resources.py}\n")
        (app / "schema.graphql").write_text("type Item @table @export { id: ID @primaryKey  value: Int }\n")
        (app / "resources.py").write_text(
            "import os\n"
            "from svc import Resource, get_context\n"
            "class Who(Resource):\n"
            "    def get(self, target=None):\n"
            "        return {'pid': os.getpid(), 'ip': get_context().ip, 'host': get_context().host}\n"
        )
        self.env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(directory),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "SVC_ADMIN_PASSWORD": PASSWORD,
        }

    def port(self, use: str) -> int:
        (number,) = (number for number, each in PORTS.items() if each == use)
        return self.ports[number]

    def local(self, text: str) -> str:
        found = re.sub(r"(?<=[:=])(\d+)\b|(?<=listen )(\d+)|(?<= port )(\d+)", lambda match: str(self.ports.get(match[0], match[0])), text)
        return found.replace("/srv/", f"{self.directory}/")

    def do(self, script: str, **env: str) -> str:
        """The standard output of commands that must succeed."""
        done = subprocess.run(
            ["bash", "-ec", self.local(script)],
            cwd=self.directory,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=4 * LIMIT,
            check=False,
        )
        assert done.returncode == 0, (script, done.stdout, done.stderr)
        return done.stdout

    def url(self, use: str) -> str:
        return f"http://127.0.0.1:{self.port(use)}"

    def client(self, use: str) -> httpx.Client:
        return httpx.Client(base_url=self.url(use), auth=("admin", PASSWORD), timeout=LIMIT)

    def instances(self, root: str) -> list[int]:
        return [each.pid for each in psutil.Process(self.parent(root)).children()]

    def parent(self, root: str) -> int:
        return int((self.directory / root / "svc.pid").read_text())

    @contextmanager
    def running(self, command: list[str], use: str) -> Iterator[None]:
        """A program that listens on a port, until the end."""
        output = self.directory / f"{Path(command[0]).name}.txt"
        with output.open("ab") as file, subprocess.Popen(command, env=self.env, cwd=self.directory, stdout=file, stderr=file) as process:
            try:
                wait_until(lambda: process.poll() is not None or is_listened_at(self.port(use)))
                assert process.poll() is None, output.read_text()
                yield
            finally:
                process.terminate()
                process.wait(LIMIT)


def is_listened_at(port: int) -> bool:
    try:
        httpx.get(f"http://127.0.0.1:{port}/", timeout=LIMIT)
    except httpx.ConnectError:
        return False
    except httpx.HTTPError:  # it is not HTTP that is spoken there
        pass
    return True


def nginx(reader: Reader, site: str) -> list[str]:
    if NGINX is None:
        pytest.skip("nginx is not installed")
    return nginx_command(reader.directory, site)


def start_nginx(reader: Reader) -> list[str]:
    [site] = texts("nginx")
    return nginx(reader, reader.local(site))


def start_haproxy(reader: Reader) -> list[str]:
    if HAPROXY is None:
        pytest.skip("haproxy is not installed")
    [text] = texts("haproxy")
    (reader.directory / "haproxy.cfg").write_text(reader.local(text))
    return [HAPROXY, "-db", "-f", str(reader.directory / "haproxy.cfg")]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    yield made
    for root in ("first", "second", "root"):
        if (tmp_path / root / "svc.pid").exists():
            made.do("svc stop", ROOTPATH=str(tmp_path / root))


@contextmanager
def proxied(reader: Reader, start: Callable[[Reader], list[str]]) -> Iterator[None]:
    """Two servers, started as the page says, behind a proxy."""
    command = start(reader)
    for root in ("first", "second"):
        place_token_keys(reader.directory / root)
    reader.do(texts("sh")[1])
    with reader.running(command, "http"):
        yield


def kill(reader: Reader, root: str) -> None:
    """The server of a root, at once."""
    processes = [psutil.Process(pid) for pid in (*reader.instances(root), reader.parent(root))]
    processes[-1].send_signal(signal.SIGKILL)
    assert psutil.wait_procs(processes, LIMIT)[1] == []
    (reader.directory / root / "svc.pid").unlink()


# --- one root ----------------------------------------------------------------------------------------------------------------------------


def test_the_commands(reader: Reader) -> None:
    """Also nginx with one line for all instances."""
    root = reader.directory / "root"
    place_token_keys(root)
    ports = {"HTTP_PORT": "9926", "OPERATIONSAPI_NETWORK_PORT": "9925", "MQTT_NETWORK_PORT": "1883"}
    reader.env |= {"ROOTPATH": str(root), "HTTP_SECUREPORT": "null", "MQTT_NETWORK_SECUREPORT": "null"}
    reader.env |= {name: str(reader.ports[number]) for name, number in ports.items()}
    [run] = (text for text in texts("sh") if "--instances" in text)
    with reader.running([*run.split(), "shop"], "first http"):
        wait_until(lambda: len(reader.instances("root")) == 4)
        assert reader.do("svc status").startswith("svc:\n  status: running\n")
    config, restart = re.findall(r"`(svc (?:config set instances|restart)[^`]*)`", PAGE)[:2]
    reader.do("svc start shop")
    assert len(reader.instances("root")) == 1
    reader.do(config)
    reader.do(restart)
    wait_until(lambda: len(reader.instances("root")) == 4)
    [site] = texts("nginx")
    one = re.sub(r"^ *server 127.0.0.1:9936.*\n", "", site, flags=re.MULTILINE)
    assert one != site
    with reader.running(nginx(reader, reader.local(one)), "http"), reader.client("http") as client:
        seen = set()
        for number in range(200):
            assert client.put("/Item/1", json={"value": number}).status_code == 204
            assert client.get("/Item/1").json()["value"] == number
            seen.add(client.get("/Who/", headers={"Connection": "close"}).json()["pid"])
        assert seen <= {*reader.instances("root")}


# --- behind a proxy ----------------------------------------------------------------------------------------------------------------------

EITHER = pytest.mark.parametrize("start", [start_nginx, start_haproxy], ids=["nginx", "haproxy"])


def answering(client: httpx.Client) -> set[int]:
    return {client.get("/Who/").json()["pid"] for _ in range(20)}


@EITHER
def test_requests_and_a_server_that_is_killed(reader: Reader, start: Callable[[Reader], list[str]]) -> None:
    with proxied(reader, start), reader.client("http") as client:
        both = {*reader.instances("first"), *reader.instances("second")}
        wait_until(lambda: answering(client) == both)
        for number in range(50):  # to one and the other in turn
            assert client.put("/Item/1", json={"value": number}).status_code in (201, 204)
            assert [client.get("/Item/1").json()["value"] for _ in range(3)] == [number] * 3
        seen = client.get("/Who/", headers={"X-Forwarded-For": "198.51.100.66", "X-Forwarded-Host": "evil.example"}).json()
        assert (seen["ip"], seen["host"]) == ("127.0.0.1", f"127.0.0.1:{reader.port('http')}")
        kill(reader, "first")
        for number in range(20):
            assert client.put("/Item/1", json={"value": number}).status_code == 204
            assert client.get("/Item/1").json()["value"] == number
        assert answering(client) == {*reader.instances("second")}
        reader.do("\n".join(line for line in texts("sh")[1].splitlines() if "second" not in line))
        wait_until(lambda: answering(client) == {*reader.instances("first"), *reader.instances("second")})


@EITHER
def test_streams(reader: Reader, start: Callable[[Reader], list[str]]) -> None:
    """Each client follows what all write, whichever server it is at."""
    login = {"Authorization": authorization()}
    with proxied(reader, start), reader.client("http") as client:
        url = f"ws://127.0.0.1:{reader.port('http')}/Item/"
        with (
            client.stream("GET", "/Item/", headers={"Accept": "text/event-stream"}) as one,
            client.stream("GET", "/Item/", headers={"Accept": "text/event-stream"}) as other,
            connect(url, additional_headers=login, open_timeout=LIMIT) as third,
            connect(url, additional_headers=login, open_timeout=LIMIT) as fourth,
        ):
            lines = [one.iter_lines(), other.iter_lines()]
            for number in range(4):
                assert client.put("/Item/1", json={"value": number}).status_code in (201, 204)
                for each in lines:
                    assert any(f'"value":{number}' in line for line in each)
                for socket in (third, fourth):
                    while (json.loads(socket.recv(timeout=LIMIT)).get("value") or {}).get("value") != number:
                        pass


def test_haproxy_asks_whether_they_are_ready(reader: Reader) -> None:
    with proxied(reader, start_haproxy), reader.client("http") as client:
        for words, expected in (("set_status id=availability status=Unavailable", 503), ("clear_status id=availability", 200)):
            reader.do(f"svc {words}", ROOTPATH=str(reader.directory / "first"))
            wait_until(lambda: client.get("/Who/").status_code == expected)  # noqa: B023


class ProxiedMqtt:
    """Where clients of MQTT connect."""

    def __init__(self, reader: Reader) -> None:
        self.port = self.mqtts_port = self.mqtt_port = reader.port("mqtt")


def test_mqtt_through_haproxy(reader: Reader) -> None:
    """A session goes on at the other server when that of its client is killed."""
    with proxied(reader, start_haproxy):
        place = ProxiedMqtt(reader)
        readers = [Client(place, f"reader{number}", clean=False) for number in range(2)]
        for each in readers:
            each.subscribe("Item/#", 1)
        writer = Client(place, "writer")
        writer.publish("Item/1", b'{"value":1}', 1)
        for each in readers:
            each.expect(1)
        kill(reader, "first")
        for each in readers:
            each.until(lambda: each.client.is_connected())  # noqa: B023
        with reader.client("http") as client:
            assert client.put("/Item/2", json={"value": 2}).is_success
        for each in readers:
            each.until(lambda: {message.topic for message in each.messages} == {"Item/1", "Item/2"})  # noqa: B023
        for each in (*readers, writer):
            each.close()


def test_every_block_is_used() -> None:
    assert {block.language for block in blocks(PAGE)} == {"sh", "nginx", "haproxy"}
    assert len(texts("sh")) == 2
