"""The entry `graphql`: queries at /graphql (spec: graphql §1).

On the ports of the applications the server answers there as long as an application has the entry; here are its options, and the ports of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from svc.apps.entry import EntryContext, LoadedEntry
from svc.graphql.settings import ENTRY_OPTIONS, PATHS, SOCKET_PATHS, GraphQLOptions
from svc.messages import Request

LISTENER = "graphql"
_FLAGS = ("extended", "introspection")
_PORTS = ("port", "securePort")


async def load_graphql(context: EntryContext) -> LoadedEntry | None:
    runtime, options, status = context.runtime, context.options, context.status
    given = context.app.config.get(context.key)
    if given is not True and not isinstance(given, Mapping):
        status.fail(f"graphql is true or a mapping with {', '.join(ENTRY_OPTIONS)}, not {given!r}")
        return LoadedEntry(context)
    context.warn_of_unknown_options(ENTRY_OPTIONS)
    for name in _FLAGS:
        if not isinstance(options.get(name, False), bool):
            status.fail(f"{name} must be true or false, not {options[name]!r}")
    entry = LoadedEntry(context)
    ports = {name: options[name] for name in _PORTS if options.get(name) is not None}
    if not ports or runtime.interface is None or runtime.answer_graphql is None:
        return entry
    entry.server = context.make_server()
    try:
        entry.server.http(_listener(runtime.answer_graphql), ports, name=LISTENER)
        if runtime.serve_graphql is not None:
            entry.server.ws(_socket_listener(runtime.serve_graphql), ports, name=LISTENER)
    except (TypeError, ValueError) as error:
        status.fail(str(error).removeprefix("server.http: "))
    return entry


def _listener(answer: Callable[[Request], Any]) -> Callable[[Request, Callable[..., Any]], Any]:
    """A listener of a port that has nothing else."""

    def listener(request: Request, next: Callable[..., Any]) -> Any:
        return answer(request) if request.pathname in PATHS and not request.is_websocket else next(request)

    return listener


def _socket_listener(serve: Callable[[Any, Request], Any]) -> Callable[..., Any]:
    """The same of WebSockets."""

    async def listener(socket: Any, request: Request, chain_completion: Awaitable[Any], next: Callable[..., Any]) -> None:
        if request.pathname not in SOCKET_PATHS:
            await next(socket, request, chain_completion)
            return
        await chain_completion
        serve(socket, request)

    return listener


def entry_of(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The options of the entry in a config.yaml; None without it."""
    entry = config.get("graphql")
    return entry if isinstance(entry, Mapping) and entry else {} if entry is True else None


def is_on_main_ports(entry: Mapping[str, Any]) -> bool:
    """Whether it is served on the ports of the applications: it names none of its own."""
    return not any(entry.get(name) is not None for name in _PORTS)


def graphql_options(entries: list[Mapping[str, Any]]) -> GraphQLOptions:
    """There is one endpoint: what an application asks for it has, and what one switches off is off."""
    return GraphQLOptions(
        extended=any(entry.get("extended") is True for entry in entries),
        introspection=not any(entry.get("introspection") is False for entry in entries),
    )
