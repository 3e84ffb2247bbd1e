"""svc: a database and application platform in one process.

What modules of an application import from here belongs to the server instance that runs them: it is there while one does. `__init__.pyi` has the names
for type checkers.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_CLASSES = {
    "Resource": "svc.api.resource",
    "RequestTarget": "svc.api.target",
    "get_context": "svc.api.context",
    "get_user": "svc.api.context",
    "get_response": "svc.api.context",
    "Abort": "svc.messages",
    "Response": "svc.messages",
    "AccessViolation": "svc.errors",
    "ClientError": "svc.errors",
    "ServerError": "svc.errors",
    "ValidationError": "svc.errors",
    "Blob": "svc.store.blobs",
    "create_blob": "svc.store.blobs",
    "transaction": "svc.api.interface",
    "run_in_thread": "svc.api.threads",
}
OF_INSTANCE = (
    "tables", "databases", "auth", "sql", "logger", "server", "content_types", "contentTypes", "resources", "config", "mail", "is_main_thread", "worker_index",
)  # fmt: skip

__all__ = [*sorted({*_CLASSES, *OF_INSTANCE})]  # pyright: ignore


def __getattr__(name: str) -> Any:
    home = _CLASSES.get(name)
    if home is not None:
        return getattr(import_module(home), name)
    if name in OF_INSTANCE:
        import sys

        return import_module("svc.api.current").global_of(name, sys._getframe(1).f_globals.get("__name__", ""))
    raise AttributeError(f"module 'svc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return ["__version__", *__all__]
