"""`server.mqtt` of application code: clients that are connected, what happens to them, who may connect (spec: mqtt §10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from svc.api.thread_guard import REGISTERING, refuse_helper
from svc.mqtt.clients import MqttSession, MqttSessions
from svc.mqtt.listeners import ApplicationListeners, ClientListeners


class MqttServer:
    """The broker: `events` tells of clients, `sessions` are those that are connected now, `authorize_client` decides who may connect."""

    def __init__(self, listeners: ClientListeners, find_sessions: Callable[[], list[MqttSession]]) -> None:
        """`listeners`: of all applications."""
        self._all = listeners
        self._own = ApplicationListeners()
        self._is_withdrawn = False
        self.events = MqttEvents(self)
        self.sessions = MqttSessions(find_sessions)

    @property
    def authorize_client(self) -> Callable[..., Any] | None:
        """A function that is called with CONNECT (`client_id`, `username`, `password`, `version`, `will`, `properties`, ...) and the user, None if anonymous.
        It may be async, and raises to refuse: with a `code` that CONNACK of version 5 may have, or 0x87 without one, in 3.1.1 with the nearest. None: who
        logs in may connect."""
        return self._own.authorize

    @authorize_client.setter
    def authorize_client(self, function: Callable[..., Any] | None) -> None:
        if function is not None and not callable(function):
            raise TypeError(f"server.mqtt.authorize_client is a function or None, not {type(function).__name__}")
        self._check()
        self._own.authorize = function

    def _check(self) -> None:
        refuse_helper(REGISTERING)
        if self._is_withdrawn:
            raise RuntimeError("this version of the application has been replaced: it cannot register anything any more")

    # --- the application -----------------------------------------------------------------------------------------------------------------

    def activate(self, replaced: MqttServer | None = None) -> None:
        """Take effect, in the place of another one."""
        self._all.activate(self._own, None if replaced is None else replaced._own)
        if replaced is not None:
            replaced.withdraw()

    def withdraw(self) -> None:
        """Nothing of it is called any more, and nothing can be registered."""
        self._is_withdrawn = True
        self._all.withdraw(self._own)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is registered in the block is taken back if it raises."""
        before = self._own.state()
        try:
            yield
        except BaseException:
            self._own.restore(before)
            raise


class MqttEvents:
    """What happens to clients. Listeners are plain or async; what they raise is logged, and does nothing else. They go with their application."""

    def __init__(self, server: MqttServer) -> None:
        self._server = server

    def on(self, name: str, callback: Callable[..., Any]) -> MqttEvents:
        """Call `callback` from now on. `name` is one of: "connection" (with its socket), "connected" (session, socket), "auth-failed" (packet, socket, error,
        which is None if there were no credentials), "disconnected" (session, socket), "error" (error, socket, packet, session: the client, or the server, has
        done something wrong, so the connection ends). Arguments that it does not take are left out. Raises ValueError for another name."""
        if not callable(callback):
            raise TypeError(f"server.mqtt.events.on needs a function to call, not {type(callback).__name__}")
        self._server._check()
        self._server._own.add(name, callback)
        return self

    def off(self, name: str, callback: Callable[..., Any]) -> MqttEvents:
        """Do not call `callback` for `name` any more. Of one that was added several times the last is removed."""
        self._server._own.remove(name, callback)
        return self
