"""Pages of the real program: its head lines, other HTTP clients, and a person in Chromium (spec: http §7.7, §11)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.chromium import CHROMIUM, Page, open_page
from tests.support.pages import BROWSER, Parsed

pytestmark = pytest.mark.programs

SCHEMA = """
"What is sold."
type Product @table @export {
  id: ID @primaryKey name: String @indexed price: Float @indexed note: String brandId: ID @indexed brand: Brand @relationship(from: "brandId")
}
type Brand @table @export { id: ID @primaryKey name: String @indexed products: [Product] @relationship(to: "brandId") }
"""
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
NAVIGATION = {"Accept": BROWSER, "User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}
FORM = {**NAVIGATION, "Content-Type": "application/x-www-form-urlencoded"}
GOOD = {"username": "admin", "password": PASSWORD}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """An application without a config.yaml, as a newcomer's."""
    folder = tmp_path_factory.mktemp("pages")
    app = folder / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    process = Process(folder / "root", app).start()
    with process.client() as client:
        client.put("/Brand/b1", json={"name": HOSTILE}).raise_for_status()
        products = [{"id": f"{n:03}", "name": f"n{n % 3}", "price": n / 4, "brandId": "b1"} for n in range(400)]
        client.post("/Product/", json=products).raise_for_status()
        client.put("/Product/x", json={"name": HOSTILE, HOSTILE: HOSTILE, "note": "javascript:alert(3)", "price": -1}).raise_for_status()
    yield process
    assert process.stop() == 0, process.output()
    assert "[error]" not in process.logged()


@pytest.fixture
def visitor(server: Process) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=NAVIGATION, trust_env=False) as client:
        yield client


@pytest.mark.parametrize("port", ["application", "operations"])
@pytest.mark.parametrize("accept", ["*/*", "text/html, */*;q=0.5"])
def test_each_scheme_has_a_line_of_its_own(server: Process, port: str, accept: str) -> None:
    number, request = (server.port, "GET /Product/1") if port == "application" else (server.operations_port, "POST /")
    body = '{"operation":"describe_all"}'
    fields = f"Host: localhost\r\nAccept: {accept}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
    with socket.create_connection(("127.0.0.1", number), timeout=30) as sock:
        sock.sendall(f"{request} HTTP/1.1\r\n{fields}\r\n\r\n{body}".encode())
        head = b"".join(iter(lambda: sock.recv(65536), b"")).partition(b"\r\n\r\n")[0]
    lines = head.split(b"\r\n")
    assert lines[0].split()[1] == b"401"
    assert [line for line in lines if line.lower().startswith(b"www-authenticate:")] == [
        b'WWW-Authenticate: Basic realm="svc", charset="UTF-8"',
        b'WWW-Authenticate: Bearer realm="svc"',
    ]


# --- login -------------------------------------------------------------------------------------------------------------------------


