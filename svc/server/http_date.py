"""The `Date` field of responses (RFC 9110 §6.6.1)."""

from __future__ import annotations

from email.utils import formatdate

from svc.clock import Clock


class HttpDate:
    """`value` is the field, formatted once a second."""

    __slots__ = ("_second", "_text", "_wall")

    def __init__(self, clock: Clock) -> None:
        self._wall = clock.wall
        self._second = -1
        self._text = ""

    def value(self) -> str:
        second = int(self._wall())
        if second != self._second:
            self._second = second
            self._text = formatdate(second, usegmt=True)
        return self._text
