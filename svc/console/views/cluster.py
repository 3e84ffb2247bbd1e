"""Other nodes: how replication with them stands, the registry, the routes (spec: console §5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from svc.console.charts.axes import value_text
from svc.console.confirm import Question, ask, check_typed
from svc.console.page import ConsolePage
from svc.console.texts import segment
from svc.errors import ClientError, MethodNotAllowed, NotFound, Problem
from svc.messages import Response
from svc.pages.cells import shortened

MOST_SHOWN = 200  # nodes, and routes
_NAME = 200
_TEXT = 500


@dataclass(slots=True)
class Database:
    """`lag`, `lag_there`: what is missing here, and there."""

    name: str
    state: str
    lag: str
    lag_there: str
    latency: str
    notes: list[str]


@dataclass(slots=True)
class Node:
    """`remove`: where it is removed, "" it cannot be."""

    name: str
    url: str
    state: str
    version: str
    shard: str
    remove: str
    databases: list[Database] = field(default_factory=list)


async def show(page: ConsolePage) -> Response:
    if page.rest[:1] == ["remove"] and len(page.rest) == 2:
        return await _confirm(page)
    if page.rest:
        raise NotFound("There is no such page")
    return await _show(page)


async def send(page: ConsolePage) -> Response:
    match page.rest:
        case ["add"]:
            act = _add
        case ["remove", _]:
            act = _remove
        case ["routes", "add"]:
            act = _add_route
        case ["routes", "remove"]:
            act = _remove_route
        case _:
            raise MethodNotAllowed("This page has no form", ("GET", "HEAD"))
    try:
        return await act(page)
    except Problem as fault:
        return await (_confirm(page, fault) if act is _remove else _show(page, fault))


def _field(page: ConsolePage, name: str) -> str:
    return "" if page.form is None else page.form.fields.get(name, "").strip()


# --- what is sent -------------------------------------------------------------------------------------------------------------------------


async def _add(page: ConsolePage) -> Response:
    page.require("add_node")
    fields: dict[str, Any] = {name: text for name in ("hostname", "url", "certificate") if (text := _field(page, name))}
    if not {"hostname", "url"} & fields.keys():
        raise ClientError("Enter the name of the node, or its address")
    username, password = _field(page, "username"), "" if page.form is None else page.form.fields.get("password", "")
    if username or password:
        fields["authorization"] = {"username": username, "password": password}
    fields["verify_tls"] = _field(page, "any_certificate") != "yes"
    answer = await page.run("add_node", **fields)
    return page.see_other("cluster", str(answer["message"]))


async def _remove(page: ConsolePage) -> Response:
    page.require("remove_node")
    name = page.rest[1]
    check_typed(page, name)
    answer = await page.run("remove_node", hostname=name)
    return page.see_other("cluster", str(answer["message"]))


async def _add_route(page: ConsolePage) -> Response:
    page.require("cluster_set_routes")
    host, port = _field(page, "host"), _field(page, "port")
    if not host:
        raise ClientError("Enter a host name")
    if port and not (port.isascii() and port.isdigit() and len(port) < 6):
        raise ClientError("The port is a number")
    answer = await page.run("cluster_set_routes", routes=[{"hostname": host, "port": int(port)} if port else host])
    return page.see_other("cluster", "The route was there already" if answer["skipped"] else "The route was added")


async def _remove_route(page: ConsolePage) -> Response:
    page.require("cluster_delete_routes")
    try:
        route = json.loads(_field(page, "route"))
    except (ValueError, RecursionError):
        raise ClientError("This is no route") from None
    answer = await page.run("cluster_delete_routes", routes=[route])
    return page.see_other("cluster", "There is no such route" if answer["skipped"] else "The route was removed")


# --- what is shown ------------------------------------------------------------------------------------------------------------------------


async def _confirm(page: ConsolePage, fault: Problem | None = None) -> Response:
    if not page.may("remove_node"):
        raise NotFound("There is no such page")
    name = page.rest[1]
    lines = ["The node is removed from the registry of this node and cut off. The data on both stay."]
    question = Question(f"Remove the node {shortened(name, _NAME)}", lines, "Remove", page.at("cluster"), name)
    return await ask(page, question, fault)


async def _show(page: ConsolePage, fault: Problem | None = None) -> Response:
    status = await page.run("cluster_status")
    routes = await page.run("cluster_get_routes") if page.may("cluster_get_routes") else []
    reached: dict[str, Mapping[str, Any]] = {}
    if page.fields.get("reach") == "1" and page.may("cluster_network"):
        network = await page.run("cluster_network")
        reached = {each["name"]: each for each in network["nodes"] if isinstance(each.get("name"), str)}
    connections = status["connections"]
    may_remove = page.may("remove_node")
    sent = {} if page.form is None or fault is None else page.form.fields
    return await page.show(
        "cluster.html",
        fault=fault,
        node_name=shortened(status["node_name"], _NAME),
        is_enabled=status["is_enabled"],
        nodes=[_node(page, each, status["is_enabled"], may_remove) for each in connections[:MOST_SHOWN]],
        nodes_left=max(len(connections) - MOST_SHOWN, 0),
        routes=[(_route_text(each), json.dumps(each)) for each in routes[:MOST_SHOWN]],
        reached=[_reach(each) for each in reached.values()][:MOST_SHOWN],
        reach=page.at("cluster", reach="1"),
        sent={name: sent.get(name, "") for name in ("hostname", "url", "username", "certificate", "host", "port")},
        may={
            name: page.may(name)
            for name in ("add_node", "cluster_set_routes", "cluster_delete_routes", "cluster_get_routes", "cluster_network")
        },
    )


def _node(page: ConsolePage, each: Mapping[str, Any], is_enabled: bool, may_remove: bool) -> Node:
    name = str(each["name"])
    state = (
        "connected" if each.get("connected") else f"not connected: {each.get('reason') or ''}" if is_enabled else "nothing is replicated"
    )
    shard = each.get("shard")
    return Node(
        shortened(name, _NAME),
        shortened(str(each.get("url") or ""), _NAME),
        shortened(state, _TEXT),
        shortened(str(each.get("version") or ""), _NAME),
        "" if shard is None else str(shard),
        page.at(f"cluster/remove/{segment(name)}") if may_remove else "",
        [_database(socket) for socket in each.get("database_sockets", ())[:MOST_SHOWN]],
    )


def _database(socket: Mapping[str, Any]) -> Database:
    notes = []
    copying = socket.get("copying")
    if copying:
        notes.append(f"is being copied: {value_text(copying['bytes'], 'bytes')} of {value_text(copying['ofBytes'], 'bytes')}")
    if socket.get("needsCopy") and not copying:
        notes.append("has to be copied")
    if socket.get("sendingMessage"):
        notes.append("sends")
    if socket.get("uniqueConflicts"):
        notes.append(f"{socket['uniqueConflicts']} conflicts of unique values")
    if socket.get("reason"):
        notes.append(str(socket["reason"]))
    return Database(
        shortened(str(socket["database"]), _NAME),
        "read" if socket.get("connected") else "not read",
        lag_text(socket.get("lag")),
        lag_text(socket.get("lagThere")),
        value_text(socket.get("latency"), "ms"),
        [shortened(note, _TEXT) for note in notes],
    )


def lag_text(lag: Mapping[str, Any] | None) -> str:
    """
    >>> lag_text({"entries": 3, "ms": 1250.0}), lag_text({"entries": 0, "ms": 0}), lag_text(None), lag_text({"entries": None, "ms": None})
    ('3 entries, 1.25 s', 'none', '', '')
    """
    if not lag or lag.get("entries") is None:
        return ""
    if not lag["entries"]:
        return "none"
    text = "1 entry" if lag["entries"] == 1 else f"{lag['entries']:,} entries"
    ms = lag.get("ms")
    return text if ms is None else f"{text}, {value_text(ms / 1000, 's')}"


def _route_text(route: Any) -> str:
    if isinstance(route, Mapping):
        port = route.get("port")
        host = str(route.get("hostname") or route.get("url") or json.dumps(dict(route), default=str))
        return shortened(f"{host}:{port}" if port is not None else host, _NAME)
    return shortened(str(route), _NAME)


def _reach(each: Mapping[str, Any]) -> tuple[str, str, str]:
    if each.get("error"):
        return shortened(each["name"], _NAME), "", shortened(str(each["error"]), _TEXT)
    names = ", ".join(str(name) for name in each.get("connected_nodes") or ())
    return shortened(each["name"], _NAME), value_text(each.get("response_time"), "ms"), shortened(names or "no other node", _TEXT)
