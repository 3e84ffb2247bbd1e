"""A client is connected to one of the processes over a data directory at a time (spec: mqtt §7).

The one to which it connects asks all others to give it up. Of two that ask for the same client at once one goes first: each request has a number higher than
all that its process has seen (Lamport), then the identity decides. The other one is answered when the first has opened the session, and has given it up again.

A process that does not answer is not waited for: what it has stored counts, and the record of a session says whose it is from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from svc.siblings import Siblings

TAKE_OVER = "mqtt.take_over"
"""The topic. Asked: {client_id, user, ends, turn, owner}; `ends`: the session does not go on. Answered: whether this user may have it."""

SECONDS = 2.0  # for which a process that hangs is waited for


class Claim:
    """Of this process on a client. `turn`: (number, identity). `is_entered`: nobody else has the client, or asks for it before this one.
    `over`: it is opened, or was refused."""

    def __init__(self, client_id: str, siblings: Siblings, number: int) -> None:
        self.turn = (number, siblings.identity)
        self.is_entered = False
        self.over = asyncio.Event()
        self._client_id = client_id
        self._siblings = siblings

    async def enter(self, username: str | None, *, ends: bool) -> bool:
        """Wait until the others have given the client up. False: the session is another user's. `ends`: it does not go on."""
        answers = []
        if self._siblings.has_others:
            number, owner = self.turn
            value = {"client_id": self._client_id, "user": username, "ends": ends, "turn": number, "owner": owner}
            answers = await self._siblings.ask(TAKE_OVER, value, SECONDS)
        self.is_entered = True
        return all(answer.error is not None or answer.value for answer in answers)


class Claims:
    """Of this process, by client id."""

    def __init__(self, siblings: Siblings) -> None:
        self._siblings = siblings
        self._number = 0  # the highest of all claims that are known here
        self._claims: dict[str, Claim] = {}

    @contextmanager
    def claim(self, client_id: str) -> Iterator[Claim]:
        """Only one at a time of a client."""
        self._number += 1
        claim = self._claims[client_id] = Claim(client_id, self._siblings, self._number)
        try:
            yield claim
        finally:
            del self._claims[client_id]
            claim.over.set()

    async def wait_for_turn(self, client_id: str, turn: tuple[int, str]) -> None:
        """Until it is the turn of a claim of another process. Those of this one that come from now on are behind it, and so ask that one."""
        self._number = max(self._number, turn[0])
        while (claim := self._claims.get(client_id)) is not None and (claim.is_entered or claim.turn < turn):
            await claim.over.wait()
