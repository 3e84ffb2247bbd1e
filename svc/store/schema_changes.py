"""What a new definition of a table changes, in words, and which stored values may not fit it (spec: schema-and-store §7).

The loader and `svc schema diff` ask the same function, `table_change`. What the change does to the store is `schema.compare`, which the store itself
carries out. Values are not converted and not removed when a definition changes, so `LeftoverCount` counts those that it leaves behind.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import msgspec

from svc.errors import SchemaError
from svc.store.schema import Attribute, Check, DefinitionChange, TableDefinition, compare
from svc.store.values.checks import checks_of, declared_checks
from svc.store.values.conversion import printable
from svc.store.values.expression import uses_any
from svc.store.values.keys import decode_key, is_hashed
from svc.store.values.records import MISSING, decode, is_partial, projection
from svc.store.values.type_checkers import Checker, compile_checkers

TABLE_ADDED, TABLE_RENAMED = "table_added", "table_renamed"
CHANGED, ADDED, REMOVED, RENAMED = "table_changed", "attribute_added", "attribute_removed", "attribute_renamed"
TYPE_CHANGED, ATTRIBUTE_CHANGED = "type_changed", "attribute_changed"
UNIQUE = "unique"
INDEX_BUILT, INDEX_REBUILT, INDEX_KEPT, INDEX_DROPPED = "index_built", "index_rebuilt", "index_kept", "index_dropped"

LEFT, OTHER_TYPE, FAILS_CHECK = LEFTOVERS = ("removed", "other_type", "fails_check")

_OF_TYPE = ("type", "elements", "required", "element_required", "enum")
_SHOWN = (
    "sealed", "dynamic", "expiration", "eviction", "scan_interval", "audit", "replicate", "split_segments", "structures", "check", "allow", "account",
)  # fmt: skip
_UNQUOTED = {"check": "another check of the whole record", "allow": "other rules about rows (@allow)"}  # they may be long, and hold names
SHOWN_VALUES = 10  # of an enum
MOST_KEYS = 20  # of the records that a change leaves behind, of each kind
MOST_SHOWN = 400  # characters of them in a sentence
_APART = frozenset(
    ("name", "description", "indexed", "renamed_from", "hidden", "allow", "primary_key", "unique", *_OF_TYPE)
)  # of an attribute


@dataclass(frozen=True, slots=True)
class Change:
    """`kind`: one of the first constants above. `attribute`: "" if the table itself is concerned. `sentence`: for people."""

    kind: str
    attribute: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """Values that may not fit. `kind`: see `Leftover`. `name`: of the attribute, "" of the whole record. `attribute`: as it is declared now, None if it is not
    any more. `check`: the one that is new."""

    kind: str
    name: str
    attribute: Attribute | None = None
    check: Check | None = None


@dataclass(frozen=True, slots=True)
class TableChange:
    """`records`: how many the table has. `consequences`: for the store. `fault`: why the new definition is refused, "" if it is not."""

    database: str
    table: str
    records: int
    changes: tuple[Change, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    fault: str = ""
    consequences: DefinitionChange = field(default_factory=DefinitionChange)


def former_name(new: TableDefinition, tables: Container[str]) -> str:
    """The name under which the table is known that `new` defines. `tables`: the names of those that exist."""
    return new.renamed_from if new.renamed_from is not None and new.name not in tables and new.renamed_from in tables else new.name


def table_change(old: TableDefinition | None, new: TableDefinition, records: int) -> TableChange:
    """What becomes of a table with so many records when `new` takes the place of `old`: of the table called `former_name`. None: there is no such table."""
    if old is None:
        return TableChange(new.database, new.name, 0, (Change(TABLE_ADDED, "", "new table"),))
    try:
        consequences = compare(old, new, empty=not records)
    except SchemaError as error:
        return TableChange(new.database, new.name, records, fault=error.message)
    renamed = {to: former for former, to in consequences.moves}
    changes = [Change(TABLE_RENAMED, "", f"the table {old.name} gets this name, with all it has")] if old.name != new.name else []
    changes += [*_attribute_changes(old, new, renamed), *_table_changes(old, new)]
    count = f"{records:,} record{'' if records == 1 else 's'}"
    stay = {name: former for former, name in consequences.keepable}
    changes += [
        Change(INDEX_KEPT, name, f"the index of {former} is that of {name}, or is built again if records have values under that name")
        for name, former in stay.items()
    ]
    changes += [Change(INDEX_BUILT, name, f"an index of {name} is built from {count}") for name in consequences.build if name not in stay]
    changes += [Change(INDEX_REBUILT, name, f"the index of {name} is built again from {count}") for name in consequences.rebuild]
    changes += [Change(INDEX_DROPPED, name, f"the index of {name} is dropped") for name in consequences.drop if name not in stay.values()]
    changes += [Change(UNIQUE, name, f"the values of {name} have to be unique") for name in consequences.unique]
    doubts = tuple(_doubts(old, new, renamed)) if records else ()
    return TableChange(new.database, new.name, records, tuple(changes), doubts, consequences=consequences)


def _attribute_changes(old: TableDefinition, new: TableDefinition, renamed: dict[str, str]) -> Iterator[Change]:
    before = {attribute.name: attribute for attribute in old.attributes}
    for attribute in new.attributes:
        name = attribute.name
        former = before.get(renamed.get(name, name))
        if name in renamed:
            yield Change(RENAMED, name, f"{name}: the values of {renamed[name]} get this name")
        if former is None:
            if name not in renamed:
                yield Change(ADDED, name, f"{name}: {type_text(attribute)} is added")
            continue
        if type_text(former) != type_text(attribute):
            yield Change(TYPE_CHANGED, name, f"{name}: {type_text(former)} becomes {type_text(attribute)}")
        elif enum_values(former) != enum_values(attribute):
            yield Change(TYPE_CHANGED, name, f"{name}: {type_text(attribute)} {_other_values(enum_values(former), enum_values(attribute))}")
        others = [each.name for each in fields(Attribute) if each.name not in _APART]
        different = [other.rstrip("_") for other in others if getattr(former, other) != getattr(attribute, other)]
        if different:
            yield Change(ATTRIBUTE_CHANGED, name, f"{name}: another {', '.join(different).replace('_', ' ')}")
    kept = {attribute.name for attribute in new.attributes} | set(renamed.values())
    for attribute in old.attributes:
        if attribute.name not in kept:
            what = "its values stay, as undeclared properties" if attribute.stored else "it is not stored"
            yield Change(REMOVED, attribute.name, f"{attribute.name}: {type_text(attribute)} is removed, {what}")


def _table_changes(old: TableDefinition, new: TableDefinition) -> Iterator[Change]:
    for name in _SHOWN:
        before, now = getattr(old, name), getattr(new, name)
        if before == now:
            continue
        what = name.replace("_", " ")
        if name == "structures":
            known = {structure.name: structure for structure in before}
            names = [each.name for each in now if known.get(each.name, each) != each]
            if names:
                yield Change(CHANGED, "", f"the type {', '.join(names)} of nested objects changes")
        else:
            yield Change(CHANGED, "", _UNQUOTED.get(name) or f"{what}: {_shown(before)} becomes {_shown(now)}")


def _shown(value: object) -> str:
    return (
        "none"
        if value is None
        else str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def type_text(attribute: Attribute) -> str:
    """As it is declared.

    >>> type_text(Attribute("a", "Int", elements=True, required=True))
    '[Int]!'
    """
    inner = attribute.enum.name if attribute.enum is not None else attribute.type
    if attribute.elements:
        inner = f"[{inner}{'!' if attribute.element_required else ''}]"
    return inner + ("!" if attribute.required else "")


def enum_values(attribute: Attribute) -> tuple[str, ...]:
    return () if attribute.enum is None else attribute.enum.values


def _other_values(before: Sequence[str], now: Sequence[str]) -> str:
    """What an enum has become.

    >>> _other_values(("RED", "BLUE"), ("RED", "GREEN", "GREY")), _other_values(("A", "B"), ("B", "A"))
    ('loses the value BLUE and gets the values GREEN, GREY', 'has another order')
    """
    said = []
    for verb, values in (("loses", [each for each in before if each not in now]), ("gets", [each for each in now if each not in before])):
        if values:
            more = ", ..." if len(values) > SHOWN_VALUES else ""
            said.append(f"{verb} the value{'s' if len(values) > 1 else ''} {', '.join(values[:SHOWN_VALUES])}{more}")
    return " and ".join(said) or "has another order"


def _changed_structures(old: TableDefinition, new: TableDefinition) -> set[str]:
    """The names of types of nested objects that are not what they were, or contain such."""
    known = {structure.name: structure for structure in old.structures}
    found = {structure.name for structure in new.structures if known.get(structure.name) != structure}
    size = -1
    while size != len(found):
        size = len(found)
        found |= {each.name for each in new.structures if any(attribute.type in found for attribute in each.attributes)}
    return found


def _doubts(old: TableDefinition, new: TableDefinition, renamed: dict[str, str]) -> Iterator[Doubt]:
    before = {attribute.name: attribute for attribute in old.attributes}
    structures = _changed_structures(old, new)
    for attribute in new.attributes:
        if not attribute.stored or attribute.created_time or attribute.updated_time:
            continue
        name = renamed.get(attribute.name, attribute.name)
        former = before.get(name)
        if attribute.name == new.primary_key:  # its type stays, or the change is refused
            concerned = attribute.enum is not None and (former is None or former.enum != attribute.enum)
        elif former is None:
            concerned = attribute.required or (not old.sealed and (attribute.type != "Any" or attribute.elements))
        else:
            formers = [each for each in (former, before.get(attribute.name)) if each is not None]
            concerned = attribute.type in structures or any(_has_other_type(each, attribute) for each in formers)
        if concerned:
            yield Doubt(OTHER_TYPE, attribute.name, attribute)
    kept = {attribute.name for attribute in new.attributes} | set(renamed.values())
    for attribute in old.attributes:
        if attribute.stored and attribute.name not in kept:
            yield Doubt(LEFT, attribute.name)
    known = declared_checks(old)
    for owner, check in declared_checks(new):
        if (owner, check) not in known or (renamed and uses_any(check.expression, {*renamed, *renamed.values()})):
            yield Doubt(FAILS_CHECK, owner or "", check=check)


def noted_doubts(noted: Iterable[tuple[str, str]], definition: TableDefinition, renamed: Mapping[str, str]) -> Iterator[Doubt]:
    """Of the kinds and names of earlier doubts, those that `definition` does not end. `renamed`: new name -> the former one, of attributes."""
    names = {former: to for to, former in renamed.items()}
    checks = {owner or "": check for owner, check in declared_checks(definition)}
    for kind, former in noted:
        name = names.get(former, former)
        attribute = definition.attribute(name)
        if kind == FAILS_CHECK and name in checks:
            yield Doubt(kind, name, check=checks[name])
        elif kind == OTHER_TYPE and attribute is not None and attribute.stored:
            yield Doubt(kind, name, attribute)
        elif kind == LEFT and attribute is None:
            yield Doubt(kind, name)


def merged_doubts(noted: Iterable[tuple[str, str]], change: TableChange, definition: TableDefinition) -> tuple[Doubt, ...]:
    """Those of a change, which makes `definition` hold, and the earlier ones that it does not end, in the order of the declaration."""
    renamed = {to: former for former, to in change.consequences.moves}
    found = (
        {(doubt.kind, doubt.name): doubt for doubt in (*noted_doubts(noted, definition, renamed), *change.doubts)} if change.records else {}
    )
    order = {attribute.name: number for number, attribute in enumerate(definition.attributes)}
    return tuple(sorted(found.values(), key=lambda doubt: (not doubt.name, order.get(doubt.name, len(order)))))


def _has_other_type(former: Attribute, attribute: Attribute) -> bool:
    return any(getattr(former, each) != getattr(attribute, each) for each in _OF_TYPE)


@dataclass(frozen=True, slots=True)
class Leftover:
    """`kind`: one of LEFTOVERS: the attribute is removed, has another type, a check fails. `type`: as it is declared, or the check.

    `total`: the records that were looked at. `keys`: of the first records with such a value, for people."""

    kind: str
    attribute: str
    type: str
    count: int
    total: int
    keys: tuple[str, ...]

    def sentence(self, table: str) -> str:
        """For people. `table`: its name."""
        what = f"{table}{'.' if self.attribute else ''}{self.attribute}: {self.count:,} of {self.total:,} records"
        if self.kind == LEFT:
            renamed = f'if it has another name now, declare that with @renamedFrom(name: "{self.attribute}")'
            return f"{what} have values, which are kept as undeclared properties ({self._first()}); {renamed}"
        how = f"fail the check {self.type}" if self.kind == FAILS_CHECK else f"do not fit {self.type}"
        return f"{what} {how}; they stay as they are until they are written ({self._first()})"

    def _first(self) -> str:
        """The first keys, as many as can be read in one line."""
        shown = [self.keys[0]]
        for key in self.keys[1:]:
            if sum(map(len, shown)) + len(key) > MOST_SHOWN:
                break
            shown.append(key)
        if self.count == 1:
            return f"the key is {shown[0]}"
        return f"the keys are {', '.join(shown)}" if self.count == len(shown) else f"the first keys are {', '.join(shown)}"


class SavedCount(msgspec.Struct, frozen=True, array_like=True):
    """A `LeftoverCount` on disk. `behind`: the stored key up to which records are counted, b"": all are. `keys`: stored ones, of each doubt."""

    behind: bytes
    total: int
    counts: tuple[int, ...]
    keys: tuple[tuple[bytes, ...], ...]


class LeftoverCount:
    """Counts in the records of a table, as they are read by its new definition, what `doubts` are about."""

    def __init__(self, definition: TableDefinition, doubts: Sequence[Doubt], saved: SavedCount | None = None) -> None:
        """`saved`: goes on from there."""
        checkers = compile_checkers(replace(definition, sealed=False), "native")
        checks = {(each.attribute or ""): each for each in checks_of(definition, definition.name)}
        self._values = [(number, doubt, checkers.get(doubt.name)) for number, doubt in enumerate(doubts) if doubt.kind != FAILS_CHECK]
        self._checks = [
            (number, checks[doubt.name]) for number, doubt in enumerate(doubts) if doubt.kind == FAILS_CHECK and doubt.name in checks
        ]
        self._values_of = projection(tuple([doubt.name for _, doubt, _ in self._values]), default=MISSING) if self._values else None
        self._doubts = doubts
        self.counts = [0] * len(doubts) if saved is None else list(saved.counts)
        self._keys: list[list[bytes]] = [[] for _ in doubts] if saved is None else [list(keys) for keys in saved.keys]
        self.total = 0 if saved is None else saved.total

    def add(self, stored: bytes, raw: bytes) -> None:
        if is_partial(raw):
            return
        self.total += 1
        if self._values_of is not None:
            for (number, doubt, check), value in zip(self._values, self._values_of(raw), strict=True):
                if _is_left(doubt, check, value):
                    self._found(number, stored)
        if self._checks:
            record = decode(raw)
            for number, check_of_record in self._checks:
                if check_of_record.failure(record) is not None:
                    self._found(number, stored)

    def _found(self, number: int, stored: bytes) -> None:
        self.counts[number] += 1
        if self.counts[number] <= MOST_KEYS:
            self._keys[number].append(stored)

    def saved(self, behind: bytes) -> SavedCount:
        return SavedCount(behind, self.total, tuple(self.counts), tuple(map(tuple, self._keys)))

    def leftovers(self) -> list[Leftover]:
        found = []
        for doubt, count, keys in zip(self._doubts, self.counts, self._keys, strict=True):
            if count:
                type_ = "" if doubt.attribute is None else type_text(doubt.attribute)
                if doubt.check is not None:
                    type_ = printable(" ".join(doubt.check.expression.split()))
                found.append(Leftover(doubt.kind, doubt.name, type_, count, self.total, tuple(map(_shown_key, keys))))
        return found


def _is_left(doubt: Doubt, check: Checker | None, value: Any) -> bool:
    if doubt.attribute is None or check is None:
        return value is not MISSING
    if value is MISSING or value is None:
        return doubt.attribute.required and not doubt.attribute.default
    failures: list[str] = []
    try:
        check(value, doubt.name, failures, 0)
    except Exception:  # a stored value of any kind
        return True
    return bool(failures)


def _shown_key(stored: bytes) -> str:
    if is_hashed(stored):
        return "one with a very long key"
    key: Any = decode_key(stored)
    return printable(repr(key))[:200]
