"""Commands against the real server: through its Unix socket, over HTTP and over TLS (spec: configuration §6, §8)."""

from __future__ import annotations

import json
import os
import pty
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

import svc
from svc.interpreter import running_interpreter
from svc.tls.certificates import renew_certificates
from tests.integration.conftest import PASSWORD
from tests.support.forked import Forked, run_command
from tests.support.ports import free_port
from tests.support.prepared import place_token_keys
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

LIMIT = 120.0  # seconds; a command that hangs fails its test


class Machine:
    """A home with an installation, whose server is started by `svc start`."""

    def __init__(self, home: Path, root: Path | None = None) -> None:
        self.home = home
        self.root = root or home / "r"
        self.operations_port = free_port()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "ROOTPATH": str(self.root),
            "HTTP_PORT": str(free_port()),
            "HTTP_SECUREPORT": "null",
            "OPERATIONSAPI_NETWORK_PORT": str(self.operations_port),
            "MQTT_NETWORK_PORT": "null",
            "MQTT_NETWORK_SECUREPORT": "null",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.operations_port}"

    @property
    def pid(self) -> int:
        return int((self.root / "svc.pid").read_text())

    def run(self, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        return run_command(words, cwd=cwd or self.home, env={**self.env, **env}, timeout=LIMIT)

    def fine(self, *words: str, cwd: Path | None = None, **env: str) -> str:
        """The standard output of a command that must succeed."""
        done = self.run(*words, cwd=cwd, **env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def answer(self, *words: str, **env: str) -> Any:
        """The JSON it prints."""
        return json.loads(self.fine(*words, cwd=None, **env))

    def on_terminal(self, *words: str) -> str:
        """What a command shows on a terminal of 100 columns."""
        controller, terminal = pty.openpty()
        try:
            env = {**self.env, "COLUMNS": "100", "TERM": "xterm", "NO_COLOR": "1"}
            child = Forked(words, env=env, cwd=self.home, stdin=terminal, stdout=terminal, stderr=terminal)
        finally:
            os.close(terminal)
        said = b""
        with open(controller, "rb", buffering=0) as stream:
            while True:
                try:
                    piece = stream.read(65536)
                except OSError:  # the other end is closed
                    break
                if not piece:
                    break
                said += piece
        child.wait(LIMIT)
        return said.decode().replace("\r\n", "\n")

    def start(self, *words: str) -> Machine:
        place_token_keys(self.root)
        self.fine("start", *words, SVC_ADMIN_PASSWORD=PASSWORD)
        return self


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    home = tmp_path_factory.mktemp("home")
    app = home / "garden"
    app.mkdir()
    (app / "schema.graphql").write_text("type Plant @table {\n  id: Any @primaryKey\n  species: String\n}\n")
    machine = Machine(home).start(str(app))
    yield machine
    machine.run("stop")


# output


def test_in_a_pipe_the_json_of_the_server(machine: Machine) -> None:
    assert machine.answer("user_info")["username"] == "admin"
    written = machine.answer("upsert", "table=Plant", 'records=[{"id": 1, "species": "fern"}]')
    assert written["message"] == "upserted 1 of 1 records"
    assert machine.answer("search_by_id", "table=Plant", "ids=[1]", 'get_attributes=["id", "species"]') == [{"id": 1, "species": "fern"}]


def test_yaml_and_json_when_asked_for(machine: Machine) -> None:
    machine.fine("upsert", "table=Plant", 'records=[{"id": 2, "species": "moss"}]')
    words = ("search_by_id", "table=Plant", "ids=[2]", 'get_attributes=["id", "species"]')
    assert yaml.safe_load(machine.fine(*words, "json=false")) == [{"id": 2, "species": "moss"}]
    assert machine.fine(*words, "json=false").startswith("- id: 2\n")
    assert json.loads(machine.fine(*words, "json=true")) == json.loads(machine.fine(*words, "--json")) == [{"id": 2, "species": "moss"}]


def test_on_a_terminal_tables_and_sentences(machine: Machine) -> None:
    machine.fine("upsert", "table=Plant", 'records=[{"id": 3, "species": "ivy\\u001b[2J"}]')
    shown = machine.on_terminal("search_by_id", "table=Plant", "ids=[3]", 'get_attributes=["id", "species"]')
    assert "─" in shown
    assert "ivy\\x1b[2J" in shown
    assert "1 row" in shown
    said = machine.on_terminal("set_status", "id=maintenance", "status=later")
    assert yaml.safe_load(said)["status"] == "later"
    assert machine.on_terminal("clear_status", "id=maintenance") == "Status successfully cleared\n"


def test_status_says_what_a_server_serves(machine: Machine) -> None:
    found = json.loads(machine.run("status", "--json").stdout)["svc"]
    assert (found["status"], found["version"]) == ("running", svc.__version__)
    assert found["uptime"].endswith((" s", " min"))
    assert all(address.startswith("http") for address in [*found["addresses"], *found["operations"]])
    assert isinstance(found["applications"], list)


def test_a_refusal_is_one_line_and_status_1(machine: Machine) -> None:
    done = machine.run("search_by_id", "table=nowhere", "ids=[1]")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "error: Table 'data.nowhere' does not exist\n")
    done = machine.run("list_usres")
    assert done.returncode == 1
    assert done.stderr.startswith('The "list_usres" command is not understood. Did you mean list_users?')
    done = machine.run("search_by_id", "tabel=plant", "ids=[1]")
    assert done.stderr == "search_by_id has no field tabel. Did you mean table?\n"


@pytest.mark.parametrize("line", ["system_information", "help operations", "--help"])
def test_a_reader_that_has_seen_enough(machine: Machine, line: str) -> None:
    """As `svc ... | head -1`: nothing is said, nothing hangs."""
    command = [sys.executable, "-m", "svc", *line.split()]
    with subprocess.Popen(command, env=machine.env, cwd=machine.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(LIMIT) == 141


def test_a_closed_error_stream(machine: Machine) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "svc", "no_such_thing"], env=machine.env, stdout=subprocess.PIPE, stderr=writer, timeout=LIMIT, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stdout) == (141, b"")


