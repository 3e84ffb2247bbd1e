"""The server: one instance, its ports, its start and end."""

from svc.server.instance import Instance, InstanceOptions
from svc.server.serving import Server

__all__ = ["Instance", "InstanceOptions", "Server"]
