"""Chromium: pages that a server holds as records follow others of its records, over HTTP/1.1, and over TLS and HTTP/2."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.conftest import APP, PASSWORD
from tests.integration.test_tls import Secure
from tests.support.certificates import client_context

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LIMIT = 180.0  # seconds from the start of the browser to the result
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--ignore-certificate-errors",
]

PAGE = """<!doctype html><title>follow</title><script>
const record = location.pathname.replace("/Doc/", "/Product/")
const write = (value) => fetch(record, {method: "PUT", headers: {"Content-Type": "application/json"}, body: JSON.stringify(value)})

function follow(source) {  // an EventSource or a WebSocket, as a function that waits for the next message
  const come = [], wanted = []
  source.onmessage = ({data}) => wanted.length ? wanted.shift()(JSON.parse(data)) : come.push(JSON.parse(data))
  return () => come.length ? Promise.resolve(come.shift()) : new Promise((resolve) => wanted.push(resolve))
}

async function run() {
  await write({name: "first", price: 77777})
  const events = new EventSource(record)
  const socket = new WebSocket(location.origin.replace("http", "ws") + record)
  const live = new EventSource("/Product/?price==77777&select(name)&limit(5)&live()")
  const next = {events: follow(events), socket: follow(socket), live: follow(live)}
  const brief = ({type, value}) => [type, typeof value == "object" && value ? value.name : value ?? null]
  const told = {events: [], socket: [], live: []}
  const take = async (name) => told[name].push(brief(await next[name]()))
  for (const name of ["events", "socket", "live", "live"]) await take(name)
  await write({name: "second", price: 77777})
  for (const name of ["events", "socket", "live"]) await take(name)
  await fetch(record, {method: "DELETE"})
  for (const name of ["events", "socket", "live"]) await take(name)
  events.close()
  live.close()
  const closed = new Promise((resolve) => { socket.onclose = ({code, wasClean}) => resolve([code, wasClean]) })
  socket.close(1000)
  return {told, closed: await closed, protocol: performance.getEntriesByType("navigation")[0].nextHopProtocol}
}

const report = (value) => fetch(location.pathname + "-result", {method: "PUT", headers: {"Content-Type": "application/json"}, body: JSON.stringify(value)})
run().then(report, (error) => report({error: String(error)}))
</script>"""

pytestmark = [pytest.mark.programs, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    directory = tmp_path_factory.mktemp("browser")
    app = shutil.copytree(APP, directory / "app")
    (app / "config.yaml").write_text("rest: {sandbox: false}\ngraphqlSchema: '*.graphql'\n")  # the pages are records
    process = Secure(directory / "root", app, env={"AUTHENTICATION_AUTHORIZELOCAL": "true"}).start()
    yield process
    assert process.stop() == 0, process.output()
    assert "[error]" not in process.logged()


@pytest.mark.parametrize(("secure", "protocol"), [(False, "http/1.1"), (True, "h2")])
def test_a_page_follows_records(server: Secure, tmp_path: Path, secure: bool, protocol: str) -> None:
    name = protocol.replace("/", "-")
    address = f"https://localhost:{server.secure_port}" if secure else f"http://localhost:{server.port}"
    with httpx.Client(base_url=address, auth=("admin", PASSWORD), verify=client_context() if secure else False, timeout=LIMIT) as client:
        assert client.put(f"/Doc/{name}", content=PAGE, headers={"Content-Type": "text/html"}).status_code == 204
        result = visit(client, f"{address}/Doc/{name}", f"/Doc/{name}-result", tmp_path)
    assert result.get("error") is None, result
    assert result["told"]["events"] == [["put", "first"], ["put", "second"], ["delete", None]]
    assert result["told"]["socket"] == result["told"]["events"]
    assert result["told"]["live"] == [["snapshot", "first"], ["ready", None], ["update", "second"], ["leave", None]]
    assert result["closed"] == [1000, True]
    assert result["protocol"] == protocol


def visit(client: httpx.Client, address: str, result: str, profile: Path) -> dict[str, Any]:
    """Open the page and wait for the record it leaves."""
    assert CHROMIUM is not None
    log = profile / "chromium.log"
    with log.open("wb") as output:
        browser = subprocess.Popen(
            [CHROMIUM, *QUIET, f"--user-data-dir={profile}", address], stdout=output, stderr=output, start_new_session=True
        )
        try:
            deadline = time.monotonic() + LIMIT
            while (answer := client.get(result)).status_code == 404:
                assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
                assert browser.poll() is None, log.read_text(errors="replace")[-2000:]
                time.sleep(0.1)
        finally:
            os.killpg(browser.pid, signal.SIGKILL)  # it is several processes
            browser.wait()
    found: dict[str, Any] = answer.json()
    return found
