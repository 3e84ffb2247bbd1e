"""Secrets read from files and standard input."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from svc.cli.arguments import UsageError
from svc.cli.operation_arguments import read_arguments
from svc.cli.secret_input import MAX_SECRET, read_secret
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
        Field("username", "string", "Name."),
        Field("password", "string", "Its.", required=True, secret=True),
        Field("key", "string", "A key.", secret=True),
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
    words = read_arguments(["username=ann", f"password_file={file}", f"key_file={file}"], ADD_USER)
    assert words.body == {"username": "ann", "password": "a=b [1]", "key": "a=b [1]"}
    words = read_arguments(["wall=n", f"auth_password_file={file}", "auth_username=x", "target=db"], ROW)
    assert words.parameters["auth_password"] == "a=b [1]"
    words = read_arguments(["wall=n", f"password_file={file}", "username=x", "target=db"], ROW)
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
        read_arguments(line.split(), ADD_USER)
    assert text in str(raised.value)
