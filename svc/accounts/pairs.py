"""A user and its record, made and removed together though they are in two databases (spec: rows §2.2).

One transaction writes both, but a turn commits each database by itself, in the order of their names. A process that is killed between the two commits, or a
disk that is full at the second, leaves half of it. So such a change is noted before, in `system.svc_account_change`, and the note is removed afterwards:

    note is on the disk  ->  the transaction with user and record  ->  note is removed, some time later

What a note says once its process lives no more:

    kind    user         record       what is done
    make    there        there        nothing: it was done
    make    there        -            the user goes: nobody was told that it is there
    make    -            there        the record goes, if it is the one of the note
    remove  there        there        nothing: it was not begun
    remove  one of both               the other one goes
    (any)   -            -            nothing

Then the note goes, in the same transaction. If that is killed between its two commits, the note is still there, or what is left agrees: it may be done any
number of times. Whether the user is the one of the note is told by its `login_epoch`, made with it; whether the record is, by its values.

Notes are looked at when accounts take effect, when another process over the databases has ended, and when a change of this process has failed.

    id           of the note
    kind         "make" or "remove"
    username     the user, which is the key of the record
    login_epoch  of the user: that of one that was dropped and added again is another
    table        of the record, `data.Person`
    record       kind "make": a digest of the values that were to be written
    owner        the process, `Siblings.identity`
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from svc.auth.writes import write
from svc.errors import Problem
from svc.store import WriterBusy
from svc.store.system import ACCOUNT_CHANGE_TABLE, SYSTEM, USER_TABLE
from svc.store.values.records import decode, encode_payload

if TYPE_CHECKING:
    from svc.accounts.parts import AccountParts
    from svc.store import Database, Table, Transaction

MAKE, REMOVE = "make", "remove"

_log = logging.getLogger("svc.accounts")


class AccountPairs:
    """The notes of one node, and what is done by them. Used on the thread of the loop."""

    def __init__(self, parts: AccountParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._open: set[str] = set()  # notes of this process whose changes are under way

    @property
    def notes(self) -> Table:
        return self._store.databases[SYSTEM].tables[ACCOUNT_CHANGE_TABLE]

    async def note_making(self, table: Table, username: str, login_epoch: str, record: Mapping[str, Any]) -> str:
        """Note that a user of this `login_epoch` and this record are about to be made. The note is on the disk when this returns. Raises Problem."""
        digest = _digest(table, table.validator.complete(dict(record), is_new=True))
        return await self._note(MAKE, table, username, login_epoch, digest)

    async def note_removal(self, table: Table, username: str, login_epoch: str) -> str:
        """The same of a user and its record that are about to go."""
        return await self._note(REMOVE, table, username, login_epoch, b"")

    async def _note(self, kind: str, table: Table, username: str, login_epoch: str, record: bytes) -> str:
        note = self._store.uuids.new()
        transaction = self._store.begin(username)
        transaction.may_use_reserve = kind == REMOVE
        transaction.put(
            self.notes,
            note,
            {
                "id": note,
                "kind": kind,
                "username": username,
                "login_epoch": login_epoch,
                "table": f"{table.database.name}.{table.name}",
                "record": record,
                "owner": self._parts.identity,
            },
        )
        self._open.add(note)
        try:
            await write(transaction)
        except BaseException:
            self._open.discard(note)  # if it was written after all, it says what is so
            raise
        return note

    def settle(self, note: str) -> None:
        """The change is on the disk, all of it: the note goes, and nobody waits for that."""
        self._open.discard(note)
        transaction = self._store.begin()
        transaction.may_use_reserve = True
        transaction.delete(self.notes, note)
        try:
            transaction.apply(wait=False)
        except (WriterBusy, Problem):
            pass  # the next one who looks finds that all is as it should be

    async def give_up(self, note: str) -> None:
        """The change has failed, perhaps in half: undo or finish it. Never raises a Problem: what cannot be done now is done later."""
        self._open.discard(note)
        try:
            await self._agree(note)
        except Problem as problem:
            _log.warning("an account and its record may not agree until the next start: %s", problem.message)

    async def repair(self) -> int:
        """Do so for all notes of processes that live no more. Returns how many there were."""
        table, own = self.notes, self._parts.identity
        count = 0
        for _, raw in list(table.scan(table.database.snapshot())):
            record = decode(raw)
            if record["id"] in self._open or (record["owner"] != own and self._parts.is_alive(record["owner"])):
                continue
            await self.give_up(record["id"])
            count += 1
            await asyncio.sleep(0)
        return count

    async def _agree(self, note: str) -> None:
        raw = self.notes.get_raw(note)
        table = None if raw is None else self._table_of(decode(raw))
        databases = tuple(self._databases(table))

        def attempt() -> None:
            self._store.open_writers(databases, wait=False)
            transaction = self._store.begin()
            transaction.may_use_reserve = True
            self._collect(note, table, transaction)
            transaction.apply(wait=False)

        try:
            attempt()
        except WriterBusy:
            await self._store.write_when_free(lambda: databases, attempt)

    def _collect(self, note: str, table: Table | None, transaction: Transaction) -> None:
        """What makes user and record agree, as of the writers, which are open."""
        system = self._store.databases[SYSTEM]
        txn = system.env.writer()
        raw = self.notes.get_raw(note, txn)
        if raw is None:
            return  # another process has done it
        change = decode(raw)
        username = change["username"]
        transaction.delete(self.notes, note)
        user = self._parts.directory.user_record(username, txn)
        own = user if user is not None and user.get("login_epoch") == change["login_epoch"] else None
        found = None if table is None else table.get_raw(username, table.database.env.writer())
        if own is not None and found is None and table is not None:
            transaction.delete(system.tables[USER_TABLE], username)
        elif (
            user is None
            and found is not None
            and table is not None
            and (change["kind"] == REMOVE or change["record"] == _digest(table, decode(found)))
        ):
            transaction.delete(table, username)
        else:
            return
        _log.warning("the account of a user was %s in half when a process ended: what was left of it is removed", _DONE[change["kind"]])

    def _table_of(self, change: Mapping[str, Any]) -> Table | None:
        database, _, name = change["table"].partition(".")
        found = self._store.find_database(database)
        return None if found is None else found.tables.get(name)

    def _databases(self, table: Table | None) -> Iterator[Database]:
        yield self._store.databases[SYSTEM]
        if table is not None and table.database.name != SYSTEM:
            yield table.database


_DONE = {MAKE: "made", REMOVE: "removed"}


def _digest(table: Table, record: Mapping[str, Any]) -> bytes:
    """Of what a record has, but for what the store sets when it writes it."""
    values = {name: record[name] for name in sorted(record) if name not in table.stamps}
    return blake2b(encode_payload(values), digest_size=16).digest()
