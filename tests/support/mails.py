"""Mail without a server: an outbox, a sender on a loop, and what takes its mails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from svc.clock import FakeClock
from svc.loop import new_loop
from svc.mail.outbox import Outbox, OutgoingMail
from svc.mail.sealing import Seal
from svc.mail.sender import Sender
from svc.mail.smtp import Envelope
from svc.siblings import Siblings
from svc.store import Store
from svc.store.system import ensure_system

MAIL = OutgoingMail("ann@example.org", "Welcome", "Your code is 1234", "<p>Your code is 1234</p>")


class FakeServer:
    """`answer`: called with each mail, raises what the server says. `taken`: what it has accepted. `closed`: how often its connection was."""

    def __init__(self) -> None:
        self.answer: Callable[[Envelope], None] = lambda envelope: None
        self.tried: list[Envelope] = []
        self.taken: list[Envelope] = []
        self.closed = 0
        self.is_aborted = False

    def send(self, envelope: Envelope) -> None:
        self.tried.append(envelope)
        self.answer(envelope)
        self.taken.append(envelope)

    def close(self) -> None:
        self.closed += 1

    def abort(self) -> None:
        self.is_aborted = True


class MailWorld:
    """A data directory with an outbox, and instances that send from it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FakeClock()
        self.loop, self._turns = new_loop()
        self._turns.end_turn = self._end_turn
        self.store = Store(path / "database", clock=self.clock)
        ensure_system(self.store)
        self.outbox = Outbox(self.store, Seal(bytes(32)), self.clock, domain="example.org")
        self.server = FakeServer()
        self.executor = ThreadPoolExecutor(1)
        self.senders: list[Sender] = []
        self.siblings: list[Siblings] = []

    def _end_turn(self) -> bool:
        if self.store.has_pending:
            self.store.commit_turn()
        self.store.end_turn()
        return False

    def instance(self, server: FakeServer | None = None) -> Sender:
        """A process that sends, or would if another did not."""
        siblings = Siblings(self.path, self.loop)
        self.siblings.append(siblings)
        sender = Sender(self.outbox, server or self.server, ("Shop", "shop@example.org"), siblings, self.loop, self.clock, self.executor)
        sender.begin()
        self.senders.append(sender)
        return sender

    def add(self, mail: OutgoingMail = MAIL) -> str:
        """Returns the id of its row."""
        transaction = self.store.begin()
        message_id = self.outbox.add(mail, transaction, template="welcome")
        self.store.commit_now(transaction)
        return message_id[1:].partition("@")[0]

    def row(self, row: str) -> dict[str, Any]:
        found = self.outbox.record(row)
        assert found is not None
        return found

    def run(self, work: Any) -> Any:
        async def awaited() -> Any:
            return await work

        return self.loop.run_until_complete(awaited())

    def settle(self) -> None:
        """Until nothing is sent any more that can be sent now."""

        async def settled() -> None:
            quiet = 0
            while quiet < 5:
                await asyncio.sleep(0.002)
                quiet = quiet + 1 if all(sender.is_idle for sender in self.senders) else 0

        self.run(settled())

    def settle_for(self, turns: int) -> None:
        """So many turns of the loop."""

        async def settled() -> None:
            for _ in range(turns):
                await asyncio.sleep(0.001)

        self.run(settled())

    def later(self, seconds: float) -> None:
        """The time passes, and the senders look."""
        self.clock.advance(seconds)
        for sender in self.senders:
            sender.wake()
        self.settle()

    def close(self) -> None:
        for sender in self.senders:
            self.run(sender.end())
        for siblings in self.siblings:
            siblings.release()
        self.executor.shutdown()
        self.store.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
