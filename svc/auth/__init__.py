"""Authentication and permissions (contract: security)."""
