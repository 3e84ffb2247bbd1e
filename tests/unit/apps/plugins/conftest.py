from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """A list that the code of plugins reaches as `import seen; seen.seen`."""
    found: list[Any] = []
    module = type(sys)("seen")
    module.seen = found  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "seen", module)
    yield found
