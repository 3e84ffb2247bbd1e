"""What development tools see of an application: stubs for type checkers, TypeScript, and the files of a new application.

schema_of           the tables that the schema files of a directory declare
write_stubs         typings/svc/*.pyi: `from svc import tables` as mypy, pyright and editors see it
write_typescript    types and a client of the exported tables
write_application   the files of a small application
"""

from svc.stubs.new_application import ApplicationExists, check_name, write_application
from svc.stubs.output import CLIENT, STUBS, refresh_types, write_stubs, write_typescript
from svc.stubs.schema import ApplicationSchema, SchemaFaults, schema_of

__all__ = (
    "CLIENT",
    "STUBS",
    "ApplicationExists",
    "ApplicationSchema",
    "SchemaFaults",
    "check_name",
    "refresh_types",
    "schema_of",
    "write_application",
    "write_stubs",
    "write_typescript",
)
