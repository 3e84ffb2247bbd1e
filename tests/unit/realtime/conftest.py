"""A scene for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path / "store")
    yield scene
    scene.hub.close()
    scene.store.close()
