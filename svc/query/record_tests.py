"""Conditions as tests of stored records, made once: of one record, or of the few of a list in one decoding.

They say what `functions.filter_of` says of the same predicates, without the lists of many records and without what is remembered of other tables. What a rule
on rows costs a request for one record is this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from svc.query.functions import filter_of, values_reader
from svc.query.links import Links, source_name
from svc.query.matching import Matcher, all_match, compile_predicate, names_of, reads_others
from svc.query.nodes import Comparator
from svc.query.plan import AllOf, AnyOf, Comparison, Never, Predicate, RelatedCondition, iter_members
from svc.query.relations import Lookups
from svc.query.tables import AnyTable
from svc.store.values.keys import encode_key, storage_key
from svc.store.values.records import projections, struct_decoder

RecordTest = Callable[[bytes, Any], bool]
"""Whether a raw record passes, as a transaction sees what it leads to."""
RecordsTest = Callable[[list[bytes]], list[bytes]]
"""Those of some raw records that pass, in their order."""


def record_test(predicate: Predicate | None, table: AnyTable) -> RecordTest:
    """The test of a predicate. None: there is nothing to test."""
    if predicate is None:
        return lambda raw, txn: True
    if type(predicate) is Never:
        return lambda raw, txn: False
    if not reads_others(predicate):
        return _own_test(predicate, table)
    if isinstance(predicate, RelatedCondition):
        return _related_test(predicate, table)
    assert isinstance(predicate, (AllOf, AnyOf))
    kind = type(predicate)
    own = tuple([member for member in predicate.members if not reads_others(member)])
    tests = [record_test(kind(own), table)] if own else []
    tests += [record_test(member, table) for member in predicate.members if reads_others(member)]
    decisive = kind is AnyOf

    def decided(raw: bytes, txn: Any) -> bool:
        for test in tests:
            if test(raw, txn) is decisive:
                return decisive
        return not decisive

    return decided


def _own_test(predicate: Predicate, table: AnyTable) -> RecordTest:
    names = names_of(predicate)
    matches = _matcher(tuple(iter_members(predicate)), names, table)
    values_of = values_reader(table, names)
    return lambda raw, txn: matches(values_of(raw))


def _related_test(related: RelatedCondition, table: AnyTable) -> RecordTest:
    """That a record leads to one that passes. By a text that is the key of one record, which is usual, that is read at once."""
    passing = filter_of(related, table, Links())

    def passes(raw: bytes, txn: Any) -> bool:
        return bool(passing([(b"", raw)], Lookups(txn)))

    target = related.target
    is_by_key = related.relationship.to is None or related.relationship.to == target.primary_key
    if related.many or not is_by_key or target.definition.split_segments:
        return passes
    values_of = values_reader(table, (source_name(related.relationship, table),))
    inner = record_test(related.where, target)

    def leads(raw: bytes, txn: Any) -> bool:
        value = values_of(raw)[0]
        if type(value) is not str:
            return passes(raw, txn)
        found = target.get_by(storage_key(encode_key(value)), txn)
        return found is not None and inner(found, txn)

    return leads


def records_test(members: Sequence[Predicate], table: AnyTable) -> RecordsTest:
    """The test of an AND of predicates about nothing but the records, and attributes that are not computed."""
    names = tuple(dict.fromkeys(name for member in members for name in names_of(member)))
    matches = _matcher(members, names, table)
    equal = text_equality(members, table)
    read = None if equal is None else struct_decoder((("value", equal[0], Any),))
    if equal is None or read is None:
        project = projections(names)
        return lambda raws: [raw for raw, values in zip(raws, project(raws), strict=True) if matches(values)]
    text, decode, value_of = equal[1], read, attrgetter("value")

    def passing(raws: list[bytes]) -> list[bytes]:
        values = list(map(value_of, decode(raws) or ()))
        if values.count(text) == len(raws):  # as a rule
            return raws
        return [raw for raw, value in zip(raws, values, strict=True) if matches((value,))]

    return passing


def text_equality(members: Sequence[Predicate], table: AnyTable) -> tuple[str, str] | None:
    """(name, text) if all there is to test is that an attribute, which is not the key, is this text, or a list with it."""
    test = members[0] if len(members) == 1 else None
    if type(test) is not Comparison or test.comparator is not Comparator.EQUALS or type(test.value) is not str:
        return None
    return None if len(test.path) > 1 or test.path == (table.primary_key,) else (test.path[0], test.value)


def _matcher(members: Sequence[Predicate], names: tuple[str, ...], table: AnyTable) -> Matcher:
    return all_match([compile_predicate(member, names, table.primary_key) for member in members])
