"""A connection to an engine, own or of another node: the only module that knows nats-py.

What nats-py does by itself and must not do here:

- It connects again by itself, and what was published meanwhile raises TimeoutError *and is delivered later*. So a connection that fails is over, once and for
  all; who needs another opens it, and publishing is guarded by the expected sequence.
- It reads what a peer sends without limit. Here the bytes that wait, for one message and for one subscription, have one, above which the connection ends.
- It introduces itself before anyone has looked at the certificate of the other end. `check` is called between the handshake and CONNECT.
- It says that a connection has failed only after an orderly end of TLS, for which an engine that hangs lets it wait.
- It logs tracebacks, and tries again for ever if nobody listens.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import ParseResult

import msgspec
from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription
from nats.aio.transport import TcpTransport
from nats.protocol.parser import Parser

from svc.cluster.signing import SigningKey

CONNECT_SECONDS = 5.0  # for each step of a connection
OPEN_SECONDS = 20.0  # for all of them
PING_SECONDS, PINGS_MAX = 5, 1  # an engine that hangs is noticed after at most two intervals
UNREAD_MAX = 4 << 20  # bytes of a message, or of what follows it, that wait to be complete
UNSENT_MAX = 2 << 20  # bytes that wait to be sent; who publishes more waits
WAITING_MAX = 4 << 20  # bytes of a subscription that wait to be taken
WAITING_MESSAGES_MAX = 100_000
_NOBODY = 503  # status of an answer of the engine

logger = logging.getLogger("svc.cluster")
logging.getLogger("nats").setLevel(logging.CRITICAL)  # what fails is said by `Connection.reason`


class ConnectFailed(Exception):
    """No connection: a sentence for the log."""


class Unavailable(Exception):
    """No answer, and it is not known whether what was sent has arrived."""


class Message(msgspec.Struct):
    """`status`: of a message of the engine itself, such as 408; 0: it is none."""

    subject: str
    reply: str
    headers: Mapping[str, str]
    data: bytes
    status: int = 0


OnMessage = Callable[[Message], None]


@dataclass(frozen=True, slots=True)
class Address:
    """`tls`: None for a plain port. `check`: called with the other end's certificate (DER, None: it has none) once TLS has verified it; raises
    ConnectFailed."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    check: Callable[[bytes | None], None] = lambda certificate: None
    handshake_first: bool = True

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'nats' if self.tls is None else 'tls'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to log in: with a key of which the engine knows the public part, a token that names it (`jwt`), name and password, or a word (`token`)."""

    key: SigningKey | None = None
    jwt: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)


class _Transport(TcpTransport):
    """That of nats-py, which looks at the certificate of the other end, and whose end waits for nobody."""

    def __init__(self, address: Address) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._address = address

    async def connect_tls(self, uri: str | ParseResult, ssl_context: ssl.SSLContext, buffer_size: int, connect_timeout: int) -> None:
        if self._address.tls is None:
            raise ConnectFailed("it wants TLS, which is not configured")
        assert self._io_writer is not None
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = _Protocol(reader)
        plain = cast(asyncio.Transport, self._io_writer.transport)
        name = uri if isinstance(uri, str) else uri.hostname
        transport = await asyncio.wait_for(loop.start_tls(plain, protocol, ssl_context, server_hostname=name), connect_timeout)
        assert transport is not None
        self._io_reader, self._io_writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)
        session = self._io_writer.get_extra_info("ssl_object")
        self._address.check(session.getpeercert(True))

    def __bool__(self) -> bool:
        return True  # or nats-py puts one of its own in its place before it connects

    @property
    def is_encrypted(self) -> bool:
        return self._io_writer is not None and self._io_writer.get_extra_info("ssl_object") is not None

    def close(self) -> None:
        """An engine that hangs does not take part in the end of TLS."""
        if self._io_writer is not None:
            self._io_writer.transport.abort()


class _Protocol(asyncio.StreamReaderProtocol):
    def eof_received(self) -> bool:
        super().eof_received()
        return False  # TLS ends with it, which asyncio would otherwise complain about


class _Parser(Parser):
    """That of nats-py, with an end to what it gathers."""

    async def parse(self, data: bytes = b"") -> None:
        if len(self.buf) + len(data) > UNREAD_MAX or self.needed > UNREAD_MAX:
            raise errors.ProtocolError
        try:
            await super().parse(data)
        except Exception as error:  # whatever the other end has sent is no protocol of the engine
            raise errors.ProtocolError from error


class _Client(Client):
    """That of nats-py. `on_failure`: called at once when the connection fails; nats-py says so only when it has closed everything, which may take long."""

    def __init__(self, address: Address, on_failure: Callable[[Exception], None]) -> None:
        super().__init__()
        # There is no other way to give it these two; test_client notices when they are gone.
        self._transport = self.transport = _Transport(address)
        self._ps = _Parser(self)
        self._on_failure = on_failure

    async def _process_op_err(self, e: Exception) -> None:
        self._on_failure(e)
        self.transport.close()
        with suppress(Exception):
            await super()._process_op_err(e)


class Subscription:
    """What arrives under a subject. `stop` is harmless when done."""

    def __init__(self, inner: NatsSubscription) -> None:
        self._inner = inner

    async def stop(self) -> None:
        with suppress(errors.Error, OSError):
            await self._inner.unsubscribe()


class Connection:
    """One that is open, until it is closed: for good, see above. `reason`: why. `on_closed`: functions that are called with it, once, also after `close`."""

    def __init__(self, address: Address) -> None:
        self.on_closed: set[Callable[[str], None]] = set()
        self._client = _Client(address, self._failed)
        self._closing: asyncio.Task[None] | None = None
        self.is_closed = False
        self.reason = ""
        self.bytes_out = 0
        self.bytes_in = 0
        self._answers = ""  # where they arrive: the start of the subjects
        self._requests: dict[str, asyncio.Future[Message]] = {}  # by the rest of the subject
        self._number = 0

    # --- opening and closing -----------------------------------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        address: Address,
        name: str,
        inbox: str,
        *,
        credentials: Credentials | None = None,
    ) -> Connection:
        """`name`: shown by the engine. `inbox`: the start of the subjects of answers. Raises ConnectFailed."""
        connection = cls(address)
        try:
            await connection._open(address, name, inbox, credentials)
        except ConnectFailed as error:
            await connection.close(str(error))
            raise
        except Exception as error:
            await connection.close(_text(error))
            raise ConnectFailed(connection.reason) from None
        except BaseException:
            connection.abort("given up")
            raise
        return connection

    async def _open(self, address: Address, name: str, inbox: str, credentials: Credentials | None) -> None:
        client = self._client
        async with asyncio.timeout(OPEN_SECONDS):
            await client.connect(
                address.url,
                name=name,
                inbox_prefix=inbox,
                tls=address.tls,
                tls_handshake_first=address.tls is not None and address.handshake_first,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=cast(int, CONNECT_SECONDS),
                ping_interval=PING_SECONDS,
                max_outstanding_pings=PINGS_MAX,
                pending_size=UNSENT_MAX,
                error_cb=self._note,
                closed_cb=self._ended,
                **_login(client, credentials),
            )
        if address.tls is not None and not client.transport.is_encrypted:
            raise ConnectFailed("it does not use TLS")
        if self.is_closed:
            raise ConnectFailed(self.reason)
        if not client.is_connected:  # nats-py takes any answer to its first PING
            raise ConnectFailed("it answers something else")
        self._answers = self.new_inbox()
        await self.subscribe(f"{self._answers}.*", self._take_answer)

    async def close(self, reason: str = "closed") -> None:
        """What was published and not sent yet may be lost. Harmless when done."""
        self._close(reason)
        with suppress(Exception):
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._client.close()
        self._client.transport.close()

    def abort(self, reason: str) -> None:
        """Close it without waiting."""
        self._close(reason)
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self.close(reason))

    def _close(self, reason: str) -> None:
        self.reason = self.reason or reason
        if not self.is_closed:
            self.is_closed = True
            callbacks, self.on_closed = self.on_closed, set()
            for callback in callbacks:
                callback(self.reason)
            for request in list(self._requests.values()):
                if not request.done():
                    request.set_exception(Unavailable(self.reason))

    def _failed(self, error: Exception) -> None:
        self._close(_text(error))

    async def _note(self, error: Exception) -> None:
        """What nats-py calls for each error, also for those that end nothing."""
        if isinstance(error, errors.SlowConsumerError):
            self.abort("it sends more than was asked for")
        elif "permissions violation" in str(error).lower():
            self.abort(_text(error))
        else:
            self.reason = self.reason or _text(error)

    async def _ended(self) -> None:
        self._close("the connection was closed")

    # --- what it says of itself --------------------------------------------------------------------------------------------------------

    @property
    def version(self) -> str:
        """Of the engine."""
        return str(self._client._server_info.get("version", ""))

    @property
    def server(self) -> str:
        """The key of the engine, another one with each of its starts."""
        return str(self._client._server_info.get("server_id", ""))

    @property
    def max_payload(self) -> int:
        """Bytes of a message, with its headers."""
        return self._client.max_payload

    async def latency(self, seconds: float = CONNECT_SECONDS) -> float:
        """Seconds to the engine and back. Raises Unavailable."""
        try:
            return await self._client.rtt(cast(int, seconds))
        except (TimeoutError, errors.Error, OSError) as error:
            raise Unavailable(_text(error)) from None

    async def settle(self) -> None:
        """Returns when the engine has got everything that was said before, such as that something is subscribed to or not. To the own engine only. Raises
        Unavailable."""
        # A PING overtakes what nats-py has not written yet; a message to ourselves does not.
        with self._answer(CONNECT_SECONDS) as (subject, future):
            await self.publish(subject)
            await future

    # --- messages ----------------------------------------------------------------------------------------------------------------------

    async def publish(self, subject: str, data: bytes = b"", headers: Mapping[str, str] | None = None, reply: str = "") -> None:
        """Raises Unavailable, also for what is larger than `max_payload`."""
        if self.is_closed:
            raise Unavailable(self.reason)
        self.bytes_out += len(data)
        try:
            await self._client.publish(subject, data, reply=reply, headers=dict(headers) if headers else None)
        except (errors.Error, OSError, AssertionError) as error:
            raise Unavailable(_text(error)) from None

    async def request(self, subject: str, data: bytes = b"", headers: Mapping[str, str] | None = None, *, seconds: float) -> Message:
        """The first answer. Raises Unavailable: nobody is there, or none has come in this time."""
        with self._answer(seconds) as (reply, future):
            await self.publish(subject, data, headers, reply)
            return await future

    @contextmanager
    def _answer(self, seconds: float) -> Iterator[tuple[str, asyncio.Future[Message]]]:
        """(subject of a message to come, the message)."""
        loop = asyncio.get_running_loop()
        self._number += 1
        number = str(self._number)
        future: asyncio.Future[Message] = loop.create_future()
        self._requests[number] = future
        timer = loop.call_later(seconds, self._give_up, future)
        try:
            yield f"{self._answers}.{number}", future
        finally:
            timer.cancel()
            del self._requests[number]
            if future.done() and not future.cancelled():
                future.exception()  # it may have failed while `publish` did

    @staticmethod
    def _give_up(future: asyncio.Future[Message]) -> None:
        if not future.done():
            future.set_exception(Unavailable("no answer in time"))

    def _take_answer(self, message: Message) -> None:
        future = self._requests.get(message.subject.rpartition(".")[2])
        if future is None or future.done():
            return
        if message.status == _NOBODY:
            future.set_exception(Unavailable("nobody answers there"))
        else:
            future.set_result(message)

    async def subscribe(self, subject: str, on_message: OnMessage, *, waiting_max: int = WAITING_MAX) -> Subscription:
        """`on_message`: must not fail. `waiting_max`: bytes; when more wait to be taken, the connection ends. Raises Unavailable."""
        if self.is_closed:
            raise Unavailable(self.reason)

        async def take(message: Msg) -> None:
            try:
                on_message(self._taken(message))
            except Exception:
                logger.exception("a message under %s cannot be taken", subject)
                self.abort("a message cannot be taken")

        try:
            inner = await self._client.subscribe(subject, cb=take, pending_bytes_limit=waiting_max, pending_msgs_limit=WAITING_MESSAGES_MAX)
        except (errors.Error, OSError, AssertionError) as error:
            raise Unavailable(_text(error)) from None
        return Subscription(inner)

    def new_inbox(self) -> str:
        """A subject for answers that nobody else can guess."""
        return self._client.new_inbox()

    def _taken(self, message: Msg) -> Message:
        headers = message.headers or {}
        status = headers.get("Status", "")
        self.bytes_in += len(message.data)
        return Message(
            message.subject,
            message.reply,
            headers,
            message.data,
            int(status) if status.isascii() and status.isdigit() and len(status) == 3 else 0,
        )


def _login(client: Client, credentials: Credentials | None) -> dict[str, Any]:
    if credentials is None:
        return {}
    if credentials.key is not None:
        key = credentials.key
        client._public_nkey = key.public
        found: dict[str, Any] = {"signature_cb": key.sign_nonce}
        if credentials.jwt:
            found["user_jwt_cb"] = credentials.jwt.encode
        return found
    if credentials.token:
        return {"token": credentials.token}
    return {"user": credentials.user, "password": credentials.password}


def _text(error: BaseException) -> str:
    """One line."""
    if isinstance(error, errors.NoServersError):
        return "it cannot be reached"
    if isinstance(error, asyncio.TimeoutError | errors.TimeoutError):
        return "no answer in time"
    if isinstance(error, errors.UnexpectedEOF | errors.StaleConnectionError):
        return (
            "the other end has closed the connection"
            if isinstance(error, errors.UnexpectedEOF)
            else "the other end does not answer any more"
        )
    text = " ".join(str(error).split()).removeprefix("nats: ").strip("'")
    return text or type(error).__name__
