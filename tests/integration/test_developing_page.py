"""docs/developing.md, done as it says: files are saved while `svc dev` runs, the commands print what is shown, and so does the terminal."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest

from tests.support.walkthrough import LIMIT, Shop, blocks, commands

pytestmark = pytest.mark.programs

PAGE = Path(__file__).parents[2] / "docs" / "developing.md"
_VARIES = (
    (r"\d\d:\d\d:\d\d", "#"),
    (r"\d+(\.\d+)? ms", "# ms"),
    (r"^svc \S+ ", "svc # "),
    (r"/\S*/shop/", "shop/"),
    (r"localhost:\d+", "localhost:#"),
)


def usual(line: str) -> str:
    """A line without what differs from one run to the next."""
    for pattern, replacement in _VARIES:
        line = re.sub(pattern, replacement, line)
    return line.rstrip()


def shows(shop: Shop, lines: list[str], begin: int) -> int:
    """Wait until these lines are shown, in this order, behind a place in the output. Returns the place behind them."""
    deadline = time.monotonic() + LIMIT
    while True:
        shown = [usual(line) for line in shop.log.read_text().splitlines()]
        place = begin
        try:
            for line in lines:
                place = shown.index(usual(line), place) + 1
            return place
        except ValueError:
            assert time.monotonic() < deadline, (lines, shop.log.read_text())
            time.sleep(0.02)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    shop = Shop(tmp_path / "work")
    shop.environment |= {"HOME": str(tmp_path / "home"), "ROOTPATH": str(tmp_path / "home" / "svc"), "SVC_ADMIN_PASSWORD": "secret-word"}
    place = checked = 0
    try:
        for block in blocks(PAGE.read_text("utf-8")):
            if block.file:
                shop.write(block)
            elif block.language == "text":
                place = shows(shop, block.text.splitlines(), place)
                checked += 1
            elif block.text == "$ svc dev shop\n":
                shop.start()
            elif block.language == "console":
                for command, output in commands(block.text):
                    assert shop.run(command).rstrip("\n") == output.rstrip("\n"), (command, shop.log.read_text()[-3000:])
    finally:
        shop.close()
    assert checked == 6


def test_the_page_on_types_is_led_to() -> None:
    assert "(types.md)" in PAGE.read_text("utf-8")
