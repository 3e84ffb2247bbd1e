"""The root directory of an installation: its location, first run, lock, process and data version."""
