"""The files of a database on disk: locks, faults, copies, free space."""
