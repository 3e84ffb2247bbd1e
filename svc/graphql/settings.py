"""Where GraphQL is, and what applications choose of it (spec: graphql §1): all that a start needs to know of this package."""

from __future__ import annotations

from svc.graphql.page import PATHS as PAGE_PATHS

ADDRESS = "/graphql"
SOCKET_PATHS = (ADDRESS, ADDRESS + "/")
PATHS = (*SOCKET_PATHS, *PAGE_PATHS)
READS = ("GET", "HEAD")
METHODS: tuple[str, ...] = (*READS, "POST")
ENTRY_OPTIONS = ("extended", "introspection", "port", "securePort")
"""Of the entry `graphql` in the configuration of an application."""
HANDLER_PATH = "graphql"  # in the metrics (spec: analytics §3)


class GraphQLOptions:
    """Of the entries `graphql` of all applications. `extended`: the extended form (spec: graphql §7). `introspection`: whether the schema may be asked for."""

    __slots__ = ("extended", "introspection")

    def __init__(self, extended: bool = False, introspection: bool = True) -> None:
        self.extended = extended
        self.introspection = introspection


DEFAULT_OPTIONS = GraphQLOptions()
