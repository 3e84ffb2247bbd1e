"""Schema files of an application -> table definitions (spec: schema-and-store §1-§4).

All files are parsed first, references are resolved over the union of their types, and the definitions come in sorted path order (§1.4).
A file with a syntax error fails as a whole (§1.7). Any other error fails the declaration it is in, so that this table stays as it was;
other declarations go on. If a rule about rows is at fault, or cannot be applied for another one, nothing is (spec: rows §1.9). What this
version keeps in the definition but does not act on yet is a warning that names the directive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from svc.apps.schema_declaration import DeclaredType, SchemaFault
from svc.apps.schema_enums import EnumTypes
from svc.apps.schema_resolver import KnownTypes, Resolver
from svc.apps.schema_rules import NamedRole, is_rule
from svc.apps.schema_syntax import EnumDeclaration, SourcePosition, TypeDeclaration, parse_schema
from svc.errors import SchemaError
from svc.query.rule_form import ROLES
from svc.store.schema import Allow, TableDefinition


@dataclass(slots=True)
class SchemaResult:
    """`definitions`: what may be applied. `faults`: in order of the files' paths and of the phases of reading. `roles`: that rules name.

    `ends_load`: rules about rows could not be applied, so nothing else of the application may be. `own_rules`: of tables, by database and name, the rules
    that these files declare, and whether they mark it as that of accounts."""

    definitions: list[TableDefinition] = field(default_factory=list)
    faults: list[SchemaFault] = field(default_factory=list)
    roles: list[NamedRole] = field(default_factory=list)
    ends_load: bool = False
    own_rules: dict[tuple[str, str], tuple[tuple[Allow, ...], bool]] = field(default_factory=dict)

    def as_declared(self, definition: TableDefinition) -> TableDefinition:
        """One of `definitions` without the rules and the mark of accounts that it has from other applications, which may change them."""
        allow, account = self.own_rules.get((definition.database, definition.name), ((), False))
        return replace(definition, allow=allow, account=account)

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
            hides_rules = "@allow" in text  # which of the tables are to have some is not known
            result.faults.append(SchemaFault(path, error.message, SourcePosition(error.line, error.column), True, ends_load=hides_rules))
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
                what = f"{declaration.kind} {declaration.name}".rstrip()
                message = f"{what} declares no table, structure or enum and was ignored"
                result.faults.append(SchemaFault(path, message, declaration.position, False))
                for directive in filter(is_rule, declaration.directives):
                    message = f"@allow of the {what} would be ignored: put it on the type with @table"
                    result.faults.append(SchemaFault(path, message, directive.position, True, ends_load=True))
    enums.read({draft.name for draft in drafts})
    result.definitions += Resolver(drafts, enums, known_types or {}).resolve()
    for draft in drafts:
        if draft.definition is not None and (draft.rules or draft.account):
            address = (draft.database, draft.definition.name)
            allow, is_account = result.own_rules.get(address, ((), False))
            result.own_rules[address] = (draft.definition.allow or allow, draft.definition.account or is_account)
    result.roles += [named for draft in drafts for named in _named_roles(draft)]
    known = known_types or {}
    if not _lacks_rules(result, drafts) and (any(draft.rules for draft in drafts) or any(map(_has_rules, known.values()))):
        _check_rules(drafts, result.definitions, known)
    result.ends_load = _lacks_rules(result, drafts)
    if result.ends_load:
        result.definitions.clear()
    return result


def _lacks_rules(result: SchemaResult, drafts: Iterable[DeclaredType]) -> bool:
    """Whether a rule would be missing in what may be applied."""
    return any(fault.ends_load for fault in result.faults) or any(draft.rejected and draft.rules for draft in drafts)


def _check_rules(drafts: Iterable[DeclaredType], definitions: Iterable[TableDefinition], known: KnownTypes) -> None:
    """Tell the declared types what is wrong with their rules, beside the tables of other applications, and with those that others declare."""
    from svc.query.rule_faults import rule_faults  # what only schemas with rules need

    tables: dict[str, dict[str, TableDefinition]] = {}
    for database, types in known.items():
        tables[database] = {definition.name: definition for definition in types.values()}
    for definition in definitions:
        tables.setdefault(definition.database, {})[definition.name] = definition
    accounts = [each for each in (*definitions, *[found for types in known.values() for found in types.values()]) if each.account]
    declared = {(draft.database, draft.definition.name): draft for draft in drafts if draft.definition is not None and draft.rules}
    first = {draft.database: draft for draft in reversed(list(drafts)) if draft.definition is not None}
    for database in [each for each in first if _has_rules(tables.get(each, {}))]:
        for fault in rule_faults(tables[database].values(), accounts[0] if accounts else None):
            draft = declared.get((database, fault.table))
            if draft is None:
                if not fault.is_warning:
                    message = f"the rule of {fault.table} for {fault.action}, which another application declares, holds for no record: {fault.message}"
                    first[database].warn(message, first[database].declaration.position)
                continue
            message = f"@allow of {draft.name}, {fault.action}: {fault.message}"
            position = draft.rules[fault.number].position(fault.action, fault.position)
            if fault.is_warning:
                draft.warn(message, position)
            else:
                draft.fail_rule(message, position)


def _has_rules(tables: Mapping[str, TableDefinition]) -> bool:
    return any(definition.allow for definition in tables.values())


def _named_roles(draft: DeclaredType) -> Iterator[NamedRole]:
    for rule in draft.rules:
        position = rule.position(ROLES)
        for name in rule.allow.roles or ():
            yield NamedRole(name, draft.name, f"{draft.path}:{position.line}:{position.column}")
