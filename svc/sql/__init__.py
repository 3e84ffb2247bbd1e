"""SQL over the tables of the store (spec: sql)."""
