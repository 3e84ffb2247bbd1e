"""What the instance that leads replication does for operations of all instances, and for other nodes (spec: replication-nodes §1, §4, §5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from svc.cluster.client import Unavailable
from svc.cluster.peer import Peer
from svc.cluster.pieces import RequestRefused
from svc.cluster.replication import Replication
from svc.cluster.status import NodeState, connected_nodes, state_of, status_of
from svc.errors import Problem, ServerError
from svc.operations.cluster_nodes import nodes_of_routes
from svc.operations.replication_control import OPERATION_SECONDS, ReplicationFunction

logger = logging.getLogger("svc.cluster")

OPERATION, STATE = "operation", "state"  # kinds of requests
STATE_SECONDS = 10.0  # for which another node is waited for
_UNEXPECTED = "There was an error processing the operation; see the log of the node"

RunOperation = Callable[[Mapping[str, Any], str, str | None], Awaitable[Any]]
"""(body, node that asks, its user) -> the 200 body. Raises Problem."""
T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder(enc_hook=str)


class OperationRequest(msgspec.Struct):
    """`body`: of the operation. `user`: name of the one who asked for it there."""

    body: dict[str, Any]
    user: str | None


class OperationAnswer(msgspec.Struct):
    """`problem`: status, message and code, in place of a result."""

    result: Any = None
    problem: tuple[int, str, str] | None = None


def _refuse_extension(code: int, data: memoryview) -> Any:
    raise ValueError("no node sends extensions of MessagePack")


_DAMAGE = (msgspec.MsgspecError, ValueError, RecursionError)  # what decoding finds
_decode_state = msgspec.msgpack.Decoder(NodeState, ext_hook=_refuse_extension).decode
_decode_request = msgspec.msgpack.Decoder(OperationRequest, ext_hook=_refuse_extension).decode
_decode_answer = msgspec.msgpack.Decoder(OperationAnswer, ext_hook=_refuse_extension).decode


class ReplicationFunctions:
    """Of one time of leading. `routes`: what the configuration file has of them now."""

    def __init__(self, replication: Replication, run: RunOperation, read_routes: Callable[[], Awaitable[list[Any]]]) -> None:
        """Before `replication.begin`."""
        self._replication = replication
        self._run = run
        self._read_routes = read_routes
        replication.requests.answer(OPERATION, self._answer_operation)
        replication.requests.answer(STATE, self._answer_state)

    def by_name(self) -> dict[str, ReplicationFunction]:
        return {
            "status": self._status,
            "network": self._network,
            "connected_nodes": self._connected_nodes,
            "purge": self._purge,
            "run_on_others": self._run_on_others,
            "run_on": self._run_on,
            "routes": self._look_at_routes,
            "has_caught_up": self._has_caught_up,
        }

    # --- how it is ---------------------------------------------------------------------------------------------------------------------

    async def _connected_nodes(self, _: Any) -> list[str]:
        return connected_nodes(self._replication)

    async def _status(self, _: Any) -> dict[str, Any]:
        return {name: status_of(self._replication, peer) for name, peer in sorted(self._replication.peers.items())}

    async def _has_caught_up(self, name: str) -> bool:
        peer = self._replication.peers.get(name)
        try:
            return peer is not None and (await self._state_of(peer)).has_caught_up
        except (Problem, Unavailable, RequestRefused):
            return False

    async def _network(self, seconds: float) -> list[dict[str, Any]]:
        loop = asyncio.get_running_loop()

        async def ask(peer: Peer) -> dict[str, Any]:
            began = loop.time()
            state = await self._state_of(peer)
            return {
                "name": peer.name,
                "response_time": round((loop.time() - began) * 1000, 1),
                "connected_nodes": state.connected_nodes,
                "routes": state.routes,
            }

        found = await self._from_all(ask, seconds)
        return [{"name": name, "error": str(answer)} if isinstance(answer, Exception) else answer for name, answer in sorted(found.items())]

    async def _state_of(self, peer: Peer) -> NodeState:
        answer = await peer.ask(STATE, b"", seconds=STATE_SECONDS)
        try:
            return _decode_state(answer)
        except _DAMAGE:
            raise ServerError("its answer cannot be read; it may have another version of svc", 502) from None

    async def _answer_state(self, node: str, data: bytes) -> bytes:
        return _encoder.encode(state_of(self._replication, await self._read_routes()))

    async def _from_all(self, ask: Callable[[Peer], Awaitable[T]], seconds: float) -> dict[str, T | Exception]:
        """Of each other node what `ask` returns, or why there is nothing."""

        async def answer(peer: Peer) -> T | Exception:
            try:
                async with asyncio.timeout(seconds):
                    return await ask(peer)
            except TimeoutError:
                return ServerError("it has not answered", 504)
            except (Problem, Unavailable, RequestRefused) as error:
                return error

        peers = dict(self._replication.peers)
        return dict(zip(peers, await asyncio.gather(*map(answer, peers.values())), strict=True))

    # --- what it does ------------------------------------------------------------------------------------------------------------------

    async def _purge(self, value: Any) -> Any:
        database, keep, seq = value
        await self._replication.purge(database, keep=keep, seq=seq)

    async def _look_at_routes(self, _: Any) -> None:
        self._replication.set_routes(nodes_of_routes(await self._read_routes()))

    # --- operations on other nodes -----------------------------------------------------------------------------------------------------

    async def _run_on_others(self, value: Any) -> list[dict[str, Any]]:
        request = _encoder.encode(OperationRequest(*value))
        found = await self._from_all(lambda peer: self._ask_operation(peer, request), OPERATION_SECONDS)
        return [
            {"node": name, "error": str(answer)} if isinstance(answer, Exception) else {"node": name, "result": answer[0]}
            for name, answer in sorted(found.items())
        ]

    async def _run_on(self, value: Any) -> Any:
        name, body, user = value
        peer = self._replication.peers.get(name)
        if peer is None:
            raise ServerError(f"The node '{name}' is not known", 404)
        try:
            (result,) = await self._ask_operation(peer, _encoder.encode(OperationRequest(body, user)))
        except (Unavailable, RequestRefused) as error:
            raise ServerError(f"The node '{name}' has not done it: {error}", 503) from None
        return result

    async def _ask_operation(self, peer: Peer, request: bytes) -> tuple[Any]:
        """In a tuple, to be told from an error."""
        data = await peer.ask(OPERATION, request, seconds=OPERATION_SECONDS)
        try:
            answer = _decode_answer(data)
        except _DAMAGE:
            raise ServerError("its answer cannot be read; it may have another version of svc", 502) from None
        if answer.problem is not None:
            status, message, code = answer.problem
            raise Problem(message, status if 400 <= status <= 599 else 502, code)
        return (answer.result,)

    async def _answer_operation(self, node: str, data: bytes) -> bytes:
        try:
            request = _decode_request(data)
        except _DAMAGE:
            raise RequestRefused("the request is no operation; it may have another version of svc") from None
        try:
            answer = OperationAnswer(await self._run(request.body, node, request.user))
        except Problem as error:
            answer = OperationAnswer(problem=(error.status_code, error.message, error.code))
        except Exception:
            logger.exception("an operation that %s has asked for has failed", node)
            answer = OperationAnswer(problem=(500, _UNEXPECTED, ""))
        return _encoder.encode(answer)
