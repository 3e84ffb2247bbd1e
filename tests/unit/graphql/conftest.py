from collections.abc import Iterator

import pytest

from tests.support.graphql import Shop, open_shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Only read from."""
    with open_shop(tmp_path_factory.mktemp("app")) as shop:
        yield shop
