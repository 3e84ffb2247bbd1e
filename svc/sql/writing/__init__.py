"""INSERT, UPDATE and DELETE: queries whose rows become writes of the store (spec: sql §5)."""

from svc.sql.writing.context import AskedQuery, BoundQueries
from svc.sql.writing.running import queries_of_write, run_write

__all__ = ["AskedQuery", "BoundQueries", "queries_of_write", "run_write"]
