"""What is logged about clients (spec: mqtt §11): all of it with `mqtt.logging`, without that only the messages that were refused, in the main log."""

from __future__ import annotations

from collections.abc import Callable

from svc.logs.core import INFO, WARN, SectionLog

PERIOD = 60.0  # seconds in which a message of one client to one topic that is refused again is only counted
REMEMBERED = 1000  # clients and topics in one period: of others only the number is logged
SHOWN = 200  # characters of what a client has sent


class ClientLog:
    """Of one instance. What clients have sent is cut, and escaped where it is not printable."""

    def __init__(self, log: SectionLog, now: Callable[[], float]) -> None:
        self._log = log
        self._now = now
        self._refused: dict[tuple[str, str], tuple[float, int]] = {}  # when the period is over, how many were left out; the oldest first
        self._others = 0
        self._others_until = 0.0

    def connected(self, client_id: str, username: str | None, peer: str, version: int, transport: str) -> None:
        if self._log.is_own:
            name = "anonymous" if username is None else f"user {_shown(username)}"
            said = f"{name}, MQTT {'5' if version == 5 else '3.1.1'} over {transport}"
            self._write(INFO, f"{_shown(client_id)} has connected: {said}, client: {peer}")

    def refused(self, client_id: str, username: str | None, peer: str, reason: int, message: str) -> None:
        """CONNECT was."""
        if self._log.is_own:
            name = "" if username is None else f" of user {_shown(username)}"
            self._write(
                WARN, f"a connection of {_shown(client_id)}{name} was refused with {reason:#04x}{_because(message)}, client: {peer}"
            )

    def ended(self, client_id: str, peer: str, why: str, *, is_fault: bool) -> None:
        """`client_id`: "" before CONNECT. `is_fault`: it is the client's, or ours."""
        if self._log.is_own:
            text = f"the connection of {_shown(client_id) or 'a client'} has ended: {_cut(why)}, client: {peer}"
            self._write(WARN if is_fault else INFO, text)

    def message_refused(self, client_id: str, topic: str, reason: int, message: str) -> None:
        """A message that was not written. At QoS 0, and in 3.1.1, its client does not get to know."""
        if self._level < self._log.threshold:
            return
        now = self._now()
        pair = (client_id, topic)
        found = self._refused.get(pair)
        if found is not None and now < found[0]:
            self._refused[pair] = (found[0], found[1] + 1)
            return
        if found is not None:
            self._tell_left_out(pair)
        elif len(self._refused) >= REMEMBERED:
            if not self._others:
                self._others_until = now + PERIOD
            self._others += 1
            return
        self._refused[pair] = (now + PERIOD, 0)
        self._write(self._level, f"a message of {_shown(client_id)} to {_shown(topic)} was refused with {reason:#04x}{_because(message)}")

    def sweep(self, now: float) -> None:
        """About once a second: say how many were left out in the periods that are over."""
        while self._refused:
            pair, (until, _) = next(iter(self._refused.items()))
            if now < until:
                break
            self._tell_left_out(pair)
        if self._others and now >= self._others_until:
            count, self._others = self._others, 0
            self._write(self._level, f"{count} messages to other topics were refused")

    def _tell_left_out(self, pair: tuple[str, str]) -> None:
        _, count = self._refused.pop(pair)
        if count:
            self._write(self._level, f"{count} more messages of {_shown(pair[0])} to {_shown(pair[1])} were refused")

    @property
    def _level(self) -> int:
        """Of messages that were refused."""
        return WARN if self._log.is_own else INFO

    def _write(self, level: int, text: str) -> None:
        if level >= self._log.threshold:
            self._log.write(level, "mqtt", ("mqtt",), (text,))


def _because(message: str) -> str:
    return f": {_cut(message)}" if message else ""


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN and text.isprintable() else _shown(text)


def _shown(text: str) -> str:
    """
    >>> _shown("sensor 1"), _shown("a\\nb")
    ('sensor 1', 'a\\\\nb')
    """
    text = text[:SHOWN]
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
