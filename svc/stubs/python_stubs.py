"""`_schema.pyi`: the tables of an application for type checkers (spec: applications §11).

    class ProductRecord(_t.Record[str])     what `get` and `search` find
    class ProductData(TypedDict)            what `put` and `create` store
    class ProductChanges(TypedDict)         what `patch` and `update` change
    ProductPath, ProductCondition ...       what query objects consist of
    class tables:
        class Product(_t.Table[str])        the class of the table: its verbs, and the attributes of its instances

`tables` is a class with classes in it: what is an attribute of an object cannot be derived from, for a type checker. An attribute whose name is no plain
identifier, or that of a method, is reached by `[]` only, as when the application runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from svc.api.interface import Databases, Tables
from svc.api.records import Record
from svc.api.table import Table
from svc.store.schema import DEFAULT_DATABASE, Attribute, Structure, TableDefinition
from svc.stubs.names import PYTHON, Names, capitalized, is_plain
from svc.stubs.python_types import COMPARED, NUMBERS, PythonTypes, Structures, optional
from svc.stubs.schema import ApplicationSchema

UNTOUCHED = "# ruff: noqa\n# fmt: off\n"
"""For tools that change or judge the form of a project's files."""

HEAD = '''# pyright: basic
"""The tables of this application, for type checkers and editors. Written by `svc types` from the schema; do not edit."""

import builtins as _b
import datetime as _d
import typing as _y

from . import _types as _t
'''

_OF_RECORDS = frozenset(dir(Record))
_OF_TABLES = frozenset(dir(Table))
_OF_DATABASE = frozenset(dir(Tables))
_OF_DATABASES = frozenset(dir(Databases))
MEMBER_TYPES = ("Record", "Data", "Changes", "Query", "Condition")
MOST_BY_NAME = 250
"""Attributes of a table up to which `record["name"]` has the type of each: type checkers compare all pairs of names, for seconds if they are many."""
PSEUDO = ("*", "$id", "$updatedtime", "$expiresAt", "$record")


@dataclass(frozen=True)
class TableNames:
    """The names of the types of one table."""

    start: str  # what they begin with
    table: str
    record: str
    data: str
    changes: str
    comparison: str
    condition: str
    group: str
    sort: str
    property: str
    select: str
    query: str
    selection: str
    aggregation: str
    explanation: str
    record_query: str
    subscription_query: str


_SUFFIXES = (
    "", "Record", "Data", "Changes", "Comparison", "Condition", "Group", "Sort", "Property", "Select", "Query", "Selection", "Aggregation", "Explanation",
    "RecordQuery", "SubscriptionQuery",
)  # fmt: skip


