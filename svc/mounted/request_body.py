"""The body of a request on its way to an application that receives it piece by piece (spec: asgi §1.2)."""

from __future__ import annotations

from collections.abc import Callable

from svc.messages import Request

HIGH_WATER = 256 * 1024  # bytes that the application has not received, at which the client is held back
COLLECTED = 256 * 1024  # bytes of a body up to which it is collected first: then an application may answer without receiving it


class RequestBody:
    """A `connection.exchange.BodyChannel`. `on_arrival`: called when there is something new."""

    handles_early = True

    def __init__(self) -> None:
        self.on_change: Callable[[BaseException | None], None] = _ignore
        self.on_arrival: Callable[[], None] = _nothing
        self.is_lost = False
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_complete = False
        self._is_taken = False  # to its end

    # --- the connection --------------------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> bool:
        self._pieces.append(data)
        self._size += len(data)
        self.on_arrival()
        return self._size < HIGH_WATER

    def finish(self, done: object) -> None:
        self._is_complete = True
        self.on_arrival()

    def discard(self) -> None:
        """The client is gone, or the answer has begun: the rest does not come."""
        if not self._is_complete:
            self.is_lost = True
            self._pieces, self._size = [], 0
            self.on_arrival()

    @property
    def held(self) -> int:
        return self._size

    # --- the application -------------------------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Nothing is to be taken any more."""
        return self._is_taken or self.is_lost

    def take(self) -> tuple[bytes, bool] | None:
        """(what has arrived, whether more follows); None if nothing has."""
        if self.is_over or not (self._pieces or self._is_complete):
            return None
        pieces, self._pieces = self._pieces, []
        self._size = 0
        self._is_taken = self._is_complete
        if not self._is_complete:
            self.on_change(None)
        return b"".join(pieces), not self._is_complete


def body_of_request(request: Request) -> RequestBody | None:
    """For a body that is not here yet: how to receive it. None: it is collected."""
    length = request.block.fields.get("content-length", "")
    return None if length.isdecimal() and int(length[:20]) <= COLLECTED else RequestBody()


def _ignore(error: BaseException | None) -> None:
    pass


def _nothing() -> None:
    pass
