"""Secrets: read from files and standard input, erased from what a process was started with."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from svc.cli.arguments import UsageError
from svc.cli.secrets import MAX_SECRET, read_secret, secret_values
from svc.cli.words import read_words
from svc.operations.fields import Field
from svc.operations.operation import SUPER_USER, Operation
from tests.support.cli import ROW

ADD_USER = Operation(
    "add_user",
    "users",
    "Add.",
    SUPER_USER,
    lambda call: None,
    (
        Field("username", "text", "Name."),
        Field("password", "text", "Its.", required=True, secret=True),
        Field("key", "text", "A key.", secret=True),
        Field("role", "any", "Role."),
    ),
)


@pytest.mark.parametrize(
    ("content", "secret"),
    [("abc\n", "abc"), ("abc", "abc"), ("abc\r\n", "abc"), (" a b \n", " a b "), ("a\nb\n", "a\nb"), ("\u00e9\n", "\u00e9")],
)
def test_files_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, secret: str) -> None:
    (tmp_path / "p").write_bytes(content.encode())
    assert read_secret("password", str(tmp_path / "p")) == secret
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode()), encoding="utf-8"))
    assert read_secret("password", "-") == secret


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "it is empty"),
        (b"\n", "it is empty"),
        (b"\xff\n", "it is not UTF-8"),
        (b"x" * (MAX_SECRET + 1), f"it is longer than {MAX_SECRET} characters"),
        (None, "No such file or directory"),
    ],
)
def test_what_is_no_secret(tmp_path: Path, content: bytes | None, text: str) -> None:
    if content is not None:
        (tmp_path / "p").write_bytes(content)
    with pytest.raises(UsageError) as raised:
        read_secret("password", str(tmp_path / "p"))
    assert str(raised.value) == f"password cannot be read from {tmp_path / 'p'}: {text}"


def test_words(tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text("a=b [1]\n")
    words = read_words(["username=ann", f"password_file={file}", f"key_file={file}"], ADD_USER)
    assert words.body == {"username": "ann", "password": "a=b [1]", "key": "a=b [1]"}
    words = read_words(["wall=n", f"auth_password_file={file}", "auth_username=x", "target=db"], ROW)
    assert words.parameters["auth_password"] == "a=b [1]"
    words = read_words(["wall=n", f"password_file={file}", "username=x", "target=db"], ROW)
    assert words.parameters["password"] == "a=b [1]" and words.body == {"wall": "n"}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("password=x password_file=y", "password and password_file are given: one of them is enough"),
        ("password=x role_file=y", "add_user has no field role_file. Did you mean role?"),
        ("username=ann", "add_user needs password: svc add_user password_file=-"),
    ],
)
def test_words_that_are_not_taken(line: str, text: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_words(line.split(), ADD_USER)
    assert text in str(raised.value)


def test_only_secrets_are_found_in_a_block() -> None:
    assert not list(secret_values(b"MY_SVC_ADMIN_PASSWORD=x\0SVC_ADMIN_PASSWORDS=x\0SVC_ADMIN_PASSWORD=\0--SVC_ADMIN_PASSWORD=\0x\0"))
    assert list(secret_values(b"svc_Admin_password=abc\0")) == [(19, 3)]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no proc file system")
def test_the_process_shows_them_no_more(tmp_path: Path) -> None:
    """What other programs of the user see, while the process and its own variables go on as before."""
    code = """
import os, sys
from svc.cli.secrets import erase_secrets
password = os.environ.pop("SVC_ADMIN_PASSWORD")
erase_secrets()
shown = open("/proc/self/environ", "rb").read() + open("/proc/self/cmdline", "rb").read()
assert password == "correct horse 1" and sys.argv[-1] == "battery staple 2", (password, sys.argv)
assert b"BEFORE=before" in shown and b"AFTER=after" in shown and b"--SVC_ADMIN_PASSWORD" in shown
assert b"horse" not in shown and b"staple" not in shown, shown
assert os.environ["AFTER"] == "after"
"""
    env = {"PATH": os.environ["PATH"], "BEFORE": "before", "SVC_ADMIN_PASSWORD": "correct horse 1", "AFTER": "after"}
    env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    script = tmp_path / "script.py"
    script.write_text(code)
    command = [sys.executable, str(script), "run", "--SVC_ADMIN_PASSWORD", "battery staple 2"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
