"""Streams end with what let their caller in (spec: realtime §1 rule 7, security §3, rows §2.7).

A request is over before its credentials are; an event stream or a WebSocket may outlive them. So of a caller who opens one its `Login` is kept: the account
and the token, session, certificate or API key that was shown. Every login is asked whether it still counts

- at once when its account, its session or its key has been written to, here or by another process,
- every SWEEP seconds, for what ends by time or elsewhere: one timer for all of them, and slices of some milliseconds.

Streams are held weakly: one that is gone is forgotten, and nobody has to say so.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from svc.auth.users import User, UserDirectory
from svc.clock import Clock
from svc.errors import Problem
from svc.store import Database, LogEntry
from svc.store.system import KEY_TABLE, SESSION_TABLE, USER_TABLE

SWEEP = 30.0  # seconds
SLICE = 0.002  # seconds of a turn
LOGIN_ENDED = "Login required"
_LOGIN_TABLES = frozenset({USER_TABLE, SESSION_TABLE, KEY_TABLE})

Listener = Callable[[Database, list[LogEntry]], None]


class LoginStream(Protocol):
    """What goes on for a caller: the feed of an event stream, the receiver of a tunnel."""

    def login_ended(self) -> None:
        """What let the caller in has ended: end soon. Harmless on a stream that has ended already."""


class Login:
    """What let a caller in. `session_id`: of the session, where it was one; `key_name`: of the API key. `counts`: whether it still does; may raise Problem 401
    instead."""

    __slots__ = ("counts", "key_name", "session_id", "username")

    def __init__(self, username: str, counts: Callable[[], bool], session_id: str | None = None, key_name: str | None = None) -> None:
        self.username = username
        self.counts = counts
        self.session_id = session_id
        self.key_name = key_name


def account_counts(directory: UserDirectory, user: User) -> bool:
    """Whether the account is there, active, and has the password it had (`User.login_id`); of an API key whether it counts."""
    return directory.current(user) is not None


class _StreamRef(weakref.ref[LoginStream]):
    """`key`: of its watch."""

    __slots__ = ("key",)
    key: int


class _Watch:
    __slots__ = ("login", "stream")

    def __init__(self, login: Login, stream: weakref.ref[LoginStream]) -> None:
        self.login = login
        self.stream = stream


class LoginWatches:
    """Those of all ports of a server. Used on the thread of `loop` alone."""

    def __init__(
        self,
        directory: UserDirectory,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        follow: Callable[[Listener], Any] = lambda listener: None,
        unfollow: Callable[[Listener], Any] = lambda listener: None,
    ) -> None:
        """`follow`, `unfollow`: called with a listener for the commits of the system database, while there are streams."""
        self._directory = directory
        self._loop = loop
        self._now = clock.monotonic
        self._follow = follow
        self._unfollow = unfollow
        self._watches: dict[int, _Watch] = {}  # by the id of the stream
        self._forget = self._gone  # one object for all of them
        self._by_row: dict[tuple[str, str], dict[_Watch, None]] = {}  # by table of the system database and key
        self._to_ask: dict[_Watch, None] = {}  # each once, however often its rows are written to
        self._is_asking = False  # a slice is scheduled
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._watches)

    def watch(self, login: Login, stream: LoginStream) -> None:
        """End this stream when the login does. A second call for the same stream replaces the login."""
        key = id(stream)
        self._remove(key)
        found = _StreamRef(stream, self._forget)
        found.key = key
        watch = self._watches[key] = _Watch(login, found)
        for row in _rows(login):
            self._by_row.setdefault(row, {})[watch] = None
        if self._timer is None:
            self._follow(self.accounts_changed)
            self._timer = self._loop.call_later(SWEEP, self._sweep)
        self._ask(watch)  # it may have ended while the stream was made

    def close(self) -> None:
        """The server stops."""
        self._watches.clear()
        self._by_row.clear()
        self._to_ask.clear()
        self._stop()

    def accounts_changed(self, database: Database, entries: list[LogEntry]) -> None:
        """Commits of the system database: ask the logins that they concern."""
        concerned: dict[_Watch, None] = {}
        for entry in entries:
            if entry.table in _LOGIN_TABLES:
                key = entry.id
                if key is None:  # the whole table
                    concerned.update(dict.fromkeys(self._watches.values()))
                elif isinstance(key, str):
                    concerned.update(self._by_row.get((entry.table, key), {}))
        if concerned:
            self._directory.refresh()  # it may be a commit of another process
            self._ask_all(concerned)

    def _sweep(self) -> None:
        self._timer = None
        if not self._watches:
            self._stop()
            return
        self._timer = self._loop.call_later(SWEEP, self._sweep)
        self._ask_all(self._watches.values())

    def _stop(self) -> None:
        self._unfollow(self.accounts_changed)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask_all(self, watches: Iterable[_Watch]) -> None:
        self._to_ask.update(dict.fromkeys(watches))
        if not self._is_asking:
            self._ask_slice()

    def _ask_slice(self) -> None:
        self._is_asking = False
        end = self._now() + SLICE
        while self._to_ask:
            watch = next(iter(self._to_ask))
            del self._to_ask[watch]
            self._ask(watch)
            if self._to_ask and self._now() >= end:
                self._is_asking = True
                self._loop.call_soon_threadsafe(self._ask_slice)  # wakes the loop, which may have decided already how long to wait
                return

    def _ask(self, watch: _Watch) -> None:
        stream = watch.stream()
        if stream is None or self._watches.get(id(stream)) is not watch:
            return
        try:
            counts = watch.login.counts()
        except Problem as problem:
            counts = problem.status_code != 401  # else it could not be found out: the next sweep asks again
        if not counts:
            self._remove(id(stream))
            stream.login_ended()

    def _gone(self, stream: weakref.ref[LoginStream]) -> None:
        assert isinstance(stream, _StreamRef)
        self._remove(stream.key)

    def _remove(self, key: int) -> None:
        watch = self._watches.pop(key, None)
        if watch is None:
            return
        for row in _rows(watch.login):
            found = self._by_row.get(row)
            if found is not None:
                found.pop(watch, None)
                if not found:
                    del self._by_row[row]


def _rows(login: Login) -> tuple[tuple[str, str], ...]:
    account = (USER_TABLE, login.username)
    if login.key_name is not None:
        return account, (KEY_TABLE, login.key_name)
    return (account,) if login.session_id is None else (account, (SESSION_TABLE, login.session_id))
