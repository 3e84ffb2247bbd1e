"""A server of mail that is not ours (aiosmtpd), and one that behaves as badly as it is told."""

from __future__ import annotations

import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from tests.support.ports import free_port
from tests.support.waiting import wait_until


@dataclass
class TakenMail:
    """What the server has accepted."""

    sender: str
    recipients: list[str]
    content: bytes
    is_encrypted: bool
    user: str | None
    message: EmailMessage = field(init=False)

    def __post_init__(self) -> None:
        found = message_from_bytes(self.content, policy=default)
        assert isinstance(found, EmailMessage)
        self.message = found


class MailServer:
    """`taken`: in order. `answers`: what is said instead of accepting, the first one at the next `MAIL FROM`, `RCPT TO` or `DATA`, by the name of the command.
    `on_mail`: called when a mail is announced; `on_taken`: when it has been taken, before the client is told."""

    def __init__(
        self,
        *,
        context: ssl.SSLContext | None = None,
        is_implicit: bool = False,
        user: tuple[str, str] | None = None,
        port: int = 0,
    ) -> None:
        """`context`: of TLS, from the start if `is_implicit`. `user`: name and password, without which no mail is taken."""
        self.taken: list[TakenMail] = []
        self.logins: list[bool] = []
        self.answers: dict[str, list[str]] = {"MAIL": [], "RCPT": [], "DATA": []}
        self.on_mail: Callable[[], None] = lambda: None
        self.on_taken: Callable[[TakenMail], None] = lambda mail: None
        self._user = user
        options: dict[str, Any] = {"server_hostname": "mail.example.org"}
        if context is not None and not is_implicit:
            options |= {"tls_context": context, "require_starttls": True}
        if user is not None:
            options |= {
                "authenticator": self._authenticate,
                "auth_required": True,
                "auth_require_tls": context is not None and not is_implicit,
            }
        self._controller = _Controller(
            self, hostname="127.0.0.1", port=port, ssl_context=context if is_implicit else None, ready_timeout=60, **options
        )
        self._controller.port = port or free_port()

    @property
    def port(self) -> int:
        found: int = self._controller.port
        return found

    def __enter__(self) -> MailServer:
        self._controller.start()
        return self

    def __exit__(self, *error: object) -> None:
        with warnings.catch_warnings(action="ignore"):  # it leaves connections that are not over to the garbage collection
            self._controller.stop()
            gc.collect()

    def wait_for(self, count: int) -> list[TakenMail]:
        """The mails, as soon as there are so many."""
        wait_until(lambda: len(self.taken) >= count, lambda: f"{len(self.taken)} of {count} mails have come")
        return self.taken

    def _authenticate(self, server: SMTP, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        is_right = isinstance(data, LoginPassword) and (data.login.decode(), data.password.decode()) == self._user
        self.logins.append(is_right)
        if is_right:
            session.user = data.login.decode()
        return AuthResult(success=is_right, handled=is_right)

    # --- hooks of aiosmtpd ------------------------------------------------------------------------------------------------------------------

    async def handle_MAIL(self, server: SMTP, session: Any, envelope: Any, address: str, options: list[str]) -> str:
        self.on_mail()
        if self.answers["MAIL"]:
            return self.answers["MAIL"].pop(0)
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(self, server: SMTP, session: Any, envelope: Any, address: str, options: list[str]) -> str:
        if self.answers["RCPT"]:
            return self.answers["RCPT"].pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Any) -> str:
        if self.answers["DATA"]:
            return self.answers["DATA"].pop(0)
        mail = TakenMail(
            envelope.mail_from, list(envelope.rcpt_tos), envelope.content, session.ssl is not None, getattr(session, "user", None)
        )
        self.taken.append(mail)
        self.on_taken(mail)
        return "250 OK"


class _Controller(Controller):
    """Without a warning of a login without TLS: the connection may have that from the start."""

    def factory(self) -> SMTP:
        with warnings.catch_warnings(action="ignore"):
            return super().factory()


class BadServer:
    """A server that runs `behave` with each connection, in a thread, and then hangs up."""

    def __init__(self, behave: Callable[[socket.socket], None]) -> None:
        self._behave = behave
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> BadServer:
        self._start(self._accept)
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join()

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._start(lambda connection=connection: self._serve(connection))  # type: ignore[misc]

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._behave(connection)
            except OSError:
                pass
