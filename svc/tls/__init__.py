"""Certificates and contexts of the TLS ports (contract: http §14, security §4, configuration §2.5)."""
