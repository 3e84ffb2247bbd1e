"""Subscriptions to records and live queries (contract: realtime §1, applications §9)."""