class _Writer:
    def __init__(self, schema: ApplicationSchema) -> None:
        self._schema = schema
        taken = {"tables", "databases", *PYTHON}
        for definition in schema.definitions:
            taken.add(definition.name)
            taken.update(attribute.name for attribute in definition.attributes)
            for structure in definition.structures:
                taken.update(attribute.name for attribute in structure.attributes)
        self._names = Names(taken)
        self._structures: Structures = self._name_structures()
        self._of = {self._address(each): self._name_table(each) for each in schema.definitions}
        self._related_names = {
            (self._address(each), attribute.name): (
                self._names.make(f"{self._of[self._address(each)].start}{capitalized(attribute.name)}Filter"),
                self._names.make(f"{self._of[self._address(each)].start}{capitalized(attribute.name)}Selected"),
            )
            for each in schema.definitions
            for attribute in each.attributes
            if schema.related(each, attribute) is not None
        }

    @staticmethod
    def _address(definition: TableDefinition) -> tuple[str, str]:
        return definition.database, definition.name

    def _name_structures(self) -> dict[Structure, str]:
        found: dict[Structure, str] = {}
        for definition in self._schema.definitions:
            for structure in definition.structures:
                if structure not in found:
                    found[structure] = self._names.make(structure.name)
        return found

    def _name_table(self, definition: TableDefinition) -> TableNames:
        start = (
            definition.name if definition.database == DEFAULT_DATABASE else capitalized(definition.database) + capitalized(definition.name)
        )
        make = self._names.make
        return TableNames(start, *(make(start + suffix) for suffix in _SUFFIXES))

    # --- the whole -------------------------------------------------------------------------------------------------------------------

    def text(self) -> Iterator[str]:
        yield UNTOUCHED + HEAD
        for structure, name in self._structures.items():
            owner = next(each for each in self._schema.definitions if structure in each.structures)
            types = PythonTypes(owner, self._structures)
            items = [(attribute, optional(_of_structure(types, attribute), attribute.required)) for attribute in structure.attributes]
            yield from _typed_dict(name, items, structure.description)
        inside: dict[str, list[str]] = {DEFAULT_DATABASE: []}
        outside: list[str] = []
        for definition in self._schema.definitions:
            yield from self._types(definition)
            lines = inside.setdefault(definition.database, [])
            if self._is_plain_table(definition.name):
                lines += [f"    {line}" if line else "" for line in self._class(definition, definition.name)]
            else:
                outside += self._class(definition, self._of[self._address(definition)].table)
        yield from outside
        yield from self._namespaces(inside)

    @staticmethod
    def _is_plain_table(name: str) -> bool:
        return is_plain(name) and name not in _OF_DATABASE

    def _namespaces(self, inside: dict[str, list[str]]) -> Iterator[str]:
        others = sorted(name for name in inside if name != DEFAULT_DATABASE)
        classes = {name: self._names.make(capitalized(name)) for name in others}
        at = {name: f"databases.{name}" if is_plain(name) and name not in _OF_DATABASES else classes[name] for name in others}
        at[DEFAULT_DATABASE] = "tables"
        for name in (DEFAULT_DATABASE, *others):
            yield from self._metaclass(name, at[name], self._names.make(f"{capitalized(name)}Tables"))
        yield from _class_of(
            "tables", f"metaclass={self._metaclass_of(DEFAULT_DATABASE)}", "The tables of the default database.", inside[DEFAULT_DATABASE]
        )
        for name in others:
            if at[name] == classes[name]:
                yield from _class_of(
                    classes[name], f"metaclass={self._metaclass_of(name)}", f"The tables of the database {name}.", inside[name]
                )
        meta = self._names.make("AllDatabases")
        yield f"class {meta}(_t.Databases):"
        for name in (DEFAULT_DATABASE, *others):
            yield "    @_y.overload"
            yield f"    def __getitem__(cls, name: _y.Literal[{name!r}], /) -> _b.type[{at[name]}]: ..."
        yield "    @_y.overload"
        yield "    def __getitem__(cls, name: _b.str, /) -> _y.Any: ..."
        yield ""
        body = [f"    class {DEFAULT_DATABASE}(tables):", '        """The tables of the default database."""', ""]
        for name in others:
            if at[name] != classes[name]:
                lines = _class_of(name, f"metaclass={self._metaclass_of(name)}", f"The tables of the database {name}.", inside[name])
                body += [f"    {line}" if line else "" for line in lines]
        yield from _class_of("databases", f"metaclass={meta}", "All databases, by name.", body)

    def _metaclass(self, database: str, at: str, meta: str) -> Iterator[str]:
        self._metaclasses: dict[str, str]
        if not hasattr(self, "_metaclasses"):
            self._metaclasses = {}
        self._metaclasses[database] = meta
        members = [each for each in self._schema.definitions if each.database == database]
        yield f"class {meta}(_t.Tables):"
        for each in members:
            name = f"{at}.{each.name}" if self._is_plain_table(each.name) else self._of[self._address(each)].table
            yield "    @_y.overload"
            yield f"    def __getitem__(cls, name: _y.Literal[{each.name!r}], /) -> _b.type[{name}]: ..."
        if members:
            yield "    @_y.overload"
        yield "    def __getitem__(cls, name: _b.str, /) -> _b.type[_y.Any]: ..."
        yield ""

    def _metaclass_of(self, database: str) -> str:
        return self._metaclasses[database]

    # --- the types of a table --------------------------------------------------------------------------------------------------------

    def _types(self, definition: TableDefinition) -> Iterator[str]:
        names = self._of[self._address(definition)]
        types = PythonTypes(definition, self._structures)
        yield f"# --- {definition.database}.{definition.name}".replace("\n", " ").replace("\r", " ") + " ---"
        yield ""
        yield from self._record(definition, names, types)
        stored = [attribute for attribute in definition.attributes if attribute.stored]
        required = [(attribute, types.written(attribute)) for attribute in stored]
        yield from _typed_dict(
            names.data, required, f"A record of {definition.name} as `put` and `create` store it.", optional_name=definition.primary_key
        )
        changes = [(attribute, types.written(attribute, increment=True)) for attribute in stored]
        yield from _typed_dict(
            names.changes, changes, f"Properties of a {definition.name} as `patch` and `update` change them.", total=False
        )
        yield from self._query(definition, names)

    def _record(self, definition: TableDefinition, names: TableNames, types: PythonTypes) -> Iterator[str]:
        yield f"class {names.record}(_t.Record[{types.key}]):"
        yield from _docstring(definition.description or f"A record of {definition.name} as it was read.", "    ")
        groups: dict[str, list[str]] = {}
        for attribute in definition.attributes:
            kind = self._read_type(definition, attribute, types)
            groups.setdefault(kind, []).append(attribute.name)
            if is_plain(attribute.name) and attribute.name not in _OF_RECORDS:
                yield "    @_b.property"
                yield f"    def {attribute.name}(self) -> {kind}:" + ("" if attribute.description else " ...")
                if attribute.description:
                    yield from _docstring(attribute.description, "        ")
        yield from _overloads("__getitem__", _by_name(definition, groups, _OF_RECORDS))
        yield f"    def copy(self) -> {names.data}:"
        yield from _docstring("A copy that may be changed, with all that is in it.", "        ")
        yield ""

    def _read_type(self, definition: TableDefinition, attribute: Attribute, types: PythonTypes) -> str:
        if attribute.relationship is None:
            return types.read(attribute)
        related = self._schema.related(definition, attribute)
        record = "_t.Record[_y.Any]" if related is None else self._of[self._address(related)].record
        return f"_t.{'Results' if attribute.elements else 'RelatedRecord'}[{record}]"

    # --- query objects -----------------------------------------------------------------------------------------------------------------

    def _paths(self, definition: TableDefinition) -> Iterator[tuple[str, str]]:
        """(path, type that it is compared with): the attributes, and those that one relationship or nested object leads to."""
        types = PythonTypes(definition, self._structures)
        for attribute in definition.attributes:
            related = self._schema.related(definition, attribute)
            structure = types.structure(attribute)
            if related is not None:
                inner_types = PythonTypes(related, self._structures)
                for inner in related.attributes:
                    if inner.relationship is None:
                        yield f"{attribute.name}.{inner.name}", inner_types.compared(inner)
            elif structure is not None:
                yield attribute.name, "Any"
                for inner in structure.attributes:
                    yield f"{attribute.name}.{inner.name}", types.compared(inner)
            elif attribute.relationship is None:
                yield attribute.name, types.compared(attribute)

    def _query(self, definition: TableDefinition, names: TableNames) -> Iterator[str]:
        groups: dict[str, list[str]] = {}
        for path, kind in self._paths(definition):
            groups.setdefault(kind, []).append(path)
        relations = [attribute for attribute in definition.attributes if self._schema.related(definition, attribute) is not None]
        related_names = [self._related_names[self._address(definition), attribute.name] for attribute in relations]
        filters = [filter_name for filter_name, _ in related_names]
        comparisons = []
        for kind, members in groups.items():
            for suffix, comparator, value in (
                ("Condition", "_t.Comparator", optional(COMPARED[kind], False)),
                ("Range", "_y.Required[_t.RangeComparator]", f"_b.list[{COMPARED[kind]}] | _b.tuple[{COMPARED[kind]}, {COMPARED[kind]}]"),
            ):
                name = self._names.make(f"{names.start}{kind}{suffix}")
                comparisons.append(name)
                yield f"class {name}(_y.TypedDict, total=False):"
                yield f"    attribute: _y.Required[{_literal(members)}]"
                yield f"    comparator: {comparator}"
                yield f"    value: _y.Required[{value}]"
        yield f"{names.comparison}: _y.TypeAlias = {' | '.join([*comparisons, '_t.PathCondition', '_t.PathRange'])}"
        yield f"{names.condition}: _y.TypeAlias = {' | '.join([names.comparison, names.group, *filters])}"
        yield f"class {names.group}(_y.TypedDict, total=False):"
        yield "    operator: _t.Operator"
        yield f"    conditions: _y.Required[_b.list[{' | '.join([names.comparison, '_t.InnerGroup', *filters])}]]"
        paths = [path for group in groups.values() for path in group]
        yield f"class {names.sort}(_y.TypedDict, total=False):"
        yield f"    attribute: _y.Required[{_literal(paths)} | _b.list[_b.str]]"
        yield "    descending: _b.bool"
        yield f"    next: {names.sort}"
        selected = dict.fromkeys([*PSEUDO, *paths, *(attribute.name for attribute in definition.attributes)])
        yield f"{names.property}: _y.TypeAlias = {_literal(selected)}"
        inner = self._names.make(f"{names.start}Inner")
        yield f"class {inner}(_t.InnerSelected, total=False):"
        yield f"    name: _y.Required[{_literal([each.name for each in definition.attributes if each not in relations])}]"
        yield f"{names.select}: _y.TypeAlias = {' | '.join([names.property, inner, *(selected_name for _, selected_name in related_names)])}"
        yield f"class {names.query}(_t.Window, total=False):"
        yield f"    conditions: _b.list[{names.condition}]"
        yield f"    sort: {names.sort}"
        yield f"class {names.selection}({names.query}, total=False):"
        yield f"    select: _y.Required[{names.select} | _b.list[{names.select}]]"
        yield "    as_array: _b.bool"
        path = f"{names.property} | _b.list[_b.str]"
        functions = self._names.make(f"{names.start}Grouping")
        yield f"class {functions}(_y.TypedDict, total=False):"
        yield f"    facet: {path}"
        yield f"    group: {names.property} | _b.list[{path}]"
        yield f'    functions: _b.list[_y.Literal["count"] | _b.dict[_y.Literal["sum", "avg", "min", "max"], {path}]]'
        yield f"class {names.aggregation}({names.query}, total=False):"
        yield f'    aggregate: _y.Required[_y.Literal["count"] | {functions}]'
        yield f"class {names.explanation}({names.query}, total=False):"
        yield "    explain: _y.Required[_y.Literal[True]]"
        yield f"class {names.record_query}(_t.Options, total=False):"
        yield f"    id: _y.Required[{PythonTypes(definition, self._structures).key}]"
        yield f"    select: {names.select} | _b.list[{names.select}]"
        yield "    property: _b.str"
        yield f"class {names.subscription_query}(_t.SubscriptionOptions, total=False):"
        yield f"    id: {PythonTypes(definition, self._structures).key}"
        yield f"    conditions: _b.list[{names.condition}]"
        yield f"    select: {names.select} | _b.list[{names.select}]"
        yield f"    sort: {names.sort}"
        for attribute, (filter_name, selection_name) in zip(relations, related_names, strict=True):
            related = self._schema.related(definition, attribute)
            assert related is not None
            yield from self._relation(attribute, self._of[self._address(related)], filter_name, selection_name)
        yield ""

    def _relation(self, attribute: Attribute, inner: TableNames, filter_name: str, selection_name: str) -> Iterator[str]:
        """What a query object says of related records. What it says of those that these lead to is open: type checkers follow such cycles at length."""
        conditions = f"_b.list[{inner.comparison} | _t.InnerGroup | _t.InnerFilter]"
        for name, first, kind in ((filter_name, "attribute", f"_y.Required[{conditions}]"), (selection_name, "name", conditions)):
            yield f"class {name}(_y.TypedDict, total=False):"
            yield f"    {first}: _y.Required[_y.Literal[{attribute.name!r}]]"
            yield f"    conditions: {kind}"
            yield "    operator: _t.Operator"
            yield f"    select: {inner.property} | _b.list[{inner.property} | _t.InnerSelection]"
            yield "    as_array: _b.bool"
            yield f"    sort: {inner.sort}"
            yield "    limit: _b.int"
            yield "    offset: _b.int"

    # --- the class ---------------------------------------------------------------------------------------------------------------------

    def _class(self, definition: TableDefinition, name: str) -> Iterator[str]:
        names = self._of[self._address(definition)]
        types = PythonTypes(definition, self._structures)
        yield f"class {name}(_t.Table[{types.key}]):"
        yield from _docstring(definition.description or f"The table {definition.name}.", "    ")
        attributes = {attribute.name for attribute in definition.attributes}
        for member, named in zip(MEMBER_TYPES, (names.record, names.data, names.changes, names.query, names.condition), strict=True):
            if member not in attributes:
                yield f"    {member}: _y.TypeAlias = {named}"
        read: dict[str, list[str]] = {}
        written: dict[str, list[str]] = {}
        numbers = []
        for attribute in definition.attributes:
            kind = self._read_type(definition, attribute, types)
            read.setdefault(kind, []).append(attribute.name)
            is_open = is_plain(attribute.name) and (attribute.name not in _OF_TABLES or attribute.name in MEMBER_TYPES)
            if attribute.stored:
                written.setdefault(types.written(attribute), []).append(attribute.name)
                if attribute.type in NUMBERS and not attribute.elements and not types.is_key(attribute):
                    numbers.append(attribute.name)
                if is_open:
                    yield f"    {attribute.name}: {types.written(attribute) if attribute.elements else kind}"
                    if attribute.description:
                        yield from _docstring(attribute.description, "    ")
            elif is_open:
                yield "    @_b.property"
                yield f"    def {attribute.name}(self) -> {kind}:" + ("" if attribute.description else " ...")
                if attribute.description:
                    yield from _docstring(attribute.description, "        ")
        yield from _overloads("__getitem__", _by_name(definition, read, _OF_TABLES))
        yield from _setters(
            written if len(definition.attributes) <= MOST_BY_NAME else {"_y.Any": [each for names in written.values() for each in names]}
        )
        if numbers:
            for method in ("add_to", "subtract_from"):
                yield (
                    f"    def {method}(self, name: {_literal(numbers)}, amount: _b.float, *, at_least: _b.float | None = None,"
                    " at_most: _b.float | None = None) -> None: ..."
                )
        data = f"{names.data} | {names.record} | _t.Table[{types.key}]"
        changes = f"{names.changes} | {names.record} | _t.Table[{types.key}]"
        selecting = f"{names.selection} | {names.aggregation}"
        parts = f"{names.condition}, {names.sort}, {names.select}"
        for verb, kind in (
            ("get", f"Verb[_t.ClassGet[{types.key}, {names.record}, {names.record_query}, {names.query}, {selecting}, {parts}]]"),
            ("search", f"Verb[_t.ClassSearch[{names.record}, {names.query}, {selecting}, {names.explanation}, {parts}]]"),
            ("put", f"Verb[_t.ClassPut[{types.key}, {data}]]"),
            ("patch", f"Verb[_t.ClassPatch[{types.key}, {changes}]]"),
            ("post", f"PostVerb[{data}]"),
            ("create", f"CreateVerb[{data}]"),
            ("update", f"UpdateVerb[{types.key}, {changes}]"),
            ("delete", f"Verb[_t.ClassDelete[{types.key}, {names.query}, {names.condition}, {names.sort}]]"),
            ("publish", f"Verb[_t.ClassPublish[{types.key}]]"),
            ("subscribe", f"Verb[_t.ClassSubscribe[{types.key}, {names.subscription_query}, {parts}]]"),
            ("invalidate", f"Verb[_t.ClassInvalidate[{types.key}]]"),
        ):
            yield f"    {verb}: _t.{kind}"
        queries = f"{names.query}, {names.record_query}, {names.subscription_query}, {selecting}, {names.explanation}"
        yield "    @_b.classmethod"
        yield (
            "    def as_user(cls, user: _t.User | _b.str | None) -> "
            f"_t.TableAsUser[{types.key}, {names.record}, {data}, {changes}, {queries}, {parts}]: ..."
        )
        yield ""


