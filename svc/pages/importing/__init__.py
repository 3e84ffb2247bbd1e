"""Records from a file (spec: http §7.8.4): `?_view=import` of a collection. The file is sent and kept; what its columns become is shown and chosen; then a job
loads it. Each of the three is an operation: `add_upload`, `read_upload`, `load_upload` (operations §4.2)."""
