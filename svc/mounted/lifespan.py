"""The lifespan of a mounted application: its start before the first request and its end with the instance (ASGI lifespan 2.0; spec: asgi §1.4).

STARTING --startup.complete--> RUNNING --shutdown.*--> ENDED
    |  \\--startup.failed-----> FAILED
    \\--raises, returns-------> UNSUPPORTED
"""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import Any, Protocol

from svc.loop import contained
from svc.mounted.messages import LIFESPAN_VERSIONS, AsgiApplication, Message, MessageError, kind_of

MAX_REASON = 300  # characters of an application's text in an answer


class Log(Protocol):
    """A `logs.Logger`."""

    def error(self, *messages: object) -> None: ...
    def info(self, *messages: object) -> None: ...


class LifespanState(IntEnum):
    NEW = 0
    STARTING = 1
    RUNNING = 2
    UNSUPPORTED = 3
    FAILED = 4
    ENDED = 5


class Lifespan:
    """`name`: of the application, in the log. `values`: what the application has put into its state; each request gets a copy."""

    def __init__(self, app: AsgiApplication, name: str, loop: asyncio.AbstractEventLoop, log: Log) -> None:
        self._app = app
        self._name = name
        self._loop = loop
        self._log = log
        self.state = LifespanState.NEW
        self.values: dict[str, Any] = {}
        self.reason = ""  # why the start has failed, one line
        self._task: asyncio.Task[None] | None = None
        self._events: asyncio.Queue[Message] = asyncio.Queue()
        self._started = asyncio.Event()
        self._stopped = asyncio.Event()

    @property
    def is_settled(self) -> bool:
        """The start is over, in whatever way."""
        return self.state > LifespanState.STARTING

    def start(self) -> None:
        """Begin the start: it goes on when the loop runs. A second call does nothing."""
        if self.state is LifespanState.NEW:
            self.state = LifespanState.STARTING
            self._events.put_nowait({"type": "lifespan.startup"})
            # Not by the factory of the loop: it is set while an application is loaded, to cancel the tasks of a version that is replaced.
            self._task = asyncio.Task(self._run(), loop=self._loop)

    async def wait(self) -> None:
        """Until the start is over."""
        self.start()
        await self._started.wait()

    async def stop(self, seconds: float) -> None:
        """Have the application end, and wait for it; after `seconds` it is cancelled."""
        task = self._task
        if task is None or task.done():
            self.state = LifespanState.ENDED
            return
        if self.state is LifespanState.RUNNING:
            self._events.put_nowait({"type": "lifespan.shutdown"})
            waiting = self._loop.create_task(self._stopped.wait())
            await asyncio.wait({waiting, task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if not self._stopped.is_set() and not task.done():
                self._log.error(f"{self._name}: has not ended within {seconds:g} s")
        self.state = LifespanState.ENDED
        # What has said that it is complete may return by itself.
        await asyncio.wait({task}, timeout=seconds if self._stopped.is_set() else 0)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=seconds)

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": LIFESPAN_VERSIONS.copy(), "state": self.values}
        try:
            await self._app(scope, self._events.get, self._send)
        except Exception as error:
            if self.state is LifespanState.STARTING:
                # "The server must continue": the application does not know of lifespans, or could not say that it has failed.
                self._log.info(f"{self._name}: is served without a lifespan: {_line(f'{type(error).__name__}: {error}')}")
            elif self.state is LifespanState.RUNNING:
                self._log.error(f"{self._name}: its lifespan has ended", error)
            elif self.state is LifespanState.ENDED and not self._stopped.is_set():
                self._log.error(f"{self._name}: at its end", error)
        except BaseException as raised:
            failure = contained(raised)
            if self.state is LifespanState.STARTING:
                self.state, self.reason = LifespanState.FAILED, _line(str(failure))
            self._log.error(f"{self._name}: its lifespan has ended", failure)
        finally:
            if self.state is LifespanState.STARTING:
                self.state = LifespanState.UNSUPPORTED
            self._started.set()
            self._stopped.set()

    async def _send(self, message: Message) -> None:
        kind = kind_of(message)
        if kind == "lifespan.startup.complete" and self.state is LifespanState.STARTING:
            self.state = LifespanState.RUNNING
        elif kind == "lifespan.startup.failed" and self.state is LifespanState.STARTING:
            self.state = LifespanState.FAILED
            text = str(message.get("message", "")).strip()
            self.reason = _line(text) or "no reason was given"
            self._log.error(f"{self._name}: has not started: {text or self.reason}")
        elif kind == "lifespan.shutdown.complete" and self.state is not LifespanState.STARTING:
            self._stopped.set()
        elif kind == "lifespan.shutdown.failed" and self.state is not LifespanState.STARTING:
            self._log.error(f"{self._name}: has not ended well: {str(message.get('message', '')).strip()}")
            self._stopped.set()
        else:
            raise MessageError(f"{kind!r} is not expected here")
        if self.state is not LifespanState.STARTING:
            self._started.set()


def _line(text: str) -> str:
    """The last line: of a traceback, the exception."""
    lines = text.strip().splitlines()
    return lines[-1].strip()[:MAX_REASON] if lines else ""