def test_a_navigation_comes_back_after_the_login(visitor: httpx.Client) -> None:
    asked = visitor.get("/Product/?name==n1&sort(-price)")
    assert (asked.status_code, asked.headers["location"]) == (302, "/login?redirect=%2FProduct%2F%3Fname%3D%3Dn1%26sort%28-price%29")
    form = visitor.get(asked.headers["location"])
    page = Parsed(form.content)
    assert form.status_code == 200 and page.find("form") == {"class": "login", "method": "post", "action": "./login"}
    redirect = page.find("input", type="hidden")["value"]
    answer = visitor.post("/login", data={**GOOD, "redirect": redirect}, headers=FORM)
    assert (answer.status_code, answer.headers["location"]) == (303, "/Product/?name==n1&sort(-price)")
    assert "HttpOnly" in answer.headers["set-cookie"] and answer.headers["cache-control"] == "no-store"
    page = Parsed(visitor.get(answer.headers["location"]).content)
    assert "admin" in page.text and "Log out" in page.links and page.rows[1][2] == "99.25"
    assert "logged in as" in Parsed(visitor.get("/login").content).text
    assert "Log out" in Parsed(visitor.get("/logout").content).text
    left = visitor.post("/logout", headers=FORM)
    assert (left.status_code, left.headers["location"]) == (303, "./") and "Expires=Thu, 01 Jan 1970" in left.headers["set-cookie"]
    assert visitor.get("/Product/").status_code == 302
    assert "You are not logged in" in visitor.get("/").text
    assert visitor.post("/logout", headers=FORM).status_code == 303  # nothing to end


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"username": "admin", "password": "wrong"}, 401, "Login failed"),
        ({"username": HOSTILE, "password": "wrong"}, 401, "Login failed"),
        ({"username": "admin"}, 400, "'password' is required"),
        ({}, 400, "needs a body"),
    ],
)
def test_what_is_wrong_stands_in_the_form(visitor: httpx.Client, fields: dict[str, str], status: int, text: str) -> None:
    answer = visitor.post("/login", data={**fields, **({"redirect": "/Product/"} if fields else {})}, headers=FORM)
    assert answer.status_code == status and "set-cookie" not in answer.headers
    page = Parsed(answer.content)
    assert text in page.text and page.find("input", name="username")["value"] == fields.get("username", "")
    assert page.find("input", type="password").get("value") is None
    if fields:
        assert page.find("input", type="hidden")["value"] == "/Product/"
    if status == 401:
        assert answer.headers.get_list("www-authenticate") == ['Bearer realm="svc"']


@pytest.mark.parametrize(
    "wanted", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", '"><script>', "/x\r\ny: z"]
)
def test_the_login_leads_to_no_other_site(visitor: httpx.Client, wanted: str) -> None:
    page = Parsed(visitor.get("/login", params={"redirect": wanted}).content)
    assert not [found for tag, found in page.elements if found.get("type") == "hidden"]
    answer = visitor.post("/login", data={**GOOD, "redirect": wanted}, headers=FORM)
    assert (answer.status_code, answer.headers["location"]) == (303, "./")


@pytest.mark.parametrize(
    "fields",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://127.0.0.1:1"}],
)
def test_a_page_of_another_site_logs_nobody_in(visitor: httpx.Client, fields: dict[str, str]) -> None:
    answer = visitor.post("/login", data=GOOD, headers={**FORM, **fields})
    assert answer.status_code == 403 and "set-cookie" not in answer.headers and "foreign origin" in answer.text
    assert visitor.post("/login", data=GOOD, headers={**FORM, "Origin": str(visitor.base_url).rstrip("/")}).status_code == 303
    answer = visitor.post("/logout", headers={**FORM, **fields})
    assert "set-cookie" not in answer.headers and visitor.get("/Product/").status_code == 200


def test_other_clients_see_no_difference(server: Process) -> None:
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        assert client.get("/login").status_code == 404
        answer = client.post("/login", json=GOOD)
        assert (answer.status_code, answer.json()) == (200, {"message": "Login successful"})
        assert client.get("/Product/001").headers["content-type"] == "application/json"
        assert len(client.get("/Product/").json()) == 401
        brand = client.get("/").json()["resources"][0]
        assert {"path": "/Brand/", "name": "Brand", "kind": "table", "record": "/Brand/{id}"}.items() <= brand.items()
        assert client.post("/logout").json() == {"message": "Logout successful"}
        assert client.post("/login", json={**GOOD, "redirect": "/x"}).status_code == 302
        failed = client.post("/login", json={**GOOD, "password": "no"})
        assert (failed.status_code, failed.headers["content-type"]) == (401, "application/problem+json")
        assert len(failed.headers.get_list("www-authenticate")) == 2


def test_errors_before_a_resource_is_found(visitor: httpx.Client) -> None:
    for method, target, status in (("GET", "/nothing", 404), ("GET", "/%zz", 404), ("BREW", "/Product/", 501), ("PUT", "/Product/1", 401)):
        answer = visitor.request(method, target)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8"), target
        assert str(status) in Parsed(answer.content).text


