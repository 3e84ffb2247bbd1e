"""Addresses of mail, as the configuration and mails have them: one mailbox, in a form that every server takes (RFC 5321 §4.1.2)."""

from __future__ import annotations

import re

MAX_ADDRESS = 254  # characters (RFC 3696, erratum 1690)
MAX_LOCAL = 64
MAX_NAME = 200  # characters of the name before an address

_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*", re.ASCII)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_NAMED = re.compile(r"\s*(\"?)([^\"<>]*)\1\s*<([^<>]*)>\s*")


def parse_address(text: object) -> str:
    """The address of one mailbox, its domain in ASCII (IDNA) and lower case. Raises ValueError with the predicate of a sentence.

    >>> parse_address("Ann.Lee@Example.org"), parse_address("ann@bücher.example")
    ('Ann.Lee@example.org', 'ann@xn--bcher-kva.example')
    >>> parse_address("ann@example.org, eve@example.org")
    Traceback (most recent call last):
    ValueError: must be the address of one mailbox, such as ann@example.org
    """
    local, at, domain = text.rpartition("@") if isinstance(text, str) and len(text) <= MAX_ADDRESS else ("", "", "")
    if at and not domain.isascii():
        try:
            domain = domain.encode("idna").decode("ascii")
        except UnicodeError:
            domain = ""
    if len(local) > MAX_LOCAL or not _LOCAL.fullmatch(local) or not _DOMAIN.fullmatch(domain) or len(local) + len(domain) >= MAX_ADDRESS:
        raise ValueError("must be the address of one mailbox, such as ann@example.org")
    return f"{local}@{domain.lower()}"


def parse_mailbox(text: object) -> tuple[str, str]:
    """(name, address) of `Name <address>` or of an address; the name is "" without one. Raises ValueError with the predicate of a sentence.

    >>> parse_mailbox("The shop <shop@example.org>"), parse_mailbox("shop@example.org")
    (('The shop', 'shop@example.org'), ('', 'shop@example.org'))
    """
    named = _NAMED.fullmatch(text) if isinstance(text, str) and len(text) <= MAX_ADDRESS + MAX_NAME else None
    if named is None:
        return "", parse_address(text)
    name = named[2].strip()
    if not name.isprintable() or len(name) > MAX_NAME:
        raise ValueError("must have a name that can be printed before its address")
    return name, parse_address(named[3].strip())
