"""Secondary indexes: what they store, how one is built."""
