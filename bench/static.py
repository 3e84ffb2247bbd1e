"""What files cost: CPU time of the server process per GET of a static file, beside GETs of a record and beside nginx.

    python -m bench.static [--rounds 5] [--seconds 2] [--rows record,small]

Real server processes and wrk, as in `bench.run`, connections that stay open; 10 KB with 32 of them, 10 MB with 4. Every round measures all rows in turn. Shown
are medians; ratios are medians of the ratios within the rounds, for neighbouring measurements have the same luck. Every answer is checked once before.

The rows `record…` are GETs of one record: from an application without static files, from one that has them, and from one whose `static` stands behind REST.
nginx serves the same directory with one worker, `sendfile on` and `open_file_cache` off, as Debian configures it; without an access log, as svc.

Not included: files that are not in the page cache, networks, TLS.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import records
from bench.machine import warn_of_load
from bench.measure import Request, load, write_requests
from bench.servers import HERE, Maker, Server, Svc

COUNT = 1_000  # records
SMALL, LARGE = 10_000, 10_000_000  # bytes of the files
CONNECTIONS, CONNECTIONS_LARGE = 32, 4
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
CONFIGS = {
    "svc": "rest: true\ngraphqlSchema: {files: '*.graphql'}\nstatic: {files: 'web/**'}\n",
    "svc-bare": "rest: true\ngraphqlSchema: {files: '*.graphql'}\n",
    "svc-behind": "rest: true\ngraphqlSchema: {files: '*.graphql'}\nstatic: {files: 'web/**', after: rest, index: true}\n",
}


@dataclass(frozen=True)
class Row:
    """`base`: the row that it is compared with."""

    server: str
    title: str
    target: str
    base: str = ""
    accept_encoding: str = ""
    connections: int = CONNECTIONS


RECORD = "record"
ROWS = {
    RECORD: Row("svc-bare", "GET of a record, no static files", "/Item/"),
    "record-static": Row("svc", "… with static files", "/Item/", RECORD),
    "record-behind": Row("svc-behind", "… with static files `after: rest`", "/Item/", RECORD),
    "small": Row("svc", "file of 10 KB", "/small.js", RECORD),
    "small-br": Row("svc", "… compressed (br)", "/small.js", RECORD, "br, gzip"),
    "small-behind": Row("svc-behind", "… `after: rest`", "/small.js", RECORD),
    "nginx-small": Row("nginx", "nginx: file of 10 KB", "/small.js", RECORD),
    "large": Row("svc", "file of 10 MB", "/large.bin", "nginx-large", connections=CONNECTIONS_LARGE),
    "nginx-large": Row("nginx", "nginx: file of 10 MB", "/large.bin", "nginx-large", connections=CONNECTIONS_LARGE),
}


def write_files(web: Path) -> None:
    web.mkdir(parents=True)
    line = "export const item{0} = (value) => value.price * {0} + offset;\n"
    text = "".join(line.format(number) for number in range(SMALL // 40))
    (web / "small.js").write_text(text[:SMALL])
    (web / "large.bin").write_bytes(os.urandom(LARGE))


class StaticSvc(Svc):
    """svc with the files in `web` and one of CONFIGS."""

    def __init__(self, data: Path, name: str, web: Path) -> None:
        self.name = name
        super().__init__(data)
        self._web = web

    @property
    def app(self) -> Path:
        return self.data / "app"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "svc", "run", str(self.app)]

    def prepare(self) -> None:
        self.app.mkdir(parents=True)
        shutil.copy(HERE / "app" / "schema.graphql", self.app)
        shutil.copytree(self._web, self.app / "web")
        (self.app / "config.yaml").write_text(CONFIGS[self.name])
        self.start()
        self.fill("Brand", records.iter_brands())
        self.fill("Item", records.iter_items(COUNT))

    def requests(self) -> dict[str, Maker]:
        return {row: self._maker(found) for row, found in ROWS.items() if found.server == self.name}

    def _maker(self, row: Row) -> Maker:
        if row.target.endswith("/"):
            return lambda n: self.get(row.target + records.item_id(n % COUNT))
        return lambda n: Request("GET", row.target, _fields(row))


class Nginx(Server):
    name = "nginx"
    package = "nginx-light"

    def __init__(self, data: Path, web: Path) -> None:
        super().__init__(data)
        self._web = web

    def prepare(self) -> None:
        self.data.mkdir(parents=True)
        self.data.joinpath("nginx.conf").write_text(f"""
            daemon off; worker_processes 1; pid {self.data}/pid; error_log {self.data}/errors.log; user root;
            events {{ worker_connections 768; }}
            http {{
                sendfile on; tcp_nopush on; keepalive_requests 1000000000; access_log off; types {{ text/javascript js; }}
                client_body_temp_path {self.data}/b; proxy_temp_path {self.data}/p; fastcgi_temp_path {self.data}/f;
                uwsgi_temp_path {self.data}/u; scgi_temp_path {self.data}/s;
                server {{ listen 127.0.0.1:{self.port}; root {self._web}; }}
            }}
        """)
        self.start()

    def command(self) -> list[str]:
        assert NGINX is not None
        return [NGINX, "-c", str(self.data / "nginx.conf"), "-e", str(self.data / "errors.log")]

    def requests(self) -> dict[str, Maker]:
        return {row: _maker_of(found) for row, found in ROWS.items() if found.server == self.name}


def _maker_of(row: Row) -> Maker:
    return lambda n: Request("GET", row.target, _fields(row))


def _fields(row: Row) -> tuple[tuple[str, str], ...]:
    return (("Accept-Encoding", row.accept_encoding),) if row.accept_encoding else ()


def check(server: Server, row: Row, request: Request, web: Path) -> None:
    """A file is answered with its bytes."""
    status, fields, body = server.ask(request)
    is_file = not row.target.endswith("/")
    if status != 200 or (is_file and "content-encoding" not in fields and body != (web / row.target[1:]).read_bytes()):
        raise RuntimeError(f"{row.title}: {status} {body[:100]!r}")
    if bool(row.accept_encoding) != ("content-encoding" in fields):
        raise RuntimeError(f"{row.title}: {fields}")


def measure(directory: Path, rounds: int, seconds: int, wanted: set[str]) -> Mapping[str, list[float]]:
    """Row -> microseconds per request, by rounds."""
    web = directory / "web"
    write_files(web)
    os.utime(web / "small.js", (1, 1))
    servers: dict[str, Server] = {name: StaticSvc(directory, name, web) for name in CONFIGS} | (
        {"nginx": Nginx(directory, web)} if NGINX else {}
    )
    used = {name: server for name, server in servers.items() if any(ROWS[row].server == name for row in wanted)}
    samples: dict[str, list[float]] = {}
    try:
        asked = []
        for server in used.values():
            server.prepare()
            for name, make in server.requests().items():
                if name in wanted:
                    check(server, ROWS[name], make(0), web)
                    path = directory / f"{name}.requests"
                    write_requests(path, map(make, range(COUNT)), f"127.0.0.1:{server.port}")
                    asked.append((server, name, path))
        for _ in range(rounds):
            for server, name, path in asked:
                sample = load(server.pid, server.port, path, seconds=seconds, connections=ROWS[name].connections)
                if sample.errors:
                    raise RuntimeError(f"{name}: {sample.errors} errors")
                samples.setdefault(name, []).append(sample.cpu)
    finally:
        for server in used.values():
            server.stop()
    return samples


def table(samples: Mapping[str, list[float]]) -> str:
    lines = ["| | CPU time of the server | ratio | to |", "| --- | ---: | ---: | --- |"]
    for name, row in ROWS.items():
        if name not in samples:
            continue
        figures = samples[name]
        base = samples.get(row.base, [])
        ratio = f"{statistics.median(a / b for a, b in zip(figures, base, strict=True)):.2f}" if base and row.base != name else "–"
        lines.append(
            f"| {row.title} | {statistics.median(figures):,.1f} µs | {ratio} | {ROWS[row.base].title if base and row.base != name else ''} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rows", help=f"by default all: {', '.join(ROWS)}")
    options = parser.parse_args()
    wanted = set(options.rows.split(",")) if options.rows else {name for name, row in ROWS.items() if NGINX or row.server != "nginx"}
    if unknown := wanted - ROWS.keys():
        parser.error(f"no such rows: {', '.join(sorted(unknown))}")
    warn_of_load()
    with tempfile.TemporaryDirectory(prefix="bench-static-") as directory:
        print(table(measure(Path(directory), options.rounds, options.seconds, wanted)))


if __name__ == "__main__":
    main()
