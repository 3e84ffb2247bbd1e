"""A store in a temporary directory with a clock that stands still."""

from tests.unit.store.conftest import clock, open_store, store

__all__ = ["clock", "open_store", "store"]
