"""The floor: what the kernel, the interpreter and the event loop cost before a server does anything at all.

    python -m bench.floor PORT [--plain]

One process, the same loop as svc's (`svc/loop.py`; with --plain, asyncio's own selector), raw sockets with `add_reader`, and a constant answer of the
size of a small record for whatever one `recv` returns. It parses nothing, so it is only right for clients that send one request at a time.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys

BODY = b'{"text":"' + b"x" * 400 + b'"}'
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
    b'ETag: "AAAAAAAAAAA"\r\nVary: Accept, Accept-Encoding\r\nServer-Timing: db;dur=0.01\r\nContent-Length: %d\r\n\r\n' % len(BODY)
) + BODY
RECEIVE = 65536


def serve(loop: asyncio.AbstractEventLoop, port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    listener.setblocking(False)

    def accept() -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        receive, send, fd = sock.recv, sock.send, sock.fileno()

        def on_readable() -> None:
            try:
                data = receive(RECEIVE)
            except OSError:
                data = b""
            if data:
                send(ANSWER)
            else:
                loop.remove_reader(fd)
                sock.close()

        loop.add_reader(fd, on_readable)

    loop.add_reader(listener.fileno(), accept)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, loop.stop)
    loop.run_forever()


def main() -> None:
    if "--plain" in sys.argv:
        loop = asyncio.SelectorEventLoop()
    else:
        from svc.loop import new_loop

        loop, _ = new_loop()
    serve(loop, int(sys.argv[1]))


if __name__ == "__main__":
    main()
