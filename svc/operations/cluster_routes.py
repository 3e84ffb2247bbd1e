"""The routes to other nodes, in `replication.routes` of the configuration file (spec: operations §12)."""

from __future__ import annotations

from functools import partial
from typing import Any

from svc.config import Config, Document
from svc.config.document import read_document, set_value
from svc.config.values import lookup
from svc.errors import ConfigError, ServerError
from svc.operations.call import Call
from svc.operations.cluster_nodes import checked_routes, identity_of
from svc.operations.configuration import edit_configuration, json_value, value_fault
from svc.operations.fields import bad_request

MAX_ROUTES = 1000


def _routes(document: Document) -> list[Any]:
    found = lookup(document, ("replication", "routes"))
    return found if isinstance(found, list) else []


def read_routes(config: Config) -> list[Any]:
    """The routes of the configuration file. Blocks."""
    try:
        document = config.document if config.file is None else read_document(config.file)
    except ConfigError as error:
        raise ServerError(f"svc config file validation error: {error}") from error
    routes: list[Any] = json_value(_routes(document))
    return routes


async def cluster_get_routes(call: Call) -> Any:
    return await call.on_helper(partial(read_routes, call.node.config))


def cluster_set_routes(call: Call) -> Any:
    return _change_routes(call, "set")


def cluster_delete_routes(call: Call) -> Any:
    return _change_routes(call, "deleted")


def _change_routes(call: Call, done: str) -> Any:
    """`done`: `set` or `deleted`."""
    if len(call["routes"]) > MAX_ROUTES:
        raise bad_request(f"There may be at most {MAX_ROUTES} routes")
    fault = value_fault(call["routes"])
    if fault is not None:
        raise bad_request(f"'routes' {fault}")
    given = checked_routes(call["routes"])
    changed: list[Any] = []
    skipped: list[Any] = []

    def change(document: Document) -> Document:
        routes = _routes(document)
        identities = [identity_of(route) for route in routes]
        for route, identity in given:
            if (identity in identities) is (done == "set"):
                skipped.append(route)
                continue
            changed.append(route)
            if done == "set":
                routes.append(route)
                identities.append(identity)
            else:
                at = identities.index(identity)
                del routes[at], identities[at]
        if len(routes) > MAX_ROUTES:
            raise bad_request(f"There may be at most {MAX_ROUTES} routes")
        if changed:
            if not isinstance(document.get("replication"), dict):
                document["replication"] = {}
            set_value(document, "replication.routes", routes)
        return document

    async def answer() -> dict[str, Any]:
        await edit_configuration(call, change)
        if changed and call.node.replication is not None:
            await call.node.replication.look_at_routes()
        return {"message": f"cluster routes successfully {done}", done: changed, "skipped": skipped}

    return answer()
