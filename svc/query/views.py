"""A database as one caller may see it: without the records for which the read rules of the caller's role do not hold (spec: rows §1.3).

    narrowing.view_of(user, table)      the table itself, if nothing of its database is narrowed for the caller

A query is planned for a view in place of its table. The table that a query is about keeps all its records: the rule is one more condition
(`TableView.rule_members`), of which the planner makes what it makes of any other. Tables that relationships lead to are `RelatedView`s, which leave out what
may not be seen wherever records are read, so that joins, selections, sort keys and conditions find the rest only. What a rule refers to is read through views,
too: it sees what the caller sees.

Views depend on the values that rules name, and are kept for each caller with the caller's role, as long as definitions are the same. Where a rule names `$now`
they are made for each query. What counts are the rules of the table and of those that its relationships lead to: others of the database cost it nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from svc.auth.roles import Role, RowConditions, row_conditions
from svc.auth.users import User
from svc.errors import QueryError
from svc.query.functions import Filter, filter_of
from svc.query.links import Links
from svc.query.narrowing import View
from svc.query.nodes import Comparator, Condition, Conversion
from svc.query.nodes import Filter as FilterNode
from svc.query.plan import Comparison, Never, Predicate, iter_members
from svc.query.record_tests import RecordTest, record_test
from svc.query.relations import Lookups
from svc.query.resolve import resolve_where, typed_test
from svc.query.row_rules import NOW, Rule, joined, parse_rule
from svc.query.rule_faults import circles, tables_read
from svc.query.steps import batches
from svc.query.tables import AnyTable
from svc.query.viewer import OF_USER, Viewer
from svc.store import Database, Table
from svc.store.schema import ACTIONS, Attribute

logger = logging.getLogger("svc.query")

MOST_VIEWERS = 1024  # of one role, after which what is kept of them is forgotten
STABLE = OF_USER
AT_ONCE = 64  # records of a scan that are tested together
READ: tuple[str, ...] = ("read",)
Pair = tuple[bytes, bytes]


class TableRules:
    """The rules of one table for one role, by action; None: it is not narrowed."""

    __slots__ = ("by_action",)

    def __init__(self, conditions: RowConditions | None, table: str) -> None:
        texts = {action: None if conditions is None else getattr(conditions, action) for action in ACTIONS}
        self.by_action = {
            action: None if some is None else tuple([_parsed(text, action, table) for text in some]) for action, some in texts.items()
        }

    def __iter__(self) -> Iterator[Rule]:
        for rules in self.by_action.values():
            yield from rules or ()


class NamedValues:
    """What some rules name of their caller: `names`. `is_volatile`: the time, too. `is_stable`: nothing that changes while the caller's account stays the
    same."""

    __slots__ = ("is_stable", "is_volatile", "names")

    def __init__(self, rules: Iterable[Rule]) -> None:
        names = {name for rule in rules for name in rule.values}
        self.is_volatile = NOW in names
        self.is_stable = names <= STABLE
        self.names = tuple(sorted(names - {NOW}))


class DatabaseRules:
    """The rules of one role on the tables of one database. `named`: by all of them."""

    __slots__ = ("_named", "database", "named", "tables", "version")

    def __init__(self, role: Role, database: Database) -> None:
        self.database = database
        self.version = database.tables_version
        self.tables = {
            table.name: TableRules(row_conditions(table.definition.allow, role.role), f"{database.name}.{table.name}")
            for table in list(database.tables.values())
            if table.definition.allow
        }
        leads = {name: self._read_through(name) for name in self.tables}
        for name in circles(leads):
            logger.error("the read rules of %s.%s lead to themselves, and hold for no record", database.name, name)
            self.tables[name].by_action["read"] = (Rule("false", False),)
        self.named = NamedValues([rule for rules in self.tables.values() for rule in rules])
        self._named: dict[str, NamedValues] = {}

    def _read_through(self, name: str) -> set[str]:
        """The tables that the read rule of a table goes through."""
        table: Any = self.database.tables[name]
        return {other for rule in self.of(name, "read") or () for other in tables_read(rule.node, table)}

    @property
    def is_volatile(self) -> bool:
        return self.named.is_volatile

    @property
    def values(self) -> tuple[str, ...]:
        """The names that the rules need of a caller."""
        return self.named.names

    def named_by(self, table: str) -> NamedValues:
        """What is named by the rules that have a say in what is read and written in a table: its own, and those of the tables that relationships lead to."""
        found = self._named.get(table)
        if found is None:
            reached = self._reached(table)
            found = self._named[table] = NamedValues([rule for name in reached for rule in self.tables.get(name, ())])
        return found

    def _reached(self, table: str) -> set[str]:
        definitions = {each.name: each.definition for each in list(self.database.tables.values())}
        types = {definition.type_name: name for name, definition in definitions.items()}
        reached, pending = set[str](), [table]
        while pending:
            name = pending.pop()
            if name in reached or name not in definitions:
                continue
            reached.add(name)
            for attribute in definitions[name].attributes:
                if attribute.relationship is not None:
                    pending += [attribute.relationship.table, types.get(attribute.relationship.table, "")]
        return reached

    def of(self, table: str, action: str) -> tuple[Rule, ...] | None:
        rules = self.tables.get(table)
        return None if rules is None else rules.by_action[action]


def _parsed(text: str, action: str, table: str) -> Rule:
    try:
        return parse_rule(text, action)
    except QueryError as error:  # a schema with it is refused: it has come in another way
        logger.error("the rule of %s for %s cannot be understood, and holds for no record: %s", table, action, error.message)
        return Rule(text, False)


def rules_of(role: Role, database: Database) -> DatabaseRules:
    """The rules for a role, as they are now."""
    kept = role.viewers
    rules = kept.get(database.name)
    if rules is None or rules.version != database.tables_version or rules.database is not database:
        kept.clear()
        rules = kept[database.name] = DatabaseRules(role, database)
    return cast(DatabaseRules, rules)


def database_view(
    user: User | None, role: Role, database: Database, table: str | None = None, *, account: Mapping[str, Any] | None = None
) -> DatabaseView:
    """The database as the caller may see it. `table`: the one in it that matters, with those that it leads to; None: any. `account`: see `Viewer`."""
    kept, rules = role.viewers, rules_of(role, database)
    named = rules.named if table is None else rules.named_by(table)
    viewer: Viewer | None = None
    if named.is_stable:
        key: object = (database.name, None if user is None else user.username)
    else:
        viewer = Viewer(user, role, database.store, account)  # type: ignore[arg-type]
        if named.is_volatile:
            return DatabaseView(database, rules, named, viewer)
        key = database.name, named.names, viewer.key(named.names)
    view = kept.get(key)
    if view is None:
        viewer = viewer or Viewer(user, role, database.store, account)  # type: ignore[arg-type]
        if len(kept) >= MOST_VIEWERS:
            kept.clear()
            kept[database.name] = rules
        view = kept[key] = DatabaseView(database, rules, named, viewer)
    return cast(DatabaseView, view)


class DatabaseView:
    """The tables of a database as one caller may see them. `tables`: of relationships. `named`: what it was made for. What it does not say itself the database
    says."""

    __slots__ = ("_views", "database", "named", "rules", "tables", "viewer")

    def __init__(self, database: Database, rules: DatabaseRules, named: NamedValues, viewer: Viewer) -> None:
        self.database = database
        self.rules = rules
        self.named = named
        self.viewer = viewer
        self.tables = _RelatedTables(self)
        self._views: dict[tuple[str, tuple[str, ...]], TableView] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)

    def prepare(self) -> None:
        """Make all that reading needs of the caller, which is read on the loop: from now on other threads may read, too."""
        for name in self.rules.tables:
            if name in self.database.tables:
                self.tables[name].prepare()

    @property
    def tables_version(self) -> int:
        """Asked by each plan that is used again."""
        return self.database.tables_version

    def table(self, table: Table, actions: tuple[str, ...] = READ) -> TableView:
        """`actions`: those whose rules are conditions of its queries."""
        place = table.name, actions
        view = self._views.get(place)
        if view is None or view.table is not table:
            view = self._views[place] = TableView(table, self, actions)
        return view


class _RelatedTables(Mapping[str, Any]):
    """By name. A table for which there is no rule is a view as well: what its relationships lead to may be narrowed."""

    __slots__ = ("_database", "_views")

    def __init__(self, database: DatabaseView) -> None:
        self._database = database
        self._views: dict[str, RelatedView] = {}

    def __getitem__(self, name: str) -> RelatedView:
        table = self._database.database.tables[name]
        view = self._views.get(name)
        if view is None or view.table is not table:
            view = self._views[name] = RelatedView(table, self._database)
        return view

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._database.database.tables))

    def __len__(self) -> int:
        return len(self._database.database.tables)


class TableView(View):
    """A table that a caller queries. It reads all records: that these hold is for the plan to see to.

    `rule_members`: the rule, as the members of an AND, none if nothing is narrowed. What a view does not say itself the table says.
    """

    __slots__ = (
        "_actions", "_record_tests", "_rule", "_tests", "attributes", "computed", "database", "definition", "expired", "get_by", "get_many",
        "get_many_plain", "indexes", "name", "primary_key", "scan", "table",
    )  # fmt: skip

    def __init__(self, table: Table, database: DatabaseView, actions: tuple[str, ...] = READ) -> None:
        self.table = table
        self.database = database
        self._actions = actions
        self._rule: tuple[Predicate, ...] | None = None
        self._tests: dict[str, Filter | bool] = {}
        self._record_tests: dict[str, RecordTest] = {}
        self.name, self.definition, self.primary_key = table.name, table.definition, table.primary_key
        self.attributes, self.indexes, self.computed = table.attributes, table.indexes, table.computed
        self.get_by, self.get_many, self.get_many_plain = table.get_by, table.get_many, table.get_many_plain
        self.scan, self.expired = table.scan, table.expired

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.database.name}.{self.name}>"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.table, name)

    @property
    def is_narrowed(self) -> bool:
        """Whether there is a rule about reading the table itself."""
        return self.database.rules.of(self.name, "read") is not None

    @property
    def is_volatile(self) -> bool:
        """Whether another view of the same caller may have other rules in a moment."""
        return self.database.named.is_volatile

    @property
    def is_stable(self) -> bool:
        """Whether the rules name nothing of the caller but what stays the same as long as the caller's account does."""
        return self.database.named.is_stable

    @property
    def rule_members(self) -> tuple[Predicate, ...]:
        found = self._rule
        if found is None:
            nodes: list[FilterNode | bool] = [self.node(action) for action in self._actions]
            found = self._rule = tuple(iter_members(self._resolved(joined("and", nodes))))
        return found

    def node(self, action: str) -> FilterNode | bool:
        """The rule about an action, bound to the caller's values. Not of one that compares `$old` with `$new`."""
        rules = self.database.rules.of(self.name, action)
        return True if rules is None else joined("or", [rule.bound(self.database.viewer.value) for rule in rules])

    def holds(self, action: str, stored: bytes, raw: bytes, txn: Any) -> bool:
        """Whether the rule about an action holds for a record, as the transaction `txn` sees what it refers to."""
        return self.record_test(action)(raw, txn)

    def record_test(self, action: str) -> RecordTest:
        """What `holds` asks of a raw record and a transaction."""
        test = self._record_tests.get(action)
        if test is None:
            test = self._record_tests[action] = record_test(self._resolved(self.node(action)), self)
        return test

    def test_of(self, action: str) -> Filter | bool:
        """The test of the rule about an action, as `node`."""
        test = self._tests.get(action)
        if test is None:
            test = self._tests[action] = self.compiled(self.node(action))
        return test

    def test(self, node: FilterNode | bool, stored: bytes, raw: bytes, txn: Any) -> bool:
        """Whether a condition holds for a record, as `holds`."""
        test = self.compiled(node)
        return test if isinstance(test, bool) else bool(test([(stored, raw)], Lookups(txn)))

    def compiled(self, node: FilterNode | bool) -> Filter | bool:
        """The test of a condition on records of this table."""
        if isinstance(node, bool):
            return node
        predicate = self._resolved(node)
        assert predicate is not None
        return filter_of(predicate, self, Links())

    def _resolved(self, node: FilterNode | bool) -> Predicate | None:
        """None: it always holds."""
        if node is True:
            return None
        if node is False:
            return self._never()
        try:
            assert not isinstance(node, bool)
            return resolve_where(node, self, _test)
        except QueryError as error:
            logger.error("a rule of %s.%s holds for no record: %s", self.database.name, self.name, error.message)
            return self._never()

    def _never(self) -> Never:
        return Never((self.primary_key,), Comparator.EQUALS)


