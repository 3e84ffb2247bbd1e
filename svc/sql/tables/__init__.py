"""The tables of svc as virtual tables of SQLite."""
