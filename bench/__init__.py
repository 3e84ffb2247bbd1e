"""Measurements of svc, and of other servers beside it. Each module runs from the root of the repository: `python -m bench.run`."""