def python_stubs(schema: ApplicationSchema) -> str:
    """The text of `_schema.pyi`."""
    return "\n".join(_Writer(schema).text()).rstrip() + "\n"


def _of_structure(types: PythonTypes, attribute: Attribute) -> str:
    kind = types.written(attribute)
    return kind.removesuffix(" | None") if not attribute.required and not attribute.elements else kind


def _class_of(name: str, base: str, text: str, body: list[str]) -> Iterator[str]:
    yield f"class {name}({base}):"
    yield from _docstring(text, "    ")
    yield from body
    yield ""


def _literal(names: Iterable[str]) -> str:
    return f"_y.Literal[{', '.join(map(repr, names))}]"


def _by_name(definition: TableDefinition, groups: dict[str, list[str]], methods: frozenset[str]) -> dict[str, list[str]]:
    """Those of the attributes, by type, whose type `[]` tells: all, or of very many those that cannot be reached otherwise."""
    if len(definition.attributes) <= MOST_BY_NAME:
        return groups
    found = {kind: [name for name in names if not is_plain(name) or name in methods] for kind, names in groups.items()}
    return {kind: names for kind, names in found.items() if names}


def _overloads(method: str, groups: dict[str, list[str]]) -> Iterator[str]:
    """A method that takes the name of an attribute and returns its value; other properties of an open table have any."""
    for kind, names in groups.items():
        yield "    @_y.overload"
        yield f"    def {method}(self, name: {_literal(names)}, /) -> {kind}: ..."
    if groups:
        yield "    @_y.overload"
    yield f"    def {method}(self, name: _b.str, /) -> _y.Any: ..."


