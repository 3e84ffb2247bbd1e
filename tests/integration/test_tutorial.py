"""docs/tutorial.md, done as it says, from the first file to the page in a browser and the server without `svc dev`."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest

from tests.support.chromium import CHROMIUM, open_page
from tests.support.walkthrough import LIMIT, Shop, blocks, commands

pytestmark = pytest.mark.programs

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
UNSHOWN = "...\n"  # output that is not compared


def sections() -> list[tuple[str, str]]:
    """(heading, text), in the order of the page."""
    return re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_steps_lead_where_they_say(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    try:
        for heading, text in sections():
            do(shop, text)
            if "page" in heading and CHROMIUM is not None:
                look(shop, tmp_path / "browser")
    finally:
        shop.run("svc stop")
        shop.close()
    assert "Traceback" not in shop.log.read_text()


def do(shop: Shop, text: str) -> None:
    """The files and commands of one section."""
    place, saved = 0, set()
    for block in blocks(text):
        if block.file:
            if not saved and shop.process is not None:
                place = len(shop.log.read_text())
            shop.write(block)
            if block.file.startswith("shop/") and shop.process is not None:
                saved.add(block.file.removeprefix("shop/"))
        elif block.language == "console":
            if "svc start" in block.text:
                shop.stop()
            elif shop.process is None and "localhost" in block.text and "svc grant" not in block.text:
                shop.start()
            if shop.process is not None:
                shop.wait_for_reload(saved, place)
            saved.clear()
            for command, output in commands(block.text):
                said = shop.run(command)
                assert output == UNSHOWN or said.rstrip("\n") == output.rstrip("\n"), (command, shop.log.read_text()[-3000:])


def look(shop: Shop, profile: Path) -> None:
    """Two windows; what is bought in one leaves the list in both."""
    profile.mkdir()
    with open_page(profile) as page:
        deadline = time.monotonic() + LIMIT
        while True:
            page.open(shop.local("http://localhost:9926/shop.html"))
            if page.evaluate("document.title") == "Shop":
                break
            assert time.monotonic() < deadline
        page.until("document.querySelectorAll('li').length === 4")
        page.evaluate("window.other = document.body.appendChild(document.createElement('iframe')), other.src = '/shop.html', 1")
        page.until("other.contentDocument?.querySelectorAll('li').length === 4")
        page.evaluate(
            "[...document.querySelectorAll('li')].find((item) => item.textContent.startsWith('Fountain pen')).querySelector('button').click()"
        )
        for document in ("document", "other.contentDocument"):
            page.until(f"{document}.querySelectorAll('li').length === 3")
        assert "Fountain pen" not in page.text("ul")
        assert page.problems == []
