"""`server.config` (spec: http §12.7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc.config import Config
from svc.server.shown_configuration import shown_configuration


def test_it_has_the_form_of_the_file_with_the_defaults(tmp_path: Path) -> None:
    document = {
        "http": {"port": 1234, "securePort": None, "corsAccessList": ["https://a.example"]},
        "shop": {"package": "shop", "more": [{"deep": 1}]},
        "componentsRoot": "apps",
    }
    shown = shown_configuration(Config.from_document(document, tmp_path))
    assert (shown["http"]["port"], shown["http"]["securePort"]) == (1234, None)
    assert shown["http"]["timeout"] == 120_000  # ms, as in the file
    assert shown["http"]["corsAccessList"] == ("https://a.example",)
    assert shown["shop"]["more"][0]["deep"] == 1
    assert shown["rootPath"] == str(tmp_path)
    assert shown["componentsRoot"] == str(tmp_path / "apps")
    assert shown["authentication"]["cookie"]["expires"] is None
    assert "replication" not in shown
    assert document["http"] == {"port": 1234, "securePort": None, "corsAccessList": ["https://a.example"]}


def test_the_password_of_the_mail_server_is_not_shown(tmp_path: Path) -> None:
    mail = {"host": "smtp.example.org", "from": "a@b.c", "username": "a", "password": "x"}
    shown = shown_configuration(Config.from_document({"mail": mail}, tmp_path))
    assert shown["mail"]["password"] == "***" and shown["mail"]["host"] == "smtp.example.org" and mail["password"] == "x"
    assert "mail" not in shown_configuration(Config.from_document({}, tmp_path))


def test_it_cannot_be_changed(tmp_path: Path) -> None:
    shown = shown_configuration(Config.from_document({"shop": {"package": "shop"}}, tmp_path))
    with pytest.raises(TypeError):
        shown["http"] = {}  # type: ignore[index]
    with pytest.raises(TypeError):
        shown["http"]["port"] = 1
    with pytest.raises(TypeError):
        shown["shop"]["package"] = "other"


def test_sections_in_another_form_stay_as_they_are(tmp_path: Path) -> None:
    shown = shown_configuration(Config.from_document({"tls": [{"certificate": "a.pem", "privateKey": "b.pem"}]}, tmp_path))
    assert shown["tls"][0]["certificate"] == "a.pem"
