"""The bytes of mails, read by the parser of the standard library."""

from __future__ import annotations

from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

import pytest

from svc.mail.message import message_bytes
from svc.mail.outbox import OutgoingMail

SENDER = ('Jörgs Laden, "Nord"', "shop@example.org")
CREATED = 1_767_225_600_000.0


def parsed(mail: OutgoingMail) -> EmailMessage:
    content = message_bytes(mail, "<1@example.org>", SENDER, CREATED)
    assert content.isascii() and all(len(line) <= 998 for line in content.split(b"\r\n"))
    assert b"\n" not in content.replace(b"\r\n", b"")
    found = message_from_bytes(content, policy=default)
    assert isinstance(found, EmailMessage)
    return found


def test_text_alone() -> None:
    found = parsed(OutgoingMail("ann@example.org", "Grüße, Ann", "Hallo\n.\nFrom here\n" + "ä" * 2000))
    assert (found["To"], found["Subject"], found["Message-ID"]) == ("ann@example.org", "Grüße, Ann", "<1@example.org>")
    (sender,) = found["From"].addresses
    assert (sender.display_name, sender.addr_spec) == SENDER
    assert found["Date"].datetime.timestamp() * 1000 == CREATED
    assert found["Auto-Submitted"] == "auto-generated"
    assert found.get_content_type() == "text/plain"
    assert found.get_content().replace("\r\n", "\n") == "Hallo\n.\nFrom here\n" + "ä" * 2000 + "\n"


@pytest.mark.parametrize("size", [1, 200_000])
def test_text_and_html(size: int) -> None:
    found = parsed(OutgoingMail("ann@example.org", "x", "Hallo\n" * size, "<p>Hallo €</p>\n" * size))
    text, html = found.iter_parts()
    assert isinstance(text, EmailMessage) and isinstance(html, EmailMessage)
    assert (text.get_content_type(), html.get_content_type()) == ("text/plain", "text/html")
    assert text.get_content() == "Hallo\r\n" * size and html.get_content() == "<p>Hallo €</p>\r\n" * size


@pytest.mark.parametrize("subject", ["x" * 500, "ä" * 500, 'a: b; c="d" <e@f.g>, =?utf-8?q?x?=', "", " "])
def test_any_subject(subject: str) -> None:
    found = parsed(OutgoingMail("ann@example.org", subject, ""))
    assert [name for name in found if name not in ("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version")] == [
        "Content-Type",
        "Content-Transfer-Encoding",
    ]
