"""The page of `/graphql` in Chromium: what a user types, and what the page makes of it and of what the server answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process, authorization
from tests.support.chromium import ALT, CHROMIUM, CTRL, SHIFT, Page, open_page

pytestmark = [pytest.mark.programs, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]

SCHEMA = """
"What is sold."
type Product @table @export { id: ID @primaryKey name: String @indexed price: Float brandId: ID @indexed brand: Brand @relationship(from: brandId) }
type Brand @table @export { id: ID @primaryKey name: String @indexed }
"""
HOSTILE = "<img src=x onerror=alert(1)></script><b>"
AUTHORIZATION = {"Authorization": authorization()}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("page")
    app = folder / "app"
    app.mkdir()
    (app / "config.yaml").write_text("rest: true\nlogin: true\ngraphql: {extended: true}\ngraphqlSchema: {files: '*.graphql'}\n")
    (app / "schema.graphql").write_text(SCHEMA)
    process = Process(folder / "root", app).start()
    with process.client() as client:
        assert client.put("/Brand/1", json={"name": HOSTILE, HOSTILE: HOSTILE}).status_code == 204
        products = [{"id": str(number), "name": f"n{number}", "price": 2**53 + number, "brandId": "1"} for number in range(600)]
        assert client.post("/Product/", json=products).status_code == 201
    yield process
    assert process.stop() == 0, process.output()
    assert "[error]" not in process.logged()


def test_the_page(server: Process, tmp_path: Path) -> None:
    """All in one browser, for the start of one takes seconds; the connections of the browser end with it, before leaks are looked for."""
    with open_page(tmp_path) as page:
        for scenario in SCENARIOS:
            prepare(page, server)
            scenario(page, server)
            assert page.problems == [], scenario.__name__
        assert [address for address in page.requested if not address.startswith((server.url, "about:", "data:"))] == []


def prepare(page: Page, server: Process) -> None:
    """The page, newly opened by a user without a history who has given the header fields of the administrator."""
    page.open(f"{server.url}/graphql")
    page.evaluate(
        f"localStorage.clear(); sessionStorage.clear(); sessionStorage.setItem('svc.graphql.headers', {json.dumps(json.dumps(AUTHORIZATION))})"
    )
    start(page, server)


def start(page: Page, server: Process, fragment: str = "") -> None:
    page.open("about:blank")
    page.open(f"{server.url}/graphql{fragment}")
    page.until("document.querySelector('#docs-content').childElementCount > 0")  # the schema has come, or why not


def write(page: Page, text: str) -> None:
    """Puts a text into the editor of queries as if it was pasted."""
    page.evaluate("document.querySelector('#query-text').focus(); document.querySelector('#query-text').select()")
    page.call("Input.insertText", text=text)


def query(page: Page) -> str:
    found: str = page.evaluate("document.querySelector('#query-text').value")
    return found


def run(page: Page) -> str:
    """The status line of the answer."""
    page.press("Enter", CTRL)
    status: str = page.until("document.querySelector('#run').textContent === 'Run' && document.querySelector('#status').textContent")
    return status


def typing_completes_fields_and_runs_the_query(page: Page, server: Process) -> None:
    write(page, "")
    page.type("{\nProd")
    page.until("document.querySelector('#query-suggestions li[aria-selected=true]')?.textContent.startsWith('Product')")
    page.press("Enter")
    page.type(" {na")
    page.until("!document.querySelector('#query-suggestions').hidden")
    page.press("Tab")
    page.type(" pri")
    page.press(" ", CTRL)
    page.press("Enter")
    assert query(page) == "{\n  Product {name price}\n}"
    assert run(page).startswith("Status 200 · ")
    assert "execute;dur=" in page.text("#status")
    assert '"price": 9007199254740993' in page.text("#result")  # not a number of JavaScript
    assert page.text("#who") == "Asking as admin, by the Authorization field."
    page.press("z", CTRL)
    assert query(page) == "{\n  Product {name pri}\n}"


def large_results_are_cut_until_all_is_asked_for(page: Page, server: Process) -> None:
    write(page, "{ Product { id } }")
    run(page)
    count = "document.querySelectorAll('#result .inside .inside .inside > details').length"
    assert page.evaluate(count) < 600
    page.click("#result .more")
    page.until("!document.querySelector('#result .more')")
    assert page.evaluate("document.querySelectorAll('#result .inside .inside .inside > details').length") == 600


def errors_are_marked_where_they_are(page: Page, server: Process) -> None:
    for text, place in ERRORS:
        an_error_is_marked(page, text, place)


ERRORS = [("{\n  Product {\n    name(\n  }\n}", "4:3 "), ("{ a: Brand { id }\n\n  Missing { id } }", "3:3 "), ("{\n  Product }", "2:3 ")]


def an_error_is_marked(page: Page, text: str, place: str) -> None:
    write(page, text)
    assert run(page).startswith("Status 400")
    assert page.text("#problems .problem").startswith(place)
    assert page.text(".number.faulty").strip() == place.partition(":")[0]
    page.click("#problems .problem")
    before = page.evaluate("document.activeElement.value.slice(0, document.activeElement.selectionStart)")
    assert (before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1) == tuple(map(int, place.strip().split(":")))
    page.type(" ")
    assert page.evaluate("document.querySelector('#problems').childElementCount") == 0


def variables_are_checked_before_they_are_sent(page: Page, server: Process) -> None:
    write(page, "query ($id: ID) { Product(id: $id) { name } }")
    page.evaluate("document.querySelector('#variables-text').focus()")
    page.call("Input.insertText", text='{\n  id: "7"\n}')
    page.press("Enter", CTRL)
    assert page.text("#variables-fault").startswith("2:3 ")
    assert page.text("#status") == ""
    page.evaluate("document.querySelector('#variables-text').select()")
    page.call("Input.insertText", text='{"id": "7"}')
    assert run(page).startswith("Status 200")
    assert '"n7"' in page.text("#result")


def of_several_operations_one_is_chosen(page: Page, server: Process) -> None:
    write(page, 'query A { Product(id: "1") { id } } query B { Brand { id } }')
    assert page.evaluate("!document.querySelector('#operation-label').hidden")
    page.evaluate("document.querySelector('#operation').value = 'B'")
    run(page)
    assert '"Brand"' in page.text("#result")
    page.click("#prettify")
    assert query(page) == 'query A {\n  Product(id: "1") {\n    id\n  }\n}\n\nquery B {\n  Brand {\n    id\n  }\n}\n'


def a_subscription_shows_results_until_it_is_stopped(page: Page, server: Process) -> None:
    write(page, 'subscription { Product(id: "3") { name } }')
    page.press("Enter", CTRL)
    page.until("document.querySelector('#result .events')?.textContent.includes('n3')")
    with server.client() as client:
        assert client.patch("/Product/3", json={"name": "changed"}).status_code < 300
    page.until("document.querySelector('#result .events').textContent.includes('changed')")
    page.click("#run")
    page.until("document.querySelector('#status').textContent === 'Stopped.'")
    assert page.text("#run") == "Run"


def the_documentation_shows_types_and_finds_fields(page: Page, server: Process) -> None:
    page.click("#show-docs")
    page.until("[...document.querySelectorAll('#docs-content .type')].some((each) => each.textContent === 'Product')")
    page.evaluate("[...document.querySelectorAll('#docs-content .type')].find((each) => each.textContent === 'Product').click()")
    assert "What is sold." in page.text("#docs-content")
    assert "brandId" in page.text("#docs-content")
    page.evaluate("document.querySelector('#docs-search').focus()")
    page.call("Input.insertText", text="price")
    assert "Product.price" in page.text("#docs-content")


def hostile_values_are_only_text(page: Page, server: Process) -> None:
    write(page, f"{{ Brand {{ name {'x' * 10}: name }} }} # {HOSTILE}")
    run(page)
    assert json.dumps(HOSTILE) in page.text("#result")
    start(page, server, f"#query={quote('{ ' + HOSTILE)}&variables={quote(json.dumps({HOSTILE: HOSTILE}))}&operationName={quote(HOSTILE)}")
    assert query(page) == "{ " + HOSTILE
    run(page)
    page.click("#show-history")
    write(page, "{ Brand { brand: whole name } }")
    run(page)
    assert page.evaluate("document.querySelectorAll('img, b, main script').length") == 0


def history_and_links_hold_no_credentials(page: Page, server: Process) -> None:
    write(page, "{ Brand { id } }")
    run(page)
    page.click("#share")
    page.until("location.hash.includes('query=')")
    stored = page.evaluate("JSON.stringify({...localStorage}) + location.href")
    assert "Brand" in stored
    assert "Basic" not in stored and AUTHORIZATION["Authorization"].split()[1] not in stored
    start(page, server)
    assert query(page) == "{ Brand { id } }"  # the draft
    page.click("#show-history")
    write(page, "{ other }")
    page.click("#history-list .entry")
    assert query(page) == "{ Brand { id } }"
    page.click("#history-list [aria-label=Favourite]")
    page.click("#history-clear")
    assert page.evaluate("document.querySelector('#history-list').childElementCount") == 1


def without_a_login_the_page_says_how_to_log_in(page: Page, server: Process) -> None:
    page.evaluate("sessionStorage.clear()")
    start(page, server)
    write(page, "{ Brand { id } }")
    assert run(page).startswith("Status 401")
    assert page.text("#who").startswith("Not logged in")
    page.click("#show-login")
    for name, text in (("username", "admin"), ("password", PASSWORD)):
        page.evaluate(f"document.querySelector('#{name}').focus()")
        page.call("Input.insertText", text=text)
    page.press("Enter")
    page.until("document.querySelector('#login-note').textContent === 'Logged in as admin.'")
    assert run(page).startswith("Status 200")
    assert page.text("#who") == "Logged in by this browser."
    page.click("#logout")
    page.until("document.querySelector('#login-note').textContent === 'Logged out.'")
    assert run(page).startswith("Status 401")


def keys_reach_everything_and_tab_can_leave_the_editor(page: Page, server: Process) -> None:
    write(page, "# a ")
    page.press("Tab")
    assert query(page) == "# a   "
    page.press("Tab", SHIFT)
    assert query(page) == "# a   "
    page.press("Escape")
    page.press("Tab")
    assert page.evaluate("document.activeElement.id") == "variables-tab"
    page.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "headers-tab"
    assert page.evaluate("[...document.querySelectorAll('input, select, textarea')].every((each) => each.labels?.length || each.ariaLabel)")
    write(page, "{a }")
    page.press("f", ALT | SHIFT)
    assert query(page) == "{\n  a\n}\n"


def it_fits_a_narrow_screen(page: Page, server: Process) -> None:
    page.call("Emulation.setDeviceMetricsOverride", width=360, height=640, deviceScaleFactor=1, mobile=True)
    try:
        for side in ("docs", "history", "login"):
            page.click(f"#show-{side}")
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")


def test_the_page_is_for_browsers_and_queries_by_get_are_answered(server: Process) -> None:
    accepts = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    with httpx.Client(base_url=server.url, headers={"Accept": accepts, "User-Agent": "Mozilla/5.0"}) as client:
        answer = client.get("/graphql")
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        again = client.get("/graphql", headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert client.head("/graphql/").headers["ETag"] == answer.headers["ETag"]
        assert client.get("/graphql?query={__typename}").json() == {"data": {"__typename": "Query"}}
        assert client.get("/graphql", headers={"Accept": "application/json"}).status_code == 400
        assert client.post("/graphql/assets/page.js").status_code == 405
        assert client.get("/graphql/assets/other.js").status_code == 404


SCENARIOS = (
    typing_completes_fields_and_runs_the_query,
    large_results_are_cut_until_all_is_asked_for,
    errors_are_marked_where_they_are,
    variables_are_checked_before_they_are_sent,
    of_several_operations_one_is_chosen,
    a_subscription_shows_results_until_it_is_stopped,
    the_documentation_shows_types_and_finds_fields,
    hostile_values_are_only_text,
    history_and_links_hold_no_credentials,
    without_a_login_the_page_says_how_to_log_in,
    keys_reach_everything_and_tab_can_leave_the_editor,
    it_fits_a_narrow_screen,
)
