"""Charts of the console in Chromium: they follow the server, and their values are read by pointer and by keyboard (spec: console §4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.chromium import CHROMIUM, Page, open_page

pytestmark = pytest.mark.programs

SCHEMA = "type Product @table @export { id: ID @primaryKey name: String }"
LAST = "#values-requests tbody tr:last-child td"
RATES = "[...document.querySelectorAll('#values-requests tbody td')].map((cell) => parseFloat(cell.textContent))"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    process = Process(tmp_path / "root", app).start()
    yield process
    assert process.stop() == 0, process.output()
    assert "[error]" not in process.logged()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_charts_follow_the_server(server: Process, tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    profile.mkdir()
    console = f"http://localhost:{server.operations_port}/console/"
    with open_page(profile) as page:
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)  # a tab without a window has no focus
        page.open(f"{console}charts")
        page.until("document.querySelector('input[name=_username]') !== null")
        page.evaluate(
            "document.querySelector('input[name=_username]').value = 'admin';"
            f"document.querySelector('input[name=_password]').value = '{PASSWORD}'"
        )
        page.click("button.primary")
        page.until("document.readyState === 'complete' && document.querySelector('#charts[data-poll=\"5\"]') !== null")
        page.evaluate("window.isSamePage = true")
        for _ in range(100):
            httpx.get(f"{server.url}/Product/1", auth=("admin", PASSWORD), trust_env=False)
        # Without the reader doing anything: the rates of a part of 10 s that has them all, or of two.
        page.until(f"document.getElementById('values-requests') && {RATES}.some((rate) => rate > 3)")
        assert page.evaluate("window.isSamePage")
        page.until("document.querySelector('#charts table.rows')?.textContent.includes('Product')")
        read_by_keyboard(page)
        read_by_pointer(page)
        page.click_on("[...document.querySelectorAll('#charts table.rows a')].find((each) => each.textContent === 'Product')")
        page.until(
            "new URLSearchParams(location.search).get('resource') === 'Product' && document.getElementById('chart-requests') !== null"
        )
        assert "Product" in page.text("p.note")
        assert page.problems == []
        assert all(each.startswith((console, f"http://localhost:{server.operations_port}/_pages/")) for each in page.requested)


def read_by_keyboard(page: Page) -> None:
    """The slider of a chart, the summary of its table."""
    page.evaluate("document.querySelector('#chart-requests .reader input').focus()")
    first = page.until("document.querySelector('#chart-requests output').textContent")
    assert "UTC" in first and "requests:" in first
    for _ in range(3):
        page.press("ArrowLeft")
    page.until(f"document.querySelector('#chart-requests output').textContent !== {first!r}")
    assert page.evaluate("document.querySelector('#chart-requests .cursor').getAttribute('d')").startswith("M")
    page.press("Tab")
    assert page.evaluate("document.activeElement.closest('details')?.id") == "values-requests"
    page.press("Enter")
    page.until("document.getElementById('values-requests').open")


def read_by_pointer(page: Page) -> None:
    plot = "document.querySelector('#chart-latency svg.plot')"
    page.evaluate(f"{plot}.scrollIntoView({{block: 'center'}})")
    box = page.evaluate(f"(({{left, top, width, height}}) => [left, top, width, height])({plot}.getBoundingClientRect())")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + box[2] * 0.97, y=box[1] + box[3] / 2)
    assert "median:" in page.until("document.querySelector('#chart-latency output').textContent")
