"""docs/applications.md, done as it says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.walkthrough import Shop, blocks, commands

pytestmark = pytest.mark.programs

PAGE = Path(__file__).parents[2] / "docs" / "applications.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    place = 0
    saved: set[str] = set()
    try:
        for block in blocks(PAGE.read_text("utf-8")):
            if block.file:
                if not saved and shop.process is not None:
                    place = len(shop.log.read_text())
                shop.write(block)
                if block.file.startswith("shop/") and shop.process is not None:
                    saved.add(block.file.removeprefix("shop/"))
            elif block.language == "console":
                if shop.process is None:
                    shop.start()
                shop.wait_for_reload(saved, place)
                saved.clear()
                for command, output in commands(block.text):
                    assert shop.run(command).rstrip("\n") == output.rstrip("\n"), (command, shop.log.read_text()[-3000:])
    finally:
        shop.close()
    assert "Traceback" not in shop.log.read_text()


def test_every_block_is_used() -> None:
    for block in blocks(PAGE.read_text("utf-8")):
        assert block.file or block.language in ("console", "sh", "py"), block
    assert sum(1 for block in blocks(PAGE.read_text("utf-8")) if block.language == "console") > 5
