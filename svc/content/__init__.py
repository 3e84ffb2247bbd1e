"""Content types: values <-> bytes, and which type a client gets (spec: http §7, §7.1)."""
