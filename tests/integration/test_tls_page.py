"""docs/tls.md, line by line, against the program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from svc.config import Config
from svc.tls.mtls import Mtls
from tests.integration.conftest import PASSWORD, Process, free_port
from tests.integration.test_readme import ROOT, examples
from tests.support.certificates import authority

pytestmark = pytest.mark.programs

PAGE = ROOT / "docs" / "tls.md"
LIMIT = 60.0
MTLS = '{"certificateVerification": {"failureMode": "fail-closed"}}'


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


class Reader:
    """Somebody at a shell who has a server with `mtls`, and types what the page says."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.server = Process(home / "svc", env={"HTTP_SECUREPORT": str(self.port), "HTTP_MTLS": MTLS, "HOME": str(home)}, own_keys=False)
        self.server.start()
        programs = home / "bin"
        programs.mkdir()
        (programs / "svc").write_text(f'#!/bin/sh\nexec {sys.executable} -m svc "$@"\n')
        (programs / "svc").chmod(0o755)
        (programs / "python3").symlink_to(sys.executable)

    def type(self, command: str) -> str:
        environment = {
            "PATH": f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "ROOTPATH": str(self.home / "svc"),
            "LOGIN": f"admin:{PASSWORD}",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        command = command.replace("localhost:9927", f"localhost:{self.port}")
        done = subprocess.run(["bash", "-ec", command], cwd=self.home, env=environment, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    reader = Reader(tmp_path_factory.mktemp("tls-page"))
    yield reader
    assert reader.server.stop() == 0


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("openssl")), reason="curl or openssl is not installed")
def test_commands(reader: Reader) -> None:
    """In the order of the page: later ones build on earlier ones."""
    pair = authority().make("shop.example", ("shop.example",))
    (reader.home / "shop.pem").write_bytes(pair.pem)
    (reader.home / "shop.key").write_bytes(pair.key_pem)
    scripts = [script for script in blocks("sh") if not script.startswith("svc dev")]  # tests/integration/test_tls.py starts that
    lines = examples(PAGE)
    assert len(scripts) == 2 and len(lines) == 3
    command, expected = lines[0]
    printed = reader.type(command)
    if "HTTP2" not in reader.type("curl --version"):
        printed = printed.replace("1.1 ", "2 ")
    assert printed == expected
    assert "Successfully added certificate: shop" in reader.type(scripts[0])
    reader.type(scripts[1])
    for command, expected in lines[1:]:
        assert reader.type(command).rstrip("\n") == expected.rstrip("\n"), command


def test_settings(tmp_path: Path) -> None:
    documents = [yaml.safe_load(block) for block in blocks("yaml")]
    assert len(documents) == 5
    for document in documents:
        config = Config.from_document(document, tmp_path)
        assert not [note for level, note in config.notes if level == "warn"], document
        Mtls.from_setting(config.http.mtls)


def test_rows_on_mtls(tmp_path: Path) -> None:
    rows = re.findall(r"^\| `(true|\{.*?\})` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    found = [Mtls.from_setting(Config.from_document({"http": {"mtls": yaml.safe_load(row)}}, tmp_path).http.mtls) for row in rows]
    assert all(mtls is not None for mtls in found)
    kinds = [(mtls.required, mtls.user, mtls.by_name, mtls.revocation is not None) for mtls in found if mtls is not None]
    assert kinds == [
        (False, None, True, False),
        (True, None, True, False),
        (False, "ann", False, False),
        (True, None, False, False),
        (False, None, True, True),
    ]
