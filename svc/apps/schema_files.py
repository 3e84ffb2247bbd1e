"""Schema files of an application -> table definitions (spec: schema-and-store §1-§4).

All files are parsed first, references are resolved over the union of their types, and the definitions come in sorted path order (§1.4).
A file with a syntax error fails as a whole (§1.7). Any other error fails the declaration it is in, so that this table stays as it was;
other declarations go on. What this version keeps in the definition but does not act on yet is a warning that names the directive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from svc.apps.schema_declaration import DeclaredType, SchemaFault
from svc.apps.schema_enums import EnumTypes
from svc.apps.schema_resolver import KnownTypes, Resolver
from svc.apps.schema_syntax import EnumDeclaration, SourcePosition, TypeDeclaration, parse_schema
from svc.errors import SchemaError
from svc.store.schema import TableDefinition


@dataclass(slots=True)
class SchemaResult:
    """`definitions`: what may be applied. `faults`: in order of the files' paths and of the phases of reading."""

    definitions: list[TableDefinition] = field(default_factory=list)
    faults: list[SchemaFault] = field(default_factory=list)

    @property
    def warnings(self) -> list[str]:
        return [str(fault) for fault in self.faults if not fault.error]

    @property
    def errors(self) -> list[str]:
        return [str(fault) for fault in self.faults if fault.error]


def load_schema_files(
    files: Iterable[tuple[str, str]], known_types: KnownTypes | None = None, url_directory: str | Mapping[str, str] = ""
) -> SchemaResult:
    """Read `files`: (path, text). Faults of the files are in the result, none is raised.

    `known_types` serves references to types that these files do not declare, and declarations of the same table are united with it.
    `url_directory`: put in front of the addresses of exported tables; one for all files, or by path (spec: configuration §9.1).
    """
    result = SchemaResult()
    drafts: list[DeclaredType] = []
    enums = EnumTypes(result.faults)
    for path, text in sorted(files):
        try:
            declarations = parse_schema(text)
        except SchemaError as error:
            result.faults.append(SchemaFault(path, error.message, SourcePosition(error.line, error.column), True))
            continue
        directory = url_directory if isinstance(url_directory, str) else url_directory.get(path, "")
        for declaration in declarations:
            if isinstance(declaration, TypeDeclaration):
                draft = DeclaredType(path, declaration, directory, result.faults)
                draft.read()
                drafts.append(draft)
            elif isinstance(declaration, EnumDeclaration):
                enums.add(path, declaration)
            else:
                message = f"{declaration.kind} {declaration.name}".rstrip() + " declares no table, structure or enum and was ignored"
                result.faults.append(SchemaFault(path, message, declaration.position, False))
    enums.read({draft.name for draft in drafts})
    result.definitions += Resolver(drafts, enums, known_types or {}).resolve()
    return result