# --- a person ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_person_with_a_browser(server: Process, tmp_path: Path) -> None:
    """From the login to the third page of a sorted, filtered table, to a record and a related one, and out again."""
    with open_page(tmp_path) as page:
        page.open(server.url + "/")
        go(page, "Log in", "/login")
        fill(page, username="admin", password="wrong")
        page.until("document.readyState === 'complete' && document.querySelector('[role=alert]')?.textContent === 'Login failed'")
        assert page.evaluate("document.querySelector('[name=username]').value") == "admin"
        fill(page, password=PASSWORD)
        arrive(page, "/")
        assert page.text(".who b") == "admin"
        go(page, "Product", "/Product/")
        assert "401" in page.text(".pager") and page.evaluate("document.querySelectorAll('tbody tr').length") == 50
        page.evaluate("document.querySelector('[name=_column]').value = 'name'")
        page.evaluate("document.querySelector('[name=_value]').value = 'n1'")
        page.click("form.filter button")
        arrive(page, "/Product/", "?name==n1")
        go(page, "[aria-label='Sort by price, descending']", "/Product/", "?name==n1&sort(-price)")
        prices = column(page, 3)
        for _ in range(2):
            before = page.evaluate("location.search")
            page.click("a[rel=next]")
            page.until(f"document.readyState === 'complete' && location.search !== {json.dumps(before)}")
            prices += column(page, 3)
        assert prices == [f"{n / 4:g}" for n in range(399, -1, -1) if n % 3 == 1]
        assert page.evaluate("document.querySelector('a[rel=next]')") is None
        assert page.evaluate("document.querySelector('th[aria-sort]').textContent").startswith("price")
        key = page.evaluate("document.querySelector('tbody a').textContent")
        go(page, key, f"/Product/{key}")
        go(page, "b1", "/Brand/b1")
        assert HOSTILE in page.evaluate("document.querySelector('main').textContent")
        page.open(f"{server.url}/Product/x?{quote(HOSTILE)}")
        assert HOSTILE in page.evaluate("document.querySelector('main').textContent")
        page.open(f"{server.url}/Product/?sort(note)&{quote(HOSTILE)}")
        assert page.text("h1") == "Bad Request"
        assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0
        assert page.evaluate("getComputedStyle(document.querySelector('.top')).display") == "flex", "the style sheet is not refused"
        go(page, "Log out", "/logout")
        page.click("main button")
        arrive(page, "/")
        assert "You are not logged in" in page.text("main")
        page.open("about:blank")
        page.call("Page.navigate", url=f"{server.url}/Product/")
        arrive(page, "/login", "?redirect=%2FProduct%2F")
        fill(page, username="admin", password=PASSWORD)
        arrive(page, "/Product/")
        assert page.problems == []
        assert [address for address in page.requested if not address.startswith((server.url, "about:", "data:"))] == []


def go(page: Page, link: str, path: str, query: str = "") -> None:
    """Click on a link, by its text or selector."""
    if link.startswith("["):
        page.click(link)
    else:
        page.click_on(f"[...document.querySelectorAll('a')].find((a) => a.textContent === {json.dumps(link)})")
    arrive(page, path, query)


def arrive(page: Page, path: str, query: str = "") -> None:
    page.until(
        f"document.readyState === 'complete' && location.pathname === {json.dumps(path)} && location.search.startsWith({json.dumps(query)})"
    )


def fill(page: Page, **values: str) -> None:
    """Type into fields of the form, and send it with the key of the last one."""
    for name, value in values.items():
        page.evaluate(f"document.querySelector('[name={name}]').select()")
        page.type(value)
    page.press("Enter")


def column(page: Page, number: int) -> list[str]:
    found: list[str] = page.evaluate(f"[...document.querySelectorAll('tbody td:nth-child({number})')].map((cell) => cell.textContent)")
    return found