def test_jobs_are_waited_for(machine: Machine) -> None:
    data = "data=" + "id,species\n" + "".join(f"job{n},moss\n" for n in range(5))
    done = machine.answer("csv_data_load", "table=Plant", data)
    assert (done["status"], done["message"]) == ("COMPLETE", "successfully loaded 5 of 5 records")
    assert done["job_id"] == done["id"]
    started = machine.answer("csv_data_load", "table=Plant", data, "action=upsert", "wait=false")
    assert set(started) == {"message", "job_id"}
    assert machine.answer("get_job", f"id={started['job_id']}")[0]["type"] == "csv_data_load"
    assert "successfully loaded 5 of 5 records" in machine.on_terminal("csv_data_load", "table=Plant", data, "action=upsert")
    failed = machine.run("csv_data_load", "table=Plant", "data=a/b\n1\n")
    assert (failed.returncode, failed.stderr) == (1, "error: Invalid column name 'a/b', cancelling load operation\n")


# other servers and credentials


def test_a_user_made_with_the_credentials_of_another(machine: Machine) -> None:
    """Acceptance example 12: username and password are the new user's, auth_... those of the caller."""
    machine.fine("add_role", "role=reader", 'permission={"super_user": false}')
    remote = (f"target={machine.url}", "auth_username=admin", f"auth_password={PASSWORD}")
    assert machine.answer("add_user", "username=bob", "password=12345678", "role=reader", "active=true", *remote) == {
        "message": "bob successfully added"
    }
    assert machine.answer("user_info", f"target={machine.url}", "username=bob", "password=12345678")["username"] == "bob"
    done = machine.run("user_info", f"target={machine.url}", "auth_username=bob", "auth_password=12345679")
    assert (done.returncode, done.stderr) == (1, "error: Login failed\n")
    assert machine.run("user_info", f"target={machine.url}").stderr == "error: Must login\n"


