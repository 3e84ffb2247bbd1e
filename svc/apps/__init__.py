"""Application directories: their configuration, their schema, what they register (contract: applications §10, §12)."""

from svc.apps.app import App, EntryStatus, load_app

__all__ = ["App", "EntryStatus", "load_app"]
