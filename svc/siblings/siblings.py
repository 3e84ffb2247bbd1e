"""What the parts of an instance know of the other processes over its data directory, and ask and tell them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from svc.clock import SYSTEM_CLOCK, Clock
from svc.siblings.channel import Channel, Function
from svc.siblings.leadership import Lead, Leadership
from svc.siblings.link import Answer
from svc.siblings.locks import Decision, SubjectLock, maybe_lock
from svc.siblings.presence import Presence

logger = logging.getLogger("svc.siblings")

DIRECTORY = ".siblings"
_FREE = "siblings.free"  # topic: something has nobody who leads it
_NODE = "node"  # what `is_leader` is about


class Siblings:
    """`number`: of this instance. `identity`: of this process, which no other ever has. `on_left`: called with the identity of a sibling that has ended.

    `on_lead`: called when this process has become the leader, but not if it is from the start. `on_resign`: called before it ceases to be, to end what it
    does as such.
    """

    def __init__(self, storage: Path, loop: asyncio.AbstractEventLoop, *, number: int | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        """`storage`: the data directory. `number`: the lowest that is free if none is given. Raises OSError."""
        self._directory = storage / DIRECTORY
        self._presence = Presence(self._directory, number, clock)
        self.number = self._presence.number
        self.identity = self._presence.identity
        self.on_left: list[Callable[[str], None]] = []
        self.on_lead: list[Callable[[], None]] = []
        self.on_resign: list[Callable[[], None]] = []
        self._channel = Channel(self._presence, loop, self._left)
        self.others: Mapping[str, object] = self._channel.links
        """By identity, as far as they are known here: empty if this process is alone."""
        self._has_resigned = False
        self._leaderships: set[Leadership] = set()
        self._node = self.lead(_NODE, lambda: _call(self.on_lead), lambda: _call(self.on_resign))
        self.answer(_FREE, lambda _: self._take_free())

    async def open(self) -> None:
        """From now on this process is asked and told, and `ask` and `tell` reach others. Raises OSError."""
        await self._channel.open()

    # --- who lives, who leads -----------------------------------------------------------------------------------------------------------

    def is_alive(self, identity: str) -> bool:
        """Whether the process of this identity lives. Three system calls; it need not have opened its channel."""
        return self._presence.is_alive(identity)

    @property
    def has_others(self) -> bool:
        """Whether another process is there, as far as is known here."""
        return bool(self.others)

    @property
    def is_leader(self) -> bool:
        """Whether this process does what is done once per node. It is from the start if it is alone."""
        return self._node.is_held

    def lead(self, subject: str, on_lead: Callable[[], None], on_resign: Callable[[], None] = lambda: None) -> Lead:
        """The same for what only some processes can do, such as to follow the source of a table: one of those that ask for this subject leads it.

        It leads at once if no other does; if not, `on_lead` is called when it does. Raises OSError.
        """
        found = Leadership(self._directory, subject, on_lead, on_resign)
        found.on_close = self._closed
        if self._may_lead():
            found.take()
        self._leaderships.add(found)
        return found

    def maybe_lock(self, subject: str, *, shared: bool = False) -> SubjectLock | None:
        """The lock of a subject, alone or `shared` with others; None: another process has it, or this one. Never waits. Raises OSError."""
        return maybe_lock(self._directory, subject, shared=shared)

    def decision(self, name: str) -> Decision:
        """One that several processes may make. `name`: which no other decision has, and a file may have."""
        return Decision(self._directory, name)

    def resign(self) -> None:
        """This process ends soon: others lead from now on, if there are any."""
        self._has_resigned = True
        if self._may_lead():
            return
        for each in list(self._leaderships):
            if each.is_held:
                _call([each.on_resign])
                each.give_up()
        self.tell(_FREE, None)

    def sweep(self, now: float) -> None:
        """Once a second: look for others that have come, and for what has nobody who leads it."""
        try:
            self._channel.look()
        except OSError as error:
            logger.error("the processes over the data directory cannot be looked for: %s", error)
        self._take_free()

    def _may_lead(self) -> bool:
        """One that ends leads only what nobody else could."""
        return not self._has_resigned or next(self._presence.others(), None) is None

    def _take_free(self, subject: str | None = None) -> None:
        waiting = [each for each in self._leaderships if not each.is_held and subject in (None, each.subject)]
        try:
            for each in waiting if waiting and self._may_lead() else ():
                if each.take():
                    logger.info("the process %s leads now: %s", self.identity, each.subject)
                    _call([each.on_lead])
        except OSError as error:
            logger.error("whether another process leads cannot be seen: %s", error)

    def _closed(self, leadership: Leadership) -> None:
        """The next version of an application may wait for the same subject in this process."""
        self._leaderships.discard(leadership)
        self._take_free(leadership.subject)

    def _left(self, identity: str) -> None:
        self._take_free()
        _call([lambda each=each: each(identity) for each in self.on_left])  # type: ignore[misc]

    # --- what they say to each other ----------------------------------------------------------------------------------------------------

    def answer(self, topic: str, function: Function) -> None:
        """How this process answers `ask`, and what it does for `tell`: `function(value)` returns a value, or an awaitable of one."""
        self._channel.functions[topic] = function

    async def ask(self, topic: str, value: Any, seconds: float) -> list[Answer]:
        """The answers of all others that live, in the order of their numbers. One that has not answered after `seconds` is among them, with an error.

        Values are what msgpack has a form for. Raises ValueError if this one is larger than 8 MB, TypeError if it is no such value.
        """
        return await self._channel.ask(topic, value, seconds)

    def tell(self, topic: str, value: Any) -> None:
        """To all others, as far as they are known here. Never waits; one that hangs may never hear of it. Raises as `ask`."""
        self._channel.tell(topic, value)

    # --- who sleeps ---------------------------------------------------------------------------------------------------------------------

    def sleep(self) -> None:
        """This process is to be woken by the next commit of another one, from now until `awake`. What was committed before is still to be looked for."""
        self._presence.sleep.sleep()

    def awake(self) -> None:
        """It need not be woken."""
        self._presence.sleep.wake()

    def wake(self) -> None:
        """There is a commit: wake those that sleep. Costs nothing for others."""
        self._channel.wake()

    # --- the end ------------------------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Nothing is asked or told any more; this process still lives. Harmless when done."""
        await self._channel.close()

    def release(self) -> None:
        """The last: to the others this process has ended. Harmless when done."""
        leaderships, self._leaderships = self._leaderships, set()
        for each in leaderships:
            each.close()
        self._presence.close()


def _call(functions: Iterable[Callable[[], None]]) -> None:
    for function in list(functions):
        try:
            function()
        except Exception:
            logger.exception("what follows the coming or going of a process failed")