def test_rights_and_passwords_by_commands(machine: Machine) -> None:
    machine.fine("create_table", "table=Leaf")
    assert machine.fine("grant", "leafy", "read,insert", "Leaf") == "The role leafy may read, insert data.Leaf\n"
    assert machine.fine("revoke", "leafy", "insert", "data.Leaf") == "The role leafy may no longer insert data.Leaf\n"
    assert json.loads(machine.fine("grants", "leafy", "--json")) == [{"role": "leafy", "on": "data.Leaf", "rights": "read"}]
    assert machine.answer("grant", "role=leafy", 'rights=["delete"]', "on=Leaf")["permission"]["data"]["tables"]["Leaf"]["delete"] is True
    assert machine.run("grant", "leafy", "read", "Nowhere").stderr == "error: There is no table 'Nowhere', and no attribute of one\n"
    (machine.home / "old").write_text("blue-heron-17\n")
    (machine.home / "new").write_text("grey-heron-18\n")
    machine.fine("add_user", "username=lea", "password_file=old", "role=leafy", "active=true")
    own = ("passwd", f"target={machine.url}", "auth_username=lea", "password_file=new")
    wrong = machine.run(*own, "auth_password=blue-heron-17", "current_password_file=new")
    assert (wrong.returncode, wrong.stderr) == (1, "error: current_password is wrong\n")
    assert machine.fine(*own, "auth_password=blue-heron-17", "current_password_file=old").startswith("The password of lea is changed.")
    assert machine.answer("user_info", f"target={machine.url}", "auth_username=lea", "auth_password=grey-heron-18")["username"] == "lea"
    machine.fine("passwd", "lea", "password_file=old")
    assert machine.answer("user_info", f"target={machine.url}", "auth_username=lea", "auth_password=blue-heron-17")["username"] == "lea"


def test_credentials_from_the_environment_and_dot_env(machine: Machine, tmp_path: Path) -> None:
    environment = {"SVC_CLI_USERNAME": "admin", "SVC_CLI_PASSWORD": PASSWORD}
    assert machine.answer("user_info", SVC_CLI_TARGET=machine.url, **environment)["username"] == "admin"
    (tmp_path / ".env").write_text(f"SVC_CLI_TARGET={machine.url}\nSVC_CLI_USERNAME=admin\nSVC_CLI_PASSWORD='{PASSWORD}'\n")
    assert json.loads(machine.fine("user_info", cwd=tmp_path))["username"] == "admin"
    done = machine.run("user_info", cwd=tmp_path, SVC_CLI_USERNAME="nobody")
    assert done.stderr == "error: Login failed\n"


def test_login_until_logout(machine: Machine) -> None:
    assert machine.fine("login", machine.url, "username=admin", f"password={PASSWORD}").startswith("Logged in at ")
    file = machine.home / ".svc" / "credentials.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert machine.answer("user_info", f"target={machine.url}")["username"] == "admin"
    kept = json.loads(file.read_text())
    assert set(kept[machine.url]) == {"operation_token", "refresh_token", "username"}

    body = {"operation": "create_authentication_tokens", "expires_in": 1}
    short = httpx.post(machine.url, json=body, auth=("admin", PASSWORD), timeout=LIMIT)
    assert short.status_code == 200, short.text
    authorization = {"Authorization": f"Bearer {short.json()['operation_token']}"}
    while httpx.post(machine.url, json={"operation": "user_info"}, headers=authorization, timeout=LIMIT).status_code == 200:
        threading.Event().wait(0.05)
    kept[machine.url] |= short.json()
    file.write_text(json.dumps(kept))
    assert machine.answer("user_info", f"target={machine.url}")["username"] == "admin"
    renewed = json.loads(file.read_text())[machine.url]
    assert renewed["operation_token"] != short.json()["operation_token"]
    assert renewed["refresh_token"] == short.json()["refresh_token"]

    assert machine.fine("logout", machine.url) == f"Logged out at {machine.url}.\n"
    assert machine.run("user_info", f"target={machine.url}").stderr == "error: Must login\n"


