"""`svc status` of a server that does not answer. Everything else needs processes: tests/integration/test_processes.py."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from svc.cli import main
from svc.cli.client import Client
from svc.cli.target import ServerAddress


def test_the_status_of_a_server_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        monkeypatch.setattr("svc.cli.operations.local_client", lambda arguments: Client(ServerAddress(socket=tmp_path / "s")))
        monkeypatch.setattr("svc.cli.processes.STATUS_SECONDS", 0.01)
        assert main(["status", "--json", "--ROOTPATH", str(tmp_path)]) == 0
    assert "does not answer" in json.loads(capsys.readouterr().out)["svc"]["fault"]
