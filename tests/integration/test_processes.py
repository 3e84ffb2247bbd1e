"""Start, status, stop and the first run, as a user does it (spec: configuration §8, examples 1-3, 10, 11)."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import randbytes

import httpx
import psutil
import pytest

from svc import __version__
from svc.config.document import read_document, set_value, write_document
from svc.interpreter import running_interpreter
from tests.integration.conftest import Process, free_port
from tests.support.forked import run_command
from tests.support.prepared import place_token_keys
from tests.support.waiting import LIMIT, wait_until

pytestmark = pytest.mark.programs

INTERPRETER = f"  interpreter: {running_interpreter()}\n"  # of `svc status`


class Commands:
    """`svc` with a home of its own; every port but the HTTP port is closed."""

    own_keys = False  # whether the server makes its keys of tokens itself, which takes a second or more

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "r"
        self.port = free_port()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "ROOTPATH": str(self.root),
            "HTTP_SECUREPORT": "null",
            "OPERATIONSAPI_NETWORK_PORT": "null",
            "MQTT_NETWORK_PORT": "null",
            "MQTT_NETWORK_SECUREPORT": "null",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }

    def run(self, *arguments: str, directory: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.env, **env}
        if not self.own_keys and self.root.parent.exists() and arguments[:1] in ((), ("start",), ("restart",), ("install",)):
            place_token_keys(self.root)
        if directory is None:
            return run_command(arguments, cwd=Path.cwd(), env=environment, timeout=LIMIT)
        command = [sys.executable, "-m", "svc", *arguments]
        return subprocess.run(
            command,
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT,
            check=False,
        )

    def pid(self) -> int:
        return int((self.root / "svc.pid").read_text())


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(tmp_path)
    yield commands
    commands.run("stop")


def test_from_nothing_to_stopped(commands: Commands) -> None:
    commands.own_keys = True
    assert commands.run("status").stdout == f"svc:\n  status: not installed\n  root: {commands.root}\n" + INTERPRETER

    started = commands.run("start", HTTP_PORT=str(commands.port))
    assert started.returncode == 0, started.stderr
    file = commands.root / "initial-admin-password"
    password = file.read_text().strip()
    assert started.stderr.count(password) == 1
    assert file.stat().st_mode & 0o777 == 0o600
    assert started.stdout == f"svc is running (pid: {commands.pid()}).\n"
    said = commands.run("status").stdout
    assert said.startswith(f"svc:\n  status: running\n  pid: {commands.pid()}\n") and said.endswith(
        f"  root: {commands.root}\n" + INTERPRETER
    )

    second = commands.run()
    assert second.returncode == 4
    assert second.stderr.startswith(f"Error: svc is already running (pid: {commands.pid()})\nsvc stop ends it")
    again = commands.run("start")
    assert (again.returncode, again.stderr) == (4, second.stderr)

    stopped = commands.run("stop")
    assert (stopped.returncode, stopped.stdout) == (0, "Stopping svc.\n")
    assert commands.run("status").stdout == f"svc:\n  status: stopped\n  root: {commands.root}\n" + INTERPRETER
    assert not (commands.root / "svc.pid").exists()

    assert read_document(commands.root / "svc-config.yaml")["http"]["port"] == 9926  # a start writes none of its options
    started = commands.run("start", f"--HTTP_PORT={commands.port}")
    assert password not in started.stderr
    assert read_document(commands.root / "svc-config.yaml")["http"]["port"] == 9926
    assert not list((commands.root / "backup").glob("*.bak"))
    log = commands.root / "log" / "svc.log"
    wait_until(lambda: log.read_text().count("successfully started.") == 2, log.read_text)
    assert str(file) in log.read_text()
    for path in (commands.root / "log").iterdir():
        assert password not in path.read_text()


def test_a_given_password_is_used_and_kept_nowhere(commands: Commands) -> None:
    started = commands.run("start", "--SVC_ADMIN_PASSWORD=correct horse", SVC_ADMIN_USERNAME="ann", HTTP_PORT=str(commands.port))
    assert started.returncode == 0, started.stderr
    assert "super user" not in started.stderr and "horse" not in started.stderr
    assert not (commands.root / "initial-admin-password").exists()
    assert "correct horse" not in " ".join(psutil.Process(commands.pid()).cmdline())
    assert b"correct horse" not in Path(f"/proc/{commands.pid()}/environ").read_bytes()
    restarted = commands.run("restart")
    assert restarted.returncode == 0, restarted.stderr
    assert b"correct horse" not in Path(f"/proc/{commands.pid()}/environ").read_bytes()


@pytest.mark.parametrize("form", ["--SVC_ADMIN_PASSWORD=correct horse", "--SVC_ADMIN_PASSWORD correct horse", "variable"])
def test_a_password_is_not_to_be_seen_from_outside(commands: Commands, form: str) -> None:
    """Neither of the process that was started with it, nor of the one that takes its place at a restart."""
    arguments = [] if form == "variable" else form.split(" ", 1) if "=" not in form else [form]
    env = {**commands.env, "HTTP_PORT": str(commands.port)} | ({"SVC_ADMIN_PASSWORD": "correct horse"} if form == "variable" else {})

    def shown(pid: int) -> bytes:
        return b"".join(Path(f"/proc/{pid}/{file}").read_bytes() for file in ("environ", "cmdline"))

    command = [sys.executable, "-m", "svc", *arguments]
    with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_until(lambda: (commands.root / "operations-server").exists())
            said = commands.run("status").stdout
            assert said.startswith(f"svc:\n  status: running\n  pid: {server.pid}\n") and said.endswith(
                f"  root: {commands.root}\n" + INTERPRETER
            )
            assert b"HTTP_PORT=" in shown(server.pid) and b"horse" not in shown(server.pid)
            restarted = commands.run("restart")
            assert restarted.returncode == 0, restarted.stderr
            assert b"HTTP_PORT=" in shown(server.pid) and b"horse" not in shown(server.pid)
            assert b"SVC_ADMIN_PASSWORD" not in shown(server.pid)
        finally:
            server.terminate()


MODULES = ("yaml", "h11", "msgspec", "lmdb", "argon2", "sortedcontainers", "json", "svc_plugin")


def test_no_module_of_the_current_directory_is_imported(commands: Commands, tmp_path: Path) -> None:
    """Of nobody's: the directory that a command is given in may belong to another user."""
    place = tmp_path / "place"
    place.mkdir()
    for name in MODULES:
        (place / f"{name}.py").write_text(
            f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r} + '\\n')\nraise ImportError({name!r})\n"
        )
    found = tmp_path / "imported"

    def check(*arguments: str) -> None:
        done = commands.run(*arguments, directory=place, HTTP_PORT=str(commands.port))
        assert done.returncode == 0, done.stderr
        assert not found.exists(), found.read_text()

    check("start")
    check("restart")
    check("stop")
    check("install")
    check("start")
    pid = commands.pid()
    assert psutil.Process(pid).cwd() == str(place)  # or the test would show nothing
    check("stop")


