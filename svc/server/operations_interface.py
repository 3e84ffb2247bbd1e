"""What answers on the operations ports (spec: http §14, operations §1). The operations are imported when the first request asks for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from svc.analytics import Recorder
from svc.analytics.recorder import OPERATION_METHOD
from svc.auth.identify import Identifier
from svc.auth.origin_policy import OriginPolicy
from svc.errors import NotFound, Problem
from svc.http.compression import Compression
from svc.http.cors import OPERATIONS_METHODS, Cors
from svc.http.dispatch import Dispatcher
from svc.messages import Request, Response
from svc.operations.node import Node
from svc.reactor import Reactor
from svc.server.application_interfaces import request_decoder
from svc.siblings import Siblings

if TYPE_CHECKING:
    from svc.console import Console
    from svc.operations.endpoint import OperationsEndpoint
    from svc.operations.service import Operations

_FILES = "/_pages/"
_CONSOLE = ("/console", _FILES)
_READS = ("GET", "HEAD")


class OperationsInterface:
    """The `Handler` of the operations ports. `node`: what operations work on."""

    def __init__(self, node: Node, reactor: Reactor, is_ready: Callable[[], bool]) -> None:
        """`is_ready`: the answer of `/ready`; no operation begins while it is False."""
        self.node = node
        self._reactor = reactor
        self._is_ready = is_ready
        self._has_console = node.config.local_studio.enabled

    @cached_property
    def operations(self) -> Operations:
        """Runs operations for code, too."""
        from svc.operations.service import Operations

        return Operations(self.node)

    @cached_property
    def _endpoint(self) -> OperationsEndpoint:
        from svc.operations.endpoint import OperationsEndpoint

        config = self.node.config
        return OperationsEndpoint(
            self.operations,
            compression=Compression(config.http.compression_threshold),
            decoder=request_decoder(config),
            report=self._reactor.report_stream,
            is_ready=self._is_ready,
        )

    @cached_property
    def _console(self) -> Console:
        from svc.console import Console

        return Console(self.operations, Compression(self.node.config.http.compression_threshold))

    def _is_console(self, request: Request) -> bool:
        """Whether a page is asked for. `/` has one for browsers only: of operations and other clients this costs a comparison."""
        path = request.pathname
        if path == "/":
            return request.method in _READS and self._has_console and "text/html" in request.block.fields.get("accept", "")
        return path.startswith(_CONSOLE) and self._has_console and (path.startswith(_FILES) or path[len(_CONSOLE[0]) :][:1] in ("", "/"))

    def answer_siblings(self, siblings: Siblings) -> None:
        """Tell them what they ask about this process, to answer for all."""
        for topic, answer in (
            ("operations.metrics", lambda value: self._endpoint.metrics.answer_sibling(value)),
            ("operations.system_information", self._information),
            ("operations.get_status", self._status),
        ):
            siblings.answer(topic, answer)

    def _information(self, wanted: list[str]) -> Any:
        from svc.operations.system import answer_sibling

        return answer_sibling(self.node, wanted)

    def _status(self, _: Any) -> Any:
        from svc.operations.status import own_status

        return own_status(self.node)

    async def run_for_node(self, body: Mapping[str, Any], node: str, user: str | None) -> Any:
        """An operation that another node has asked for, in the name of one of its users. Raises Problem."""
        from svc.operations.replicated import run_for_node

        return await run_for_node(self.operations, body, node, user)

    async def send_to_node(self, name: str, body: Mapping[str, Any]) -> Any:
        """What an operation that another node runs answers. Raises Problem."""
        if self.node.replication is None:
            raise NotFound(f"The node '{name}' is not known")
        return await self.node.replication.run_on(name, body, None)

    def known_nodes(self) -> list[dict[str, Any]]:
        """The records of the other nodes."""
        from svc.operations.cluster import known_nodes

        return known_nodes(self.node)

    def dispatcher(
        self, identifier: Identifier, origins: OriginPolicy, recorder: Recorder, make: Callable[..., Dispatcher] = Dispatcher
    ) -> Dispatcher:
        """`origins`: whose pages may use the ports. `make`: called with the arguments of `Dispatcher`."""
        config = self.node.config
        cors = Cors(
            origins,
            config.http.cors_access_control_allow_headers,
            credentials=config.authentication.enable_sessions,
            methods=OPERATIONS_METHODS,
        )
        return make(self, identifier, cors, recorder, self._reactor, None, OPERATION_METHOD)

    # --- the Handler of a dispatcher -------------------------------------------------------------------------------------------------

    def handle(self, request: Request) -> Any:
        if self._is_console(request):
            request.handler_path = "console"
            return self._console.handle(request)
        return self._endpoint.handle(request)

    def receive(self, request: Request) -> Any:
        if self._is_console(request):
            return self._console.receive(request)
        return self._endpoint.receive(request)

    def options(self, request: Request) -> Response:
        if self._is_console(request):
            return Response(status=204, pairs=[("Allow", "GET, HEAD, POST, OPTIONS")])
        return self._endpoint.options(request)

    def decode_content(self, request: Request) -> Any:
        return self._endpoint.decode_content(request)

    def problem(self, error: Problem, request: Request | None, request_id: str = "") -> Response:
        return self._endpoint.problem(error, request, request_id)

    def answer(self, request: Request, result: Any) -> Any:
        return self._endpoint.answer(request, result)

    def has_endpoint(self, request: Request) -> bool:
        return False

    def knows(self, request: Request) -> bool:
        return self._is_console(request) or self._endpoint.knows(request)
