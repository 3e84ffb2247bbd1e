"""The server that takes mails (SMTP, RFC 5321), over a connection that is kept while there is more to send.

It runs on a thread of its own, with a loop of its own: aiosmtplib may be interrupted at any time, and neither the handshake of TLS nor a large mail holds
the loop of the instance. A connection is no longer waited for after CONNECT_SECONDS, a mail after SEND_SECONDS, however slowly the server talks.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine
from dataclasses import dataclass
from threading import Lock
from typing import Any

from aiosmtplib import SMTP
from aiosmtplib.errors import (
    SMTPDataError,
    SMTPException,
    SMTPRecipientRefused,
    SMTPRecipientsRefused,
    SMTPResponseException,
    SMTPSenderRefused,
)

from svc.config.sections import MailSection
from svc.mail.outbox import MAX_ERROR

CONNECT_SECONDS = 30.0  # for connection, TLS and login together
SEND_SECONDS = 120.0  # for one mail
PORTS = {"starttls": 587, "implicit": 465, "none": 25}
_NOT_AVAILABLE = 421  # the server closes the connection: this says nothing of the mail
_TOO_LARGE = 552


@dataclass(frozen=True, slots=True)
class Envelope:
    """What is sent: from which address to which one, and the bytes of the mail."""

    sender: str
    recipient: str
    content: bytes


class MailRefused(Exception):
    """The server does not take this mail. `is_final`: it never will (5xx)."""

    def __init__(self, text: str, *, is_final: bool) -> None:
        super().__init__(text)
        self.is_final = is_final


class ServerUnavailable(Exception):
    """The server cannot be reached, does not let us in, or has not answered: it may have taken the mail or not. `is_about_mail`: it was there until then."""

    def __init__(self, text: str, *, is_about_mail: bool = False) -> None:
        super().__init__(text)
        self.is_about_mail = is_about_mail


class SmtpServer:
    """`send` and `close` are called on one thread, which may be another one at each time; `abort` on any."""

    def __init__(self, settings: MailSection, own_name: str) -> None:
        """`own_name`: what this machine calls itself."""
        self._settings = settings
        self._own_name = own_name
        self._lock = Lock()  # of `_loop` and `_task`
        self._runner: asyncio.Runner | None = None
        self._task: asyncio.Task[Any] | None = None
        self._is_aborted = False
        self._client: SMTP | None = None
        self._context: ssl.SSLContext | None = None

    def send(self, envelope: Envelope) -> None:
        """Returns when the server has accepted the mail. Raises MailRefused, ServerUnavailable."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        try:
            self._run(self._runner, self._send(envelope))
        except (asyncio.CancelledError, ServerUnavailable):
            if self._is_aborted:
                raise ServerUnavailable("svc is about to stop") from None
            raise

    def close(self) -> None:
        """Take leave of the server, if there is a connection. Another `send` makes a new one."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        try:
            self._run(runner, self._leave())
        except asyncio.CancelledError:
            pass
        finally:
            runner.close()

    def abort(self) -> None:
        """What is under way ends at once, and so does what follows."""
        with self._lock:
            self._is_aborted = True
            if self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._interrupt, self._task)

    def _interrupt(self, task: asyncio.Task[Any]) -> None:
        """On its thread. The connection ends as well: what is cancelled in the moment of an answer may go on with that (`asyncio.wait_for` of Python 3.11)."""
        task.cancel()
        self._drop()

    def _run(self, runner: asyncio.Runner, work: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            with self._lock:
                self._task = asyncio.current_task()
                if self._is_aborted:
                    raise asyncio.CancelledError
            try:
                await work
            finally:
                with self._lock:
                    self._task = None

        try:
            runner.run(run())
        finally:
            work.close()

    async def _send(self, envelope: Envelope) -> None:
        client = await self._connected()
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await client.sendmail(envelope.sender, [envelope.recipient], envelope.content)
        except SMTPRecipientsRefused as error:
            await self._after(error.recipients[0], client)
        except (SMTPSenderRefused, SMTPDataError, SMTPRecipientRefused) as error:
            await self._after(error, client)
        except TimeoutError:
            self._drop()
            raise ServerUnavailable("the server has not answered in time", is_about_mail=True) from None
        except (SMTPException, OSError, ValueError) as error:
            self._drop()
            raise ServerUnavailable(_text(error), is_about_mail=True) from None

    async def _after(self, error: SMTPResponseException, client: SMTP) -> None:
        """The server has refused. Raises what that means."""
        text, code = f"{error.code} {error.message}"[:MAX_ERROR], error.code
        is_about_server = code == _NOT_AVAILABLE or (isinstance(error, SMTPSenderRefused) and code != _TOO_LARGE)
        if is_about_server or not 400 <= code < 600:
            self._drop()
            raise ServerUnavailable(text) from None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await client.rset()
        except (TimeoutError, SMTPException, OSError):
            self._drop()
        raise MailRefused(text, is_final=code >= 500) from None

    async def _connected(self) -> SMTP:
        client = self._client
        if client is not None and client.is_connected:
            return client
        self._drop()
        settings = self._settings
        assert settings.host is not None
        try:
            if self._context is None and settings.tls != "none":
                authority = settings.certificate_authority
                self._context = ssl.create_default_context(cafile=None if authority is None else str(authority))
            client = self._client = SMTP(
                hostname=settings.host.strip("[]"),
                port=settings.port or PORTS[settings.tls],
                local_hostname=self._own_name,
                timeout=CONNECT_SECONDS,
                use_tls=settings.tls == "implicit",
                start_tls=settings.tls == "starttls",
                tls_context=self._context,
            )
            async with asyncio.timeout(CONNECT_SECONDS):
                await client.connect()
                if settings.username is not None and settings.password is not None:
                    await client.login(settings.username, settings.password)
        except TimeoutError:
            self._drop()
            raise ServerUnavailable("the server has not answered in time") from None
        except (SMTPException, OSError, ValueError) as error:
            self._drop()
            raise ServerUnavailable(_text(error)) from None
        return client

    async def _leave(self) -> None:
        client = self._client
        if client is None or not client.is_connected:
            return
        try:
            async with asyncio.timeout(2.0):
                await client.quit()
        except (TimeoutError, SMTPException, OSError):
            pass
        finally:
            self._drop()

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _text(error: BaseException) -> str:
    """What went wrong, without secrets: the server's words, or those of the system."""
    if isinstance(error, SMTPResponseException):
        return f"{error.code} {error.message}"[:MAX_ERROR]
    return (str(error) or type(error).__name__)[:MAX_ERROR]
