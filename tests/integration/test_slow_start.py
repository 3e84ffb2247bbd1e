"""A server that had to compile all of svc, and could not keep that for the next start, says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import svc
from svc.bytecode import advice
from tests.integration.conftest import LIMIT, Process
from tests.support.forked import run_command
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

NOWHERE = "/dev/null/compiled"  # where no user can make a file


def test_it_is_in_the_log_and_in_the_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.pycache_prefix", NOWHERE)
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    said = advice(Path(svc.__file__).parent)
    process = Process(tmp_path / "root", None, env={"PYTHONPYCACHEPREFIX": NOWHERE}, forked=False).start()
    try:

        def lines() -> list[str]:
            return [line.partition("[warn]: ")[2] for line in process.logged().splitlines() if "without cached bytecode" in line]

        wait_until(lambda: said in lines(), process.logged)
        assert lines() == [said]
        assert process.operate("get_status").json()["slowStart"] == said
        environment = {"HOME": str(tmp_path), "ROOTPATH": str(process.root)}
        shown = run_command(["status", "--json"], cwd=tmp_path, env=environment, timeout=LIMIT)
        assert json.loads(shown.stdout)["svc"]["slow start"] == said
    finally:
        process.kill()


def test_servers_that_are_started_as_usual_do_not(server: Process) -> None:
    assert "bytecode" not in server.logged()
    assert "slowStart" not in server.operate("get_status").json()
