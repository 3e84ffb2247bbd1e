"""Chromium: a file is dropped, looked at and loaded; a record is followed, and put back as it was (spec: http §7.8.3, §7.8.4, §7.8.6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Process
from tests.support.chromium import CHROMIUM, Page, open_page
from tests.support.workshop import HOSTILE, check_page, fill, log_in, make_application

pytestmark = [pytest.mark.programs, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]

DROP = """(() => {
  const data = new DataTransfer();
  data.items.add(new File([TEXT], "tools.csv", {type: "text/csv"}));
  document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
})()"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("import")
    process = Process(folder / "root", make_application(folder / "app")).start()
    with process.client() as client:
        fill(client, 50)
    yield process
    assert process.stop() == 0, process.output()
    assert "[error]" not in process.logged()
    assert not list((folder / "root" / "tmp").rglob("*-*")), "files that were sent are gone with the process"


def test_import_history_and_record(server: Process, tmp_path: Path) -> None:
    """All in one browser, for the start of one takes seconds."""
    with open_page(tmp_path) as page:
        log_in(page, server)
        page.requested.clear()
        imported(page, server)
        check_page(page, server)
        restored(page, server)
        check_page(page, server)
        followed(page, server)
        check_page(page, server)


def imported(page: Page, server: Process) -> None:
    page.open(f"{server.url}/Tool/?_view=import")
    rows = f'id,Name,remark,price\nnew1,"{HOSTILE.replace(chr(34), chr(34) * 2)}",=1+1,2.5\nnew2,Plain,,cheap\n'
    page.evaluate(DROP.replace("TEXT", json.dumps(rows)))
    page.until("document.querySelector('select[name=column0]') && document.readyState == 'complete'")
    assert page.evaluate("[...document.querySelectorAll('select[name^=column]')].map((each) => each.value)") == [
        "id",
        "name",
        "remark",
        "price",
    ]
    page.evaluate("document.querySelector('select[name=column2]').value = ''")
    page.click("form.import[method=post] button.primary")
    page.until("document.getElementById('ended') && document.readyState == 'complete'")
    assert page.evaluate("[...document.querySelectorAll('#job td.number')].slice(0, 4).map((each) => each.textContent)") == [
        "2",
        "1",
        "0",
        "1",
    ]
    assert "new2" in page.text("#job") and page.evaluate("document.images.length") == 1
    with server.client() as client:
        found = client.get("/Tool/new1").json()
        assert (found["name"], found["price"], "remark" in found) == (HOSTILE, 2.5, False)
        assert client.get("/Tool/new2").status_code == 404


def restored(page: Page, server: Process) -> None:
    with server.client() as client:
        assert client.patch("/Tool/t0003", json={"stock": 99}).status_code == 204
    page.open(f"{server.url}/Tool/t0003")
    page.type("h")
    page.until("location.search.includes('_view=history') && document.readyState == 'complete'")
    assert "99" in page.text("div.entry") and not page.text("div.entry time").endswith("UTC"), "the time is that of the reader"
    assert page.evaluate("document.querySelector('div.entry time').title").endswith("Z")
    page.click_on("document.querySelectorAll('div.entry')[1].querySelector('a')")
    page.until("document.querySelector('input[name=match]') && document.readyState == 'complete'")
    page.click("form button.primary")
    page.until("document.getElementById('record') && document.readyState == 'complete'")
    with server.client() as client:
        assert client.get("/Tool/t0003").json()["stock"] == 3


def followed(page: Page, server: Process) -> None:
    page.open(f"{server.url}/Maker/m1")
    assert page.evaluate("document.querySelectorAll('.related .first a').length") == 5
    page.type("n")
    page.until("location.pathname == '/Maker/m2' && document.readyState == 'complete'")
    page.type("p")
    page.until("location.pathname == '/Maker/m1' && document.readyState == 'complete'")
