"""What the section `mail` may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svc.config import Config
from svc.config.mail_address import parse_address, parse_mailbox
from svc.errors import ConfigError

SERVER = {"host": "smtp.example.org", "from": "shop@example.org"}


def test_without_a_section_there_is_no_mail(tmp_path: Path) -> None:
    assert Config.from_document({}, tmp_path).mail is None
    assert Config.from_document({"mail": False}, tmp_path).mail is None


def test_the_section(tmp_path: Path) -> None:
    mail = Config.from_document(
        {"mail": SERVER | {"from": "The shop <shop@example.org>", "port": 2525, "username": "shop", "password": "secret"}}, tmp_path
    ).mail
    assert mail is not None
    assert (mail.host, mail.port, mail.tls, mail.sender, mail.hourly_limit) == (
        "smtp.example.org",
        2525,
        "starttls",
        ("The shop", "shop@example.org"),
        20,
    )
    assert (mail.username, mail.password) == ("shop", "secret")
    assert "secret" not in repr(mail)


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ({}, "'mail.host' is missing: the SMTP server that takes mails, such as smtp.example.org"),
        ({"host": "smtp://x"}, "'mail.host' must be the name or the address of an SMTP server"),
        ({"host": "a b"}, "'mail.host' must be the name or the address of an SMTP server"),
        ({"host": "smtp.example.org"}, "'mail.from' is missing: the sender of mails, such as shop@example.org"),
        (SERVER | {"from": "shop"}, "'mail.from' must be the address of one mailbox, such as ann@example.org"),
        (SERVER | {"from": "a@b.c\r\nBcc: d@e.f"}, "'mail.from' must be the address of one mailbox"),
        (SERVER | {"from": "A\r\nBcc: d@e.f <a@b.c>"}, "'mail.from' must have a name that can be printed before its address"),
        (SERVER | {"from": ["a@b.c"]}, "'mail.from' must be the address of one mailbox"),
        (SERVER | {"port": 0}, "'mail.port' must be larger than or equal to 1"),
        (SERVER | {"port": "smtp"}, "'mail.port' must be a whole number"),
        (SERVER | {"tls": "ssl"}, "'mail.tls' must be one of [starttls, implicit, none]"),
        (SERVER | {"username": "shop"}, "'mail.password' is missing: that of 'mail.username'"),
        (SERVER | {"password": "x"}, "'mail.username' is missing: whose password is 'mail.password'"),
        (SERVER | {"username": "shop", "password": "a\nb"}, "'mail.password' must be characters that can be printed"),
        (SERVER | {"hourlyLimit": 0}, "'mail.hourlyLimit' must be larger than or equal to 1"),
    ],
    ids=str,
)
def test_what_is_wrong(tmp_path: Path, section: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Config.from_document({"mail": section}, tmp_path)
    assert any(text.startswith(fault) for text in raised.value.faults)
    assert "secret" not in str(raised.value)


def test_development_needs_no_server(tmp_path: Path) -> None:
    assert Config.from_document({"mail": {}}, tmp_path, dev=True).mail is not None


def test_a_password_in_the_clear_is_warned_of(tmp_path: Path) -> None:
    def notes(**more: str) -> list[str]:
        section = SERVER | {"tls": "none", "username": "shop", "password": "secret"} | more
        return [text for _, text in Config.from_document({"mail": section}, tmp_path).notes]

    assert any("'mail.tls' is none" in text for text in notes())
    assert notes(host="localhost") == []


@pytest.mark.parametrize(
    "address",
    ["", "ann", "ann@", "@b.c", "a@b@c", "a b@c.d", "a@b c", "a@-b.c", "a@b..c", "a@b.c\n", "a.@b.c", ".a@b.c", "a..b@c.d", "jörg@b.c", "a@\u2028.c", 1],
)  # fmt: skip
def test_what_is_no_address(address: object) -> None:
    with pytest.raises(ValueError, match="must be the address of one mailbox"):
        parse_address(address)


def test_names_of_mailboxes() -> None:
    assert parse_mailbox('"The shop" <shop@example.org>') == ("The shop", "shop@example.org")
    assert parse_mailbox("<shop@example.org>") == ("", "shop@example.org")
    with pytest.raises(ValueError, match="must be the address"):
        parse_mailbox("A <a@b.c> <d@e.f>")
