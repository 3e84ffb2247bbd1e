"""The way of an operation, in any instance, to the one that leads replication (spec: replication-nodes §1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from svc.config.document import write_private
from svc.errors import Problem, ServerError
from svc.operations.threads import in_thread

if TYPE_CHECKING:
    from svc.siblings import Answer, Siblings

TOPIC = "replication"
SECONDS = 10.0  # for an answer, where nothing else is said
OPERATION_SECONDS = 900.0  # for operations on other nodes
LEADER_SECONDS = 10.0  # for which a new leader is waited for: one may just have ended
LARGEST_MESSAGE = 4 << 20  # bytes that siblings hand each other without a file
_PAUSE = 0.1

ReplicationFunction = Callable[[Any], Awaitable[Any]]
"""What the leading instance does with a value of msgpack: returns another one. Raises Problem."""


class ReplicationControl:
    """Asks the instance that leads, which may be this one. All of it raises 503 if none does."""

    def __init__(self, siblings: Siblings, directory: Path) -> None:
        """`directory`: where instances hand each other what is too large for a message."""
        self._siblings = siblings
        self._directory = directory
        self._functions: Mapping[str, ReplicationFunction] = {}
        siblings.answer(TOPIC, self._answer)

    def lead(self, functions: Mapping[str, ReplicationFunction]) -> None:
        """This instance leads: it answers with these."""
        self._functions = functions

    def resign(self) -> None:
        self._functions = {}

    # --- for operations ----------------------------------------------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        """Name of a node -> what `cluster_status` says of the replication with it (spec: replication-nodes §4)."""
        found: dict[str, Any] = await self._ask("status", None)
        return found

    async def network(self, seconds: float) -> list[dict[str, Any]]:
        """What each other node says of its connections: `name`, `response_time` in ms, `connected_nodes`, `routes`; or `name` and `error`."""
        found: list[dict[str, Any]] = await self._ask("network", seconds, SECONDS + seconds)
        return found

    async def connected_nodes(self) -> list[str]:
        """The names of the nodes that this one is connected to."""
        found: list[str] = await self._ask("connected_nodes", None)
        return found

    async def purge(self, database: str, keep: int | None, seq: int | None) -> Any:
        """Shorten the stream of a database. Raises Problem."""
        return await self._ask("purge", [database, keep, seq], 60.0)

    async def run_on_others(self, body: Mapping[str, Any], user: str | None) -> list[dict[str, Any]]:
        """Run an operation on all other nodes at the same time: `node`, and `result` or `error`."""
        found: list[dict[str, Any]] = await self._ask("run_on_others", [dict(body), user], OPERATION_SECONDS)
        return found

    async def run_on(self, node: str, body: Mapping[str, Any], user: str | None) -> Any:
        """The result of an operation on one other node. Raises Problem."""
        return await self._ask("run_on", [node, dict(body), user], OPERATION_SECONDS)

    async def has_caught_up(self, node: str) -> bool:
        """Whether a node is connected, and has applied all that it knows others to have written."""
        found: bool = await self._ask("has_caught_up", node, SECONDS)
        return found

    async def look_at_routes(self) -> None:
        """The routes in the configuration file are others now."""
        await self._ask("routes", None)

    # --- the way -----------------------------------------------------------------------------------------------------------------------

    async def _ask(self, function: str, value: Any, seconds: float = SECONDS) -> Any:
        deadline = asyncio.get_running_loop().time() + LEADER_SECONDS
        while True:
            if self._functions:
                return await self._functions[function](value)
            answers = await self._ask_siblings(function, value, seconds)
            for answer in answers:
                if answer.value is not None:
                    return _result(answer.value)
            faults = [answer.error for answer in answers if answer.error]
            if faults:  # it may have been done all the same
                raise ServerError(f"The instance that replicates has not answered: {faults[0]}", 503)
            if asyncio.get_running_loop().time() > deadline:
                raise ServerError("No instance of this node replicates at present; the log says why", 503)
            await asyncio.sleep(_PAUSE)

    async def _ask_siblings(self, function: str, value: Any, seconds: float) -> list[Answer]:
        try:
            data = msgspec.msgpack.encode(value)
            if len(data) <= LARGEST_MESSAGE:
                return await self._siblings.ask(TOPIC, [function, data, None], seconds)
            file = await in_thread(partial(self._write, data))
        except (TypeError, ValueError, OSError) as error:
            raise ServerError(f"This cannot be handed to the instance that replicates: {error}") from None
        try:
            return await self._siblings.ask(TOPIC, [function, b"", str(file)], seconds)
        finally:
            await in_thread(partial(file.unlink, missing_ok=True))

    def _write(self, data: bytes) -> Path:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._directory / f"request-{uuid4().hex}"
        write_private(file, data)
        return file

    def _answer(self, value: Any) -> Any:
        """For a sibling: None if this instance does not lead."""
        return self._perform(*value) if self._functions else None

    async def _perform(self, function: str, data: bytes, file: str | None) -> dict[str, Any]:
        try:
            if file is not None:
                data = await in_thread(Path(file).read_bytes)
            value = msgspec.msgpack.decode(data)
            return {"result": await self._functions[function](value)}
        except Problem as error:
            return {"problem": [error.status_code, error.message, error.code]}


def _result(answer: Mapping[str, Any]) -> Any:
    if "problem" in answer:
        status, message, code = answer["problem"]
        raise Problem(message, status, code)
    return answer["result"]
