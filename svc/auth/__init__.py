"""Authentication and permissions (spec: security)."""
