"""The page of a table in the real program: each form of its address is run, and a person works with it in Chromium (spec: http §7.8.5)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.chromium import CHROMIUM, Page, open_page
from tests.support.pages import BROWSER
from tests.support.workshop import HOSTILE, check_page, fill, log_in, make_application

pytestmark = pytest.mark.programs

LOGIN = f"admin:{PASSWORD}"
_TEXT = re.compile(r'<pre id="as-(\w+)">(.*?)</pre>', re.DOTALL)
PLAIN = {"url", "curl", "python", "javascript", "operation"}
QUERIES = {
    "": {"graphql", "sql"},
    "?limit(20,40)": {"graphql", "sql"},
    "?price=gt=5&sort(-price)&limit(10)": {"graphql", "sql"},
    "?kind==POWER&sort(price)": {"graphql", "sql"},
    "?name==Tool%205*&sort(name)&limit(500)": {"graphql", "sql"},
    "?price=ge=2&lt=40&sort(-bought,price)&limit(7)": {"graphql", "sql"},
    "?price=gt=3&select(id,name,price)&sort(id)": {"graphql", "sql"},
    "?(name==Tool%207|price=lt=3)&sort(price)&limit(20)": {"graphql", "sql"},
    "?isForHire==true&price=gt=1&sort(price)&limit(5)": {"graphql", "sql"},
    "?bought=gt=2012-01-01&sort(bought)&limit(9)": {"graphql", "sql"},
    "?makerId==m1&note==null&limit(500)": {"graphql", "sql"},
    "?makerId==m1&limit(5)": {"graphql"},
    f"?name=={quote(HOSTILE, safe='')}": {"graphql", "sql"},
    "?select(id,maker{name})&limit(5)": {"graphql"},
    "?tags==old&sort(price)&limit(3)": {"graphql"},
    "?name=ct=5&price=gt=0&sort(price)&limit(500)": {"graphql", "sql"},
    "?price!=5.5&makerId!=m1&price=gt=0&sort(-price)&limit(5)": {"graphql", "sql"},
    "?price=gt=-1&serial==number:1180591620717411303431": {"graphql"},
    "?select([id,name])&limit(3)": set(),
    "?facet(kind)": set(),
    "?group(kind;count,sum(price))": set(),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("table")
    app = make_application(folder / "app")
    (app / "config.yaml").write_text((app / "config.yaml").read_text() + "graphql: {extended: true}\n")
    process = Process(folder / "root", app).start()
    with process.client() as client:
        fill(client)
    yield process
    assert process.stop() == 0, process.output()
    assert "[error]" not in process.logged()


def forms(client: httpx.Client, path: str) -> dict[str, str]:
    answer = client.get(path, headers={"Accept": BROWSER})
    assert answer.status_code == 200, answer.text
    return {name: unescape(text) for name, text in _TEXT.findall(answer.text)}


def output(command: list[str], text: str = "") -> Any:
    """What a program prints, as JSON."""
    environment = {**os.environ, "LOGIN": LOGIN, "NO_PROXY": "*"}
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def without_missing(rows: Any) -> Any:
    """The same for a language without missing values."""
    if isinstance(rows, list):
        return [without_missing(each) for each in rows]
    return {name: without_missing(value) for name, value in rows.items() if value is not None} if isinstance(rows, dict) else rows


def asked(server: Process, client: httpx.Client, name: str, text: str) -> Any:
    """The rows that a form finds, in the language that it is of."""
    if name == "graphql":
        answer = client.post("/graphql", json={"query": text})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]["Tool"]
    if name == "sql":
        answer = client.post("/sql", content=text, headers={"Content-Type": "application/sql"})
        assert answer.status_code == 200, answer.text
        return answer.json()
    answer = httpx.post(
        f"http://127.0.0.1:{server.operations_port}/", json=json.loads(text), auth=("admin", PASSWORD), timeout=60, trust_env=False
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("query", QUERIES)
def test_each_form_finds_the_rows_of_the_page(server: Process, query: str) -> None:
    with server.client() as client:
        found = forms(client, f"/Tool/{query}")
        assert found.keys() == PLAIN | QUERIES[query], query
        rows = client.get(found["url"]).json()
        assert rows
        for name in found.keys() - {"url", "curl", "python", "javascript"}:
            assert without_missing(asked(server, client, name, found[name])) == without_missing(rows), (name, found[name])


def test_programs_find_the_rows_of_the_page(server: Process) -> None:
    with server.client() as client:
        query = "price=gt=5&sort(-price)&limit(5)&select(id,price,size,tags)"  # integers of JavaScript end at 2^53
        first = client.get(f"/Tool/?{query}")
        after = re.search(r"after\([^)]*\)", first.headers["link"])
        assert after is not None
        paths = [
            f"/Tool/?{query}&{after[0]}",
            f"/Tool/?name=={quote(HOSTILE, safe='')}&select(id,name)",
            "/Tool/?(name==Tool%208|name=='$HOME%60id%60)&select(id,maker{name})",
        ]
        for path in paths:
            found = forms(client, path)
            rows = client.get(path).json()
            assert rows and client.get(found["url"]).json() == rows
            assert output(["sh", "-c", found["curl"]]) == rows
            assert output([sys.executable, "-"], f"{found['python']}\nimport json\nprint(json.dumps(rows))") == rows
            if shutil.which("node"):
                script = f"{found['javascript']}\nconsole.log(JSON.stringify(rows))"
                assert output(["node", "--input-type=module"], script) == rows


# --- a person ----------------------------------------------------------------------------------------------------------------------


def first_cells(page: Page) -> list[str]:
    found: list[str] = page.evaluate("[...document.querySelectorAll('table.rows tbody tr')].map((row) => row.cells[0].textContent)")
    return found


def at(page: Page, address: str) -> None:
    """Wait for a page whose address ends so."""
    page.until(f"location.href.endsWith({json.dumps(address)}) && document.readyState === 'complete' && !!document.querySelector('main')")


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_a_person_works_with_a_table(server: Process, tmp_path: Path) -> None:
    root = f"http://127.0.0.1:{server.port}"
    with open_page(tmp_path) as page, server.client() as client:
        log_in(page, server)
        page.open(f"{root}/Tool/")

        # A query by keyboard, with what is offered.
        page.type("/")
        page.until("document.activeElement.id === 'filter'")
        page.type("pri")
        page.until("document.querySelector('#filter-options li')?.textContent.startsWith('price')")
        page.press("ArrowDown")
        assert page.evaluate("document.activeElement.getAttribute('aria-activedescendant')") == "filter-option-0"
        page.press("Enter")
        page.until("document.getElementById('filter').value === 'price' && document.querySelectorAll('#filter-options li').length > 5")
        page.type("=gt=")
        page.press("Escape")
        page.evaluate("document.getElementById('filter').focus()")

        # It has a fault: said at its place, and the rows stay.
        before = first_cells(page)
        page.press("Enter")
        page.until("document.querySelector('#filter-fault code')?.textContent === 'QUERY_SYNTAX'")
        assert first_cells(page) == before and page.evaluate("document.getElementById('filter').ariaInvalid") == "true"
        assert page.evaluate("document.getElementById('filter').selectionStart") == 9
        page.type("100&sort(-price)\n")
        at(page, "/Tool/?price=gt=100&sort(-price)")
        assert first_cells(page) == [each["id"] for each in client.get("/Tool/?price=gt=100&sort(-price)&limit(50)").json()]

        # Keys, pages, arrows.
        page.type("?")
        page.until("document.getElementById('keys').open && document.getElementById('keys').textContent.includes('Next page')")
        page.press("Escape")
        page.until("!document.getElementById('keys').open")
        page.type("n")
        page.until("location.href.includes('after(') && document.readyState === 'complete'")
        assert len(first_cells(page)) == 50
        page.type("p")
        at(page, "/Tool/?price=gt=100&sort(-price)")
        page.evaluate("document.querySelector('.scroll').focus()")
        page.press("ArrowDown")
        page.press("ArrowDown")
        assert page.evaluate("document.activeElement.textContent") == first_cells(page)[1]
        page.press("ArrowRight")
        page.press("ArrowUp")
        assert page.evaluate("document.activeElement.closest('td').cellIndex") > 0

        # A further order, by a click with Shift.
        page.click_on(
            "document.querySelector('[aria-label=\"Sort by kind, ascending\"]').dispatchEvent(new MouseEvent('click', "
            "{shiftKey: true, bubbles: true, cancelable: true})), document.createElement('a')"
        )
        at(page, "sort(-price,kind)")
        check_page(page, server)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_rows_are_followed(server: Process, tmp_path: Path) -> None:
    root = f"http://127.0.0.1:{server.port}"
    with open_page(tmp_path) as page, server.client() as client:
        log_in(page, server)
        page.open(f"{root}/Maker/?limit(25)")
        page.until("!document.querySelector('[data-follow]').hidden")
        page.evaluate("document.querySelectorAll('table.rows tbody a')[1].focus()")
        page.click("[data-follow]")
        page.until("document.querySelector('[data-follow]').ariaPressed === 'true'")
        hostile = f"New {HOSTILE}"
        page.evaluate("window.row = document.querySelectorAll('table.rows tbody tr')[1]; row.querySelector('a').focus()")
        client.patch("/Maker/m1", json={"name": hostile}).raise_for_status()
        page.until("document.querySelectorAll('table.rows tbody tr')[1].textContent.includes('New ')")
        assert page.evaluate("row === document.querySelectorAll('table.rows tbody tr')[1] && row.classList.contains('changed')")
        assert page.evaluate("row.contains(document.activeElement)"), "the focus stays"
        page.until("document.getElementById('status').textContent.startsWith('Changed rows: 1')")
        client.put("/Maker/m00", json={"name": "Between"}).raise_for_status()
        page.until("document.querySelectorAll('table.rows tbody tr').length === 6")
        assert page.evaluate("row.contains(document.activeElement)")
        client.delete("/Maker/m00").raise_for_status()
        page.until("document.querySelectorAll('table.rows tbody tr').length === 5")
        assert "img" not in page.evaluate("[...document.querySelectorAll('main *')].map((each) => each.localName)")
        check_page(page, server)

        # The connection is lost, and comes back.
        network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        page.call("Network.emulateNetworkConditions", offline=True, **network)
        client.patch("/Maker/m2", json={"name": "Meanwhile"}).raise_for_status()
        page.until("document.querySelector('.banner')?.getAttribute('role') === 'alert'")
        page.call("Network.emulateNetworkConditions", offline=False, **network)
        page.until("!document.querySelector('.banner') && document.querySelector('table.rows').textContent.includes('Meanwhile')")
        client.patch("/Maker/m2", json={"name": "Cedar"}).raise_for_status()
        page.until("document.querySelector('table.rows').textContent.includes('Cedar')")

        # The login ends: the page leads to the form.
        page.evaluate("fetch('/logout', {method: 'POST'})")
        client.patch("/Maker/m1", json={"name": "Birch"}).raise_for_status()
        page.until("location.pathname === '/login' && document.readyState === 'complete'")