def _setters(groups: dict[str, list[str]]) -> Iterator[str]:
    for kind, names in groups.items():
        if len(groups) > 1:
            yield "    @_y.overload"
        yield f"    def __setitem__(self, name: {_literal(names)}, value: {kind}, /) -> None: ..."


def _typed_dict(
    name: str, items: list[tuple[Attribute, str]], description: str = "", *, total: bool = True, optional_name: str | None = None
) -> Iterator[str]:
    """A dict whose required items are those of required attributes; none of them if not `total`."""

    def item(attribute: Attribute, kind: str) -> str:
        given = (
            attribute.created_time
            or attribute.updated_time
            or attribute.embed is not None
            or attribute.default
            or attribute.name == optional_name
        )
        return f"_y.Required[{kind}]" if total and attribute.required and not given else kind

    if all(is_plain(attribute.name) for attribute, _ in items):
        yield f"class {name}(_y.TypedDict, total=False):"
        yield from _docstring(description or f"An object of the type {name}.", "    ")
        for attribute, kind in items:
            yield f"    {attribute.name}: {item(attribute, kind)}"
            if attribute.description:
                yield from _docstring(attribute.description, "    ")
    else:
        members = ", ".join(f"{attribute.name!r}: {item(attribute, kind)}" for attribute, kind in items)
        yield f"{name} = _y.TypedDict({name!r}, {{{members}}}, total=False)"
    yield ""


def _docstring(text: str, indent: str) -> Iterator[str]:
    """A description as a docstring, whatever is in it."""
    escaped = text.strip().replace("\\", "\\\\").replace('"""', '\\"\\"\\"').replace("\x00", "\\x00").replace("\r", " ").replace("\f", " ")
    if escaped.endswith('"'):
        escaped = escaped[:-1] + '\\"'
    first, *others = escaped.split("\n")
    lines = [f'{indent}"""{first}', *(f"{indent}{line.strip()}".rstrip() for line in others)]
    lines[-1] += '"""'
    yield from lines
