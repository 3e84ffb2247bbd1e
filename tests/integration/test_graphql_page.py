"""The page of `/graphql` in Chromium: what a user types, and what the page makes of it and of what the server answers."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process, authorization
from tests.support.chromium import CHROMIUM, CTRL, Page, open_page
from tests.support.npm import LIMIT, NODE, NPM

pytestmark = pytest.mark.programs

SCHEMA = """
"What is sold."
type Product @table @export { id: ID @primaryKey name: String @indexed price: Float }
type Brand @table @export { id: ID @primaryKey name: String @indexed }
"""
HOSTILE = "<img src=x onerror=alert(1)></script><b>"
VENDORED = Path(__file__).parents[2] / "svc" / "graphql" / "page" / "graphiql"
NOT_OURS = "Missing `Description` or `aria-describedby={undefined}`"
"""What React says of the dialogs of GraphiQL."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("page")
    app = folder / "app"
    app.mkdir()
    (app / "config.yaml").write_text("rest: true\nlogin: true\ngraphql: {extended: true}\ngraphqlSchema: {files: '*.graphql'}\n")
    (app / "schema.graphql").write_text(SCHEMA)
    process = Process(folder / "root", app).start()
    with process.client() as client:
        assert client.put("/Brand/1", json={"name": HOSTILE}).status_code == 204
        products = [{"id": str(number), "name": f"n{number}", "price": 2**53 + number} for number in range(9)]
        assert client.post("/Product/", json=products).status_code == 201
    yield process
    assert process.stop() == 0, process.output()
    assert "[error]" not in process.logged()


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_page(server: Process, tmp_path: Path) -> None:
    """All in one browser, for the start of one takes seconds; the connections of the browser end with it, before leaks are looked for."""
    with open_page(tmp_path) as page:
        for scenario in SCENARIOS:
            log_in(page, server)
            start(page, server)
            scenario(page, server)
            assert [problem for problem in page.problems if NOT_OURS not in problem] == [], scenario.__name__
        assert [address for address in page.requested if not address.startswith((server.url, "about:", "data:"))] == []


def post(page: Page, path: str, **body: str) -> int:
    """A request of the page itself; its status."""
    options = {"method": "POST", "headers": {"Content-Type": "application/json"}, "body": json.dumps(body)}
    found: int = page.evaluate(f"fetch({json.dumps(path)}, {json.dumps(options)}).then((response) => response.status)")
    return found


def log_in(page: Page, server: Process) -> None:
    page.open(f"{server.url}/graphql/assets/icon.svg")
    assert post(page, "/login", username="admin", password=PASSWORD) == 200
    page.evaluate("localStorage.clear(); sessionStorage.clear()")


def start(page: Page, server: Process, fragment: str = "") -> None:
    page.open("about:blank")
    page.open(f"{server.url}/graphql{fragment}")
    page.until("document.querySelector('.graphiql-query-editor .CodeMirror')?.CodeMirror !== undefined")
    page.until("document.querySelector('.graphiql-spinner') === null")  # the schema has come, or why not


def write(page: Page, text: str, editor: str = "query") -> None:
    """Puts a text into an editor as if it was pasted."""
    editors = f"[...document.querySelectorAll('[aria-label={EDITORS[editor]}] .CodeMirror')]"
    visible = "(each) => getComputedStyle(each).visibility === 'visible'"
    page.until(f"{editors}.some({visible})")
    page.evaluate(f"window.at = {editors}.find({visible}).CodeMirror; at.focus(); at.execCommand('selectAll')")
    page.call("Input.insertText", text=text)


EDITORS = {"query": '"Query Editor"', "variables": '"Variables"', "headers": '"Headers"'}


def query(page: Page) -> str:
    found: str = page.evaluate("document.querySelector('.graphiql-query-editor .CodeMirror').CodeMirror.getValue()")
    return found


RESULT = "document.querySelector('.result-window .CodeMirror').CodeMirror.getValue()"


def run(page: Page, expected: str) -> str:
    """The result, once it has a text in it."""
    page.evaluate("document.querySelector('.graphiql-query-editor .CodeMirror').CodeMirror.focus()")
    page.press("Enter", CTRL)
    page.until(f"{RESULT}.includes({json.dumps(expected)})")
    found: str = page.evaluate(RESULT)
    return found


def press(page: Page, label: str) -> None:
    selector = json.dumps(f"[aria-label={json.dumps(label)}]")
    page.until(f"document.querySelector({selector}) !== null")
    page.evaluate(f"document.querySelector({selector}).click()")


def typing_completes_fields_and_runs_the_query(page: Page, server: Process) -> None:
    write(page, "{ ")
    page.type("Prod")
    deadline = time.monotonic() + LIMIT
    while query(page) != "{ Product":  # what is the only one that fits may be put in without a list
        assert time.monotonic() < deadline, query(page)
        if page.evaluate("document.querySelector('.CodeMirror-hint-active')?.textContent.startsWith('Product')"):
            page.press("Enter")
        else:
            page.press(" ", CTRL)  # the editor may not have the schema yet
        time.sleep(0.3)
    page.type('(id: "1") { name price } }')
    result = json.loads(run(page, '"price"'))
    assert result["data"]["Product"] == [{"name": "n1", "price": 2**53 + 1}], "not a number of JavaScript"


def errors_are_shown(page: Page, server: Process) -> None:
    write(page, "{\n  Missing { id } }")
    assert "Missing" in run(page, '"errors"')