def test_a_copy_of_a_running_root_is_served_beside_it(commands: Commands, tmp_path: Path) -> None:
    """Neither its data nor its process are those of the original."""
    assert commands.run("start", HTTP_PORT=str(commands.port)).returncode == 0
    assert commands.run("create_table", "table=Original").returncode == 0
    other = Commands(tmp_path / "other")
    other.root.parent.mkdir()
    shutil.copytree(commands.root, other.root, ignore=lambda directory, names: [name for name in names if name == "operations-server"])
    assert other.run("status").stdout == f"svc:\n  status: stopped\n  root: {other.root}\n" + INTERPRETER
    assert other.run("stop").stdout == "svc is not running.\n"
    refused = other.run("describe_all", HOME=str(commands.home)).stderr
    assert refused.startswith(f"svc must be running to perform this operation\nNo server runs in {other.root} (named by ")
    assert f"{commands.root} (running)" in refused
    try:
        started = other.run("start", HTTP_PORT=str(other.port))
        assert started.returncode == 0, started.stderr
        assert commands.run("create_table", "table=Later").returncode == 0
        assert set(json.loads(other.run("describe_all").stdout)["data"]) == {"Original"}
        assert set(json.loads(commands.run("describe_all").stdout)["data"]) == {"Original", "Later"}
    finally:
        other.run("stop")
    assert "status: running" in commands.run("status").stdout


def test_applications_are_restarted_in_place(commands: Commands) -> None:
    assert commands.run("start", HTTP_PORT=str(commands.port)).returncode == 0
    before = commands.pid()
    restarted = commands.run("restart_service", "service=http")
    assert restarted.returncode == 0, restarted.stderr
    [job] = json.loads(commands.run("get_job", f"id={json.loads(restarted.stdout)['job_id']}").stdout)
    assert (job["status"], job["message"]) == ("COMPLETE", "Restarted http")
    assert commands.run("status").stdout.startswith(f"svc:\n  status: running\n  pid: {before}\n"), "the same process"


