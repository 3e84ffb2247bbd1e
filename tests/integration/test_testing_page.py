"""docs/testing.md, done as it says: its files are written, and pytest is run in their directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pytest_pages import run_page, run_pytest, write_page

pytestmark = pytest.mark.programs


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    write_page("testing.md", tmp_path / "first")
    assert "2 passed" in run_pytest(tmp_path / "first", "tests/test_shop.py")[1]
    run_page("testing.md", tmp_path / "shop")
