"""Metrics of the server: raw rows each second, aggregates each minute (spec: analytics)."""

from svc.analytics.collector import Analytics, AnalyticsSettings
from svc.analytics.recorder import Recorder

__all__ = ["Analytics", "AnalyticsSettings", "Recorder"]
