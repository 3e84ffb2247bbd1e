"""docs/deploying-applications.md: its commands are carried out, in its order, and do what it says. And `svc deploy` where something is wrong."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_cli import Machine
from tests.support.prepared import place_token_keys

pytestmark = pytest.mark.programs

PAGE = (Path(__file__).parents[2] / "docs" / "deploying-applications.md").read_text("utf-8")
BAD = "def f(:\n"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("home"))
    place_token_keys(machine.root)
    machine.env |= {"SVC_ADMIN_PASSWORD": "secret-word"}
    for name, _, text in re.findall(r"^`(shop/[\w.]+)`\n\n```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        (machine.home / name).parent.mkdir(exist_ok=True)
        (machine.home / name).write_text(text)
    assert len(list((machine.home / "shop").iterdir())) == 3
    machine.fine("start")
    yield machine
    machine.run("stop")


def test_the_commands_of_the_page_work(machine: Machine) -> None:
    commands = [
        line
        for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
        if line.startswith("svc ")
    ]
    assert len(commands) >= 14
    deployment_id = ""
    for command in commands:
        if "db.example" in command or "packages.example" in command or command == "svc restart":
            continue  # elsewhere, or `restart` below
        words = shlex.split(
            command.replace("deployment_id=...", f"deployment_id={deployment_id}").replace("/srv/apps/shop", str(machine.home / "shop"))
        )[1:]
        done = machine.run(*words)
        assert done.returncode == 0, (command, done.stderr)
        if words[0] == "deploy":
            deployment_id = json.loads(done.stdout)["deployment_id"]
            if words == ["deploy", "shop"]:
                steps = re.search(r"^```\n(packed shop.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
                assert steps is not None
                for step in steps[1].splitlines():
                    assert any(line.startswith(step) for line in done.stderr.splitlines()), (step, done.stderr)
        if words[0] == "get_status":
            assert json.loads(done.stdout)["restartRequired"] is True
        if words[0] == "get_component_file":
            assert json.loads(done.stdout)["message"].startswith("rest: true")
        if words[0] == "drop_component":
            machine.fine("deploy", "shop")  # the page goes on with it
    with tarfile.open(machine.home / "shop-backup.tar.gz") as archive:
        assert {"config.yaml", "schema.graphql", "resources.py"} <= set(archive.getnames())


def test_the_error_of_the_page_is_what_is_said(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "resources.py").write_text(BAD)
    done = machine.run("deploy", cwd=tmp_path / "shop")
    assert done.returncode == 1
    assert done.stdout == ""
    shown = re.search(r"^```\n(error: .*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)
    assert shown is not None and shown[1] in done.stderr


def test_a_terminal_shows_bars_and_the_message(machine: Machine) -> None:
    shown = machine.on_terminal("deploy", "shop")
    assert "packing shop" in shown
    assert "sending" in shown
    assert "Successfully deployed: shop, restarting svc" in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["deploy", "nowhere"], "The folder nowhere does not exist"),
        (["deploy"], "does not look like an application"),
        (["deploy", "shop", "shop"], "takes no argument"),
        (["deploy", "shop", "payload=x"], "packs a directory itself"),
        (["deploy", "shop", "package=acme/shop"], "one of them is enough"),
        (["deploy", "shop", "projct=x"], "Did you mean project?"),
        (["deploy", "shop", "project=../x"], "project=NAME gives it another one"),
        (["deploy", "shop", "project=rest"], "'force' must be true"),
        (["deploy", "package=left-pad"], "Package reference not supported: left-pad"),
        (["deploy", "shop", "target=http://127.0.0.1:1"], "cannot be reached"),
        (["package"], "needs a name or a directory"),
        (["package", "nothing-of-this-name"], "does not exist"),
    ],
)
def test_what_cannot_be_done_is_said(machine: Machine, words: list[str], text: str) -> None:
    done = machine.run(*words)
    assert done.returncode == 1
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_remote_server_wants_a_login_before_anything_is_sent(machine: Machine) -> None:
    done = machine.run("deploy", "shop", f"target={machine.url}")
    assert done.returncode == 1
    assert "Must login" in done.stderr
    assert "sent to" not in done.stderr
    done = machine.run("deploy", "shop", f"target={machine.url}", "username=admin", "password=secret-word")
    assert done.returncode == 0, done.stderr
    done = machine.run("package", "shop", f"target={machine.url}", "username=admin", "password=secret-word", "out=remote.tar.gz")
    assert done.returncode == 0, done.stderr
    assert tarfile.is_tarfile(machine.home / "remote.tar.gz")


def test_links_that_lead_out_are_not_packed(machine: Machine, tmp_path: Path) -> None:
    app = tmp_path / "linked"
    app.mkdir()
    (app / "config.yaml").touch()
    (app / "secret").symlink_to("/etc/passwd")
    for words in (["deploy", str(app)], ["package", str(app)]):
        done = machine.run(*words, cwd=tmp_path)
        assert done.returncode == 1
        assert "secret is a link to /etc/passwd, which is not inside the directory" in done.stderr
    assert not list(tmp_path.glob("*.tar.gz"))


def test_what_svc_packs_tar_reads(machine: Machine, tmp_path: Path) -> None:
    app = tmp_path / "app"
    (app / "web" / "deep").mkdir(parents=True)
    (app / "web" / "deep" / "a.txt").write_text("a")
    (app / "web" / "b.txt").symlink_to("deep/a.txt")
    for name in (".git", "__pycache__", ".venv", "node_modules", ".packages"):
        (app / name).mkdir()
        (app / name / "x").write_text("x")
    assert machine.run("package", ".", "out=../out.tar.gz", cwd=app).returncode == 0
    listed = subprocess.run(["tar", "tzf", tmp_path / "out.tar.gz"], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(listed) == ["./", "web/", "web/b.txt", "web/deep/", "web/deep/a.txt"]
