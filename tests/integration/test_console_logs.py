"""The console in Chromium: the log is followed, a table is made and dropped, a backup runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.chromium import CHROMIUM, Page, open_page

pytestmark = pytest.mark.programs

HOSTILE = "<img src=x onerror=alert(1)>"
SCHEMA = 'type Plant @table(database: "garden") @export { id: ID @primaryKey name: String }\n'
RESOURCES = """
from svc import Resource, logger


class Fail(Resource):
    def allow_read(self, *arguments):
        return True

    def get(self, target, *arguments):
        logger.error(f"it has failed: {target.id}\\nsecond line")
        return "failed"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("console")
    app = folder / "shop"
    app.mkdir()
    (app / "config.yaml").write_text("rest: true\ngraphqlSchema: {files: '*.graphql'}\nresources: {files: 'resources.py'}\n")
    (app / "schema.graphql").write_text(SCHEMA)
    (app / "resources.py").write_text(RESOURCES)
    process = Process(folder / "root", app).start()
    yield process
    assert process.stop() == 0, process.output()


def fill(page: Page, selector: str, text: str) -> None:
    page.evaluate(f"document.querySelector({json.dumps(selector)}).focus(), document.querySelector({json.dumps(selector)}).select()")
    page.call("Input.insertText", text=text)


def has_text(text: str, selector: str = "main") -> str:
    return f"document.querySelector({json.dumps(selector)})?.textContent.includes({json.dumps(text)})"


def is_titled(text: str) -> str:
    return f"document.readyState === 'complete' && document.querySelector('h1')?.textContent === {json.dumps(text)}"


def click_link(page: Page, text: str) -> None:
    page.click_on(f"[...document.querySelectorAll('main a')].find((each) => each.textContent === {json.dumps(text)})")


def fail(server: Process, name: str) -> None:
    """Have the application log an error."""
    with server.client() as client:
        assert client.get(f"/Fail/{name}").status_code == 200


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_console(server: Process, tmp_path: Path) -> None:
    """All in one browser, for the start of one takes seconds."""
    with open_page(tmp_path) as page:
        page.open(f"{server.operations_url}/console/logs?follow=1")
        fill(page, "[name=_username]", "admin")
        fill(page, "[name=_password]", PASSWORD)
        page.click("form.login button")
        page.until(is_titled("Logs"))
        for scenario in (follow_the_log, make_and_drop_a_table, back_up):
            scenario(page, server)
            assert page.problems == [], scenario.__name__
        assert [address for address in page.requested if not address.startswith((server.operations_url, "about:", "data:"))] == []


def follow_the_log(page: Page, server: Process) -> None:
    page.until("document.querySelector('[data-hold=log]')?.hidden === false")
    fail(server, "first%20%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    page.until(has_text(f"it has failed: first {HOSTILE}", "#log"))
    assert page.evaluate("document.querySelectorAll('#log img').length") == 0
    page.click("#log details:not([open]) summary")
    assert page.evaluate("document.querySelector('#log details').open")
    fail(server, "second")
    page.until(has_text("it has failed: second", "#log"))
    opened = "[...document.querySelectorAll('#log details[open]')].map((each) => each.querySelector('summary').textContent)"
    assert page.evaluate(opened) == [f"it has failed: first {HOSTILE}"]  # the entry stays as the reader has left it
    page.click("[data-hold=log]")
    fail(server, "third")
    assert page.evaluate("document.querySelector('[data-hold=log]').getAttribute('aria-pressed')") == "true"
    assert not page.evaluate(has_text("it has failed: third", "#log"))
    page.click("[data-hold=log]")
    page.until(has_text("it has failed: third", "#log"))


def make_and_drop_a_table(page: Page, server: Process) -> None:
    page.open(f"{server.operations_url}/console/databases/garden")
    page.until(f"[...document.querySelectorAll('main a')].some((each) => each.href === '{server.url}/Plant/')")
    click_link(page, "New table")
    page.until(is_titled("New table in garden"))
    fill(page, "[name=table]", "a b%")
    fill(page, "[name=name0]", "size")
    page.evaluate("document.querySelector('[name=type0]').value = 'Int'")
    page.click("main button.primary")
    page.until(is_titled("a b%"))
    assert page.evaluate(has_text("The table a b% was made"))
    click_link(page, "Drop the table")
    page.until(is_titled("Drop the table a b%"))
    fill(page, "[name=typed]", "a b")
    page.click("main button.danger")
    page.until("document.querySelector('#fault') && document.querySelector('[name=typed]').getAttribute('aria-invalid') === 'true'")
    fill(page, "[name=typed]", "a b%")
    page.click("main button.danger")
    page.until(is_titled("garden"))
    assert page.evaluate(has_text("The table a b% was dropped"))
    assert page.evaluate("[...document.querySelectorAll('main table tbody th')].map((each) => each.textContent)") == ["Plant"]


def back_up(page: Page, server: Process) -> None:
    click_link(page, "Backups")
    page.until(is_titled("Backups of garden"))
    page.click("main button.primary")
    page.until(is_titled("Job create_backup"))
    page.until(has_text("COMPLETE", "#job"))
    page.open(f"{server.operations_url}/console/backups?database=garden")
    page.until("document.querySelector('main tbody th').textContent === '1'")
