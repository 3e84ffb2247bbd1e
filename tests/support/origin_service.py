"""The source of a caching table as a program of its own: an HTTP service that can be made slow, wrong and unreachable.

python -m tests.support.origin_service PORT

GET /rates/ID         {"value": number of this call, "name": "odd" or "even"} with Last-Modified, after `delay` seconds and with `status`
PUT, DELETE the same  noted
POST /control         sets `delay`, `status`; empties `calls`
GET /calls            [[method, id, If-None-Match or null], ...] since
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any, ClassVar


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls: ClassVar[list[Any]] = []
    settings: ClassVar[dict[str, Any]] = {"delay": 0.0, "status": 200}
    lock: ClassVar[Lock] = Lock()

    def log_message(self, *arguments: object) -> None:
        pass

    def answer(self, status: int, content: Any = None) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def rate(self) -> None:
        id = self.path.rsplit("/", 1)[1]
        with self.lock:
            self.calls.append([self.command, id, self.headers.get("If-None-Match")])
            count = sum(call[1] == id for call in self.calls)
        time.sleep(self.settings["delay"])
        status = self.settings["status"]
        if status == 304 and self.headers.get("If-None-Match") is None:
            status = 200
        self.answer(status, {"value": count, "name": "odd" if count % 2 else "even"} if status == 200 and self.command == "GET" else None)

    def do_GET(self) -> None:
        if self.path == "/calls":
            self.answer(200, self.calls)
        else:
            self.rate()

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.rate()

    do_DELETE = do_PUT

    def do_POST(self) -> None:
        self.settings.update(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0)))))
        self.calls.clear()
        self.answer(204)


if __name__ == "__main__":
    service = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    service.daemon_threads = True
    print("ready", flush=True)
    service.serve_forever()
