"""The loop of the parent process: starts, watches, replaces and stops the instances (spec: configuration §6.5)."""

from __future__ import annotations

import gc
import mmap
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from svc.clock import SYSTEM_CLOCK, Clock
from svc.parent.channel import Channel, pair
from svc.parent.kept_sockets import KeptPort, KeptSockets
from svc.parent.link import BEAT, COMPLETED, RENEWING, SLOTS, Link
from svc.parent.member import Lives, Member, State, die_with_parent
from svc.parent.messages import (
    Failed,
    Message,
    NotRestarted,
    Opened,
    OpenPath,
    OpenPort,
    Ready,
    Refused,
    Release,
    Restart,
    Retire,
    Succeed,
)
from svc.parent.renewal import Renewal, StartCheck
from svc.parent.state import MemberState, ParentState
from svc.parent.supervisor import Supervisor

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
PASSED_ON = (signal.SIGHUP,)
RESTARTING = signal.SIGUSR2
HANDLED = (*STOPPING, *PASSED_ON, RESTARTING, signal.SIGCHLD)
FORK_PAUSE = 1.0  # seconds until the system is asked for a process again
WATCH_SECONDS = 1.0  # between two looks at the beats of the instances
HANG_SECONDS = 30.0  # without a beat until an instance counts as hung: a commit on a slow disk takes its time
ABORT_SECONDS = 2.0  # to write the stacks of its threads, then it is killed
SIGNALLED = 128  # added to the number of the signal that ended a process: what shells report

Log = Callable[[str, str], None]
"""Write a line of the log: level, text."""


