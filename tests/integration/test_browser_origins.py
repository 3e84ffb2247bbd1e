"""Chromium: what a page of another origin can do with its visitor's password and cookie, on both ports (spec: security §3, http §9, §11.1).

The visitor opens a page of the server with the name and the password in the address. Chromium sends them when it understands the challenge of the 401, as
it would open its dialog; a challenge of two schemes on one line it does not. From then on it adds them by itself. The page begins a session too, and goes
on to a page of another port of this machine: another origin, but of the same site, so that the cookie is not held back by `SameSite` either.
A browser that opened a dialog in the name of the other page would wait for ever here.
What such a page may do with a token and with tickets, preflights included, it does at the end.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import APP, PASSWORD, Process
from tests.integration.test_browser import CHROMIUM, LIMIT, QUIET

pytestmark = [pytest.mark.programs, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]

START = """<!doctype html><title>start</title><script>
async function run() {
  const read = await fetch("APPLICATION/Product/1")  // the address of this page has credentials, and what is relative to it had them too
  const login = await fetch("OPERATIONS/", {method: "POST", credentials: "include", headers: {"Content-Type": "application/json"},
    body: JSON.stringify({operation: "login", username: "admin", password: "PASSWORD"})})
  const who = await fetch("OPERATIONS/api/openapi/operations", {credentials: "include"})
  location = "ELSEWHERE/attack?" + new URLSearchParams({own: [read.status, login.status, who.status].join()})
}
run().catch((error) => { location = "ELSEWHERE/attack?own=" + error })
</script>"""

ATTACK = """<!doctype html><title>attack</title><iframe name="frame"></iframe>
<form id="form" method="post" target="frame" enctype="text/plain" action="APPLICATION/Doc/"><input name="by" value="form"></form>
<script>
const attempt = (work) => work().catch((error) => String(error).split(":")[0])
const send = (address, body) => fetch(address, {method: "POST", mode: "no-cors", credentials: "include", body})
const hear = (address) => new Promise((resolve) => {
  const socket = new WebSocket(address.replace("http", "ws"))
  socket.onmessage = ({data}) => resolve(JSON.parse(data).value.name)
  socket.onclose = ({code, reason}) => resolve([code, reason])
})
const follow = (address, options) => new Promise((resolve) => {
  const source = new EventSource(address, options)
  source.onmessage = ({data}) => { source.close(); resolve(JSON.parse(data).value.name) }
  source.onerror = () => { source.close(); resolve("error") }
})
const bearer = {Authorization: "Bearer TOKEN", "X-Requested-With": "fetch", "Content-Type": "application/json"}
const ticket = async () => (await (await fetch("APPLICATION/ticket", {method: "POST", headers: bearer})).json()).ticket

async function withToken() {
  const write = (method, fields) => fetch("APPLICATION/Product/2", {method, body: '{"name": "moss"}', headers: {...bearer, ...fields}})
  const made = await write("PUT", {"If-None-Match": "*", "Idempotency-Key": "1", Prefer: "return=minimal"})
  const refused = await write("PATCH", {"If-Match": '"another"', "If-Unmodified-Since": new Date(0).toUTCString()})
  const range = await fetch("APPLICATION/Product/2", {headers: {...bearer, Range: "bytes=0-1", "If-Modified-Since": new Date(0).toUTCString()}})
  const once = `APPLICATION/Product/1?ticket=${await ticket()}`
  return {
    statuses: [made.status, refused.status, range.ok],
    tag: made.headers.get("ETag") !== null || range.headers.get("ETag") !== null,
    socket: await hear(`APPLICATION/Product/1?ticket=${await ticket()}`), events: await follow(once), again: await follow(once),
  }
}
const posted = new Promise((resolve) => document.querySelector("iframe").addEventListener("load", resolve))

