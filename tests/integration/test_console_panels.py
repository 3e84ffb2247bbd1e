"""The panels of the console and the way into the server, in Chromium (spec: console §14)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.integration.conftest import Process
from tests.support.axe import emulate, source, too_wide, violations
from tests.support.chromium import CHROMIUM, CTRL, Page, open_page
from tests.support.npm import node_packages
from tests.support.waiting import wait_until
from tests.support.workshop import check_page, fill, log_in, make_application

pytestmark = [pytest.mark.programs, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
STOPPED = """new Promise((resolve) => {
  document.querySelector("form[data-run]").requestSubmit();
  setTimeout(() => {
    resolve(document.querySelector("[data-running]").hidden || document.getElementById("status").textContent);
    document.querySelector("[data-stop]").click();
  }, 500);
})"""
"""Done by the page: the browser's tools have to wait as long as it waits for an answer."""
HARMLESS, SECRET = "mower", "hunter-22"


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    directory = tmp_path_factory.mktemp("panels")
    app = make_application(directory / "workshop")
    (app / "config.yaml").write_text("rest: true\nlogin: true\ngraphql: true\ngraphqlSchema: {files: '*.graphql'}\n")
    running = Process(directory / "root", app, env={"SQL_MAXTIME": "600000"}).start()
    with running.client() as client:
        fill(client, 600)
    yield running
    assert running.stop() == 0


@pytest.fixture
def page(tmp_path_factory: pytest.TempPathFactory, server: Process) -> Iterator[Page]:
    """A browser that is logged in. Both are new for each test: a browser keeps its connections."""
    with open_page(tmp_path_factory.mktemp("browser")) as opened:
        log_in(opened, server)
        yield opened


def at(server: Process, path: str) -> str:
    return f"{server.operations_url}/console/{path}"


def enter(page: Page, selector: str, text: str) -> None:
    """Into a field that is empty, or whose text is replaced."""
    page.evaluate(f"(() => {{ const field = document.querySelector({json.dumps(selector)}); field.focus(); field.select(); }})()")
    if text:
        page.type(text)
    else:
        page.press("Backspace")


def kept(page: Page, panel: str) -> list[dict[str, Any]]:
    found = page.evaluate(f"localStorage.getItem('svc.{panel}.admin')")
    return [] if found is None else list(json.loads(found))


def result(page: Page, text: str) -> None:
    """Wait for the page whose result, or fault, has this text."""
    page.until(f"document.readyState == 'complete' && document.querySelector('main').textContent.includes({json.dumps(text)})")


def check_sql_by_keyboard(server: Process, page: Page) -> None:
    page.open(at(server, "sql"))
    page.until("document.activeElement.name == 'sql'")
    page.type("SELECT id, name FROM data.Too")
    page.until("document.querySelector('#offered button')?.textContent == 'data.Tool'")
    page.press(" ", CTRL)
    page.until("document.querySelector('[name=sql]').value.endsWith('FROM data.Tool')")
    page.type(" WHERE id = 't0003'")
    page.press("Enter", CTRL)
    result(page, "1 row in")
    assert page.evaluate("[...document.querySelectorAll('table.rows td')].map((cell) => cell.textContent)") == ["t0003", "Tool 3"]
    assert [each["text"] for each in kept(page, "sql")] == ["SELECT id, name FROM data.Tool WHERE id = 't0003'"]

    enter(page, "[name=sql]", "SELECT id\nFRM data.Tool")
    page.press("Enter", CTRL)
    result(page, "Line 2, column")
    assert page.text("pre mark") and page.evaluate("document.querySelector('[name=sql]').getAttribute('aria-invalid')") == "true"

    # The last ones are a list; the arrows lead through it.
    page.evaluate("document.querySelector('[data-history] summary').focus()")
    page.press("Enter")
    page.until("document.querySelector('[data-history]').open")
    page.press("Tab")
    page.press("ArrowDown")
    assert "t0003" in page.evaluate("document.activeElement.textContent")
    page.press("Enter")
    page.until("document.querySelector('[name=sql]').value.includes('t0003')")
    assert page.evaluate("document.activeElement.name") == "sql"
    check_page(page, server)


def check_operations_by_form_and_by_body(server: Process, page: Page) -> None:
    page.open(at(server, "operations"))
    page.evaluate("document.querySelector('a[href$=\"operations/search_by_id\"]').focus()")
    page.press("Enter")
    page.until("document.querySelector('h1')?.textContent == 'search_by_id' && document.readyState == 'complete'")
    for name, text in (("table", "Maker"), ("ids", '["m1"]'), ("get_attributes", '["name"]')):
        enter(page, f"[name={name}]", text)
    page.press("Enter", CTRL)
    result(page, "Birch")
    assert json.loads(kept(page, "operations")[0]["text"])["ids"] == ["m1"]

    page.click("button[name='.to']")
    page.until("!!document.querySelector('textarea[name=\".body\"]') && document.readyState == 'complete'")
    body = json.loads(page.evaluate("document.querySelector('form.statement textarea').value"))
    assert body["operation"] == "search_by_id" and body["table"] == "Maker"
    enter(page, "form.statement textarea", '{"operation": "describe_tab')
    page.until("document.querySelector('#offered button')?.textContent == 'describe_table'")
    page.click("#offered button")
    page.type('", "table": "Tool"}')
    page.press("Enter", CTRL)
    result(page, '"record_count": 600')
    enter(page, "form.statement textarea", '{"operation":\n x}')
    page.press("Enter", CTRL)
    result(page, "Line 2, column 2")

    # A body that was kept comes back as a form.
    page.evaluate("document.querySelector('[data-history]').open = true")
    page.click_on("[...document.querySelectorAll('[data-history] li button')].find((each) => each.textContent.includes('search_by_id'))")
    page.until("document.querySelector('h1')?.textContent == 'search_by_id' && document.querySelector('[name=table]')?.value == 'Maker'")
    check_page(page, server)


