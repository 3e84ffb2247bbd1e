"""The command line: parsing, help, commands that need no server."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import svc
from svc.cli import COMMANDS, Arguments, UsageError, help_text, main, parse_arguments
from svc.config.document import read_document, write_document
from svc.interpreter import running_interpreter
from tests.support.prepared import place_token_keys

pytestmark = pytest.mark.programs


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.upper().startswith(("SVC_", "ROOTPATH", "HTTP_"))]:
        monkeypatch.delenv(name)
    return tmp_path


# parsing


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Arguments()),
        ("run app", Arguments("run", ["app"])),
        ("--HTTP_PORT 8080 run app", Arguments("run", ["app"], {"HTTP_PORT": "8080"})),
        ("run --http_port=8080 app --instances 3", Arguments("run", ["app"], {"http_port": "8080", "instances": "3"})),
        ("--analytics_aggregatePeriod -1", Arguments("", [], {"analytics_aggregatePeriod": "-1"})),
        ("--HTTP_PORT=", Arguments("", [], {"HTTP_PORT": ""})),
        ("--NODE_URL=a=b", Arguments("", [], {"NODE_URL": "a=b"})),
        ("help x", Arguments("help", ["x"])),
        ("run -h", Arguments("run", wants_help=True)),
        ("--version", Arguments(wants_version=True)),
    ],
)
def test_arguments(line: str, expected: Arguments) -> None:
    assert parse_arguments(line.split()) == expected


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--http_prt 1", 'The option "--http_prt" is not understood. Did you mean --HTTP_PORT?'),
        ("--xyzzy 1", "svc help settings"),
        ("run --HTTP_PORT", "needs a value"),
        ("--HTTP_PORT --HTTP_CORS true", "needs a value"),
        ("-x", 'The option "-x" is not understood'),
    ],
)
def test_what_is_not_understood_is_explained(line: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arguments(line.split())
    assert text in str(caught.value)


# help


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for line in (["help"], ["--help"], ["-h"]):
        assert main(line) == 0
        assert capsys.readouterr().out == help_text() + "\n"
    for command in COMMANDS:
        assert command.usage in help_text()
        assert command.sentence in help_text(command.name)
        assert command.sentence.endswith(".")


def test_help_of_one_command_and_of_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "run"]) == 0
    by_command = capsys.readouterr().out
    assert main(["run", "--help"]) == 0
    assert capsys.readouterr().out == by_command
    assert "svc [run] [--strict] [APP]" in by_command
    assert main(["help", "settings", "mqtt"]) == 0
    assert "mqtt.network.port" in capsys.readouterr().out


@pytest.mark.parametrize("line", [["frobnicate"], ["help", "frobnicate"], ["--HTTP_PORT", "1", "frobnicate"]])
def test_an_unknown_command_gets_a_line_and_fails(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 1
    captured = capsys.readouterr()
    assert captured.err == 'The "frobnicate" command is not understood. svc help lists the commands, svc help operations the operations.\n'
    assert captured.out == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == main(["--version"]) == 0
    assert capsys.readouterr().out == f"{svc.__version__}\n" * 2


def test_help_imports_nothing_of_the_server() -> None:
    code = "import sys; from svc.cli import main; main(['help']); print([m for m in ('yaml', 'asyncio', 'lmdb', 'svc.server') if m in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == "[]"


# folders, words


def test_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    for command in ("run", "dev", "start", "check"):
        assert main([command, "/nowhere/app"]) == 1
        assert capsys.readouterr().err == "The folder /nowhere/app does not exist\n"
        assert main([command, str(file)]) == 1
        assert capsys.readouterr().err == f"The path {file} is not a folder\n"
    assert main(["dev"]) == 1
    assert "svc dev ." in capsys.readouterr().err
    assert main(["status", "now"]) == 1
    assert not (tmp_path / "svc").exists()


# a root that cannot be used


@pytest.mark.parametrize("command", ["run", "start", "install"])
def test_a_root_that_cannot_be_used_is_one_line(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    directory = tmp_path / "directory"
    (directory / "svc-config.yaml").mkdir(parents=True)
    for root, text in (
        (file, f"The path {file} is not a folder"),
        (directory, f"{directory}/svc-config.yaml is not a file"),
        (Path("/proc/svc"), "The directory /proc/svc cannot be made: No such file or directory"),
    ):
        assert main([command, "--ROOTPATH", str(root)]) == 1
        assert capsys.readouterr().err == f"Error: {text}\n"
    assert not file.read_bytes() and sorted(directory.iterdir()) == [directory / "svc-config.yaml"]


@pytest.mark.parametrize("command", ["run", "start", "status", "stop", "describe_all"])
def test_a_root_that_cannot_be_read_is_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "is_file", refuse)  # tests may run as a user who may read everything
    assert main([command, "--ROOTPATH", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"Error: {tmp_path}/svc-config.yaml: Permission denied\n"


def test_a_limit_of_descriptors_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(arguments: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/srv/x")

    monkeypatch.setattr("svc.cli.processes.status", refuse)
    assert main(["status"]) == 1
    assert "/srv/x: Too many open files; this process may open too few files, ulimit -n" in capsys.readouterr().err


def test_an_error_of_no_file_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.cli.processes.status", lambda arguments: os.read(-1, 1))
    with pytest.raises(OSError):
        main(["status"])


def test_a_broken_configuration_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "svc-config.yaml").write_text("http: {port: [\n")
    for command in ("run", "start"):
        assert main([command, "--ROOTPATH", str(tmp_path)]) == 1
        message = capsys.readouterr().err
        assert message.startswith(f"svc config file validation error: {tmp_path}/svc-config.yaml line 2, column 1 is not valid YAML")
        assert message.count("\n") == 1


def test_options_that_are_not_valid_install_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "start", "install"):
        assert main([command, "--ROOTPATH", str(tmp_path / "r"), "--HTTP_PORT", "9927"]) == 1
        assert capsys.readouterr().err == (
            "svc config file validation error: http.port and http.securePort cannot be the same value (option --HTTP_PORT)\n"
        )
    assert not (tmp_path / "r").exists()


# status, stop, install


def test_status_and_stop_without_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    assert capsys.readouterr().out == f"svc:\n  status: not installed\n  root: {tmp_path}/svc\n  interpreter: {running_interpreter()}\n"
    root = tmp_path / "r"
    root.mkdir()
    write_document(root / "svc-config.yaml", {})
    (root / "svc.pid").write_text("999999999\n")
    assert main(["status", "--ROOTPATH", str(root)]) == 0
    assert capsys.readouterr().out == f"svc:\n  status: stopped\n  root: {root}\n  interpreter: {running_interpreter()}\n"
    for _ in range(2):
        assert main(["stop", f"--rootpath={root}"]) == 0
        captured = capsys.readouterr()
        assert captured.out == "svc is not running.\n"
        assert captured.err.startswith(f"No server runs in {root} (named by --ROOTPATH).")


def test_status_of_a_running_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_document(tmp_path / "svc-config.yaml", {})
    wait = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", wait, "svc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (tmp_path / "svc.pid").write_text(f"{process.pid}\n")
        assert main(["status", "--ROOTPATH", str(tmp_path)]) == 0
        expected = f"svc:\n  status: running\n  pid: {process.pid}\n  root: {tmp_path}\n  interpreter: {running_interpreter()}\n"
        assert capsys.readouterr().out == expected
        assert main(["stop", "--ROOTPATH", str(tmp_path)]) == 0  # SIGTERM ends it
        assert capsys.readouterr().out == "Stopping svc.\n"
        process.communicate()


def test_install_makes_everything_and_leaves_it_alone_afterwards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--ROOTPATH", str(tmp_path / "r"), "--HTTP_PORT", "8080"]) == 0
    captured = capsys.readouterr()
    password = (tmp_path / "r" / "initial-admin-password").read_text().strip()
    assert captured.err.count(password) == 1
    assert password not in captured.out
    assert captured.out.endswith(f"Start it with: svc --ROOTPATH {tmp_path / 'r'}\n")
    assert len(password) >= 22  # 128 bits in base64
    assert read_document(tmp_path / "r" / "svc-config.yaml")["http"]["port"] == 8080
    assert not list((tmp_path / "r" / "backup").glob("*.bak"))  # there was no file before
    for file in (tmp_path / "r").rglob("*"):
        assert file.name == "initial-admin-password" or not file.is_file() or password.encode() not in file.read_bytes()
    assert main(["install", "--ROOTPATH", str(tmp_path / "r")]) == 0
    assert capsys.readouterr().out == "svc is already installed.\n"
    assert (tmp_path / "r" / "initial-admin-password").read_text().strip() == password
    assert main(["check", str(tmp_path / "r")]) == 0
    assert capsys.readouterr().out.startswith("system: fine; ")


@pytest.mark.parametrize("absolute", [False, True])
def test_a_copied_root_is_checked_and_not_its_original(tmp_path: Path, capsys: pytest.CaptureFixture[str], absolute: bool) -> None:
    """`absolute`: with a configuration whose paths an earlier version, or its owner, has written so."""
    root, copy = tmp_path / "r", tmp_path / "copy"
    place_token_keys(root)
    assert main(["install", "--ROOTPATH", str(root)]) == 0
    if absolute:
        document = read_document(root / "svc-config.yaml")
        document["storage"]["path"] = str(root / "database")
        write_document(root / "svc-config.yaml", document)
    shutil.copytree(root, copy)
    (root / "database" / "system" / "data.mdb").write_bytes(b"damaged" * 1000)
    capsys.readouterr()
    assert main(["check", str(copy)]) == 0
    assert main(["check", "--ROOTPATH", str(copy)]) == 0
    assert main(["check", str(root)]) == 1
    shutil.rmtree(copy / "database")
    assert main(["check", str(copy)]) == 1
    assert f"There are no databases in {copy}" in capsys.readouterr().err


def test_a_lost_database_is_made_anew_only_when_that_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "r"
    place_token_keys(root)
    options = ["--ROOTPATH", str(root)]
    assert main(["install", *options]) == 0
    before = (root / "initial-admin-password").read_text()
    assert main(["install", "--new-database", *options]) == 1
    assert "already" in capsys.readouterr().err
    shutil.rmtree(root / "database")
    for command in (["install"], ["run"], ["upgrade"], []):
        assert main([*command, *options]) == 1
        error = capsys.readouterr().err
        assert "is its volume mounted?" in error and "svc install --new-database" in error, error
        assert not (root / "database").exists() or not any((root / "database").iterdir())
    assert (root / "initial-admin-password").read_text() == before
    assert main(["install", "--new-database", *options]) == 0
    assert (root / "initial-admin-password").read_text() != before
    assert main(["check", str(root)]) == 0
    assert main(["install", *options]) == 0
    assert capsys.readouterr().out.endswith("svc is already installed.\n")


def test_install_with_a_password_keeps_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ROOTPATH", str(tmp_path / "r"))
    monkeypatch.setenv("SVC_ADMIN_PASSWORD", "correct horse")
    monkeypatch.setenv("SVC_ADMIN_USERNAME", "ann")
    monkeypatch.setenv("NODE_HOSTNAME", "h")
    monkeypatch.setenv("TC_AGREEMENT", "yes")
    place_token_keys(tmp_path / "r")
    assert main(["install"]) == 0
    assert "SVC_ADMIN_PASSWORD" not in os.environ
    assert not (tmp_path / "r" / "initial-admin-password").exists()
    assert read_document(tmp_path / "r" / "svc-config.yaml")["node"]["hostname"] == "h"
    assert "correct horse" not in "".join(capsys.readouterr())
    for file in (tmp_path / "r").rglob("*"):
        assert not file.is_file() or b"correct horse" not in file.read_bytes()


def test_an_invalid_configuration_stops_with_the_contracts_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_document(tmp_path / "svc-config.yaml", {"http": {"port": 9927}})
    assert main(["--ROOTPATH", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        "svc config file validation error: http.port and http.securePort cannot be the same value (svc-config.yaml line 2)\n"
    )
    assert not (tmp_path / "svc.pid").exists()
    write_document(tmp_path / "svc-config.yaml", {})
    assert main(["--ROOTPATH", str(tmp_path), "--LOGGING_LEVEL", "loud"]) == 1
    assert capsys.readouterr().err.startswith("svc config file validation error: 'logging.level' must be one of")


def test_a_second_server_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from svc.root.lock import RootLock

    write_document(tmp_path / "svc-config.yaml", {})
    with RootLock(tmp_path):
        assert main(["--ROOTPATH", str(tmp_path), "--HTTP_PORT", "8080"]) == 4
        assert capsys.readouterr().err.startswith(f"Error: svc is already running (pid: {os.getpid()})\nsvc stop ends it")
    assert read_document(tmp_path / "svc-config.yaml") == {}


def test_a_named_directory_is_checked_whatever_else_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    (home / ".svc").mkdir(parents=True)
    (home / ".svc" / "svc_boot_properties.file").write_text(f"settings_path={tmp_path}/gone/svc-config.yaml\ninstall_user=nobody\n")
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "empty").mkdir()
    assert main(["check", str(tmp_path / "empty")]) == 1
    assert "There are no databases" in capsys.readouterr().err


def test_check_without_databases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"There are no databases in {tmp_path}\n"


def test_check_reports_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = tmp_path / "database" / "shop"
    database.mkdir(parents=True)
    (database / "data.mdb").write_bytes(b"not LMDB" * 1000)
    assert main(["check", str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith("shop: 1 fault; ")


def test_a_misspelt_command_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stauts"]) == 1
    assert capsys.readouterr().err == 'The "stauts" command is not understood. Did you mean status?\n'


def test_an_operation_does_not_import_the_server(tmp_path: Path) -> None:
    code = "import sys; from svc.cli import main; main(['list_users']); main(['help', 'insert'])"
    code += "; print(sorted({'lmdb', 'svc.server', 'svc.store'} & {*sys.modules}))"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "svc must be running" in done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