def test_servers_that_cannot_be_reached(machine: Machine) -> None:
    closed = free_port()
    done = machine.run("user_info", f"target=http://127.0.0.1:{closed}")
    assert (done.returncode, done.stderr) == (1, f"error: 127.0.0.1:{closed} cannot be reached: Connection refused\n")
    done = machine.run("describe_all", f"target=http://127.0.0.2:{closed}")
    assert "Connection refused; by default an operations port is open to its own machine only" in done.stderr
    done = machine.run("user_info", f"target=127.0.0.1:{machine.operations_port}", "auth_username=a", "auth_password=b")
    assert "does not speak TLS" in done.stderr
    assert "target=http://127.0.0.1" in done.stderr


def receive_request(connection: socket.socket) -> bytes:
    """All of it: closing with bytes unread would reset the connection."""
    received = b""
    while not received.endswith(b"}"):
        received += connection.recv(65536)
    return received


class Peer:
    """A server of a test: `serve(connection)` is called for one connection."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.sock.settimeout(LIMIT)
        self.port = self.sock.getsockname()[1]
        self._serve = serve
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            connection, _ = self.sock.accept()
            with connection:
                connection.settimeout(LIMIT)
                self._serve(connection)
        except OSError:
            pass

    def __enter__(self) -> Peer:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.thread.join(LIMIT)
        self.sock.close()


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (b"", "closed the connection without an answer"),
        (b"SSH-2.0-x\r\n", "closed the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n[1,", "broke before the answer was complete"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n", "broke before the answer"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\nx", "status 502 Bad Gateway"),
        (b"HTTP/1.1 301 Moved\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n", "status 301"),
    ],
)
def test_answers_of_something_else(machine: Machine, tmp_path: Path, reply: bytes, text: str) -> None:
    def serve(connection: socket.socket) -> None:
        receive_request(connection)
        connection.sendall(reply)

    with Peer(serve) as peer:
        done = machine.run("list_users", f"target=http://127.0.0.1:{peer.port}", f"out={tmp_path / 'x'}")
    assert done.returncode == 1
    assert text in done.stderr
    assert done.stderr.startswith("error: ")
    assert list(tmp_path.iterdir()) == []


def test_certificates_are_verified(machine: Machine, tmp_path: Path) -> None:
    renew_certificates(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "keys" / "certificate.pem", tmp_path / "keys" / "privateKey.pem")
    seen = []

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as tls:
            seen.append(receive_request(tls))
            tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]")

    words = ("list_users", "auth_username=a", "auth_password=b")
    with Peer(serve) as peer:
        done = machine.run(*words, f"target=https://localhost:{peer.port}")
        assert done.returncode == 1
        assert "cannot be verified" in done.stderr
        assert "rejectUnauthorized=false" in done.stderr
    assert seen == []  # neither the user nor the password went out
    with Peer(serve) as peer:
        assert machine.fine(*words, f"target=https://localhost:{peer.port}", SSL_CERT_FILE=str(tmp_path / "keys" / "ca.pem")) == "[]\n"
    for word in ("rejectUnauthorized=false", "--insecure"):
        with Peer(serve) as peer:
            done = machine.run(*words, f"target=localhost:{peer.port}", word)
            assert (done.returncode, done.stdout) == (0, "[]\n")
            assert done.stderr == "warning: the certificate of localhost is not verified\n"


# processes and maintenance


def test_restart_keeps_the_process_and_takes_up_what_changed(tmp_path: Path) -> None:
    machine = Machine(tmp_path).start()
    try:
        before = psutil.Process(machine.pid)
        file = machine.root / "svc-config.yaml"
        file.write_text(file.read_text().replace("level: warn", "level: info"))
        done = machine.run("restart")
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"Restarting svc.\nsvc is running (pid: {machine.pid}).\n"
        assert before.is_running()
        assert machine.pid == before.pid
        assert machine.answer("user_info")["username"] == "admin"
        log = machine.root / "log" / "svc.log"
        wait_until(lambda: log.read_text().count("successfully started.") == 2, log.read_text)
        remote = machine.run("restart", f"target={machine.url}", "auth_username=admin", f"auth_password={PASSWORD}")
        assert json.loads(remote.stdout)["message"] == "Restarting svc. This may take up to 60 seconds."
        wait_until(lambda: log.read_text().count("successfully started.") == 3, log.read_text)  # until then nobody answers a command
        assert machine.run("restart", "--HTTP_PORT", "1").returncode == 1
    finally:
        machine.run("stop")
    assert machine.run("status").stdout == f"svc:\n  status: stopped\n  root: {machine.root}\n  interpreter: {running_interpreter()}\n"
    assert machine.run("user_info").stderr.startswith(
        f"svc must be running to perform this operation\nNo server runs in {machine.root} (named by "
    )
    done = machine.run("restart")  # not running: start
    begins = f"svc is not running: it is started, with the applications of {machine.root}.\n"
    assert done.stdout == f"{begins}svc is running (pid: {machine.pid}).\n"
    said = {"status": "running", "pid": machine.pid, "root": str(machine.root), "interpreter": str(running_interpreter())}
    assert json.loads(machine.fine("status", "--json"))["svc"].items() >= said.items()
    machine.fine("stop")


def test_a_supervisor_starts_it_again_if_that_is_wanted(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    command = [sys.executable, "-m", "svc"]
    environment = {**machine.env, "SVC_EXIT_ON_RESTART": "1", "SVC_ADMIN_PASSWORD": PASSWORD}
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        _wait_for_socket(machine.root / "operations-server", server)
        assert json.loads(machine.fine("restart", f"target={machine.url}", "auth_username=admin", f"auth_password={PASSWORD}"))
        assert server.wait(LIMIT) == 0
    assert not (machine.root / "svc.pid").exists()


def _wait_for_socket(path: Path, server: subprocess.Popen[bytes]) -> None:
    """Until somebody listens at the path."""
    event = threading.Event()
    while server.poll() is None:
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(path))
            return
        except OSError:
            event.wait(0.05)
    raise AssertionError("the server has ended")


def test_a_root_whose_path_is_too_long_for_a_socket(tmp_path: Path) -> None:
    root = tmp_path / ("long" * 25)
    machine = Machine(tmp_path, root).start()
    try:
        assert machine.answer("user_info")["username"] == "admin"
        line = next(
            line for line in (tmp_path / ".svc" / "svc_boot_properties.file").read_text().splitlines() if "operations_socket" in line
        )
        assert Path(line.partition("=")[2]).stat().st_mode & 0o777 == 0o600
        assert machine.answer("user_info", TMPDIR=str(tmp_path))["username"] == "admin"
    finally:
        machine.run("stop")


def test_backups_with_and_without_a_server(tmp_path: Path) -> None:
    machine = Machine(tmp_path).start()
    try:
        archive = tmp_path / "system.tar.gz"
        done = machine.run("get_backup", "database=system", f"out={archive}")
        assert (done.returncode, done.stderr) == (0, f"{archive}: {archive.stat().st_size} bytes\n")
        assert archive.read_bytes()[:2] == b"\x1f\x8b"
        done = machine.run("get_backup", "database=nowhere", f"out={tmp_path / 'x'}")
        assert (done.returncode, done.stderr) == (1, "error: database 'nowhere' does not exist\n")
        number = machine.answer("create_backup", "database=system")["result"]["backup_id"]
        machine.fine("add_role", "role=late", 'permission={"super_user": false}')
    finally:
        machine.run("stop")
    assert [entry["backup_id"] for entry in machine.answer("list_backups", "database=system")] == [number]
    machine.fine("restore_backup", "database=system")
    machine.fine("start")
    try:
        assert "late" not in {role["role"] for role in machine.answer("list_roles")}
        done = machine.run("restore_backup", "database=system")
        assert done.returncode == 1
        assert "only while svc is stopped" in done.stderr
    finally:
        machine.run("stop")


def test_a_whole_installation_beside_its_server_and_at_another_place(machine: Machine, tmp_path: Path) -> None:
    machine.fine("upsert", "table=Plant", 'records=[{"id": "kept", "species": "fern"}]')
    assert machine.fine("backup", "all", str(tmp_path / "b")).startswith(f"{tmp_path / 'b'}: system, data, ")
    machine.fine("delete", "table=Plant", 'ids=["kept"]')
    other = Machine(tmp_path, tmp_path / "other")
    other.fine("backup", "restore", str(tmp_path / "b"))
    assert other.fine("check").count(": fine; ") == 2
    other.fine("start")
    try:
        assert other.answer("search_by_id", "table=Plant", 'ids=["kept"]', 'get_attributes=["*"]')[0]["species"] == "fern"
        answer = httpx.post(f"{other.url}/", json={"operation": "user_info"}, auth=("admin", PASSWORD), timeout=LIMIT)
        assert answer.json()["username"] == "admin"
    finally:
        other.run("stop")
    assert machine.answer("search_by_id", "table=Plant", 'ids=["kept"]', 'get_attributes=["*"]') == []


def test_a_copy_of_a_database_that_is_being_used(machine: Machine, tmp_path: Path) -> None:
    machine.fine("upsert", "table=Plant", 'records=[{"id": "copied", "species": "fern"}]')
    copy = tmp_path / "copies" / "data"
    copy.mkdir(parents=True)
    said = machine.fine("copy-db", "data", str(copy / "data.mdb"))
    assert said == f"{copy / 'data.mdb'}: {(copy / 'data.mdb').stat().st_size} bytes\n"
    assert (copy / "data.mdb").stat().st_mode & 0o777 == 0o600
    assert machine.fine("check", str(copy)).startswith("data: fine; ")
    again = machine.run("copy-db", "data", str(copy / "data.mdb"))
    assert (again.returncode, again.stderr) == (1, f"Error: {copy / 'data.mdb'} exists already\n")
    assert machine.run("copy-db", "nowhere", str(tmp_path / "x")).stderr == "Error: database 'nowhere' does not exist\n"
    assert machine.run("copy-db", "../data", str(tmp_path / "x")).returncode == 1
    assert not (tmp_path / "x").exists()


def test_a_new_certificate(machine: Machine) -> None:
    file = machine.root / "keys" / "certificate.pem"
    assert machine.fine("renew-certs") == "Successfully renewed self-signed certificates\n"
    before = file.read_bytes()
    assert machine.fine("renew-certs") == "Successfully renewed self-signed certificates\n"
    assert file.read_bytes() != before
    assert (machine.root / "keys" / "privateKey.pem").stat().st_mode & 0o777 == 0o600


def test_data_of_a_newer_program_is_left_alone(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.fine("install", SVC_ADMIN_PASSWORD=PASSWORD)
    assert machine.fine("upgrade").endswith("already.\n")
    script = (
        "import sys; from pathlib import Path; from svc.store import Store; from svc.store.system import ensure_system;"
        "from svc.clock import SYSTEM_CLOCK; from svc.root.data_version import ensure_version\n"
        "store = Store(Path(sys.argv[1])); ensure_system(store); ensure_version(store, SYSTEM_CLOCK, '99.0'); store.close()"
    )
    subprocess.run([sys.executable, "-c", script, str(machine.root / "database")], env=machine.env, check=True, timeout=LIMIT)
    for command in ("start", "upgrade", "run"):
        done = machine.run(command)
        assert done.returncode == 1
        assert "The data was written by svc 99.0, which is newer than this svc" in done.stderr
