"""Tests of applications, without ports and in a time of their own (spec: testing §1).

    with svc.testing.app("shop") as app:
        assert app.post("/Product/", {"id": "1", "name": "Walnut"}).status == 201

With pytest the same is the fixture `svc_app`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svc.testing.answer import Answer as Answer
    from svc.testing.application import Application as Application
    from svc.testing.application import app as app
    from svc.testing.instance import LoadError as LoadError
    from svc.testing.instance import NotEnded as NotEnded
    from svc.testing.records import LogEntry as LogEntry
    from svc.testing.requests import Requests as Requests
    from svc.testing.streams import Event as Event


_HOMES = {
    "Answer": ("answer", "Answer"),
    "Application": ("application", "Application"),
    "Event": ("streams", "Event"),
    "LoadError": ("instance", "LoadError"),
    "LogEntry": ("records", "LogEntry"),
    "NotEnded": ("instance", "NotEnded"),
    "Requests": ("requests", "Requests"),
    "app": ("application", "app"),
}

__all__ = [*sorted(_HOMES)]  # pyright: ignore


def __getattr__(name: str) -> Any:
    """Loaded when it is asked for: the plugin costs a pytest that does not use it nothing."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'svc.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"svc.testing.{home[0]}"), home[1])
