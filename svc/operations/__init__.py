"""The operations API: administration and data operations as JSON bodies (spec: operations).

One row per operation (`operation.Operation`) says its name, fields, permission and handler; validation, permissions, help, the OpenAPI document
and docs/operations/ follow from the rows. `registry` joins the rows of all modules.
"""
