"""The client of mail servers, against a server that is not ours (aiosmtpd) and servers that misbehave."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.config import Config
from svc.mail import smtp
from svc.mail.message import message_bytes
from svc.mail.outbox import OutgoingMail
from svc.mail.smtp import Envelope, MailRefused, ServerUnavailable, SmtpServer
from tests.support import certificates
from tests.support.ports import free_port
from tests.support.smtp_server import BadServer, MailServer

Make = Callable[..., SmtpServer]
FROM = ("Shop", "shop@example.org")


def envelope(to: str = "ann@example.org", text: str = "Hello") -> Envelope:
    content = message_bytes(OutgoingMail(to, "Welcome", text, "<p>Hello</p>"), "<1@example.org>", FROM, 0.0)
    return Envelope(FROM[1], to, content)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[SmtpServer] = []

    def make(port: int, **settings: Any) -> SmtpServer:
        section = {"host": "localhost", "port": port, "tls": "none", "from": "shop@example.org"} | settings
        config = Config.from_document({"mail": section}, tmp_path)
        assert config.mail is not None
        made.append(SmtpServer(config.mail, "node.example.org"))
        return made[-1]

    yield make
    for server in made:
        server.close()


def test_mails_are_delivered_over_one_connection(make: Make) -> None:
    with MailServer() as server:
        client = make(server.port)
        for text in ("first", ".\r\n..\r\nQUIT\r\nsecond", "third ä" * 10_000):
            client.send(envelope(text=text))
        client.close()
        client.send(envelope(text="fourth"))
    texts = [mail.message.get_body(("plain",)) for mail in server.taken]
    assert [text.get_content().rstrip() for text in texts if text is not None] == [
        "first",
        ".\r\n..\r\nQUIT\r\nsecond",
        "third ä" * 10_000,
        "fourth",
    ]
    (mail, *_) = server.taken
    assert (mail.sender, mail.recipients, mail.is_encrypted) == ("shop@example.org", ["ann@example.org"], False)


@pytest.mark.parametrize("mode", ["starttls", "implicit"])
def test_tls_and_a_login(make: Make, mode: str) -> None:
    with MailServer(context=certificates.server_context(), is_implicit=mode == "implicit", user=("shop", "secret ä")) as server:
        authority = str(certificates.authority().file)
        client = make(server.port, tls=mode, certificateAuthority=authority, username="shop", password="secret ä")
        client.send(envelope())
        (mail,) = server.taken
        assert mail.user == "shop" and (mail.is_encrypted or mode == "implicit")
        wrong = make(server.port, tls=mode, certificateAuthority=authority, username="shop", password="wrong")
        with pytest.raises(ServerUnavailable) as raised:
            wrong.send(envelope())
        assert str(raised.value).startswith("535") and "wrong" not in str(raised.value) and not raised.value.is_about_mail
    assert len(server.taken) == 1


@pytest.mark.parametrize("mode", ["starttls", "implicit"])
def test_a_certificate_of_an_unknown_authority_is_refused(make: Make, mode: str) -> None:
    with (
        MailServer(context=certificates.server_context(), is_implicit=mode == "implicit") as server,
        pytest.raises(ServerUnavailable, match="certificate"),
    ):
        make(server.port, tls=mode).send(envelope())
    assert server.taken == []


def test_without_tls_on_the_other_side_nothing_is_sent(make: Make) -> None:
    with MailServer() as server, pytest.raises(ServerUnavailable, match="STARTTLS"):
        make(server.port, tls="starttls", username="shop", password="secret").send(envelope())
    assert server.taken == [] and server.logins == []


@pytest.mark.parametrize(
    ("command", "answer", "is_final"),
    [
        ("RCPT", "550 no such user", True),
        ("RCPT", "450 greylisted", False),
        ("DATA", "554 looks like spam", True),
        ("DATA", "451 try later", False),
        ("MAIL", "552 too large", True),
    ],
)
def test_what_the_server_says_of_a_mail(make: Make, command: str, answer: str, is_final: bool) -> None:
    with MailServer() as server:
        server.answers[command].append(answer)
        client = make(server.port)
        with pytest.raises(MailRefused) as raised:
            client.send(envelope())
        assert (str(raised.value), raised.value.is_final) == (answer, is_final)
        client.send(envelope())  # the connection goes on
    assert len(server.taken) == 1


@pytest.mark.parametrize(
    ("command", "answer"), [("MAIL", "550 not your address"), ("MAIL", "421 closing"), ("RCPT", "421 closing"), ("DATA", "421 closing")]
)
def test_what_the_server_says_of_us(make: Make, command: str, answer: str) -> None:
    with MailServer() as server:
        server.answers[command].append(answer)
        client = make(server.port)
        with pytest.raises(ServerUnavailable, match=answer[:3]) as raised:
            client.send(envelope())
        assert not raised.value.is_about_mail
        client.send(envelope())
    assert len(server.taken) == 1


def test_nobody_listens(make: Make) -> None:
    with pytest.raises(ServerUnavailable):
        make(free_port()).send(envelope())
    with pytest.raises(ServerUnavailable):
        make(25, host="no-such-host.invalid").send(envelope())


def _greet(connection: socket.socket, *answers: bytes) -> None:
    """Greet, and answer each line."""
    connection.sendall(b"220 here\r\n")
    lines = connection.makefile("rb")
    for answer in answers:
        lines.readline()
        connection.sendall(answer)


BEHAVIOURS: dict[str, Callable[[socket.socket], None]] = {
    "hangs up": lambda connection: None,
    "is no server of mail": lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "is closed": lambda connection: connection.sendall(b"554 go away\r\n"),
    "sends a line without an end": lambda connection: [connection.sendall(b"2" * 65_536) for _ in range(64)] and None,  # type: ignore[func-returns-value]
    "sends answers without an end": lambda connection: [connection.sendall(b"220-x\r\n" * 1000) for _ in range(64)] and None,  # type: ignore[func-returns-value]
    "hangs up in the middle": lambda connection: _greet(connection, b"250 here\r\n", b"250 OK\r\n", b"250 OK\r\n", b"354 go on\r\n"),
    "says what is no answer": lambda connection: _greet(connection, b"250 here\r\n", b"abc\r\n", b"250 OK\r\n"),
    "says what is not one of its answers": lambda connection: _greet(
        connection, b"250 here\r\n", b"250 OK\r\n", b"250 OK\r\n", b"299 what\r\n"
    ),
}


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_a_server_that_misbehaves(make: Make, name: str) -> None:
    with BadServer(BEHAVIOURS[name]) as server:
        with pytest.raises(ServerUnavailable) as raised:
            make(server.port).send(envelope())
        assert len(str(raised.value)) <= 1000


def _trickle(connection: socket.socket) -> None:
    """A byte at a time, for as long as the client listens."""
    _greet(connection, b"250 here\r\n")
    while connection.recv(1):
        connection.sendall(b"2")


def test_a_server_that_never_ends_is_not_waited_for(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp, "SEND_SECONDS", 0.05)
    with BadServer(_trickle) as server, pytest.raises(ServerUnavailable, match="has not answered in time") as raised:
        make(server.port).send(envelope())
    assert raised.value.is_about_mail
    monkeypatch.setattr(smtp, "CONNECT_SECONDS", 0.05)
    with BadServer(lambda connection: connection.recv(1) and None) as server, pytest.raises(ServerUnavailable, match="in time"):
        make(server.port).send(envelope())


def test_what_is_under_way_can_be_aborted(make: Make) -> None:
    client: SmtpServer

    def behave(connection: socket.socket) -> None:
        _greet(connection, b"250 here\r\n")
        client.abort()
        connection.recv(1000)
        connection.recv(1000)

    with BadServer(behave) as server:
        client = make(server.port)
        with pytest.raises(ServerUnavailable, match="about to stop"):
            client.send(envelope())
        with pytest.raises(ServerUnavailable, match="about to stop"):
            client.send(envelope())
        client.close()