def _test(node: Condition, attribute: Attribute, table: AnyTable) -> Predicate:
    """A value of the caller that is none of the attribute's type is equal to none of its values. Nor does a text stand for null, as it may in a query: a name
    like `null` must not find what belongs to nobody."""
    try:
        found = typed_test(node, attribute, table)
    except QueryError as error:
        if error.code != "BAD_VALUE":
            raise
        return Never(node.path, node.comparator)
    is_of_caller = node.conversion is Conversion.TYPED and node.value is not None
    return Never(node.path, node.comparator) if is_of_caller and type(found) is Comparison and found.value is None else found


class RelatedView(TableView):
    """A table that a relationship leads to: it has only the records that the caller may read."""

    __slots__ = ("_may_see",)

    def __init__(self, table: Table, database: DatabaseView) -> None:
        super().__init__(table, database)
        self._may_see: Filter | bool | None = None
        if database.rules.of(table.name, "read") is not None:
            self.get_by, self.get_many, self.get_many_plain = self._get_by, self._get_many, self._get_many_plain
            self.scan, self.expired = self._scan, self._expired

    def prepare(self) -> None:
        """See `DatabaseView.prepare`."""
        if self._may_see is None:
            self._may_see = self.compiled(self.node("read"))

    def _seen(self, pairs: list[Pair], txn: Any) -> list[Pair]:
        test = self._may_see
        if test is None:
            test = self._may_see = self.test_of("read")
        if isinstance(test, bool):
            return pairs if test else []
        return test(pairs, Lookups(txn)) if pairs else pairs

    def _get_by(self, key: bytes, txn: Any) -> bytes | None:
        raw = self.table.get_by(key, txn)
        return raw if raw is not None and self._seen([(key, raw)], txn) else None

    def _get_many(self, keys: Iterable[bytes], txn: Any) -> list[Pair]:
        return self._seen(self.table.get_many(keys, txn), txn)

    def _get_many_plain(self, keys: Iterable[bytes], txn: Any) -> list[bytes] | None:
        return None

    def _scan(
        self, txn: Any, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False, behind: bytes | None = None
    ) -> Iterator[Pair]:
        for pairs in batches(self.table.scan(txn, low, high, reverse=reverse, behind=behind), AT_ONCE):
            yield from self._seen(pairs, txn)

    def _expired(self, txn: Any, limit: int) -> list[Pair] | None:
        found = self.table.expired(txn, limit)
        return None if found is None else self._seen(found, txn)