def test_the_installed_command(commands: Commands) -> None:
    """`svc` itself, as the package installs it."""
    script = Path(sys.executable).with_name("svc")
    env = {name: value for name, value in commands.env.items() if name != "PYTHONPATH"}
    done = subprocess.run([script, "status"], env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (done.stdout, done.stderr) == (f"svc:\n  status: not installed\n  root: {commands.root}\n" + INTERPRETER, "")


def test_a_root_without_its_database_is_not_started(commands: Commands) -> None:
    assert commands.run("install", HTTP_PORT=str(commands.port)).returncode == 0
    (commands.root / "database").rename(commands.root.parent / "away")
    for command in ("start", "run"):
        refused = commands.run(command)
        assert refused.returncode == 1
        assert refused.stderr.startswith(f"Error: There is no system database in {commands.root / 'database'}: is its volume mounted?")
    assert not (commands.root / "database").exists()
    (commands.root.parent / "away").rename(commands.root / "database")
    assert commands.run("start").returncode == 0


def test_files_are_for_their_owner_only(commands: Commands, tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        assert commands.run("start", HTTP_PORT=str(commands.port)).returncode == 0
        backup = tmp_path / "backup.tar.gz"
        done = commands.run("get_backup", "database=system", f"out={backup}")
        assert done.returncode == 0, done.stderr
        copy = tmp_path / "copy.mdb"
        assert commands.run("copy-db", "system", str(copy)).returncode == 0
    finally:
        os.umask(umask)
    sockets = {commands.root / "operations-server"}
    paths = [path for path in [backup, copy, *commands.root.rglob("*")] if path not in sockets]
    assert not {str(path): oct(path.stat().st_mode) for path in paths if path.stat().st_mode & 0o077}


def test_a_killed_server_reads_as_stopped_and_starts_again(commands: Commands) -> None:
    assert commands.run("start", HTTP_PORT=str(commands.port)).returncode == 0
    process = psutil.Process(commands.pid())
    process.send_signal(signal.SIGKILL)
    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    assert commands.run("status").stdout == f"svc:\n  status: stopped\n  root: {commands.root}\n" + INTERPRETER
    assert commands.run("start", HTTP_PORT=str(commands.port)).returncode == 0


def test_a_start_that_fails_says_why_where_it_was_started(commands: Commands) -> None:
    invalid = commands.run("start", HTTP_PORT="9927", HTTP_SECUREPORT="9927")
    assert invalid.returncode == 1
    assert invalid.stderr == (
        "svc config file validation error: http.port and http.securePort cannot be the same value"
        " (environment variable HTTP_PORT, environment variable HTTP_SECUREPORT)\n"
    )
    other = Commands(commands.home / "other")
    other.home.mkdir()
    assert commands.run("start", HTTP_PORT=str(commands.port)).returncode == 0
    taken = other.run("start", HTTP_PORT=str(commands.port))
    assert taken.returncode == 1
    assert f"http.port {commands.port}" in taken.stderr
    assert other.run("status").stdout == f"svc:\n  status: stopped\n  root: {other.root}\n" + INTERPRETER


FAULTY = {
    "schema.graphql": "type Plant @table @exprot { id: ID @primaryKey }\ntype Bed @table @export { id: Strng\n",
    "resources.py": "class Seat(tables.Plant): pass\n",
    "roles.yaml": "reader: {data: {Plnt: {read: true}}}\n",
}


def make_faulty(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name, text in FAULTY.items():
        (directory / name).write_text(text)
    return directory


def test_faults_of_an_application_are_named_where_it_was_started(commands: Commands) -> None:
    make_faulty(commands.home / "shop")
    port = {"HTTP_PORT": str(commands.port)}
    started = commands.run("start", "shop", directory=commands.home, **port)
    assert started.returncode == 0
    pid = commands.pid()
    assert started.stdout == f"svc is running (pid: {pid}), started with 3 errors.\n"
    lines = started.stderr[started.stderr.index("shop/") :].splitlines()
    assert lines[0].startswith("shop/schema.graphql:") and ": error: " in lines[0]
    assert [line.partition(": ")[0] for line in lines[1:3]] == ["shop/roles.yaml:1", "shop/resources.py:1"]
    assert lines[3:] == [
        f"svc {__version__}  http://localhost:{commands.port}/  (all addresses of this machine)",
        f"  application  shop ({commands.home / 'shop'}), 0 tables",
        f"  root         {commands.root}",
        f"  log          {commands.root / 'log' / 'svc.log'}",
    ]
    assert commands.run("stop").returncode == 0

    strict = commands.run("start", "--strict", "shop", directory=commands.home, **port)
    assert strict.returncode == 1
    assert strict.stdout == ""
    assert strict.stderr.splitlines() == [*lines[:3], "Error: the applications have 3 errors; with --strict svc is not started"]
    assert "stopped" in commands.run("status").stdout
    (commands.home / "shop" / "schema.graphql").write_text("type Plant @table @exprot { id: ID @primaryKey }\n")
    (commands.home / "shop" / "resources.py").unlink()
    (commands.home / "shop" / "roles.yaml").unlink()
    warned = commands.run("start", "--strict", "shop", directory=commands.home, **port)
    assert warned.returncode == 0
    assert (
        "shop/schema.graphql:1:19: warning: the directive @exprot is not known and was ignored, did you mean '@export'?\n" in warned.stderr
    )


def test_a_restart_keeps_the_application_from_whatever_directory_it_is_asked_for(commands: Commands) -> None:
    shop = commands.home / "shop"
    shop.mkdir()
    (shop / "schema.graphql").write_text("type Bed @table @export { id: ID @primaryKey }\n")
    assert commands.run("start", "shop", f"--HTTP_PORT={commands.port}", directory=commands.home).returncode == 0
    for _ in range(2):
        assert commands.run("restart", directory=commands.root).returncode == 0
        answer = httpx.get(f"http://127.0.0.1:{commands.port}/Bed/", timeout=LIMIT)
        assert answer.status_code == 401  # it is there: an address of nothing is 404
    assert commands.run("stop").returncode == 0
    again = commands.run("restart", f"--HTTP_PORT={commands.port}")
    assert again.stdout.startswith(f"svc is not running: it is started, with the applications of {commands.root}.\n")
    assert f"  application  none in {commands.root / 'components'}\n" in again.stderr


def test_following_the_log_ends_with_its_reader(commands: Commands) -> None:
    assert commands.run("install").returncode == 0
    log = commands.root / "log" / "svc.log"
    log.write_text("one\ntwo\n")
    command = [sys.executable, "-m", "svc", "log", "-f", "-n", "1"]
    with subprocess.Popen(command, env=commands.env, cwd=commands.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == "two\n"
        with log.open("a") as stream:
            stream.write("three\n")
        assert child.stdout.readline() == "three\n"
        child.stdout.close()
        assert child.stderr.read() == ""
        assert child.wait(LIMIT) == 141


def test_a_server_in_the_foreground_says_in_a_pipe_where_it_answers(commands: Commands) -> None:
    place_token_keys(commands.root)
    make_faulty(commands.home / "shop")
    command = [sys.executable, "-m", "svc", "run", "shop", "--HTTP_PORT", str(commands.port)]
    with subprocess.Popen(
        command, env=commands.env, cwd=commands.home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        said = []
        for line in child.stderr:
            said.append(line)
            if "Started with" in line:
                break
        child.send_signal(signal.SIGTERM)
        assert child.wait(LIMIT) == 0
    text = "".join(said)
    assert f"  http://localhost:{commands.port}/  " in text and f"  root         {commands.root}\n" in text
    assert said[-1] == "  Started with 3 errors, see above.\n"


def test_databases_are_compacted_once(tmp_path: Path) -> None:
    server = Process(tmp_path / "root").start()
    file = server.root / "database" / "data" / "data.mdb"
    try:
        with server.client() as client:
            for number in range(20):
                assert client.put(f"/Doc/{number}", json={"text": randbytes(100_000).hex()}).status_code == 204
            for number in range(1, 20):
                assert client.delete(f"/Doc/{number}").status_code == 204
        assert server.operate("insert", table="Product", records=[{"id": "kept"}]).status_code == 200
        job = server.operate("delete_audit_logs_before", table="Doc", timestamp=4e12).json()["job_id"]
        wait_until(lambda: server.operate("get_job", id=job).json()[0]["status"] == "COMPLETE")
        assert server.stop() == 0
        before = file.stat().st_size
        config = server.root / "svc-config.yaml"
        document = read_document(config)
        set_value(document, "storage.compactOnStart", True)
        set_value(document, "storage.compactOnStartKeepBackup", True)
        write_document(config, document)
        server.start()
        assert read_document(config)["storage"]["compactOnStart"] is False
        assert file.stat().st_size < before / 2
        (kept,) = (server.root / "backup").glob("data-*.mdb")
        assert kept.stat().st_size == before
        with server.client() as client:
            assert client.get("/Doc/0").status_code == client.get("/Product/kept").status_code == 200
            assert client.put("/Doc/more", json={}).status_code == 204
        assert server.operate("get_configuration").json()["storage"]["compactOnStart"] is False
        assert server.stop() == 0
        kept.unlink()
        server.start()
        assert not list((server.root / "backup").glob("data-*.mdb")), "only once"
        assert server.stop() == 0
    finally:
        server.kill()
