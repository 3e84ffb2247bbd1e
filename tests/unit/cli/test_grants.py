"""`svc grant`, `svc revoke`, `svc grants`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from svc.cli import grants, main
from tests.support.cli import FakeAnswer, FakeClient

LISTED = {"attribute_name": "name", "read": True, "insert": False, "update": True}
NO = {"insert": False, "update": False, "delete": False}
ROLES = [
    {"id": "super_user", "role": "super_user", "permission": {"super_user": True}},
    {
        "id": "x",
        "role": "clerk",
        "permission": {"structure_user": ["garden"], "data": {"tables": {"plant": {"read": True, **NO, "delete": True}}}},
    },
    {
        "id": "y",
        "role": "anonymous",
        "permission": {"data": {"tables": {"plant": {"read": True, **NO, "attribute_permissions": [LISTED]}}}},
    },
]


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SVC_CLI_TARGET", raising=False)
    monkeypatch.chdir(tmp_path)


def client(monkeypatch: pytest.MonkeyPatch, *answers: FakeAnswer) -> FakeClient:
    made = FakeClient(*answers)
    monkeypatch.setattr(grants, "local_client", lambda arguments: made)
    return made


def test_a_grant_is_one_operation(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made = client(monkeypatch, FakeAnswer({"message": "The role clerk may read data.plant", "warning": "shop/roles.yaml brings it"}))
    assert main(["grant", "clerk", "read,insert", "plant.name"]) == 0
    assert made.sent == [{"operation": "grant", "role": "clerk", "rights": ["read", "insert"], "on": "plant.name"}]
    told = capsys.readouterr()
    assert (told.out, told.err) == ("The role clerk may read data.plant\n", "warning: shop/roles.yaml brings it\n")


def test_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    client(monkeypatch, FakeAnswer({"error": "clerk role not found"}, 404))
    assert main(["revoke", "clerk", "read", "plant"]) == 1
    assert capsys.readouterr().err == "error: clerk role not found\n"


@pytest.mark.parametrize("words", [[], ["clerk", "read"], ["clerk", "read", "plant", "name"]])
def test_how_it_is_used(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grant", *words]) == 1
    assert "svc grant anonymous read Product" in capsys.readouterr().err


def test_what_there_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    client(monkeypatch, FakeAnswer(ROLES))
    assert main(["grants", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"role": "super_user", "on": "everything", "rights": "all"},
        {"role": "clerk", "on": "garden", "rights": "all, and its structure"},
        {"role": "clerk", "on": "data.plant", "rights": "read, delete"},
        {"role": "anonymous", "on": "data.plant.name", "rights": "read, update"},
    ]
    client(monkeypatch, FakeAnswer(ROLES))
    assert main(["grants", "clerk", "json=true"]) == 0
    assert {row["role"] for row in json.loads(capsys.readouterr().out)} == {"clerk"}
    client(monkeypatch, FakeAnswer(ROLES))
    assert main(["grants", "nobody"]) == 1
