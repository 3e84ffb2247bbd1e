"""Chromium: a single-page application of the form that docs/static-files.md shows, over HTTP/1.1, and over TLS and HTTP/2."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import PASSWORD
from tests.integration.test_browser import CHROMIUM, visit
from tests.integration.test_tls import Secure
from tests.support.certificates import client_context

DOCUMENT = (Path(__file__).parents[2] / "docs" / "static-files.md").read_text("utf-8")
SCHEMA = """
type Order @table @export { id: ID @primaryKey  total: Int }
type Result @table @export { id: ID @primaryKey  found: Any }
"""
INDEX = '<!doctype html><title>orders</title><link rel="stylesheet" href="/css/site.css"><script type="module" src="/js/app.mjs"></script><p>empty</p>'
APP = """
import { total } from "./total.mjs"

const record = async (path) => (await fetch(path, {headers: {Accept: "application/json"}})).json()
const write = (path, value) => fetch(path, {method: "PUT", headers: {"Content-Type": "application/json"}, body: JSON.stringify(value)})

async function show() {  // draws what the address means
  const id = location.pathname.match(/^\\/orders\\/(.+)$/)
  document.querySelector("p").textContent = id ? `order ${id[1]}: ${total(await record(`/Order/${id[1]}`))}` : location.pathname
  return document.querySelector("p").textContent
}

async function run() {
  const found = [await show()]
  for (const path of ["/orders/2", "/about/us"]) {
    history.pushState(null, "", path)
    found.push(await show())
  }
  await new Promise((done) => { addEventListener("popstate", done, {once: true}); history.back() })
  found.push(await show())
  const entries = performance.getEntriesByType("resource")
  const style = getComputedStyle(document.querySelector("p")).color
  const again = await fetch("/js/total.mjs")
  const part = await fetch("/js/total.mjs", {headers: {Range: "bytes=0-5"}})
  return {
    found, style, title: document.title, protocol: performance.getEntriesByType("navigation")[0].nextHopProtocol,
    type: again.headers.get("content-type"), missing: (await fetch("/Order/none")).status, part: [part.status, await part.text()],
    compressed: entries.filter((each) => each.encodedBodySize < each.decodedBodySize).map((each) => new URL(each.name).pathname),
  }
}

const name = new URLSearchParams(location.search).get("as")
addEventListener("load", async () => write(`/Result/${name}`, {found: await run().catch((error) => ({error: String(error)}))}))
"""

pytestmark = [pytest.mark.programs, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    directory = tmp_path_factory.mktemp("single-page")
    section = DOCUMENT[DOCUMENT.index("## A single-page application") :]
    config = re.search(r"```yaml\n# config.yaml\n(.*?)```", section, re.DOTALL)
    assert config
    files = {
        "config.yaml": config[1],
        "schema.graphql": SCHEMA,
        "web/index.html": INDEX,
        "web/css/site.css": "p { color: rgb(1, 2, 3) }\n/*" + "*" * 2000 + "*/",
        "web/js/app.mjs": APP,
        "web/js/total.mjs": "export const total = (order) => order.total * 2\n",
    }
    for name, text in files.items():
        (directory / "shop" / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / "shop" / name).write_text(text)
    process = Secure(directory / "root", directory / "shop", env={"AUTHENTICATION_AUTHORIZELOCAL": "true"}).start()
    yield process
    assert process.stop() == 0, process.output()
    assert "[error]" not in process.logged()


@pytest.mark.parametrize(("secure", "protocol"), [(False, "http/1.1"), (True, "h2")])
def test_the_page_answers_at_every_address_and_reads_records(server: Secure, tmp_path: Path, secure: bool, protocol: str) -> None:
    name = protocol.replace("/", "-")
    address = f"https://localhost:{server.secure_port}" if secure else f"http://localhost:{server.port}"
    with httpx.Client(base_url=address, auth=("admin", PASSWORD), verify=client_context() if secure else False, timeout=30) as client:
        for number in (1, 2):
            assert client.put(f"/Order/{number}", json={"total": number * 10}).status_code == 204
        result = visit(client, f"{address}/orders/1?as={name}", f"/Result/{name}", tmp_path)["found"]
    assert result.get("error") is None, result
    assert result["found"] == ["order 1: 20", "order 2: 40", "/about/us", "order 2: 40"]
    assert (result["title"], result["style"], result["protocol"]) == ("orders", "rgb(1, 2, 3)", protocol)
    assert (result["type"], result["missing"], result["part"]) == ("text/javascript; charset=utf-8", 404, [206, "export"])
    assert {"/css/site.css", "/js/app.mjs"} <= set(result["compressed"])
