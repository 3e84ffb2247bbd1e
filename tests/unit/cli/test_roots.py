"""Where a command has looked for a server, and where else there are some."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from svc.cli import main
from svc.cli.roots import MAX_NAMED, roots_of_user, without_server
from svc.config.document import write_document
from svc.root import lock
from svc.root.known_roots import remember_root
from svc.root.location import Installation, find_installation


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROOTPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lock, "running_pid", lambda root: 4242 if root.name == "busy" else None)
    return tmp_path


def add_root(home: Path, name: str) -> Path:
    root = home / name
    (root / "database").mkdir(parents=True)
    write_document(root / "svc-config.yaml", {})
    remember_root({"HOME": str(home)}, root / "svc-config.yaml")
    return root


def found(home: Path) -> Installation:
    return find_installation({"HOME": str(home)}, {})


def test_a_message_names_the_root_and_why_and_running_servers_first(home: Path) -> None:
    assert without_server(found(home)) == f"svc is not installed in {home}/svc (the default root). --ROOTPATH names another root."
    add_root(home, "idle")
    add_root(home, "busy")
    add_root(home, "svc")
    assert without_server(found(home)) == (
        f"No server runs in {home}/svc (the default root). Roots of this user: {home}/busy (running), {home}/idle (stopped);"
        " name one with --ROOTPATH."
    )
    for number in range(MAX_NAMED):
        add_root(home, f"r{number}")
    assert f"{home}/r2 (stopped), ...; name" in without_server(found(home))


def test_all_roots_with_their_states(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--all"]) == 0
    assert capsys.readouterr().out == "roots: []\n"
    add_root(home, "busy")
    gone = add_root(home, "gone")
    (gone / "svc-config.yaml").unlink()
    assert roots_of_user() == [
        {"root": f"{home}/busy", "status": "running", "pid": 4242},
        {"root": f"{home}/gone", "status": "not installed"},
    ]
    assert main(["status", "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"roots": roots_of_user()}
    assert main(["status", "--all"]) == 0
    assert capsys.readouterr().out.startswith(f"roots:\n- root: {home}/busy\n  status: running\n  pid: 4242\n")
