"""Chromium: a record is inserted, changed and deleted by forms, by pointer and by keyboard (spec: http §7.8)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support import axe
from tests.support.chromium import CHROMIUM, Page, open_page
from tests.support.npm import node_packages
from tests.support.workshop import HOSTILE, check_page, fill, log_in, make_application

pytestmark = [pytest.mark.programs, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]

READY = "document.readyState == 'complete'"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    directory = tmp_path_factory.mktemp("forms")
    process = Process(directory / "root", make_application(directory / "app")).start()
    with client_of(process) as client:
        fill(client, 30)
    yield process
    process.stop()


@pytest.fixture(scope="module")
def page(server: Process, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("chromium")) as opened:
        opened.call("Emulation.setTimezoneOverride", timezoneId="America/New_York")
        log_in(opened, server)
        yield opened


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    return axe.source(node_packages(tmp_path_factory))


def client_of(server: Process) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{server.port}", auth=("admin", PASSWORD), trust_env=False)


def go(page: Page, server: Process, path: str) -> None:
    page.open(f"http://127.0.0.1:{server.port}{path}")


def set_value(page: Page, selector: str, value: str) -> None:
    """As if it were entered: the page hears of it."""
    page.evaluate(
        f"(() => {{ const found = document.querySelector({json.dumps(selector)}); found.value = {json.dumps(value)};"
        " found.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def save(page: Page, fragment: str) -> None:
    page.click("form.record button.primary")
    page.until(f"location.hash == {json.dumps(fragment)} && {READY}")


def check_accessible(page: Page, script: str) -> None:
    found = axe.violations(page, script)
    assert found == [], json.dumps(found, indent=1)
    assert axe.too_wide(page) == []


def test_a_record_is_inserted_edited_and_deleted(page: Page, server: Process, script: str) -> None:
    go(page, server, "/Tool/")
    page.click("[data-key=i]")
    page.until(f"document.querySelector('h1')?.textContent == 'New record of Tool' && {READY}")
    check_accessible(page, script)
    set_value(page, "#f-id", "new1")
    set_value(page, "#f-name", HOSTILE)
    set_value(page, "#f-note", "\nfirst\nsecond")
    set_value(page, "#f-tags", "a\nb, c")
    assert page.evaluate("document.querySelector('[name=\"s.note\"]').value") == "value"
    set_value(page, "input[type=datetime-local]", "2024-07-01T08:30:00.125")
    assert page.evaluate("document.querySelector('[name=\"v.bought\"]').value") == "2024-07-01T12:30:00.125Z"
    save(page, "#created")
    assert "The record was inserted." in page.text(".done:target")
    with client_of(server) as client:
        body = client.get("/Tool/new1").json()
        assert (body["name"], body["note"], body["tags"], body["bought"]) == (
            HOSTILE,
            "\nfirst\nsecond",
            ["a", "b, c"],
            "2024-07-01T12:30:00.125Z",
        )
        page.click("[data-key=e]")
        page.until(f"document.querySelector('form.record') && location.search == '?_view=edit' && {READY}")
        check_accessible(page, script)
        assert page.evaluate("document.querySelector('input[type=datetime-local]').value") == "2024-07-01T08:30:00.125"
        version = client.get("/Tool/new1").headers["etag"]
        page.click("form.record button.primary")
        page.until(f"location.pathname == '/Tool/new1' && !location.search && {READY}")
        assert client.get("/Tool/new1").headers["etag"] == version
        page.click("[data-key=e]")
        page.until(f"document.querySelector('form.record') && location.search == '?_view=edit' && {READY}")
        set_value(page, "#f-stock", "12")
        save(page, "#saved")
        assert client.get("/Tool/new1").json() == body | {"stock": 12, "changed": client.get("/Tool/new1").json()["changed"]}
        page.click("[data-key=d]")
        page.until(f"document.querySelector('button.danger') && {READY}")
        check_accessible(page, script)
        page.click("button.danger")
        page.until(f"location.hash == '#deleted' && {READY}")
        assert client.get("/Tool/new1").status_code == 404
    check_page(page, server)


def test_by_keyboard_a_reference_is_found(page: Page, server: Process) -> None:
    go(page, server, "/Tool/t0003?_view=edit")
    page.evaluate("document.querySelector('#f-makerId').focus()")
    page.evaluate("document.querySelector('#f-makerId').select()")
    page.type("elm")
    page.until("document.querySelectorAll('.listbox:not([hidden]) li').length == 1")
    page.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-activedescendant')") == "choices-0-0"
    page.press("Enter")
    assert page.evaluate("document.querySelector('#f-makerId').value") == "m4"
    page.press("Enter")  # sends the form
    page.until(f"location.hash == '#saved' && {READY}")
    with client_of(server) as client:
        assert client.get("/Tool/t0003").json()["makerId"] == "m4"
    check_page(page, server)


def test_a_change_by_somebody_else_is_shown(page: Page, server: Process, script: str) -> None:
    with client_of(server) as client:
        go(page, server, "/Tool/t0004?_view=edit")
        assert client.patch("/Tool/t0004", json={"name": HOSTILE, "stock": 99}).status_code == 204
        set_value(page, "#f-name", "Mine")
        set_value(page, "#f-price", "dear")
        page.click("form.record button.primary")
        page.until(f"document.querySelector('#faults') && {READY}")
        check_accessible(page, script)
        assert page.evaluate("document.activeElement.id") == "faults"
        set_value(page, "#f-price", "7")
        page.click("form.record button.primary")
        page.until(f"document.querySelector('table.differences') && {READY}")
        check_accessible(page, script)
        axe.emulate(page, width=360, height=700, dark=True)
        check_accessible(page, script)
        axe.emulate(page)
        assert client.get("/Tool/t0004").json()["name"] == HOSTILE
        page.click("input[value=mine]")
        page.click("form.record button.primary")
        page.until(f"location.hash == '#saved' && {READY}")
        body = client.get("/Tool/t0004").json()
        assert (body["name"], body["price"], body["stock"]) == ("Mine", 7, 99)
    check_page(page, server)


def test_a_long_text_and_files(page: Page, server: Process, script: str, tmp_path: Path) -> None:
    text = "\n" + "é line\n" * 125_000
    with client_of(server) as client:
        assert client.patch("/Tool/t0001", json={"note": text}).status_code == 204
        before = client.get("/Tool/t0001")
        go(page, server, "/Tool/t0001?_view=edit")
        page.until("document.querySelector('img.preview')?.naturalWidth == 1")
        check_accessible(page, script)
        page.click("form.record button.primary")
        page.until(f"!location.search && {READY}")
        assert client.get("/Tool/t0001").headers["etag"] == before.headers["etag"]
        go(page, server, "/Tool/t0001?_view=edit")
        file = tmp_path / "a.bin"
        file.write_bytes(bytes(range(256)) * 4096)
        document = page.call("DOM.getDocument")["root"]["nodeId"]
        node = page.call("DOM.querySelector", nodeId=document, selector="#f-picture")["nodeId"]
        page.call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])
        page.evaluate("document.querySelector('#f-note').value += 'end'")
        save(page, "#saved")
        assert client.get("/Tool/t0001").json()["note"] == text + "end"
        assert client.get("/Tool/t0001.picture").content == file.read_bytes()
    check_page(page, server)


def test_unsaved_changes_are_not_lost_by_the_way(page: Page, server: Process) -> None:
    warns = (
        "(() => { const event = new Event('beforeunload', {cancelable: true}); dispatchEvent(event); return event.defaultPrevented; })()"
    )
    go(page, server, "/Tool/t0005?_view=edit")
    assert not page.evaluate(warns)
    page.evaluate("document.querySelector('#f-stock').focus()")
    page.type("1")
    assert page.evaluate(warns)
    page.evaluate("document.querySelector('form.record').reset()")
    assert not page.evaluate(warns)
    check_page(page, server)
