"""A row of the outbox -> the bytes that a server of mail takes (RFC 5322, RFC 2045): text, or text and HTML."""

from __future__ import annotations

from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from svc.mail.outbox import OutgoingMail

_QUOTED = 1 << 16  # characters of a text up to which it stays readable in the mail; quoting more takes long


def message_bytes(mail: OutgoingMail, message_id: str, sender: tuple[str, str], created_ms: float) -> bytes:
    """`sender`: name and address. The same arguments give the same headers, in their order; what separates the parts is new each time.

    To be called on a helper thread: of a large mail it takes some tens of milliseconds.
    """
    message = EmailMessage(policy=SMTP)
    name, address = sender
    message["From"] = _address(name, address)
    message["To"] = _address("", mail.to)
    message["Subject"] = mail.subject
    message["Date"] = format_datetime(datetime.fromtimestamp(created_ms / 1000, UTC))
    message["Message-ID"] = message_id
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's automatic reply is wanted
    message.set_content(mail.text, cte=_encoding(mail.text))
    if mail.html is not None:
        message.add_alternative(mail.html, subtype="html", cte=_encoding(mail.html))
    return message.as_bytes()


def _address(name: str, address: str) -> Address:
    local, _, domain = address.rpartition("@")
    return Address(name, local, domain)


def _encoding(text: str) -> str:
    return "quoted-printable" if len(text) <= _QUOTED else "base64"
