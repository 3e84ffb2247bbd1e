"""How far this node and the others have applied each other's logs (spec: replication §7).

    we have written ----- our stream ----> it has applied     `there`: it tells us, after each of its commits
    it has written  ----- its stream ----> we have applied    `here`: it tells us what there is; what is applied our database knows

A node tells another one over the connection by which it reads that one's streams. What it has applied it tells once for each commit, and while that is being
sent, once for all commits meanwhile; everything, with what it has written itself, every HELLO_SECONDS and when a connection is new. Nothing of this is stored,
and a notice that is lost is made up by the next one. What a node says can make figures wrong, and a confirmation that it gives itself; nothing else depends on
it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from svc.clock import Clock
from svc.cluster.client import Unavailable
from svc.cluster.notices import Notice, Place, decode_notice, encode_notices
from svc.cluster.wire import WireError
from svc.store.database import Database
from svc.store.writing.remote_transaction import Origin

logger = logging.getLogger("svc.cluster")

NOTICE = "positions"
"""The kind of the notices."""
HELLO_SECONDS = 5.0
_MARKS_MAX = 128


class OwnLog(Protocol):
    """`outbox.Outbox`."""

    database: Database
    incarnation: bytes
    sent: int  # L of the last message in the stream, -1: not known yet
    published: int


class AppliedLog(Protocol):
    """`inbox.Inbox`."""

    database: Database
    origin: Origin | None  # None: nothing has been read yet
    applied: int
    remote_time: (
        float  # wall time of the newest transaction that was applied, ms since 1970 by the clock there; 0: none was since the start
    )
    local_time: float  # when that was, in seconds since 1970


class OtherNode(Protocol):
    """`peer.Peer`."""

    name: str

    @property
    def is_connected(self) -> bool: ...
    @property
    def logs(self) -> Mapping[str, AppliedLog]: ...
    async def tell(self, kind: str, data: bytes) -> None: ...
    async def ping(self) -> float: ...


class Progress:
    """How something that is `reached` follows an `end` that grows: both LSNs. -1: not known."""

    __slots__ = ("_marks", "end", "reached")

    def __init__(self) -> None:
        self.end = self.reached = -1
        self._marks: list[tuple[int, float]] = []  # (end, when it was first known to be this), of ends that are not reached

    def aim(self, end: int, now: float) -> None:
        """The end is here now. `now`: monotonic."""
        if end < self.end:  # of another log
            self._marks.clear()
        self.end = end
        if end > self.reached and (not self._marks or self._marks[-1][0] < end):
            if len(self._marks) >= _MARKS_MAX:
                del self._marks[1::2]
            self._marks.append((end, now))

    def reach(self, lsn: int, now: float) -> None:
        """It may be less than before: then what was reached has been lost."""
        self.reached = lsn
        marks = self._marks
        done = 0
        while done < len(marks) and marks[done][0] <= lsn:
            done += 1
        del marks[:done]
        if lsn < self.end and not marks:
            marks.append((self.end, now))

    @property
    def behind(self) -> int | None:
        """LSNs that are missing; None: it is not known."""
        return None if self.end < 0 or self.reached < 0 else max(self.end - self.reached, 0)

    def seconds(self, now: float) -> float | None:
        """For how long something has been missing, at least; 0: nothing is missing, None: it is not known."""
        if self.end < 0 or self.reached < 0:
            return None
        return now - self._marks[0][1] if self._marks else 0.0

    def check(self) -> None:
        """Assert that the marks grow, and are not reached."""
        lsns = [lsn for lsn, _ in self._marks]
        assert lsns == sorted(set(lsns)) and all(self.reached < lsn <= self.end for lsn in lsns)


class Lag(msgspec.Struct, frozen=True):
    """How far what one node has written is not applied by another. `entries`: LSNs, those counted that are not sent. `seconds`: for how long something has been
    missing, at least. Both 0: nothing is missing. None: not known, nothing has been heard."""

    entries: int | None
    seconds: float | None


class DatabasePositions(msgspec.Struct, frozen=True):
    """Of one database and one other node. Times are in seconds since 1970, None: never since the start.

    `here`: what of the other's is missing here; `there`: what of ours is missing there. `confirmed`: our LSN up to which the other has applied everything, -1:
    it has not said so; `confirmed_at`: when it said something new. `received_remote`: when the newest transaction that was applied here was committed, by the
    clock there, `received_local`: when that was applied.
    """

    here: Lag
    there: Lag
    confirmed: int
    confirmed_at: float | None
    received_remote: float | None
    received_local: float | None


class NodePositions:
    """Of another node. `heard_at`: when it has said anything, seconds since 1970, 0: never. `latency`: seconds to its engine and back, None: not measured."""

    def __init__(self) -> None:
        self.version = ""
        self.started = self.heard_at = 0.0
        self.latency: float | None = None
        self.there: dict[str, Progress] = {}
        self.here: dict[str, Progress] = {}
        self.confirmed_at: dict[str, float] = {}
        self.incarnations: dict[str, bytes] = {}  # of its databases, as it says
        self.untold: set[str] = set()  # databases of which more is applied than was told
        self.telling: asyncio.Task[None] | None = None
        self.greeting: asyncio.Task[None] | None = None
        self.complaint = ""


class Positions:
    """`on_confirmed`: called with the name of a database after a node has confirmed more of it. Used on the thread of the loop alone."""

    def __init__(self, clock: Clock, version: str, logs: Mapping[str, OwnLog], nodes: Mapping[str, OtherNode]) -> None:
        """`version`: of svc. `logs`: of the own node by name of the database, `nodes`: all others that are known; both live."""
        self.on_confirmed: list[Callable[[str], None]] = []
        self._clock = clock
        self._version = version
        self._started = clock.wall()
        self._logs = logs
        self._nodes = nodes
        self._known: dict[str, NodePositions] = {}

    # --- what is known -----------------------------------------------------------------------------------------------------------------

    def node(self, name: str) -> NodePositions | None:
        """None: nothing is known of it."""
        return self._known.get(name)

    def confirmed(self, node: str, database: str) -> int:
        """Our LSN up to which that node has applied everything that we have written to the database; -1: it has not said so."""
        known = self._known.get(node)
        progress = None if known is None else known.there.get(database)
        return -1 if progress is None else progress.reached

    def lag(self, node: str, database: str) -> tuple[Lag, Lag]:
        """(of what that node has written, here; of what this node has written, there)."""
        now = self._clock.monotonic()
        known = self._known.get(node)
        here = there = None
        if known is not None:
            self._aim(known, database, now)
            here, there = known.here.get(database), known.there.get(database)
        return tuple(Lag(None, None) if each is None else Lag(each.behind, each.seconds(now)) for each in (here, there))  # type: ignore[return-value]

    def positions(self, node: str, database: str) -> DatabasePositions:
        """All that is known of a database there."""
        here, there = self.lag(node, database)
        known = self._known.get(node)
        other = self._nodes.get(node)
        log = None if other is None else other.logs.get(database)
        return DatabasePositions(
            here,
            there,
            self.confirmed(node, database),
            None if known is None else known.confirmed_at.get(database),
            None if log is None or not log.remote_time else log.remote_time / 1000,
            None if log is None or not log.local_time else log.local_time,
        )

    def missing(self) -> Iterator[tuple[str, str]]:
        """(node, database) of what is not known to be applied here: this node has caught up with all others when there is none."""
        for name, node in self._nodes.items():
            for database in node.logs:
                if self.lag(name, database)[0].entries != 0:
                    yield name, database

    # --- hearing -----------------------------------------------------------------------------------------------------------------------

    def hear(self, node: str, data: bytes) -> None:
        """A notice has come. Never fails."""
        if node not in self._nodes:
            return
        known = self._known.setdefault(node, NodePositions())
        try:
            self._hear(node, known, decode_notice(data))
        except WireError as error:
            self._complain(node, known, str(error))
        except Exception:  # of a database that is being dropped, for example
            logger.exception("what %s says of itself cannot be taken", node)

    def _hear(self, node: str, known: NodePositions, notice: Notice) -> None:
        known.heard_at = self._clock.wall()
        confirmed = [name for name, place in notice.applied.items() if self._take_applied(node, known, name, place)]
        if notice.log is not None:
            self._take_log(node, known, notice)
        for name in confirmed:
            for callback in self.on_confirmed:
                callback(name)

    def _take_applied(self, node: str, known: NodePositions, name: str, place: Place) -> bool:
        """Whether it is more than before."""
        log = self._logs.get(name)
        if log is None:
            return False
        if place.incarnation != log.incarnation:
            self._complain(node, known, f"it speaks of another time of database {name}")
            return False
        if place.lsn > log.database.log.newest_lsn(log.database.snapshot()):
            self._complain(node, known, f"it has applied more of database {name} than was written")
            return False
        progress = known.there.setdefault(name, Progress())
        before = progress.reached
        progress.reach(place.lsn, self._clock.monotonic())
        if place.lsn != before:
            known.confirmed_at[name] = known.heard_at
        return place.lsn > before

    def _take_log(self, node: str, known: NodePositions, notice: Notice) -> None:
        known.version, known.started = notice.version, notice.started
        now = self._clock.monotonic()
        logs = self._nodes[node].logs
        assert notice.log is not None
        for name, place in notice.log.items():
            log = logs.get(name)
            if log is None:
                continue
            if known.incarnations.get(name) != place.incarnation:
                known.incarnations[name] = place.incarnation
                known.here.pop(name, None)
                self.applied(node, name)  # which it does not know yet
            progress = known.here.setdefault(name, Progress())
            progress.aim(place.lsn, now)
            self._reach(node, known, log, progress)

    def _complain(self, node: str, known: NodePositions, complaint: str) -> None:
        if complaint != known.complaint:
            logger.warning("what %s says of itself does not fit: %s", node, complaint)
        known.complaint = complaint

    # --- telling -----------------------------------------------------------------------------------------------------------------------

    def applied(self, node: str, database: str) -> None:
        """More of what a node has written to a database is applied and on disk: it will be told, soon."""
        other = self._nodes.get(node)
        if other is None:
            return
        known = self._known.setdefault(node, NodePositions())
        progress, log = known.here.get(database), other.logs.get(database)
        if progress is not None and log is not None:
            self._reach(node, known, log, progress)
        known.untold.add(database)
        if known.telling is None and other.is_connected:
            known.telling = asyncio.get_running_loop().create_task(self._tell(other, known))

    async def _tell(self, other: OtherNode, known: NodePositions) -> None:
        try:
            while known.untold:
                names, known.untold = known.untold, set()
                for data in encode_notices(self._all_applied(other, known, names)):
                    await other.tell(NOTICE, data)
        except Unavailable:
            known.untold.clear()  # all is told when it is connected again
        finally:
            known.telling = None

    def greet(self, node: str) -> None:
        """Tell a node everything, as soon as that can be sent. One greeting at a time."""
        other = self._nodes.get(node)
        if other is None or not other.is_connected:
            return
        known = self._known.setdefault(node, NodePositions())
        if known.greeting is None:
            known.greeting = asyncio.get_running_loop().create_task(self._greet(other, known))

    async def _greet(self, other: OtherNode, known: NodePositions) -> None:
        try:
            log = {}
            now = self._clock.monotonic()
            for name, own in self._logs.items():
                if own.sent >= 0:
                    log[name] = Place(own.incarnation, own.sent)
                    self._aim(known, name, now)
            for data in encode_notices(self._all_applied(other, known, other.logs), log, self._version, self._started):
                await other.tell(NOTICE, data)
            known.latency = await other.ping()
        except Unavailable:
            known.latency = None
        finally:
            known.greeting = None

    async def run(self) -> None:
        """Greet all nodes now and then, until it is cancelled."""
        while True:
            for name in self._known.keys() - self._nodes.keys():
                self._forget(name)
            for name in self._nodes:
                self.greet(name)
            await asyncio.sleep(HELLO_SECONDS)

    def close(self) -> None:
        """Nothing is told any more. Harmless when done."""
        for name in list(self._known):
            self._forget(name)

    def _forget(self, node: str) -> None:
        known = self._known.pop(node)
        for task in (known.telling, known.greeting):
            if task is not None:
                task.cancel()

    # --- places ------------------------------------------------------------------------------------------------------------------------

    def _aim(self, known: NodePositions, database: str, now: float) -> None:
        log = self._logs.get(database)
        if log is not None and log.sent >= 0:
            known.there.setdefault(database, Progress()).aim(log.sent, now)

    def _reach(self, node: str, known: NodePositions, log: AppliedLog, progress: Progress) -> None:
        """`progress`: of what is applied here, of the log that the node speaks of."""
        found = self._applied(node, known, log)
        assert found is not None
        progress.reach(found.lsn, self._clock.monotonic())

    def _all_applied(self, other: OtherNode, known: NodePositions, names: Any) -> dict[str, Place]:
        logs = other.logs
        found = {name: self._applied(other.name, known, logs[name]) for name in names if name in logs}
        return {name: place for name, place in found.items() if place is not None}

    def _applied(self, node: str, known: NodePositions, log: AppliedLog) -> Place | None:
        """None: it is not known of which log. Until something is read of that, the database knows what was applied before this process began."""
        origin = log.origin
        incarnation = known.incarnations.get(log.database.name)
        if origin is not None and incarnation in (None, origin.incarnation):
            return Place(origin.incarnation, log.applied)
        if incarnation is None:
            return None
        state = log.database.replication
        assert state is not None
        return Place(incarnation, state.applied(log.database.snapshot(), Origin(node, incarnation)))
