"""docs/rules.md, done as it says: its files are written, and pytest is run in their directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pytest_pages import run_page

pytestmark = pytest.mark.programs


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    run_page("rules.md", tmp_path / "tracker")
