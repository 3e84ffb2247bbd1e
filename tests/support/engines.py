"""Engines of nodes, as real processes, with the certificates that svc makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from svc.clock import SYSTEM_CLOCK
from svc.cluster.admission import inbox_of
from svc.cluster.certificates import certificate_check, engine_context
from svc.cluster.client import Address, Connection
from svc.cluster.engine import Engine, EngineSetup, State
from svc.cluster.engine_config import EnginePort
from svc.cluster.identity import KnownNode, Trust
from svc.tls.certificates import CERTIFICATE_FILE, KEY_FILE, renew_certificates

LIMIT = 120.0  # seconds, also on a machine that is busy: only a test that fails waits so long


async def until(reached: Callable[[], Any], what: object = "") -> Any:
    """What `reached` returns, as soon as that is true."""
    async with asyncio.timeout(LIMIT):
        while not (found := reached()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return found


class LogLines:
    """A Logger that keeps what is logged: (level, text)."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda *messages: self.lines.append((level, " ".join(map(str, messages))))

    def has(self, text: str, *, levels: tuple[str, ...] = ("info", "warn", "error")) -> bool:
        return any(text in line for level, line in self.lines if level in levels)


class NodeEngine:
    """The engine of one node. `names`: of the nodes it knows."""

    def __init__(self, root: Path, name: str, **setup: Any) -> None:
        self.name = name
        self.root = root / name
        self.root.mkdir(parents=True, exist_ok=True)
        keys = self.root / "keys"
        if not (keys / CERTIFICATE_FILE).exists():
            renew_certificates(self.root, name)
        self.certificate, self.key = keys / CERTIFICATE_FILE, keys / KEY_FILE
        self.log = LogLines()
        self.downs: list[str] = []
        setup.setdefault("port", EnginePort(0, "127.0.0.1", self.certificate, self.key))
        self.engine = Engine(
            EngineSetup(name, setup.pop("port"), self.root / "replication", **setup),
            Trust(name),
            self.log,  # type: ignore[arg-type]
            SYSTEM_CLOCK,
            on_down=self.downs.append,
        )

    def known(self, revoked: frozenset[int] = frozenset()) -> KnownNode:
        return KnownNode(self.name, (self.certificate.read_text(),), revoked)

    @property
    def reloads(self) -> int:
        return sum("Reloaded server configuration" in line for _, line in self.log.lines)

    async def run(self) -> Connection:
        """Start it. Returns the owner's connection."""
        self.engine.start()
        return await self.running()

    async def running(self) -> Connection:
        await until(lambda: self.engine.state is State.RUNNING, self.log.lines)
        self.engine.check()
        assert self.engine.connection is not None
        return self.engine.connection

    async def stop(self) -> None:
        self.engine.stop()
        await self.engine.wait_stopped()
        self.engine.check()
        assert self.engine.state is State.STOPPED

    async def connect_to(self, other: NodeEngine, *, certificate: NodeEngine | None = None, **more: Any) -> Connection:
        """A connection to the engine of another node. `certificate`: whose is shown. Raises ConnectFailed."""
        trust = Trust(self.name, {other.name: other.known()})
        shown = certificate or self
        context = engine_context(shown.certificate, shown.key, trust.anchors(other.name))
        address = Address("127.0.0.1", other.engine.port, context, certificate_check(trust, other.name))
        return await Connection.open(address, self.name, inbox_of(self.name), **more)


async def knows(node: NodeEngine, *others: NodeEngine) -> None:
    """From now on `node` knows these."""
    await trusts(node, Trust(node.name, {other.name: other.known() for other in others}))


async def trusts(node: NodeEngine, trust: Trust) -> None:
    """Returns when its engine has dealt with it: who is cut has been cut."""
    before = node.reloads
    node.engine.set_trust(trust)
    await until(lambda: node.reloads > before, node.log.lines)


async def close_all(*things: Any) -> None:
    for each in things:
        with suppress(Exception):
            await (each.stop() if isinstance(each, NodeEngine) else each.close())
