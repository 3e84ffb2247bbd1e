"""Addresses of mail as accounts have them: one form for each mailbox, so that an address is that of one account (spec: rows §2.2)."""

from __future__ import annotations

from svc.config.mail_address import parse_address
from svc.errors import ClientError

BAD_ADDRESS = "BAD_ADDRESS"


def canonical_address(text: object) -> str:
    """The form in which the address of an account is stored and looked up: without white space around it, in lower case.

    Servers may tell `Ann@` from `ann@`, none that people use does; two accounts for one mailbox would be worse. Raises ClientError 400 `BAD_ADDRESS`.

    >>> canonical_address(" Ann@Example.org ")
    'ann@example.org'
    """
    try:
        return parse_address(text.strip() if isinstance(text, str) else text).lower()
    except ValueError as error:
        raise ClientError(f"'email' {error}", code=BAD_ADDRESS) from None


def maybe_address(text: object) -> str | None:
    """The same; None for what is none."""
    try:
        return canonical_address(text)
    except ClientError:
        return None
