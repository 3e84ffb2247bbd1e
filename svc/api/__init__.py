"""The Python interface of applications: what `from svc import ...` gives (spec: applications)."""