def variables_and_mutations(page: Page, server: Process) -> None:
    write(page, "mutation ($id: ID!, $name: String) { patch_Brand(id: $id, input: {name: $name}) { name } }")
    page.evaluate(
        "[...document.querySelectorAll('.graphiql-editor-tools button')].find((each) => each.textContent === 'Variables').click()"
    )
    write(page, '{"id": "1", "name": "renamed"}', "variables")
    run(page, '"renamed"')
    with server.client() as client:
        assert client.get("/Brand/1").json()["name"] == "renamed"
        assert client.put("/Brand/1", json={"name": HOSTILE}).status_code == 204


def a_subscription_shows_results_until_it_is_stopped(page: Page, server: Process) -> None:
    write(page, 'subscription { Product(id: "3") { name } }')
    run(page, '"n3"')
    with server.client() as client:
        assert client.patch("/Product/3", json={"name": "changed"}).status_code < 300
    page.until(f"{RESULT}.includes('changed')")
    press(page, "Stop query (Ctrl-Enter)")
    page.until("document.querySelector('[aria-label=\"Execute query (Ctrl-Enter)\"]') !== null")
    with server.client() as client:
        assert client.patch("/Product/3", json={"name": "n3"}).status_code < 300


def the_documentation_shows_types(page: Page, server: Process) -> None:
    press(page, "Show Documentation Explorer")
    page.until("document.querySelector('.graphiql-doc-explorer') !== null")
    page.evaluate("document.querySelector('.graphiql-doc-explorer-search input').focus()")
    page.call("Input.insertText", text="Product")
    page.until("[...document.querySelectorAll('[role=option]')].some((each) => each.textContent === 'Query.Product')")
    page.press("Escape")
    page.evaluate(
        "[...document.querySelectorAll('.graphiql-doc-explorer-type-name')].find((each) => each.textContent === 'Product').click()"
    )
    page.until("document.querySelector('.graphiql-doc-explorer-content').textContent.includes('What is sold.')")


def dialogs_keep_to_the_policy(page: Page, server: Process) -> None:
    for label in ("Open short keys dialog", "Open settings dialog"):
        press(page, label)
        page.until("document.querySelector('.graphiql-dialog') !== null")
        page.press("Escape")
        page.until("document.querySelector('.graphiql-dialog') === null")


def hostile_values_are_only_text(page: Page, server: Process) -> None:
    write(page, f"{{ Brand {{ name whole: name }} }} # {HOSTILE}")
    run(page, "onerror")
    press(page, "Show History")
    start(page, server, f"#query={quote('{ ' + HOSTILE)}&variables={quote(json.dumps({HOSTILE: HOSTILE}))}")
    assert query(page) == "{ " + HOSTILE
    run(page, '"errors"')
    assert page.evaluate("document.querySelectorAll('img, #graphiql b, main script').length") == 0


def header_fields_are_sent_and_not_stored(page: Page, server: Process) -> None:
    assert post(page, "/logout") == 200
    page.evaluate("[...document.querySelectorAll('.graphiql-editor-tools button')].find((each) => each.textContent === 'Headers').click()")
    write(page, json.dumps({"Authorization": authorization()}), "headers")
    write(page, '{ Product(id: "5") { name } }')
    page.until("localStorage['graphiql:tabState']?.includes('Product')")  # so the page has noted the fields, which were written before
    run(page, '"n5"')
    page.until("localStorage['graphiql:queries']?.includes('Product')")
    press(page, "Show History")
    press(page, "Add favorite")
    page.until("localStorage['graphiql:favorites']?.includes('Product')")
    stored = page.evaluate("JSON.stringify({...localStorage, ...sessionStorage}) + location.href")
    assert "Basic" not in stored and authorization().split()[1] not in stored


def without_a_login_the_page_says_how_to_log_in(page: Page, server: Process) -> None:
    assert post(page, "/logout") == 200
    start(page, server)
    page.until(f"{RESULT}.includes('nothing here that you may see')")
    write(page, "{ Brand { id } }")
    page.evaluate("document.querySelector('.graphiql-query-editor .CodeMirror').CodeMirror.performLint()")  # as after half a second
    run(page, "Must login")
    page.until("!document.querySelector('#login').hidden")
    assert page.evaluate("document.querySelector('#login-page').href") == f"{server.url}/login?redirect=%2Fgraphql"
    assert post(page, "/login", username="admin", password=PASSWORD) == 200
    run(page, '"Brand"')
    page.until("document.querySelector('#login').hidden")


SCENARIOS = (
    typing_completes_fields_and_runs_the_query,
    errors_are_shown,
    variables_and_mutations,
    a_subscription_shows_results_until_it_is_stopped,
    the_documentation_shows_types,
    dialogs_keep_to_the_policy,
    hostile_values_are_only_text,
    header_fields_are_sent_and_not_stored,
    without_a_login_the_page_says_how_to_log_in,
)


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
        for missing in ("other.js", "README.md", "LICENSE", "../page.html"):
            assert client.get(f"/graphql/assets/{missing}").status_code == 404


def test_the_files_are_those_of_the_packages(tmp_path: Path) -> None:
    if NPM is None or NODE is None:
        pytest.skip("there is no npm for this machine")
    packages = re.findall(r"(\w[\w-]*@[\d.]+)", (VENDORED / "README.md").read_text())
    assert len(packages) == 3
    command = [NODE, str(NPM), "pack", "--prefer-offline", "--silent", *packages]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        pytest.skip(f"packages cannot be had from npm: {done.stderr.strip()[-200:]}")
    found: dict[str, bytes] = {}
    for path in tmp_path.glob("*.tgz"):
        is_react = path.name.startswith("react")
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                name = member.name.rpartition("/")[2]
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None and member.name.count("/") <= 2:
                    found["LICENSE.react" if is_react and name == "LICENSE" else name] = file.read()
    for path in VENDORED.iterdir():
        if path.name != "README.md":
            assert path.read_bytes() == found[path.name], path.name
