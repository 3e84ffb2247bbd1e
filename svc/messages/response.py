"""Response: what a handler answers, the same for every protocol (architecture §11), and the bodies that are written when something happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

from svc.messages.headers import HeaderPairs, Headers


class FeedWriter(Protocol):
    """The writer of a feed: sends the body of one answer."""

    @property
    def pending(self) -> int:
        """Bytes written and not yet taken by the socket or the peer's flow control. Bytes written while this is large are held in memory."""

    def write(self, data: bytes) -> None:
        """Queue for the end of the turn. The bytes may be shared with other answers. Dropped after `end` and after `Feed.close`."""

    def end(self) -> None:
        """The body is complete."""


class Feed:
    """A body that is written when something happens, for as long as the peer listens. No deadline applies to it while it has nothing unsent."""

    def start(self, writer: FeedWriter) -> None:
        """The head is on its way; `writer.write` works from now on."""
        raise NotImplementedError

    def on_sent(self) -> None:
        """All that was written is sent: `pending` is 0 again. Called only after it was not, at the end of a turn."""

    def sweep(self, now: float) -> float | None:
        """About once a second, with `clock.monotonic()`: for keep-alive messages. Returns as `Receiver.sweep` does."""

    def drain(self, is_replaced: bool = False) -> None:
        """The server is stopping: call `writer.end()` soon. `is_replaced`: as of `Receiver.drain`."""

    def login_ended(self) -> None:
        """What let the caller in has ended (`auth.logins`): call `writer.end()` soon. Event streams are ended so, other answers are not."""
        self.drain()

    def close(self) -> None:
        """The feed is over: the peer closed, or `end` was called and all is sent. Called once, also if `start` never was; nothing follows."""


# A streamed body is pulled when the out-buffer has room. `b""` means: nothing yet, pull again in the next turn (a long scan yields).
BodyStream = Iterator[bytes] | AsyncIterator[bytes]


class Response:
    """A response. `data` is encoded in the content type that the client prefers, `body` is sent as it is.

    The header fields hold only what the handler decided: `Date`, `Content-Length` and the transfer coding are the server's.
    """

    # Inner layers read and write the fields as `pairs`, without a check; handlers use `headers`, which checks. Both are the same list.
    __slots__ = ("_headers", "body", "data", "pairs", "status")

    def __init__(
        self,
        body: bytes | str | BodyStream | Feed | None = None,
        status: int = 200,
        headers: Headers | dict[str, str] | None = None,
        data: Any = None,
        *,
        pairs: HeaderPairs | None = None,
    ) -> None:
        self.body = body
        self.status = status
        self.data = data
        self._headers: Headers | None = None
        if headers is not None:
            self._headers = headers if isinstance(headers, Headers) else Headers(headers)
            pairs = self._headers.pairs()
        self.pairs: HeaderPairs = [] if pairs is None else pairs

    @property
    def headers(self) -> Headers:
        if self._headers is None:
            self._headers = Headers.trusted(self.pairs)
        return self._headers

    def __repr__(self) -> str:
        return f"<Response {self.status}>"


class Abort(Exception):
    """Raised by a handler: answer with `response` now and undo what the request wrote (architecture §11)."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"answered with {response.status}")
        self.response = response
