"""The tables that an application declares, read from its files; no server is needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from svc.apps.config_file import CONFIG_FILE, options_of, read_config
from svc.apps.files import FileSet
from svc.apps.schema_entry import DEFAULT_FILES, rest_options, rest_prefix
from svc.apps.schema_files import load_schema_files
from svc.apps.schema_resolver import KnownTypes
from svc.store.schema import Attribute, TableDefinition


class SchemaFaults(Exception):
    """The schema of an application cannot be read. `messages`: one for each fault, with file, line and column."""

    def __init__(self, messages: list[str]) -> None:
        self.messages = messages
        super().__init__("\n".join(messages))


@dataclass(frozen=True)
class ApplicationSchema:
    """`definitions`: by database and name. `warnings`: of the schema files. `prefix`: what the addresses of its tables begin with, "" or "api/"."""

    definitions: tuple[TableDefinition, ...]
    warnings: tuple[str, ...] = ()
    prefix: str = ""

    def table(self, database: str, name: str) -> TableDefinition | None:
        return next((each for each in self.definitions if each.database == database and each.name == name), None)

    def related(self, definition: TableDefinition, attribute: Attribute) -> TableDefinition | None:
        """The table that a relationship leads to; None: it is not one of this application."""
        relationship = attribute.relationship
        return None if relationship is None else self.table(definition.database, relationship.table)


def schema_of(directory: Path, known_types: KnownTypes | None = None) -> ApplicationSchema:
    """The schema of the application in `directory`. `known_types`: of other applications.

    Raises SchemaFaults for what is wrong in its configuration or its schema files, OSError."""
    if not directory.is_dir():
        raise SchemaFaults([f"{directory} is no directory"])
    try:
        config = read_config(directory)
    except ValueError as error:
        raise SchemaFaults([f"{CONFIG_FILE}: {error}"]) from None
    entry = config.get("graphqlSchema")
    if not entry:
        return ApplicationSchema(())
    faults: list[str] = []
    files: list[tuple[str, str]] = []
    try:
        matches = FileSet(directory, options_of(entry).get("files", DEFAULT_FILES)).matches()
    except ValueError as error:
        raise SchemaFaults([f"graphqlSchema: {error}"]) from None
    for match in matches:
        if match.is_directory:
            continue
        try:
            files.append((match.name, match.path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            faults.append(f"{match.name}: {error}")
    result = load_schema_files(files, known_types)
    if faults or result.errors:
        raise SchemaFaults(faults + result.errors)
    definitions = sorted(result.definitions, key=lambda each: (each.database, each.name))
    return ApplicationSchema(tuple(definitions), tuple(result.warnings), rest_prefix(rest_options(config)) if config.get("rest") else "")
