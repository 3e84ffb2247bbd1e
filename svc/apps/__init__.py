"""Application directories: their configuration, schema and registrations (contract: applications §10, §12)."""

from svc.apps.app import App, EntryStatus, load_app

__all__ = ["App", "EntryStatus", "load_app"]
