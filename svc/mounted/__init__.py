"""ASGI applications that this server serves: FastAPI, Starlette, Django (spec: asgi §1)."""

from svc.mounted.application import MountedApplication
from svc.mounted.messages import AsgiApplication, ClientDisconnected, MessageError
from svc.mounted.mounts import Mounts

__all__ = ["AsgiApplication", "ClientDisconnected", "MessageError", "MountedApplication", "Mounts"]