class Parent:
    """`run` returns in the parent when all has ended, with the exit status; and in each instance that it forks, with its link."""

    def __init__(
        self,
        count: int,
        *,
        log: Log,
        renewal: Renewal,
        on_ready: Callable[[int], None] = lambda errors: None,
        exits_on_restart: bool = False,
        supervisor: Supervisor | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`count`: of instances. `renewal`: how this process executes the program again, and what it had before it did. `on_ready`: called with the number of
        errors in the applications when all serve for the first time. `exits_on_restart`: a supervisor starts the program again."""
        self._count = count
        self._log = log
        self._renewal = renewal
        self._on_ready = on_ready
        self._exits_on_restart = exits_on_restart
        self._supervisor = Supervisor({}) if supervisor is None else supervisor
        self._clock = clock
        self._sockets = KeptSockets(count, self._supervisor.given)
        self._members: dict[int, Member] = {}  # by process id
        self._lives = [Lives() for _ in range(count)]
        self._numbers: dict[int, int] = {}  # place of an instance here -> its number among all over the data directory
        self._due: dict[int, float] = {}  # place of an instance -> when it is to be started
        self._to_renew: list[int] = []  # places of the instances that have still to be replaced
        self._is_to_restart = False  # ... and then once more: that was asked for meanwhile, perhaps with another configuration
        self._generation = 0
        self._said_ready = False
        self._stops = 0
        self._status = 0
        self._check: StartCheck | None = None
        self._signals: list[int] = []
        self._watched = self._signalled = clock.monotonic()
        self._beats_file, self._beats = self._open_beats()
        self._adopt()

    # --- start -------------------------------------------------------------------------------------------------------------------------

    def _open_beats(self) -> tuple[int, mmap.mmap]:
        """Memory that it shares with the instances, and with the program that it executes for a restart: two generations of beats."""
        size = (RENEWING + 1) * BEAT.size
        descriptor = self._renewal.beats
        if descriptor < 0:
            descriptor = os.memfd_create("svc-beats") if hasattr(os, "memfd_create") else _nameless_file()
            os.truncate(descriptor, size)
        return descriptor, mmap.mmap(descriptor, size)

    def _adopt(self) -> None:
        """Go on with the instances that the program before has left."""
        state, self._renewal.state = self._renewal.state, None
        if state is None:
            return
        self._generation = state.generation
        now = self._clock.monotonic()
        self._numbers = state.numbers
        for each in state.members:
            os.set_inheritable(each.channel, False)
            channel = Channel(socket.socket(fileno=each.channel))
            member = Member(each.place, each.generation, each.pid, channel, each.slot, now - each.lived, State(each.state))
            member.beat_at = now
            self._members[each.pid] = member
        self._sockets.adopt(state.ports, state.given, list(self._members))

    def run(self) -> int | Link:
        self._selector = selectors.DefaultSelector()
        woken, waker = socket.socketpair()
        for sock in (woken, waker):
            sock.setblocking(False)
        former = {number: signal.signal(number, self._on_signal) for number in HANDLED}
        former_waker = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)  # which the program before has held back
        self._selector.register(woken, selectors.EVENT_READ)
        for member in self._members.values():
            self._selector.register(member.channel.sock, selectors.EVENT_READ, member)

        def restore() -> None:
            signal.set_wakeup_fd(former_waker)
            for number, handler in former.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
            self._selector.close()
            woken.close()
            waker.close()

        self._restore = restore
        try:
            self._begin()
            while self._members or self._due:
                link = self._start_due()
                if link is not None:
                    return link
                for key, _ in self._selector.select(self._pause()):
                    if key.data is None:
                        _drain(woken)
                    else:
                        self._read(key.data)
                self._act_on_signals()
                self._watch()
            return self._status
        finally:
            if os.getpid() == self._renewal.pid:
                restore()
                self._sockets.close()

    def _begin(self) -> None:
        """The first instance is started alone: what it finds wrong ends the start, and it makes what is not there yet."""
        self._generation += 1
        self._reap()  # those that have ended while the program was executed
        if any(member.state is State.READY for member in self._members.values()):
            self._said_ready = True
            self._to_renew = list(range(self._count))
            self._set(RENEWING, 1)
            self._renew_next()
        else:
            self._due[0] = self._clock.monotonic()

    def _pause(self) -> float:
        """Seconds until there is something to do."""
        now = self._clock.monotonic()
        if self._signals:
            return 0.0
        period = self._supervisor.period
        dues = [self._watched + WATCH_SECONDS, *self._due.values(), *([] if period is None else [self._signalled + period])]
        return max(0.0, min(dues) - now)

    def _start_due(self) -> Link | None:
        now = self._clock.monotonic()
        for place in [place for place, due in self._due.items() if due <= now]:
            del self._due[place]
            if self._stops or self._is_new(place):
                continue
            try:
                link = self._fork(place)
            except OSError as error:  # no process, descriptor or memory is left
                self._log("error", f"instance {place} cannot be started: {error.strerror}; tried again in {FORK_PAUSE:.0f} s")
                self._due[place] = now + FORK_PAUSE
                continue
            if link is not None:
                return link
        return None

    def _is_new(self, place: int) -> bool:
        """Whether an instance of this program is there, or begins."""
        return any(
            each.place == place and each.generation == self._generation and each.state is not State.RETIRING
            for each in self._members.values()
        )

    def _fork(self, place: int) -> Link | None:
        """Start an instance; in that, returns its link."""
        slot = (self._generation % 2) * SLOTS + place
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()  # the pages of all that is here stay shared: no collection of the child writes to them
        parent = os.getpid()
        here, there = pair()
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)  # or the handlers of the parent would take those of its child
        try:
            pid = os.fork()
        except OSError:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            here.close()
            there.close()
            raise
        if pid == 0:
            die_with_parent(parent)
            here.close()
            return self._become(Channel(there), place, slot)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        there.close()
        now = self._clock.monotonic()
        member = Member(place, self._generation, pid, Channel(here), slot, now)
        here.setblocking(False)
        self._members[pid] = member
        self._selector.register(here, selectors.EVENT_READ, member)
        return None

    def _become(self, channel: Channel, place: int, slot: int) -> Link:
        """This is an instance: keep nothing of the parent but the lock of the root, which so outlives it."""
        self._restore()
        for each in (*STOPPING[1:], *PASSED_ON):
            signal.signal(
                each, _do_nothing
            )  # a terminal sends the first ones to all of its group, and those passed on may come before there is a handler
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        for member in self._members.values():
            member.channel.sock.close()
        self._sockets.give_up()
        os.close(self._beats_file)
        return Link(
            channel,
            self._numbers.get(place),
            self._beats,
            slot,
            is_first=place == 0 and (not self._said_ready or 0 in self._to_renew),
        )

    # --- what the instances say ----------------------------------------------------------------------------------------------------------

    def _read(self, member: Member) -> None:
        if member.pid not in self._members:
            return
        try:
            arrived = member.channel.receive()
        except BlockingIOError:
            return
        except (EOFError, OSError):
            self._hear_no_more(member)  # it is ending: SIGCHLD tells
            return
        for message, descriptors in arrived:
            for each in descriptors:
                os.close(each)
            self._hear(member, message)

    def _hear_no_more(self, member: Member) -> None:
        with suppress(KeyError):
            self._selector.unregister(member.channel.sock)

    def _hear(self, member: Member, message: Message) -> None:
        if isinstance(message, OpenPort):
            key = (message.name, message.hosts)
            occurrence = member.opened.get(key, 0)
            if not message.port:
                member.opened[key] = occurrence + 1
            self._open(member, lambda: self._sockets.open_port(member.pid, message.name, message.port, message.hosts, occurrence))
        elif isinstance(message, OpenPath):
            self._open(member, lambda: self._sockets.open_path(member.pid, message.path))
        elif isinstance(message, Release):
            self._sockets.release(member.pid, message.port, message.path)
        elif isinstance(message, Ready):
            self._on_member_ready(member, message)
        elif isinstance(message, Failed):
            member.failure = message.text
        elif isinstance(message, Restart):
            self._restart()

    def _open(self, member: Member, find: Callable[[], KeptPort]) -> None:
        try:
            if self._stops:
                raise OSError(0, "svc is stopping")
            kept = find()
        except OSError as error:
            self._tell(member, Refused(error.errno or 0, str(error.strerror), str(error.filename or "")))
            return
        for position, group in enumerate(kept.sockets):
            own = [sock.fileno() for index, sock in enumerate(group) if index % self._count == member.place or len(group) == 1]
            others = [sock.fileno() for sock in group if sock.fileno() not in own]
            self._tell(member, Opened(len(own), position == len(kept.sockets) - 1), [*own, *others])

    def _tell(self, member: Member, message: Message, descriptors: list[int] | None = None) -> None:
        try:
            member.channel.send(message, descriptors or ())
        except OSError:
            pass  # it is ending, or hangs: it is replaced

    def _tell_all(self, message: Message) -> None:
        for member in self._members.values():
            self._tell(member, message)

    def _on_member_ready(self, member: Member, message: Ready) -> None:
        now = self._clock.monotonic()
        member.state, member.errors, member.beat_at = State.READY, message.errors, now
        self._numbers[member.place] = message.number
        ready = [each for each in self._members.values() if each.state is State.READY and each.generation == self._generation]
        for old in list(self._members.values()):
            new = next((each for each in ready if each.place == old.place % self._count), None)
            if old.state is State.READY and old.generation < self._generation and new is not None:
                self._replace(old, new)
        if not self._said_ready:
            if len(ready) < self._count:
                if member.place == 0:
                    self._due |= dict.fromkeys(range(1, self._count), now)
                return
            self._said_ready = True
            self._complete()
            self._on_ready(ready[0].errors)
            for address in self._sockets.unused:
                self._log(
                    "warn",
                    f"{address} was opened by what has started svc, and no setting of a port and its addresses fits: nobody answers there",
                )
            self._supervisor.notify("READY=1")
        elif self._to_renew and self._is_new(self._to_renew[0]) and member.place == self._to_renew[0]:
            self._renew_next()

    # --- restart -------------------------------------------------------------------------------------------------------------------------

    def _restart(self) -> None:
        if self._stops or self._check is not None:  # the program that is about to be executed reads the configuration as it is then
            return
        if self._to_renew:
            self._is_to_restart = True
            return
        if self._exits_on_restart:
            self._stop(signal.SIGTERM)
            return
        self._log("notify", "Restarting svc.")
        self._supervisor.notify(f"RELOADING=1\nMONOTONIC_USEC={int(self._clock.monotonic() * 1e6)}")
        self._tell_all(NotRestarted(None))
        try:
            self._check = self._renewal.begin_check(self._state())
        except OSError as error:
            self._give_up_restart(str(error))

    def _on_check_ended(self, status: int) -> None:
        """The program as it is now has said whether it could start."""
        check, self._check = self._check, None
        assert check is not None
        if self._stops:
            return
        reason = check.reason(status) if status else self._execute()
        self._give_up_restart(reason)

    def _execute(self) -> str:
        """Go on as the program that is there now. Returns only if that fails, with the reason."""
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)  # until it has handlers, they wait
        reason = self._renewal.execute(self._state())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        return reason

    def _give_up_restart(self, reason: str) -> None:
        self._to_renew.clear()
        self._set(RENEWING, 0)
        self._log("error", f"svc is not restarted, and goes on as it is: {reason}")
        self._supervisor.notify(f"READY=1\nSTATUS=not restarted: {' '.join(reason.split())}")
        self._tell_all(NotRestarted(reason))
        self._restart_again()

    def _restart_again(self) -> None:
        if self._is_to_restart:
            self._is_to_restart = False
            self._restart()

    def _state(self) -> ParentState:
        """For the program that this process executes; what it names stays open there."""
        now = self._clock.monotonic()
        members = [
            MemberState(each.place, each.generation, each.pid, each.channel.sock.fileno(), each.slot, now - each.started, each.state.value)
            for each in self._members.values()
        ]
        sockets = self._sockets
        return ParentState(self._generation, self._numbers, self._beats_file, self._renewal.lock, members, sockets.state(), sockets.given)

    def _renew_next(self) -> None:
        """Start the next one that is of the program before; if another has had to be started there meanwhile, that is it."""
        while self._to_renew and any(
            each.place == self._to_renew[0] and each.generation == self._generation and each.state is State.READY
            for each in self._members.values()
        ):
            del self._to_renew[0]
        if self._to_renew:
            self._due[self._to_renew[0]] = self._clock.monotonic()
            return
        self._set(RENEWING, int(self._is_to_restart))
        self._complete()
        self._log("notify", "svc has been restarted.")
        self._supervisor.notify("READY=1\nSTATUS=restarted")
        self._restart_again()

    def _complete(self) -> None:
        """All instances have been started."""
        (before,) = BEAT.unpack_from(self._beats, COMPLETED * BEAT.size)
        self._set(COMPLETED, before + 1)

    def _set(self, cell: int, value: int) -> None:
        """What the instances see (`link`)."""
        BEAT.pack_into(self._beats, cell * BEAT.size, value)

    def _replace(self, old: Member, new: Member) -> None:
        """Both serve: the old one hands over what is idle, and ends."""
        old.state = State.RETIRING
        try:
            here, there = pair()
        except OSError:  # no descriptor is left: it answers what is under way, and its idle clients connect again
            old.signal(signal.SIGTERM)
            return
        with here, there:
            self._tell(new, Succeed(), [there.fileno()])
            self._tell(old, Retire(), [here.fileno()])

    # --- signals and ends ------------------------------------------------------------------------------------------------------------------

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)  # this runs in the middle of anything

    def _act_on_signals(self) -> None:
        signals, self._signals = self._signals, []
        for number in signals:
            if number == signal.SIGCHLD:
                self._reap()
            elif number in STOPPING:
                self._stop(number)
            elif number == RESTARTING:
                self._restart()
            else:
                for member in self._members.values():
                    member.signal(number)

    def _stop(self, number: int) -> None:
        """First call: each instance finishes what is under way. Second call: at once."""
        self._stops += 1
        self._due.clear()
        self._sockets.close()
        if self._stops == 1:
            self._supervisor.notify("STOPPING=1")
        for member in self._members.values():
            member.signal(signal.SIGTERM)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            if self._check is not None and pid == self._check.pid:
                self._on_check_ended(code)
            elif pid in self._members:
                self._read(self._members[pid])  # what it has said last
                self._on_ended(self._members.pop(pid), code)

    def _on_ended(self, member: Member, code: int) -> None:
        """`code`: its exit status, or the negative number of the signal that ended it."""
        self._hear_no_more(member)
        member.channel.close()
        self._sockets.leave(member.pid)
        if self._stops:
            if code != -signal.SIGTERM:
                self._status = self._status or (code if code >= 0 else SIGNALLED - code)
            return
        if member.state is State.RETIRING:
            if not self._to_renew and not any(each.state is not State.READY for each in self._members.values()):
                self._sockets.close_unused()
            return
        how = f"with status {code}" if code >= 0 else f"by {_name_of(-code)}"
        if member.failure:
            how += f" ({member.failure})"
        if not self._said_ready and member.place == 0 and member.state is State.STARTING:  # it has said why
            self._fail(code if code >= 0 else SIGNALLED - code, "" if code >= 0 else f"{member} has ended {how} before it served")
        elif self._to_renew and member.state is State.STARTING and member.place == self._to_renew[0] and self._has_other(member):
            self._give_up_restart(f"{member} has ended {how} before it served")
        else:
            self._start_again(member, how)

    def _has_other(self, member: Member) -> bool:
        return any(each.place == member.place and each.state is State.READY for each in self._members.values())

    def _start_again(self, member: Member, how: str) -> None:
        now = self._clock.monotonic()
        if member.place >= self._count:
            return
        pause = self._lives[member.place].ended(now - member.started)
        if pause is None:
            self._fail(1, f"{member} has ended {how}, as those before it as soon as they were started: svc gives up, see the lines above")
            return
        self._log("error", f"{member} has ended {how}; it is started again{f' in {pause:.0f} s' if pause else ''}")
        self._due[member.place] = now + pause

    def _fail(self, status: int, text: str) -> None:
        """End with this status, as far as anything still runs in an orderly way."""
        if text:
            self._log("fatal", text)
            print(f"Error: {text}", file=sys.stderr)
        self._status = status
        self._stop(signal.SIGTERM)

    def _watch(self) -> None:
        """Look at the beats of the instances that serve, and give a sign of life."""
        now = self._clock.monotonic()
        period = self._supervisor.period
        if period is not None and now - self._signalled >= period and self._is_alive(now):
            self._signalled = now
            self._supervisor.notify("WATCHDOG=1")
        if now - self._watched < WATCH_SECONDS:
            return
        was_away = now - self._watched > HANG_SECONDS / 3  # this process was stopped, and perhaps all of them
        self._watched = now
        for member in self._members.values():
            (beat,) = BEAT.unpack_from(self._beats, member.slot * BEAT.size)
            if beat != member.beat or was_away:
                member.beat, member.beat_at = beat, now
            elif member.state is not State.STARTING and now - member.beat_at > HANG_SECONDS + ABORT_SECONDS and member.is_aborted:
                member.signal(signal.SIGKILL)
            elif member.state is not State.STARTING and now - member.beat_at > HANG_SECONDS and not member.is_aborted:
                member.is_aborted = True
                self._log(
                    "error",
                    f"{member} has done nothing for {HANG_SECONDS:.0f} s: it is ended, standard error has the stacks of its threads",
                )
                member.signal(signal.SIGABRT)

    def _is_alive(self, now: float) -> bool:
        """Whether any instance works, or is about to: of one that hangs beside others, or that has just ended, this process takes care."""
        return bool(self._due) or any(
            each.state is State.STARTING or now - each.beat_at <= HANG_SECONDS + 2 * ABORT_SECONDS for each in self._members.values()
        )


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


def _drain(sock: socket.socket) -> None:
    try:
        while sock.recv(4096):
            pass
    except BlockingIOError:
        pass


def _nameless_file() -> int:
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
