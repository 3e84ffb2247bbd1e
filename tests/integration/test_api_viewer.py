"""The page at `/docs` in Chromium, and where its files come from."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.chromium import CHROMIUM, Page, open_page
from tests.support.npm import node_packages

pytestmark = pytest.mark.programs

HOSTILE = "<img src=x onerror=alert(1)></script>"
SCHEMA = f'''
"""What is sold: {HOSTILE} [a link](javascript:alert(1))"""
type Product @table @export {{ id: ID @primaryKey name: String! @indexed price: Float brandId: ID @indexed
  brand: Brand @relationship(from: "brandId") photo: Blob }}
type Brand @table @export {{ id: ID @primaryKey name: String }}
'''
VENDORED = Path(__file__).parents[2] / "svc" / "rest" / "viewer" / "swagger_ui"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("viewer")
    app = folder / "app"
    app.mkdir()
    (app / "config.yaml").write_text("rest: true\nlogin: true\ngraphqlSchema: {files: '*.graphql'}\n")
    (app / "schema.graphql").write_text(SCHEMA)
    process = Process(folder / "root", app).start()
    with process.client() as client:
        assert client.put("/Product/1", json={"name": HOSTILE, "price": 2}).status_code == 204
    yield process
    assert process.stop() == 0, process.output()


def post(page: Page, path: str, **body: str) -> int:
    """A request of the page itself; its status."""
    options = {"method": "POST", "headers": {"Content-Type": "application/json"}, "body": json.dumps(body)}
    found: int = page.evaluate(f"fetch({json.dumps(path)}, {json.dumps(options)}).then((response) => response.status)")
    return found


STATUS = "document.querySelector('.live-responses-table tbody .response-col_status')?.textContent"


def execute(page: Page, server: Process, operation: str) -> tuple[str, str]:
    """Opens an operation, sends its request as it stands; (status, body) as the page shows them."""
    for attempt in range(8):
        page.open("about:blank")
        page.open(f"{server.url}/docs#/{operation}")
        page.until("document.querySelector('.opblock.is-open .execute') !== null")
        time.sleep(attempt)
        page.click(".opblock.is-open .execute")
        # A page of Swagger UI in which the button is pressed while the operation is still resolved does not find it any more.
        page.evaluate("window.clicked = Date.now()")
        if page.until(f"{STATUS} || (Date.now() - window.clicked > 4000 && 'none')") != "none":
            break
        page.problems[:] = [problem for problem in page.problems if "OperationNotFoundError" not in problem]
    return (
        page.text(".live-responses-table tbody .response-col_status").strip(),
        page.text(".live-responses-table tbody .response-col_description"),
    )


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_page(server: Process, tmp_path: Path) -> None:
    with open_page(tmp_path) as page:
        page.open(f"{server.url}/docs/assets/icon.svg")
        assert post(page, "/login", username="admin", password=PASSWORD) == 200
        # What there is.
        page.open(f"{server.url}/docs")
        page.until("document.querySelectorAll('.opblock-tag').length === 2")
        shown = page.evaluate("[...document.querySelectorAll('.opblock-tag')].map((each) => each.dataset.tag)")
        assert shown == ["Brand", "Product"]
        # A request of the page, with its session.
        status, body = execute(page, server, "Product/listProducts")
        assert status == "200" and HOSTILE in body.replace("\\", "")
        assert page.evaluate("document.querySelectorAll('img[onerror], a[href^=\"javascript\"]').length") == 0
        # Without a session: the answer is shown, and no dialog of the browser opens.
        assert post(page, "/logout") == 200
        page.click(".opblock.is-open .execute")
        page.until("document.querySelector('.live-responses-table tbody .response-col_status')?.textContent.startsWith('401')")
        assert page.problems == []
        assert [address for address in page.requested if not address.startswith((server.url, "about:", "data:"))] == []


def test_who_gets_it(server: Process) -> None:
    with server.client() as client:
        page = client.get("/docs")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert client.get("/docs", headers={"If-None-Match": page.headers["etag"]}).status_code == 304
        assert client.post("/docs", json={}).status_code == 405
        assert client.options("/docs").headers["allow"] == "GET, HEAD, OPTIONS"
        for name in ("page.js", "page.css", "swagger-ui.css", "swagger-ui-bundle.js", "icon.svg"):
            assert f'"docs/assets/{name}"' in page.text
            assert httpx.get(f"{server.url}/docs/assets/{name}").status_code == 200
        assert client.get("/docs/assets/README.md").status_code == client.get("/docs/assets/../page.html").status_code == 404
    assert httpx.get(f"{server.url}/docs").status_code == 401
    browser = httpx.get(f"{server.url}/docs", headers={"User-Agent": "Mozilla/5.0", "Accept": "text/html"})
    assert (browser.status_code, browser.headers["location"]) == (302, "/login?redirect=%2Fdocs")


def test_the_files_are_those_of_the_package(tmp_path_factory: pytest.TempPathFactory) -> None:
    package = node_packages(tmp_path_factory) / "node_modules" / "swagger-ui-dist"
    for path in VENDORED.iterdir():
        if path.name != "README.md":
            assert path.read_bytes() == (package / path.name).read_bytes(), path.name
    version = json.loads((package / "package.json").read_text())["version"]
    assert f"Swagger UI {version}," in (VENDORED / "README.md").read_text()
