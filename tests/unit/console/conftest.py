from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.console import ConsoleSite


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ConsoleSite]:
    """A console over an empty node. Test files that need more add it in a fixture of this name."""
    made = ConsoleSite(tmp_path)
    yield made
    made.close()
