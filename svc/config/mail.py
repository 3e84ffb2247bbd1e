"""What the section `mail` may say: rules that concern several of its keys (spec: rows §2.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[?[0-9A-Fa-f:.]+\]?", re.ASCII)
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1", "[::1]"))

Fault = tuple[str, str]
"""(sentence, dotted name of the value at fault)."""


def mail_faults(values: Mapping[str, Any], *, dev: bool = False) -> Iterator[Fault]:
    """`values`: of the settings, by dotted name. `dev`: of `svc dev`, which keeps mails if there is no server.

    >>> [text for text, _ in mail_faults({"mail.host": "smtp.example.org", "mail.username": "shop"})]
    ["'mail.from' is missing: the sender of mails, such as shop@example.org", "'mail.password' is missing: that of 'mail.username'"]
    """

    def fault(key: str, text: str) -> Fault:
        return f"'mail.{key}' {text}", f"mail.{key}"

    host, username, password = values.get("mail.host"), values.get("mail.username"), values.get("mail.password")
    if host is None and not dev:
        yield fault(
            "host", "is missing: the SMTP server that takes mails, such as smtp.example.org. Only `svc dev` goes without, and keeps them"
        )
    elif host is not None and not _HOST.fullmatch(host):
        yield fault("host", "must be the name or the address of an SMTP server, such as smtp.example.org; its port is 'mail.port'")
    if values.get("mail.from") is None and host is not None:
        yield fault("from", "is missing: the sender of mails, such as shop@example.org")
    if username is not None and password is None:
        yield fault("password", "is missing: that of 'mail.username'")
    if password is not None and username is None:
        yield fault("username", "is missing: whose password is 'mail.password'")
    for key, value in (("username", username), ("password", password)):
        if value is not None and (not value or not value.isprintable()):
            yield fault(key, "must be characters that can be printed")


def mail_warnings(values: Mapping[str, Any]) -> Iterator[Fault]:
    """What is allowed and probably not meant."""
    if values.get("mail.tls") == "none" and values.get("mail.password") is not None and values.get("mail.host") not in _LOOPBACK:
        yield "'mail.tls' is none: the password, and all mails, are sent to another machine in the clear", "mail.tls"
