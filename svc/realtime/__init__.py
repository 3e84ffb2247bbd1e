"""Subscriptions to records and live queries (spec: realtime §1)."""
