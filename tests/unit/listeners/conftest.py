"""The case that tests of listeners of upgrades and of WebSockets share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.upgrades import Case


@pytest.fixture
def case() -> Iterator[Case]:
    made = Case()
    yield made
    made.world.close()
    assert [error for _, error in made.world.errors if not isinstance(error, LookupError)] == []
