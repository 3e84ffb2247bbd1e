"""What HTTP/1 costs per request, without a socket: receive_data + respond + data_to_send, both lanes, and h11 alone both ways.

Not included: the loop, the socket, everything that makes the answer. Prints the median of some runs and their spread, in microseconds.

    python -m bench.micro_http1
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import h11

from svc.protocol.http1 import Http1, Limits

FIELDS = (
    b"Host: localhost:9926\r\nAccept: application/json\r\nAuthorization: Basic YWRtaW46cGFzc3dvcmQ=\r\nAccept-Encoding: gzip, br\r\n"
    b"User-Agent: bench/1.0\r\n"
)
GET = b"GET /Product/42 HTTP/1.1\r\n" + FIELDS + b"\r\n"
PUT = b"PUT /Product/42 HTTP/1.1\r\n" + FIELDS + b"Content-Type: application/json\r\nContent-Length: 400\r\n\r\n" + b"x" * 400
CHUNKED = b"PUT /Product/42 HTTP/1.1\r\n" + FIELDS + b"Transfer-Encoding: chunked\r\n\r\n190\r\n" + b"x" * 400 + b"\r\n0\r\n\r\n"
PAIRS = [
    ("Content-Type", "application/json"),
    ("ETag", '"Qnm3baqHtAA"'),
    ("Vary", "Accept, Accept-Encoding"),
    ("Server-Timing", "db;dur=0.41"),
]
BODY = b"x" * 400
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
ROUNDS = 9


def driver(data: bytes, express: bool = True, new_block: bool = False) -> Callable[[int], None]:
    http1 = Http1(Limits(), express)

    def run(count: int) -> None:
        for number in range(count):
            events = http1.receive_data(data.replace(b"bench/1.0", b"bench/%d" % number) if new_block else data)
            http1.respond(events[0].stream_id, 200, PAIRS, BODY, DATE)  # type: ignore[union-attr]
            http1.data_to_send()

    return run


def pipelined(data: bytes, depth: int) -> Callable[[int], None]:
    http1 = Http1(Limits())

    def run(count: int) -> None:
        for _ in range(count // depth):
            events = http1.receive_data(data * depth)
            while events:
                http1.respond(events[0].stream_id, 200, PAIRS, BODY, DATE)  # type: ignore[union-attr]
                events = http1.next_events()
            http1.data_to_send()

    return run


def h11_alone(data: bytes) -> Callable[[int], None]:
    pairs = [(name.encode(), value.encode()) for name, value in [*PAIRS, ("Date", DATE), ("Content-Length", str(len(BODY)))]]
    connection = h11.Connection(h11.SERVER)

    def run(count: int) -> None:
        for _ in range(count):
            connection.receive_data(data)
            while type(connection.next_event()) is not h11.EndOfMessage:
                pass
            out = connection.send(h11.Response(status_code=200, headers=pairs)) or b""
            out += (connection.send(h11.Data(data=BODY)) or b"") + (connection.send(h11.EndOfMessage()) or b"")
            connection.start_next_cycle()

    return run


def measure(name: str, run: Callable[[int], None], count: int) -> None:
    run(count // 10)
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run(count)
        times.append((time.perf_counter() - start) / count * 1e6)
    print(f"{name:42} {statistics.median(times):7.2f} us   {min(times):7.2f} ... {max(times):7.2f}")


def main() -> None:
    measure("GET, express", driver(GET), 20000)
    measure("GET, express, block never seen before", driver(GET, new_block=True), 5000)
    measure("GET, express, 16 pipelined", pipelined(GET, 16), 16000)
    measure("PUT 400 bytes, express", driver(PUT), 20000)
    measure("GET, h11 lane", driver(GET, express=False), 2000)
    measure("PUT 400 bytes chunked, h11 lane", driver(CHUNKED), 2000)
    measure("GET, h11 alone both ways", h11_alone(GET), 2000)


if __name__ == "__main__":
    main()
