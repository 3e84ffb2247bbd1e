"""Application directories: their configuration, schema and registrations (spec: configuration §9.1, §9.2)."""

from svc.apps.app import App, EntryStatus, load_app

__all__ = ["App", "EntryStatus", "load_app"]