async function run() {
  const found = {own: new URLSearchParams(location.search).get("own")}
  const reads = {read: "APPLICATION/Product/1", operations: "OPERATIONS/api/openapi/operations"}
  for (const [name, address] of Object.entries(reads))
    found[name] = await attempt(async () => (await fetch(address, {credentials: "include"})).status)
  found.anonymous = await attempt(async () => {
    const answer = await fetch("APPLICATION/Product/1", {credentials: "omit"})
    return [answer.status, (await answer.json()).detail]
  })
  await attempt(() => send("APPLICATION/Doc/", "by script"))
  await attempt(() => send("OPERATIONS/", '{"operation": "add_role", "role": "stolen", "permission": {"super_user": true}}'))
  document.getElementById("form").submit()
  await posted
  found.socket = await hear("APPLICATION/Product/1")
  found.events = await follow("APPLICATION/Product/1", {withCredentials: true})
  found.token = await attempt(withToken)
  return found
}
run().catch((error) => ({error: String(error)})).then((found) => fetch("/report", {method: "POST", body: JSON.stringify(found)}))
</script>"""


class Elsewhere:
    """Another server of this machine. `report`: what its page found out."""

    def __init__(self) -> None:
        self.page = ""
        self.report: Any = None
        self.reported = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = outer.page.encode()
                self.send_response(200 if self.path.startswith("/attack") else 404)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_POST(self) -> None:
                outer.report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(204)
                self.end_headers()
                outer.reported.set()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://localhost:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    found = Elsewhere()
    yield found
    found.close()


@pytest.mark.parametrize("is_listed", [False, True], ids=["foreign", "listed"])
def test_a_page_of_another_origin(tmp_path: Path, elsewhere: Elsewhere, is_listed: bool) -> None:
    """That the browser really adds everything is shown by the same page where its origin is listed."""
    app = tmp_path / "app"
    shutil.copytree(APP, app)
    (app / "config.yaml").write_text(
        "rest: {sandbox: false}\ngraphqlSchema: {files: '*.graphql'}\n"
    )  # without login: the browser is to ask its user itself
    process = Process(tmp_path / "root", app)
    application, operations = f"http://localhost:{process.port}", f"http://localhost:{process.operations_port}"
    listed = [elsewhere.url] if is_listed else []
    process.env["HTTP_CORSACCESSLIST"] = json.dumps(["*", *listed])
    process.env["OPERATIONSAPI_NETWORK_CORSACCESSLIST"] = json.dumps(["*", application, *listed])
    process.start()
    tokens = process.operate("create_authentication_tokens", auth=None, username="admin", password=PASSWORD).json()
    places = {"APPLICATION": application, "OPERATIONS": operations, "ELSEWHERE": elsewhere.url, "PASSWORD": PASSWORD}
    places["TOKEN"] = tokens["operation_token"]
    elsewhere.page, start = ATTACK, START
    for name, place in places.items():
        elsewhere.page, start = elsewhere.page.replace(name, place), start.replace(name, place)
    with process.client() as client:
        client.put("/Product/1", json={"name": "fern"}).raise_for_status()
        client.put("/Doc/start", content=start, headers={"Content-Type": "text/html"}).raise_for_status()
        visit(f"http://admin:{PASSWORD.replace(' ', '%20')}@localhost:{process.port}/Doc/start", elsewhere, tmp_path)
        found = elsewhere.report
        made = len(client.get("/Doc/").json()) - 1
    roles = [role["role"] for role in process.operate("list_roles").json()]
    assert process.stop() == 0, process.output()
    assert found.pop("own") == "200,200,200"
    assert "stolen" not in roles  # of a text/plain body nobody reads operations
    assert found.pop("token") == {"statuses": [204, 412, True], "tag": True, "socket": "fern", "events": "fern", "again": "error"}
    status, why = found.pop("anonymous")
    if is_listed:
        assert found == {"read": 200, "operations": 200, "socket": "fern", "events": "fern"}
        assert made == 2 and (status, why) == (401, "Must login")
    else:
        code, reason = found.pop("socket")
        expected = f"Must login: origin {elsewhere.url} is not in http.corsAccessList, only a Bearer token counts"
        assert found == {"read": "TypeError", "operations": "TypeError", "events": "error"}
        assert made == 0
        assert (status, why) == (401, expected) and (code, reason) == (3000, expected)


def visit(address: str, elsewhere: Elsewhere, profile: Path) -> None:
    """Open the page and wait for the report of the last one."""
    assert CHROMIUM is not None
    log = profile / "chromium.log"
    with log.open("wb") as output:
        browser = subprocess.Popen(
            [CHROMIUM, *QUIET, f"--user-data-dir={profile / 'profile'}", address], stdout=output, stderr=output, start_new_session=True
        )
        try:
            assert elsewhere.reported.wait(LIMIT), log.read_text(errors="replace")[-2000:]
        finally:
            os.killpg(browser.pid, signal.SIGKILL)  # it is several processes
            browser.wait()
