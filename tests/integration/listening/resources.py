"""Listeners of every kind: see `test_server_api.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from svc import Abort, ClientError, Response, auth, get_context, server, tables

ports: dict[str, int] = {}


async def stamp(request: Any, next: Any) -> Any:
    assert get_context() is request
    request.send_early_hints("</style.css>; rel=preload; as=style")
    response = await next(request)
    response.headers.set("X-App", "listening")
    return response


async def pieces() -> AsyncIterator[bytes]:
    for number in range(3):
        await asyncio.sleep(0)
        yield b"%d\n" % number


async def pages(request: Any, next: Any) -> Any:
    path = request.pathname
    if path == "/ping":
        return {"pong": True, "user": None if request.user is None else request.user.username}
    if path == "/stream":
        return Response(pieces(), headers={"Content-Type": "text/plain"})
    if path == "/echo":
        return {"data": await request.data, "size": sum([len(piece) async for piece in request.body])}
    if path == "/fail":
        raise KeyError("private")
    if path == "/refuse":
        raise ClientError("not today", 409)
    if path == "/ports":
        return ports
    if path == "/login":
        data = await request.data
        await request.login(data["username"], data["password"])
        await request.session.update({"seen": 1})
        return {"as": request.user.username}
    if path == "/session":
        return await request.session.get()
    if path == "/members":
        found = await server.get_user("admin")
        try:
            await auth("admin", "wrong")
        except ClientError as error:
            refused = error.status_code
        answer = await server.operation({"operation": "describe_table", "database": "data", "table": "Item"})
        return {
            "user": [found.username, found.active, found.role.role, found.role.permission["super_user"], hasattr(found, "password")],
            "nobody": await server.getUser("nobody"),
            "refused": refused,
            "table": answer["name"],
            "config": server.config["http"]["timeout"],
            "hostname": server.hostname,
            "numbers": [server.instance, server.instances, server.worker_index, server.is_main_thread],
            "cluster": [list(server.nodes), server.shards],
        }
    return await next(request)


async def count(request: Any, next: Any) -> Any:
    """One visit in a transaction of its own, which a refusal undoes."""
    await tables.Visit.put(request.headers.get("X-Visit"), {"path": request.pathname})
    if request.pathname == "/no":
        raise Abort(Response(status=402))
    if request.pathname == "/visits":
        return sorted([visit.id async for visit in tables.Visit.search({})])
    return {"visited": request.pathname}


def guard(request: Any, next: Any) -> Any:
    return Response(status=403) if request.headers.get("X-Key") != "open" else next(request)


async def echo(ws: Any, request: Any, chain_completion: Any, next: Any) -> Any:
    await chain_completion
    await ws.send(f"hello {request.pathname}")
    async for message in ws:
        await ws.send(message)


def own_protocol(request: Any, socket: Any, head: bytes, next: Any) -> Any:
    if request.offers != "shout":
        return next(request, socket, head)
    return shout(socket)


async def shout(socket: Any) -> None:
    socket.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
    while data := await socket.read(100):
        socket.write(data.upper())
    socket.close()


async def lines(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        if line == b"fail\n":
            raise ValueError("of a listener of connections")
        writer.write(line[::-1].strip() + b"\n")
        await writer.drain()


def other_port(request: Any, next: Any) -> Any:
    if request.pathname == "/next":
        return next(request)
    return {"port": True, "protocol": request.protocol, "version": request.http_version}


server.http(stamp, run_first=True)
server.http(pages, {"before": "rest"})
server.http(count, urlPath="/counted")
server.http(guard, url_path="/Item/guarded")
server.ws(echo, url_path="/echo")
server.upgrade(own_protocol, runFirst=True)
for name, listening in (
    ("http", server.http(other_port, port=0)),
    ("https", server.http(other_port, securePort=0)),
    ("ws", server.ws(echo, port=0)),
    ("tcp", [server.socket(lines, port=0)]),
    ("tls", [server.socket(lines, secure_port=0)]),
):
    ports[name] = listening[0].port
