"""svc inside another server: an application directory as an ASGI application for uvicorn, hypercorn and the like (spec: asgi §2)."""

from svc.hosted.application import HostedApplication, asgi

__all__ = ["HostedApplication", "asgi"]
