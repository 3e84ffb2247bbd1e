"""What the server does, counted: raw rows each second, aggregates each minute (contract: analytics)."""

from svc.analytics.recorder import Recorder
from svc.analytics.service import Analytics

__all__ = ["Analytics", "Recorder"]
