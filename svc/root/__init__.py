"""The root directory of an installation: its files, lock, process and data version."""
