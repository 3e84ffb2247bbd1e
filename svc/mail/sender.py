"""Sends what waits in the outbox (spec: rows §2.5).

    idle --a mail is due--> working --nothing is due--> idle
                               |  ^
            the server is away '--' after a pause

One process does so at a time: the one that leads `mail` among those over the data directory begins, and it holds a lock while it works, so that the next
leader waits for the mail under way. What waits is looked for when a mail was committed, here or by another process that says so, when the next one is due,
and once a minute.

A mail is sent, then its row is changed: where the process dies between the two it is sent once more, with the same Message-ID. What is known of the server
(no connection, no login) holds all mails back; what it says of one mail only that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextvars import Context
from itertools import islice
from typing import Any, Protocol

from svc.clock import Clock
from svc.errors import Problem
from svc.mail.message import message_bytes
from svc.mail.outbox import DAY_MS, WAITING, Outbox
from svc.mail.sealing import SealBroken
from svc.mail.smtp import Envelope, MailRefused, ServerUnavailable
from svc.siblings import Lead, SubjectLock
from svc.store import Database, LogEntry

logger = logging.getLogger("svc.mail")

SUBJECT = "mail"  # of the leadership
LOCK = "mail under way"
ADDED = "mail.added"  # told to the others: something waits
LOOK = 60.0  # seconds between two looks, at most
BUSY_PAUSE = 0.5  # seconds, while another process ends what it sends
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0  # seconds, while the server is away: doubled each time
FIRST_DELAY, LONGEST_DELAY = 60.0, 3600.0  # the same for one mail that it does not take now
END_SECONDS = 3.0  # for which a stop waits for the mail under way
_GIVEN_UP_AT_ONCE = 50  # of the oldest mails, at each failure of the server
_UNREADABLE = "its texts cannot be read: they were sealed with another key"


class MailServer(Protocol):
    """`smtp.SmtpServer`. `send` and `close` block."""

    def send(self, envelope: Envelope) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Processes(Protocol):
    """`siblings.Siblings`."""

    def lead(self, subject: str, on_lead: Callable[[], None], on_resign: Callable[[], None] = ...) -> Lead: ...
    def maybe_lock(self, subject: str) -> SubjectLock | None: ...
    def answer(self, topic: str, function: Callable[[Any], Any]) -> None: ...
    def tell(self, topic: str, value: Any) -> None: ...


class Sender:
    """That of one instance."""

    def __init__(
        self,
        outbox: Outbox,
        server: MailServer,
        sender: tuple[str, str],
        siblings: Processes,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        executor: Executor,
    ) -> None:
        """`sender`: name and address. `executor`: one thread, for the server alone."""
        self._outbox = outbox
        self._server = server
        self._sender = sender
        self._siblings = siblings
        self._loop = loop
        self._clock = clock
        self._executor = executor
        self._lead: Lead | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._has_news = False  # something was committed while it worked
        self._failures = 0  # of the server, one after the other
        self._not_before = 0.0  # monotonic: the server is left alone until then
        self._accepted: set[str] = set()  # sent, and their rows could not be changed

    # --- when it works --------------------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """From now on mails are sent."""
        self._siblings.answer(ADDED, self._told)
        self._outbox.table.database.on_commit.append(self._committed)
        self._lead = self._siblings.lead(SUBJECT, self._look_soon)
        self._look_soon()

    async def end(self) -> None:
        """No more mails are sent; one that is under way may still be, for END_SECONDS."""
        self._is_stopped = True
        listeners = self._outbox.table.database.on_commit
        if self._committed in listeners:
            listeners.remove(self._committed)
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            done, _ = await asyncio.wait([self._task], timeout=END_SECONDS)
            if not done:
                self._server.abort()
                await asyncio.wait([self._task], timeout=END_SECONDS)
        if self._lead is not None:
            self._lead.close()

    @property
    def is_idle(self) -> bool:
        return self._task is None

    def wake(self) -> None:
        """Look now what is due."""
        self._look_soon()

    def try_now(self) -> None:
        """Ask the server at once, even if it was away a moment ago; the process that sends does."""
        if self._lead is not None and self._lead.is_held:
            self._failures, self._not_before = 0, 0.0
            self._look_soon()
        else:
            self._siblings.tell(ADDED, True)

    def _told(self, is_urgent: Any) -> None:
        """Another process has added a mail; or `try_now` was called there."""
        if self._lead is not None and self._lead.is_held:
            if is_urgent is True:
                self.try_now()
            else:
                self._look_soon()

    def _committed(self, database: Database, entries: list[LogEntry]) -> None:
        if self._task is not None and self._has_news:
            return
        table = self._outbox.table.name
        if any(entry.table == table for entry in entries):
            if self._lead is not None and self._lead.is_held:
                self._look_soon()
            else:
                self._siblings.tell(ADDED, None)

    def _look_soon(self) -> None:
        self._has_news = True
        self._arm(0.0)

    def _arm(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None and not self._is_stopped and not self._loop.is_closed():
            self._timer = self._loop.call_later(max(seconds, self._not_before - self._clock.monotonic(), 0.0), self._look)

    def _look(self) -> None:
        self._timer = None
        self._has_news = False
        if self._lead is None or not self._lead.is_held or self._is_stopped:
            return  # whoever leads next is called
        wait = max(self._wait(), self._not_before - self._clock.monotonic())
        if wait > 0:
            self._arm(min(wait, LOOK))
        else:
            self._task = self._loop.create_task(self._work(), name="mail", context=Context())
            self._task.add_done_callback(self._ended)

    def _wait(self) -> float:
        """Seconds until the next mail is due; LOOK if none is."""
        try:
            record = self._outbox.next_due()
        except Problem as problem:
            logger.error("the outbox cannot be read: %s", problem.message)
            return LOOK
        if record is None:
            return LOOK
        wait = float(record["due"] - self._outbox.now_ms()) / 1000
        return wait if wait <= LONGEST_DELAY + LOOK else 0.0  # the clock was ahead when that was written

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the sender of mails has failed", exc_info=error)
            self._not_before = self._clock.monotonic() + LONGEST_PAUSE
        self._arm(0.0 if self._has_news else min(self._wait(), LOOK))

    # --- working -------------------------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        lock = self._siblings.maybe_lock(LOCK)
        if lock is None:
            self._not_before = self._clock.monotonic() + BUSY_PAUSE
            return
        try:
            while self._lead is not None and self._lead.is_held and not self._is_stopped and self._wait() <= 0:
                record = self._outbox.next_due()
                if record is None or not await self._try(record):
                    return
        finally:
            try:
                await self._on_thread(self._server.close)
            finally:
                lock.release()

    async def _try(self, record: dict[str, Any]) -> bool:
        """Send one mail. Returns whether there is any use in going on."""
        row = record["id"]
        try:
            if row not in self._accepted:
                try:
                    await self._send(record)
                except MailRefused as refusal:
                    await self._refused(record, str(refusal), is_final=refusal.is_final)
                    return True
                except SealBroken:
                    await self._refused(record, _UNREADABLE, is_final=True)
                    return True
                except ServerUnavailable as error:
                    if self._is_stopped:
                        return False
                    await self._away(record, str(error), is_known=error.is_about_mail)
                    return False
                self._accepted.add(row)
            await self._outbox.mark_sent(row)
            self._accepted.discard(row)
        except Problem as problem:
            logger.error("what has become of the mail %s cannot be written: %s", row, problem.message)
            self._pause()
            return False
        if self._failures:
            logger.warning("the server takes mails again")
            self._failures = 0
        return True

    async def _send(self, record: dict[str, Any]) -> None:
        mail = self._outbox.mail_of(record)

        def send() -> None:
            content = message_bytes(mail, record["message_id"], self._sender, record["created"])
            self._server.send(Envelope(self._sender[1], mail.to, content))

        await self._on_thread(send)

    async def _on_thread(self, work: Callable[[], None]) -> None:
        found: Awaitable[None] = self._loop.run_in_executor(self._executor, work)
        await found

    async def _refused(self, record: dict[str, Any], error: str, *, is_final: bool) -> None:
        if is_final or self._is_old(record):
            await self._give_up(record, error)
            return
        delay = min(FIRST_DELAY * 2 ** min(record["attempts"], 20), LONGEST_DELAY)
        await self._outbox.delay(record["id"], self._outbox.now_ms() + int(delay * 1000), error)

    async def _away(self, record: dict[str, Any], error: str, *, is_known: bool) -> None:
        """The server cannot be used. `is_known`: it was, until this mail came: others may fare better, and are tried before it."""
        if not self._failures:
            logger.warning("the server does not take mails: %s", error)
        self._pause()
        if is_known:
            await self._refused(record, error, is_final=False)
        elif not self._is_old(record):
            await self._outbox.delay(record["id"], record["due"], error)
        for other in list(islice(self._outbox.iter_with(WAITING), _GIVEN_UP_AT_ONCE)):
            if self._is_old(other):
                await self._give_up(other, error)

    async def _give_up(self, record: dict[str, Any], error: str) -> None:
        logger.warning("the mail %s (%s) is given up: %s", record["id"], record.get("template") or "no template", error)
        await self._outbox.give_up(record["id"], error)

    def _pause(self) -> None:
        self._not_before = self._clock.monotonic() + min(FIRST_PAUSE * 2 ** min(self._failures, 20), LONGEST_PAUSE)
        self._failures += 1

    def _is_old(self, record: dict[str, Any]) -> bool:
        since = record.get("retried") or record["created"]
        return self._outbox.now_ms() - float(since) >= DAY_MS
