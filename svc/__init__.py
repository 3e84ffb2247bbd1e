"""svc: a database and application platform in one process.

What modules of an application import from here belongs to the server instance that runs them: it is there while one does.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from svc.api.context import get_context as get_context
    from svc.api.context import get_response as get_response
    from svc.api.context import get_user as get_user
    from svc.api.resource import Resource as Resource
    from svc.api.target import RequestTarget as RequestTarget
    from svc.api.threads import run_in_thread as run_in_thread
    from svc.errors import AccessViolation as AccessViolation
    from svc.errors import ClientError as ClientError
    from svc.errors import ServerError as ServerError
    from svc.errors import ValidationError as ValidationError
    from svc.hosted import asgi as asgi
    from svc.messages import Abort as Abort
    from svc.messages import Response as Response
    from svc.store.blobs import Blob as Blob
    from svc.store.blobs import create_blob as create_blob

    tables: Any
    databases: Any
    auth: Any
    logger: Any
    server: Any
    content_types: Any
    contentTypes: Any
    resources: Any
    transaction: Any
    config: Any
    is_main_thread: bool
    worker_index: int

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
    "asgi": "svc.hosted",
}
OF_INSTANCE = (
    "tables", "databases", "auth", "logger", "server", "content_types", "contentTypes", "resources", "config", "is_main_thread", "worker_index",
)  # fmt: skip

__all__ = [*sorted({*_CLASSES, *OF_INSTANCE})]  # pyright: ignore


def __getattr__(name: str) -> Any:
    home = _CLASSES.get(name)
    if home is not None:
        from importlib import import_module

        return getattr(import_module(home), name)
    if name in OF_INSTANCE:
        import sys

        from svc.api.interface import global_of

        return global_of(name, sys._getframe(1).f_globals.get("__name__", ""))
    raise AttributeError(f"module 'svc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return ["__version__", *__all__]
