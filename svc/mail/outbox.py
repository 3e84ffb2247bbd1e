"""The outbox: mails that wait to be sent, those given up, and for an hour those that were sent (spec: rows §2.5).

A mail is a row of `system.svc_mail`, written in the transaction that causes it: undone with it, on the disk with it. What becomes of it is `sender`'s.

    waiting --accepted by the server--> sent (an hour, without its texts)
       |  ^-- refused for now ---|
       '----refused for good, or a day old--> given_up (30 days) --retried--> waiting

    kept: with `svc dev`, which sends nothing, for a day

    id           of the row; with the domain of the sender it is the Message-ID, which stays the same however often the mail is sent
    message_id   that, with its brackets
    application  whose code asked for it, "" for svc
    template     that it was made from, "" without one
    to           the address; `recipient`: the same in lower case, by which mails to one address are counted
    body         subject, text and HTML as JSON, compressed (Zstandard) and sealed (`sealing`); null when the mail was sent
    status       as above
    created      when it was added; `due`: when it is tried next, null if it is not; `ended`: when it was sent or given up; `retried`: since when it
                 is tried once more. All ms since the epoch
    attempts     how often it was tried; `error`: what the server said to the last attempt
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from zstandard import ZstdCompressor, ZstdDecompressor

from svc.auth.writes import write
from svc.clock import Clock
from svc.config.mail_address import parse_address
from svc.errors import ClientError, Overloaded, PreconditionFailed, Problem
from svc.mail.sealing import Seal, SealBroken
from svc.store.system import MAIL_TABLE, SYSTEM
from svc.store.values.keys import index_key
from svc.store.values.records import decode, projection

if TYPE_CHECKING:
    from svc.store import Store, Table, Transaction
    from svc.store.env import Txn

WAITING, SENT, GIVEN_UP, KEPT = "waiting", "sent", "given_up", "kept"

MAX_SUBJECT = 500  # characters
MAX_BODY = 1 << 20  # bytes of text and HTML together
MAX_ROWS = 100_000  # in the table; further mails are refused
MAX_BYTES = 1 << 30  # of the table; the same
MOST_RECENT = 10_000  # recipients that are remembered
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SENT_MS = HOUR_MS  # that rows of sent mails stay, so that those to one address can be counted
GIVEN_UP_MS = 30 * DAY_MS
KEPT_MS = DAY_MS  # of `svc dev`
SHOWN = (
    "id", "message_id", "application", "template", "to", "status", "created", "due", "attempts", "ended", "retried", "error",
)  # fmt: skip
"""What can be read of a row without its texts."""
MAX_ERROR = 1000  # characters of what a server has said


_LEVEL = 1  # of Zstandard: 7 ms for the largest mail, on the loop; 3 takes three times as long for 1 % less
_shown = projection(SHOWN, default=None)
_created = projection(("created",))


@dataclass(frozen=True, slots=True)
class OutgoingMail:
    """`to`: the address of one mailbox. `subject`: one line. `html` None: the mail has its text only."""

    to: str
    subject: str
    text: str
    html: str | None = None


class Outbox:
    """The rows of one node. Used on the thread of the loop."""

    def __init__(self, store: Store, seal: Seal, clock: Clock, *, domain: str, is_sent: bool = True) -> None:
        """`domain`: of Message-IDs. `is_sent`: False: mails are kept, and never sent."""
        self._store = store
        self._seal = seal
        self._clock = clock
        self._domain = domain
        self._is_sent = is_sent
        self._recent: dict[str, float] = {}  # recipient -> when a mail to it was added here last, monotonic; the latest last

    @property
    def table(self) -> Table:
        return self._store.databases[SYSTEM].tables[MAIL_TABLE]

    def now_ms(self) -> int:
        return int(self._clock.wall() * 1000)

    # --- adding --------------------------------------------------------------------------------------------------------------------------

    def add(self, mail: OutgoingMail, transaction: Transaction, *, application: str = "", template: str = "") -> str:
        """Add a row to what a transaction writes: the mail is sent when that is committed, and never if it is not. Returns its Message-ID.

        Raises ClientError: `BAD_ADDRESS`, `BAD_SUBJECT`, 413 for a mail of more than MAX_BODY; Overloaded when too many wait.
        """
        to = checked_address(mail.to)
        _check_subject(mail.subject)
        try:
            body = msgspec.json.encode({"subject": mail.subject, "text": mail.text, "html": mail.html})
        except UnicodeEncodeError:  # lone surrogates
            raise ClientError("A mail has characters that cannot be sent", code="BAD_MAIL") from None
        if len(body) > MAX_BODY:
            raise ClientError(f"A mail has {MAX_BODY} bytes at most, its text and HTML together", 413)
        self.require_room()
        table = self.table
        row, now = self._store.uuids.new(), self.now_ms()
        message_id = f"<{row}@{self._domain}>"
        record: dict[str, Any] = {
            "id": row,
            "message_id": message_id,
            "application": application,
            "template": template,
            "to": to,
            "recipient": to.lower(),
            "body": self._seal.close(ZstdCompressor(level=_LEVEL).compress(body), row),
            "status": WAITING if self._is_sent else KEPT,
            "created": now,
            "due": now if self._is_sent else None,
            "attempts": 0,
        }
        others, transaction.expires_at = transaction.expires_at, None  # what the code of an application has set for its own records
        transaction.put(table, row, record, expires_at=None if self._is_sent else now + KEPT_MS)
        transaction.expires_at = others
        return message_id

    def require_room(self) -> None:
        """Raise Overloaded when too many mails wait."""
        table = self.table
        snapshot = table.database.snapshot()
        if table.entry_count(snapshot) >= MAX_ROWS or table.size(snapshot) >= MAX_BYTES:
            raise Overloaded("Too many mails wait to be sent")

    def begin(self, user: str | None = None) -> Transaction:
        """A transaction for a mail that nothing else causes. `user`: the name that the log shows."""
        return self._store.begin(user)

    def check_rate(self, address: str, most: int, transaction: Transaction) -> None:
        """Raise Problem 429 `TOO_MANY_MAILS` if `most` mails to an address were added within an hour, those of this transaction among them. Where others
        may be added at the same time, the transaction finds out when it is applied."""
        recipient, table = checked_address(address).lower(), self.table
        own = _count_own(transaction, table, recipient)
        if own + self._count(recipient, most, table.database.snapshot()) >= most:
            raise _too_many(most)
        now = self._clock.monotonic()
        before = self._recent.pop(recipient, None)
        self._recent[recipient] = now
        if len(self._recent) > MOST_RECENT:
            del self._recent[next(iter(self._recent))]
        if before is not None and now - before < HOUR_MS / 1000:

            def check(txn: Txn) -> None:
                if _count_own(transaction, table, recipient) + self._count(recipient, most, txn) > most:
                    raise _too_many(most)

            transaction.recheck(0, table.database, check)

    def _count(self, recipient: str, most: int, txn: Txn) -> int:
        """How many mails to a recipient were added within an hour; no more than `most` are counted."""
        table, key, since, found = self.table, index_key(recipient), self.now_ms() - HOUR_MS, 0
        for _, stored in table.indexes["recipient"].scan(txn, key, key + b"\0", reverse=True):  # newest first: ids grow with time
            raw = table.get_by(stored, txn)
            if raw is not None:
                if _created(raw)[0] < since or found == most:
                    break
                found += 1
        return found

    # --- what becomes of a mail: on the disk when these return; they raise the Problem that prevents it -------------------------------------

    async def mark_sent(self, row: str) -> None:
        """A server has accepted it. Its texts are not needed any more."""
        now = self.now_ms()
        await self._change(row, {"body": None, "status": SENT, "due": None, "ended": now, "error": None}, now + SENT_MS)

    async def delay(self, row: str, due: int, error: str) -> None:
        """It is tried again. `error`: why."""
        transaction = self._begin()

        def count(changes: dict[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
            return changes if stored is None else {**changes, "attempts": (stored.get("attempts") or 0) + 1}

        transaction.update(self.table, row, {"due": due, "error": error[:MAX_ERROR]}, decide=count)
        await write(transaction)

    async def give_up(self, row: str, error: str) -> None:
        now = self.now_ms()
        await self._change(row, {"status": GIVEN_UP, "due": None, "ended": now, "error": error[:MAX_ERROR]}, now + GIVEN_UP_MS)

    async def retry(self, row: str) -> bool:
        """Try it now, and for another day if it was given up. Returns whether it waits or was given up."""
        record = self.record(row)
        if record is None or record["status"] not in (WAITING, GIVEN_UP):
            return False
        now = self.now_ms()
        changes = {"status": WAITING, "due": now, "ended": None}
        if record["status"] == GIVEN_UP:
            changes["retried"] = now
        await self._change(row, changes, None)
        return True

    async def _change(self, row: str, changes: dict[str, Any], expires_at: float | None) -> None:
        def decide(_: dict[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
            if stored is None:
                raise PreconditionFailed("The mail is no longer there")
            tried = 0 if changes["status"] == WAITING else 1
            return {**stored, **changes, "attempts": (stored.get("attempts") or 0) + tried}

        transaction = self._begin()
        transaction.put(self.table, row, {}, expires_at=expires_at, decide=decide)
        try:
            await write(transaction)
        except PreconditionFailed:
            pass

    def _begin(self) -> Transaction:
        transaction = self._store.begin()
        transaction.may_use_reserve = True  # it frees more than it takes
        return transaction

    # --- reading -------------------------------------------------------------------------------------------------------------------------

    def next_due(self) -> dict[str, Any] | None:
        """The row that is to be tried next, now or later."""
        table, txn = self.table, self.table.database.snapshot()
        for _, stored in table.indexes["due"].scan(txn, index_key(0.0)):
            raw = table.get_by(stored, txn)
            if raw is not None:
                return decode(raw)
        return None

    def record(self, row: str) -> dict[str, Any] | None:
        """The row of this id, its texts sealed; None if there is none."""
        raw = self.table.get_raw(row)
        return None if raw is None else decode(raw)

    def mail_of(self, record: dict[str, Any]) -> OutgoingMail:
        """The mail of a row. Raises SealBroken if it cannot be read, or was sent."""
        sealed = record.get("body")
        if not isinstance(sealed, bytes):
            raise SealBroken
        body = msgspec.json.decode(ZstdDecompressor().decompress(self._seal.open(sealed, record["id"])))
        return OutgoingMail(record["to"], body["subject"], body["text"], body["html"])

    def iter_with(self, status: str, *, newest_first: bool = False) -> Iterator[dict[str, Any]]:
        """The rows of this status without their texts, oldest first: as of now, and within the turn."""
        table = self.table
        txn, key = table.database.snapshot(), index_key(status)
        for _, stored in table.indexes["status"].scan(txn, key, key + b"\0", reverse=newest_first):
            raw = table.get_by(stored, txn)
            if raw is not None:
                yield dict(zip(SHOWN, _shown(raw), strict=True))


def checked_address(address: object) -> str:
    """The address in the form that it is stored in. Raises ClientError 400 `BAD_ADDRESS`."""
    try:
        return parse_address(address)
    except ValueError as error:
        raise ClientError(f"The address {error}", code="BAD_ADDRESS") from None


def _count_own(transaction: Transaction, table: Table, recipient: str) -> int:
    return sum(record.get("recipient") == recipient for record in transaction.records_for(table))


def _too_many(most: int) -> Problem:
    return Problem(f"Too many mails to one address: {most} an hour at most", 429, "TOO_MANY_MAILS", headers=(("Retry-After", "600"),))


def _check_subject(subject: object) -> None:
    if not isinstance(subject, str) or len(subject) > MAX_SUBJECT or not subject.isprintable():
        raise ClientError(f"The subject of a mail is one line of {MAX_SUBJECT} characters at most", code="BAD_SUBJECT")
