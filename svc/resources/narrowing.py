"""Where `narrow_query` is found by those who have it from here."""

from svc.narrowing import narrow_query

__all__ = ["narrow_query"]
