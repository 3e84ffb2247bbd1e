"""Content types: values <-> bytes, and which type a client gets (contract: http §7, applications §15)."""
