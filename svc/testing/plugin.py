"""The plugin of pytest: the fixtures `svc_app` and `svc_app_factory` (spec: testing §1). It loads nothing until one of them is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from svc.testing.application import Application

OPTION = "svc_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        OPTION, "directory of the svc application that the fixture svc_app starts, relative to the rootdir (default: the current one)"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "svc_app(directory=None, *, check=True, now=None, patience=None, **settings): how the fixture svc_app starts the application",
    )


@pytest.fixture
def svc_app_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., Application]]:
    """`svc_app_factory(directory, **settings)`: an application that ends with the test. Relative to the rootdir."""
    from svc.testing import application

    started: list[Application] = []

    def make(directory: str | Path | None = None, **options: Any) -> Application:
        __tracebackhide__ = True
        app = application.app(_directory(request.config, directory), **options)
        started.append(app)
        return app

    yield make
    failure: BaseException | None = None
    for app in reversed(started):
        try:
            app.close()
        except BaseException as error:
            failure = failure or error
    if failure is not None:
        raise failure


@pytest.fixture
def svc_app(request: pytest.FixtureRequest, svc_app_factory: Callable[..., Application]) -> Application:
    """The application in the current directory, or in that of the ini option `svc_app`: a fresh instance without ports, with an empty store."""
    marker = request.node.get_closest_marker(OPTION)
    from svc.testing.instance import LoadError

    try:
        return svc_app_factory(*(marker.args if marker else ()), **(marker.kwargs if marker else {}))
    except LoadError as error:
        pytest.fail(str(error), pytrace=False)


def _directory(config: pytest.Config, given: str | Path | None) -> Path:
    if given is not None:
        return config.rootpath / given
    stated = config.getini(OPTION)
    return config.rootpath / str(stated) if stated else Path.cwd()