def check_what_destroys_is_confirmed(server: Process, page: Page) -> None:
    page.open(at(server, "operations/delete?table=Tool&ids=%5B%22t0299%22%5D"))
    page.click("form.statement button.primary")
    assert page.evaluate("document.querySelector('[name=\".sure\"]').matches(':invalid')"), "the browser asks for it"
    page.click("[name='.sure']")
    page.click("form.statement button.primary")
    result(page, "1 of 1 record successfully deleted")
    check_page(page, server)


def check_nothing_secret_is_kept(server: Process, page: Page) -> None:
    page.open(at(server, "operations/add_user"))
    for name, text in (("role", "super_user"), ("username", HARMLESS), ("password", SECRET), ("active", "true")):
        enter(page, f"[name={name}]", text)
    page.press("Enter", CTRL)
    result(page, f"{HARMLESS} successfully added")
    page.open(at(server, "operations"))
    body = {"operation": "alter_user", "username": HARMLESS, "password": SECRET}
    enter(page, "form.statement textarea", json.dumps(body))
    page.press("Enter", CTRL)
    result(page, "update_hashes")
    page.open(at(server, "sql"))
    enter(page, "[name=sql]", f"SELECT '{SECRET}' AS password")
    page.press("Enter", CTRL)
    result(page, "1 row in")
    assert "The last one is not kept" in page.text("[data-history]")
    everything = page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
    assert HARMLESS in everything and SECRET not in everything
    page.evaluate("document.querySelector('[data-history]').open = true")
    page.click("[data-clear]")
    assert kept(page, "sql") == [] and page.evaluate("document.querySelector('[data-history]').hidden")
    assert kept(page, "operations") != [], "each panel has its own"
    check_page(page, server)


def check_what_runs_can_be_stopped(server: Process, page: Page) -> None:
    page.open(at(server, "sql"))
    enter(page, "[name=sql]", ENDLESS)
    assert page.evaluate(STOPPED) == "Running"
    page.until("document.getElementById('status').textContent == 'Stopped'")
    wait_until(lambda: is_idle(server))  # long before SQL_MAXTIME
    enter(page, "[name=sql]", "SELECT 41 + 1 AS answer")
    page.press("Enter", CTRL)
    result(page, "1 row in")
    check_page(page, server)


def is_idle(server: Process) -> bool:
    """Whether the server works on nothing for some tenths of a second."""
    instance = psutil.Process(server.pid)
    before = sum(instance.cpu_times()[:2])
    time.sleep(0.3)
    return sum(instance.cpu_times()[:2]) - before < 0.1


def check_one_login_for_both_ports_and_the_way_to_graphql(server: Process, page: Page) -> None:
    page.open(at(server, "graphql"))
    page.click("main a.button")
    page.until(f"location.href == '{server.url}/graphql' && document.body?.innerText.includes('Variables')")
    page.open(f"{server.url}/")
    assert page.text(".who b") == "admin"


def check_without_scripts(server: Process, page: Page) -> None:
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.call("Page.navigate", url=at(server, "sql?sql=SELECT+6+*+7+AS+answer"))
        page.until("document.readyState == 'complete' && document.querySelector('[name=sql]')?.value == 'SELECT 6 * 7 AS answer'")
        page.click("form.statement button.primary")
        result(page, "42")
        assert page.evaluate("document.querySelector('[data-history]').hidden")
        assert page.evaluate("JSON.stringify(localStorage)").count("6 * 7") == 0
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)


def test_panels(server: Process, page: Page) -> None:
    check_sql_by_keyboard(server, page)
    check_operations_by_form_and_by_body(server, page)
    check_what_destroys_is_confirmed(server, page)
    check_nothing_secret_is_kept(server, page)
    check_what_runs_can_be_stopped(server, page)
    check_one_login_for_both_ports_and_the_way_to_graphql(server, page)
    check_without_scripts(server, page)


def test_axe_finds_nothing(server: Process, page: Page, tmp_path_factory: pytest.TempPathFactory) -> None:
    script = source(node_packages(tmp_path_factory))
    for dark in (False, True):
        for path in ("operations", "operations/search_by_conditions?table=Tool", "operations/drop_table", "sql", "graphql"):
            emulate(page, width=360, dark=dark)
            page.open(at(server, path))
            assert too_wide(page) == [], path
            assert violations(page, script) == [], path
        page.open(at(server, "sql?sql=SELECT+*+FROM+data.Tool"))
        page.press("Enter", CTRL)
        result(page, "The first 500 rows")
        assert violations(page, script) == [] and too_wide(page) == []
        page.open(f"{server.url}/_pages/")
        assert violations(page, script) == [] and too_wide(page) == []
    emulate(page)
