"""The conditions of `@allow`: rules that say of which records a caller may do what (spec: rows §1.1, §1.2).

A rule is a condition of the query language in which values may stand for something that is known when it is asked:

    owner==$user.username | project.members==$user.username        the caller's name, as `Viewer` gives it
    $new.owner==$old.owner & state!=published                       a record as it was, and as it becomes: unchanged
    until=gt=$now

`parse_rule` reads one, once. `Rule.bound` puts values in and gives an ordinary condition, which is resolved, planned and tested like that of a query: so what a
rule means is what a query means. A value that the caller does not have makes its comparison false, also `!=`; one that is a list stands for each element.
`string:$user` is text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from svc.errors import QueryError, QuerySyntaxError
from svc.query.matching import CLOSED_RANGES
from svc.query.nodes import Bound, Comparator, Condition, Conversion, Filter, Group, Query, RelationFilter
from svc.query.url import parse_query
from svc.store.schema import ACTIONS
from svc.store.values.records import MISSING

if TYPE_CHECKING:
    pass

OLD, NEW = "$old", "$new"
NOW = "now"
MAX_RULE = 4096  # characters
MAX_ELEMENTS = 1000  # of a list that a value stands for
_RECORDS_OF = {"read": (), "create": (NEW,), "update": (OLD, NEW), "delete": (OLD,)}  # by action

_EQUALITIES = frozenset((Comparator.EQUALS, Comparator.NOT_EQUAL))

Values = Callable[[str], object]
"""The value of a name (`username`, `role`, `claims.team`, `now`, an attribute of the account's record); MISSING if the caller has none."""

Records = Mapping[str, Mapping[str, Any]]
"""`$old`, `$new` -> the record."""

RecordTest = Callable[[Condition, Mapping[str, Any]], bool]
"""Whether a condition holds for one of these records."""


class Rule:
    """One rule. `node`: True or False for a rule that is nothing else. `values`: the names of the values it needs. `compares`: it has `$old` or `$new`."""

    __slots__ = ("compares", "node", "text", "values")

    def __init__(self, text: str, node: Filter | bool) -> None:
        self.text = text
        self.node = node
        conditions = [] if isinstance(node, bool) else list(iter_conditions(node))
        names = [name for condition in conditions for value in _parts(condition) if (name := value_name(value)) is not None]
        self.compares = any(condition.path[0] in (OLD, NEW) for condition in conditions) or any(
            name.startswith((OLD, NEW)) for name in names
        )
        self.values = frozenset(name for name in names if not name.startswith("$"))

    def __repr__(self) -> str:
        return f"<Rule {self.text}>"

    def bound(self, values: Values, records: Records | None = None, holds: RecordTest | None = None) -> Filter | bool:
        """The condition with these values in place of names, or what is already known of it. `records`, `holds`: of a rule that `compares`."""
        return self.node if isinstance(self.node, bool) else _bound(self.node, values, records or {}, holds)


@lru_cache(4096)
def parse_rule(text: str, action: str) -> Rule:
    """`action`: one of ACTIONS. Raises QueryError with a position; what needs the definition of the table is `rule_faults`' business."""
    assert action in ACTIONS
    if len(text) > MAX_RULE:
        raise QuerySyntaxError(f"a rule has at most {MAX_RULE} characters", MAX_RULE, text)
    stripped = text.strip()
    if stripped in ("true", "false"):
        return Rule(text, stripped == "true")
    query = parse_query(text)
    if query.where is None or query != Query(query.where):
        raise QueryError(
            'a rule is a condition, or "true" or "false"; it has no calls such as sort or limit', code="QUERY_SYNTAX", position=0
        )
    for condition in iter_conditions(query.where):
        _check(condition, action, text)
    for inner in _relation_filters(query.where):
        if inner.query != Query(inner.query.where) or inner.path[0].startswith("$"):
            raise _fault("[...] in a rule holds conditions only", inner.position, text)
    return Rule(text, query.where)


def value_name(value: object) -> str | None:
    """The name that a value of a rule stands for: `$user.x` is `x`, `$now` is `now`, `$old.x` is itself; None: the value is meant as it is."""
    if type(value) is Bound:
        return None if value.conversion is Conversion.FORCED else value_name(value.value)
    if type(value) is not str or not value.startswith("$"):
        return None
    if value == "$now":
        return NOW
    return value.removeprefix("$user.") if value.startswith("$user.") else value


def iter_conditions(node: Filter) -> Iterator[Condition]:
    """All conditions of a filter, those on related records too."""
    if isinstance(node, Condition):
        yield node
    elif isinstance(node, Group):
        for member in node.members:
            yield from iter_conditions(member)
    elif node.query.where is not None:
        yield from iter_conditions(node.query.where)


def _relation_filters(node: Filter) -> Iterator[RelationFilter]:
    if isinstance(node, Group):
        for member in node.members:
            yield from _relation_filters(member)
    elif isinstance(node, RelationFilter):
        yield node
        if node.query.where is not None:
            yield from _relation_filters(node.query.where)


def _parts(condition: Condition) -> tuple[object, ...]:
    """The values of a condition: the ends of a range, or the one it has. Those that the text declares to be values as they are are left out."""
    if condition.conversion is Conversion.FORCED:
        return ()
    return condition.value if condition.comparator in CLOSED_RANGES else (condition.value,)  # type: ignore[return-value]


def _check(condition: Condition, action: str, text: str) -> None:
    known = _RECORDS_OF[action]
    first = condition.path[0]
    if first.startswith("$"):
        if first not in (OLD, NEW):
            raise _fault(
                f"{first} cannot stand before an operator: $user and $now are values, as in owner==$user.username", condition.position, text
            )
        if first not in known:
            raise _fault(f"{first} is known in rules about {_actions_with(first)}", condition.position, text)
        if len(condition.path) == 1:
            raise _fault(f"{first} is a record: name an attribute of it, as in {first}.owner", condition.position, text)
    for value in _parts(condition):
        name = value_name(value)
        if name is None or name == NOW:
            continue
        record, _, attribute = name.partition(".")
        if not name.startswith("$"):
            if not name or name == "claims" or "" in name.split("."):
                raise _fault(
                    "a value of the caller is written $user.username, $user.role, $user.<attribute> or $user.claims.<name>",
                    condition.position,
                    text,
                )
        elif record not in (OLD, NEW) or not attribute:
            raise _fault(
                f"{str(value)[:40]} is not known: there are $user.<name>, $now, $old.<attribute>, $new.<attribute>; text is written string:$...",
                condition.position,
                text,
            )
        elif record not in known:
            raise _fault(f"{record} is known in rules about {_actions_with(record)}", condition.position, text)


def _actions_with(record: str) -> str:
    return " and ".join([action for action, records in _RECORDS_OF.items() if record in records])


def _fault(what: str, position: int, text: str) -> QuerySyntaxError:
    return QuerySyntaxError(what, max(position, 0), text)


# binding


def _bound(node: Filter, values: Values, records: Records, holds: RecordTest | None) -> Filter | bool:
    if isinstance(node, Condition):
        return _bound_condition(node, values, records, holds)
    if isinstance(node, RelationFilter):
        assert node.query.where is not None
        inner = _bound(node.query.where, values, records, holds)
        if inner is False:
            return False
        return RelationFilter(node.path, Query(None if inner is True else inner), node.position)
    return joined(node.operator, [_bound(member, values, records, holds) for member in node.members])


def joined(operator: str, members: list[Filter | bool]) -> Filter | bool:
    """A group of these, as far as it is not decided."""
    decisive = operator == "or"
    if any(member is decisive for member in members):
        return decisive
    rest = [member for member in members if not isinstance(member, bool)]
    if not rest:
        return not decisive
    return rest[0] if len(rest) == 1 else Group(operator, tuple(rest))


def _bound_condition(node: Condition, values: Values, records: Records, holds: RecordTest | None) -> Filter | bool:
    found = node
    if node.comparator in _EQUALITIES and node.path[0] in (OLD, NEW) and (value_name(node.value) or "").startswith("$"):
        is_same = _same(_value_at(records, node.path), _value(node.value, values, records))
        return is_same is (node.comparator is Comparator.EQUALS)
    parts = _parts(node)
    if any(value_name(value) is not None for value in parts):
        given = [_value(value, values, records) for value in parts]
        if any(value is MISSING or value is None for value in given):
            return False
        if len(given) == 1:
            value = given[0]
            if isinstance(value, (list, tuple, set)):
                return _of_each(node, list(value), records, holds)
            found = Condition(node.path, node.comparator, value, _typed(node), node.position)
        else:
            ends = tuple([
                end if value_name(end) is None else value for end, value in zip(parts, given, strict=True)
            ])  # fmt: skip
            if any(isinstance(end, (list, tuple, set)) for end in ends):
                return False
            found = Condition(
                node.path,
                node.comparator,
                tuple([
                    end if type(end) is Bound else Bound(end, node.conversion if given_end is end else Conversion.TYPED)
                    for end, given_end in zip(ends, parts, strict=True)
                ]),
                node.conversion,
                node.position,
            )  # fmt: skip
    return _decided(found, records, holds)


def _typed(node: Condition) -> Conversion:
    return Conversion.TEXT if node.conversion is Conversion.TEXT else Conversion.TYPED


def _of_each(node: Condition, elements: list[object], records: Records, holds: RecordTest | None) -> Filter | bool:
    """A comparison with a list: with one of its elements; `!=`, with none of them."""
    conditions: list[Filter | bool] = [
        _decided(Condition(node.path, node.comparator, element, _typed(node), node.position), records, holds)
        for element in elements[:MAX_ELEMENTS]
        if element is not None
    ]
    if node.comparator is Comparator.NOT_EQUAL:
        return joined("and", conditions) if len(elements) <= MAX_ELEMENTS else False
    return joined("or", conditions)


def _decided(node: Condition, records: Records, holds: RecordTest | None) -> Filter | bool:
    """What is asked of `$old` or `$new` is known."""
    if node.path[0] not in (OLD, NEW):
        return node
    assert holds is not None
    record = records.get(node.path[0])
    if record is None:
        return False
    return holds(Condition(node.path[1:], node.comparator, node.value, node.conversion, node.position), record)


def _value(value: object, values: Values, records: Records) -> object:
    name = value_name(value)
    if name is None:
        return value
    if not name.startswith("$"):
        return values(name)
    return _value_at(records, name.split("."))


def _value_at(records: Records, path: Sequence[str]) -> object:
    found: object = records
    for step in path:
        found = found.get(step, MISSING) if isinstance(found, Mapping) else MISSING
    return found


def _same(one: object, other: object) -> bool:
    """Whether an attribute is unchanged: a list as a whole; what is missing is null."""
    one, other = (None if value is MISSING else value for value in (one, other))
    return type(one) is type(other) and one == other if isinstance(one, bool) or isinstance(other, bool) else one == other


def names_of_accounts(rule: Rule) -> frozenset[str]:
    """The attributes of the account's record that a rule needs."""
    return frozenset(name for name in rule.values if name not in ("username", "role", NOW) and not name.startswith("claims."))
