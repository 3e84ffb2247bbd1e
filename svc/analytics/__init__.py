"""Metrics of the server: raw rows each second, aggregates each minute (spec: analytics)."""

from svc.analytics.collector import Analytics
from svc.analytics.recorder import Recorder

__all__ = ["Analytics", "Recorder"]
