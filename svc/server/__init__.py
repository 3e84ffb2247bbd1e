"""The server: one instance, its ports, its start and end."""

from svc.server.instance import Server

__all__ = ["Server"]
