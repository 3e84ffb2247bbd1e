"""svc.realtime.live: live queries over a real store, without sockets. What clients make of their events in general is a property
(tests/property/test_live_queries.py); here are the single promises."""

from dataclasses import replace

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.errors import AccessViolation, ClientError, IndexRebuilding, Overloaded, QueryError
from svc.query import parse_query
from svc.query.nodes import Query
from svc.realtime.event import EndReason
from svc.realtime.live import aggregate_result, commit_dispatcher, materialized_result, queries, query_spec, recomputed_result
from svc.realtime.live import subscription as subscription_module
from svc.store.schema import Attribute, Relationship, TableDefinition
from tests.support.indexes import rebuild_index
from tests.support.live import LiveClient, LiveStore, check

PRODUCT = TableDefinition(
    "Product",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("name", "String", indexed=True),
        Attribute("price", "Float", indexed=True),
        Attribute("stock", "Int"),
        Attribute("cost", "Float"),
        Attribute("brandId", "ID", indexed=True),
        Attribute("brand", "Brand", relationship=Relationship("Brand", "brandId")),
        Attribute("label", "String", computed_from="name + '!'"),
    ),
)
BRAND = TableDefinition(
    "Brand",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("name", "String", indexed=True),
        Attribute("products", "Product", True, relationship=Relationship("Product", to="brandId")),
    ),
)


class Users:
    """What live queries ask of the directory of users."""

    def __init__(self):
        self.users = {}

    def refresh(self):
        """Nothing changes them but `set`."""

    def current(self, user):
        found = self.users.get(user.username)
        return found if found is not None and found.active and found.login_id == user.login_id else None

    def set(self, username, database, *, active=True, **readable):
        """Readable tables: True for everything, or the names of attributes."""
        tables = {}
        for name, names in readable.items():
            tables[name] = {"read": True, "insert": False, "update": False, "delete": False}
            if names is not True:
                tables[name]["attribute_permissions"] = [
                    {"attribute_name": attribute, "read": True, "insert": False, "update": False} for attribute in names
                ]
        role = Role("r", "r", {"data": {"tables": tables}}, databases={"data": database})
        self.users[username] = User(username, active, role)
        return self.users[username]


class Case:
    def __init__(self, path):
        self.users = Users()
        self.made = LiveStore(path, users=self.users)
        self.live = self.made.live
        self.database = self.made.store.open_database("data")
        self.brands = self.database.define_table(BRAND)
        self.products = self.database.define_table(PRODUCT)

    def put(self, *records, table=None, expires_at=None):
        self.made.write(*[("put", table or self.products, record, expires_at) for record in records])
        self.made.commit()

    def patch(self, key, **changes):
        self.made.write(("patch", self.products, key, changes))
        self.made.commit()

    def delete(self, *keys, table=None):
        self.made.write(*[("delete", table or self.products, key) for key in keys])
        self.made.commit()

    def follow(self, text, table=None, user=None, **options):
        table = table or self.products
        query = text if isinstance(text, Query) else parse_query(f"{text}&live()" if text else "live()", table.attributes.__contains__)
        options.setdefault("allow_full_scan", True)
        return LiveClient(self.live.subscribe(query, table, user, check_rights=user is not None, **options))

    def events(self, client):
        """What is new, without the values."""
        before = len(client.seen)
        for _ in range(3):
            self.made.settle()
            self.made.turns(2)
            client.drain()
        return [(event["type"], event.get("id"), *([event["index"]] if "index" in event else [])) for event in client.seen[before:]]


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.setattr(recomputed_result, "MIN_RUN_INTERVAL", 0.0)
    monkeypatch.setattr(recomputed_result, "RUN_INTERVAL_FACTOR", 0.0)
    made = Case(tmp_path)
    yield made
    made.made.close()


def product(id_, **more):
    return {"id": id_, **more}


# --- the three ways to follow


def test_a_condition_is_followed_by_what_was_and_is(case):
    case.put(product("a", name="x"), product("b", name="y"))
    client = case.follow("name==x")
    assert case.events(client) == [("snapshot", "a"), ("ready", None)]
    assert client.seen[0]["value"] == {"id": "a", "name": "x"}
    case.put(product("c", name="x"))
    case.patch("b", name="x")
    case.patch("a", price=5)
    case.patch("c", name="z")
    case.delete("b")
    case.put(product("d", name="q"))
    assert case.events(client) == [("enter", "c"), ("enter", "b"), ("update", "a"), ("leave", "c"), ("leave", "b")]
    assert client.values and list(client.values.values()) == [{"id": "a", "name": "x", "price": 5}]
    assert [event["localTime"] for event in client.seen[2:]] == sorted(event["localTime"] for event in client.seen[2:])


def test_the_events_of_a_commit_come_together_and_one_for_each_record(case):
    client = case.follow("price=gt=1")
    case.events(client)
    case.made.write(("put", case.products, product("a", price=5)), ("put", case.products, product("b", price=5)))
    case.made.write(("patch", case.products, "a", {"price": 6}), ("put", case.products, product("c", price=9)))
    case.made.write(("delete", case.products, "b"))
    case.made.commit()
    assert client.calls == 1
    assert case.events(client) == [("enter", "a"), ("enter", "c")]


def test_a_change_that_shows_nothing_makes_no_event(case):
    case.put(product("a", name="x", price=1), product("b", name="x"))
    plain, ordered = case.follow("name==x&select(price,)"), case.follow("name==x&sort(id)&select(price,)")
    case.events(plain)
    case.events(ordered)
    case.patch("a", stock=3)
    case.put(product("b", name="x", stock=3))
    assert case.events(plain) == case.events(ordered) == []
    case.patch("a", price=2)
    assert case.events(plain) == [("update", "a")]
    assert case.events(ordered) == [("update", "a", 0)]


def test_rows_enter_and_leave_a_window(case):
    case.put(*[product(f"p{n}", price=n, name="x") for n in range(6)])
    client = case.follow("name==x&sort(-price)&limit(1,3)&select(price)")
    assert case.events(client) == [("snapshot", "p4", 0), ("snapshot", "p3", 1), ("ready", None)]
    case.put(product("top", price=100, name="x"))
    assert case.events(client) == [("leave", "p3", 1), ("enter", "p5", 0)]
    case.delete("p5")
    assert case.events(client) == [("leave", "p5", 0), ("enter", "p3", 1)]
    case.patch("p3", price=50)
    assert case.events(client) == [("update", "p3", 0)]
    case.put(product("low", price=-1, name="x"))
    assert case.events(client) == []


def test_a_limit_without_an_order_is_one_by_key(case):
    case.put(*[product(f"p{n}", name="x") for n in range(4)])
    client = case.follow("name==x&limit(2)")
    case.events(client)
    case.put(product("a", name="x"))
    assert case.events(client) == [("leave", "p1", 1), ("enter", "a", 0)]


def test_a_window_that_runs_short_is_read_again(case, monkeypatch):
    monkeypatch.setattr(query_spec, "MIN_SLACK", 1)
    case.put(*[product(f"p{n:02}", price=n) for n in range(30)])
    client = case.follow("sort(price)&limit(3)")
    case.events(client)
    for n in range(0, 28, 2):
        case.delete(f"p{n:02}", f"p{n + 1:02}")
        case.events(client)
        check(client, client.source.query)
    assert [row[1]["id"] for row in client.rows] == ["p28", "p29"]


def test_a_related_record_that_changes_concerns_those_that_lead_to_it(case):
    case.put({"id": "b1", "name": "Acme"}, {"id": "b2", "name": "Other"}, table=case.brands)
    case.put(product("p1", brandId="b1"), product("p2", brandId="b2"), product("p3", brandId="b1"))
    where, select = case.follow("brand.name==Acme"), case.follow("select(id,brand{name})")
    assert case.events(where) == [("snapshot", "p1"), ("snapshot", "p3"), ("ready", None)]
    case.events(select)
    case.put({"id": "b1", "name": "Renamed"}, table=case.brands)
    assert sorted(case.events(where)) == [("leave", "p1"), ("leave", "p3")]
    assert sorted(case.events(select)) == [("update", "p1"), ("update", "p3")]
    case.delete("b2", table=case.brands)
    assert case.events(select) == [("update", "p2")]
    brands = case.follow("select(name,products{id})", case.brands)
    case.events(brands)
    case.patch("p2", brandId="b1")
    assert case.events(brands) == [("update", "b1")]
    assert brands.seen[-1]["value"]["products"] == [{"id": "p1"}, {"id": "p2"}, {"id": "p3"}]
    for client in (where, select, brands):
        case.events(client)
        check(client, client.source.query)


def test_a_change_that_concerns_very_many_records_runs_the_query_again(case, monkeypatch):
    monkeypatch.setattr("svc.realtime.live.query_spec.MAX_LEADING_RECORDS", 3)
    case.put({"id": "b1", "name": "Acme"}, table=case.brands)
    case.put(*[product(f"p{n}", brandId="b1") for n in range(9)])
    client = case.follow("brand.name==Acme&sort(id)")
    case.events(client)
    case.put({"id": "b1", "name": "Renamed"}, table=case.brands)
    assert len(case.events(client)) == 9 and client.rows == []


def test_aggregates_are_run_again(case):
    case.put(product("a", name="x", price=1), product("b", name="x", price=2), product("c", name="y", price=3))
    count, facet, group = (
        case.follow("price=gt=1&count()"),
        case.follow("facet(name)"),
        case.follow("group(name;sum(price))&sort(-sum.price)"),
    )
    assert case.events(count) == [("snapshot", None), ("ready", None)]
    assert case.events(facet) == [("snapshot", "x", 0), ("snapshot", "y", 1), ("ready", None)]
    assert case.events(group) == [("snapshot", ["x"], 0), ("snapshot", ["y"], 1), ("ready", None)]
    case.put(product("d", name="y", price=3), product("e", name="y", price=0), product("f", name="z", price=0))
    assert case.events(count) == [("update", None)]
    assert case.events(facet) == [("update", "y", 0), ("enter", "z", 2)]
    assert case.events(group) == [("update", ["y"], 0), ("enter", ["z"], 2)]
    case.delete("f")
    assert case.events(count) == [], "nothing that is counted has changed"
    assert case.events(facet) == [("leave", "z", 2)]
    for client in (count, facet, group):
        case.events(client)
        check(client, client.source.query)


def test_an_aggregate_rests_between_two_runs(case, monkeypatch):
    monkeypatch.setattr(recomputed_result, "MIN_RUN_INTERVAL", 3600.0)
    client = case.follow("count()")
    assert case.events(client) == [("snapshot", None), ("ready", None)]
    case.put(product("a"))
    case.made.turns(5)
    assert client.take() == 0 and not case.live.is_idle
    client.source.close()
    assert case.live.is_idle


def test_an_aggregate_that_changes_too_much_is_reset(case, monkeypatch):
    monkeypatch.setattr(aggregate_result, "MAX_CHANGES", 2)
    client = case.follow("facet(name)")
    case.events(client)
    case.put(*[product(str(n), name=f"n{n}") for n in range(4)])
    assert [event[0] for event in case.events(client)] == ["reset", *["snapshot"] * 4, "ready"]


def test_a_collection_below_a_key_is_followed(case):
    case.put(product("a/1"), product("b/1"))
    client = case.follow("", key_prefix="a/")
    assert case.events(client) == [("snapshot", "a/1"), ("ready", None)]
    case.put(product("a/2"), product("b/2"))
    assert case.events(client) == [("enter", "a/2")]


def test_members_are_shown_in_both_forms(case):
    client = case.follow("name==x&sort(id)")
    case.put(product("a", name="x"))
    events = client.source.take(9)
    case.made.settle()
    events += client.source.take(9)
    assert events[0].members(False)["type"] == "snapshot"
    assert list(events[0].members(False)) == list(events[0].members(True)) == ["type", "id", "value", "index"]
    assert list(events[1].members(False)) == ["type", "count", "localTime"]


# --- sharing


def test_equal_queries_share_one_result_and_its_events(case):
    case.put(product("a", name="x"))
    clients = [case.follow("name==x") for _ in range(3)]
    assert case.live.results == 1 and len(case.live) == 3
    for client in clients:
        client.drain()
    case.put(product("b", name="x"))
    found = [client.source.take(5) for client in clients]
    assert found[0] and all(events[0] is found[0][0] for events in found)
    for client in clients:
        client.source.close()
    assert case.live.results == 0 and len(case.live) == 0 and case.live.is_idle


def test_the_first_rows_of_a_small_result_are_made_once(case):
    case.put(product("a", name="x"))
    first, second = case.follow("name==x&sort(id)"), case.follow("name==x&sort(id)")
    assert first.source.take(1)[0] is second.source.take(1)[0]


def test_one_and_true_are_different_queries(case):
    one, true = parse_query("extra==number:1&live()"), parse_query("extra==boolean:true&live()")
    assert one == true, "as nodes they are equal"
    table = case.database.define_table(replace(BRAND, name="Any", attributes=(BRAND.attributes[0], Attribute("extra", "Any"))))
    case.put({"id": "a", "extra": 1}, {"id": "b", "extra": True}, table=table)
    assert case.events(case.follow(one, table)) == [("snapshot", "a"), ("ready", None)]
    assert case.events(case.follow(true, table)) == [("snapshot", "b"), ("ready", None)]


def test_nothing_is_followed_without_subscribers(case):
    client = case.follow("name==x")
    assert case.made.store.has_listeners(case.database)
    client.source.close()
    assert not case.made.store.has_listeners(case.database)


# --- refusals and bounds


@pytest.mark.parametrize(
    ("query", "part"),
    [
        (Query(after="a", live=True), "cannot be combined with a cursor"),
        (Query(explain=True, live=True), "or with explain"),
        (parse_query("nope==1&live()"), "not a defined attribute"),
        (parse_query("stock==1&live()"), "is not indexed"),
        (parse_query("sort(stock)&live()"), "is not indexed"),
        (parse_query("limit(20000)&live()"), "at most the first 10000"),
        (parse_query("limit(10000,10001)&live()"), "at most the first 10000"),
    ],
)
def test_queries_that_cannot_be_followed_are_refused(case, query, part):
    with pytest.raises(ClientError, match=part) as caught:
        case.live.subscribe(query, case.products, None, check_rights=False)
    assert caught.value.status_code == 400
    assert len(case.live) == 0 and case.live.results == 0 and not case.made.store.has_listeners(case.database)


def test_live_queries_are_bounded(case, monkeypatch):
    monkeypatch.setattr(queries, "MAX_SUBSCRIPTIONS", 2)
    clients = [case.follow("name==x") for _ in range(2)]
    with pytest.raises(Overloaded):
        case.follow("name==x")
    clients.pop().source.close()
    monkeypatch.setattr(queries, "MAX_RESULTS", 1)
    with pytest.raises(Overloaded):
        case.follow("name==y")
    case.follow("name==x")


def test_too_large_a_result_is_refused_with_a_reason(case, monkeypatch):
    monkeypatch.setattr(materialized_result, "MAX_ROW_KEYS", 5)
    case.put(*[product(f"p{n}", name="x") for n in range(6)])
    client = case.follow("name==x&sort(price)")
    assert case.events(client) == [("reset", None)]
    assert "at most 5 records" in client.resets[0] and client.source.ended is EndReason.FINISHED
    assert case.live.results == 0
    plain = case.follow("name==x")
    assert len(case.events(plain)) == 7, "what keeps nothing has no bound"


def test_too_many_rows_of_an_aggregate_are_refused(case, monkeypatch):
    monkeypatch.setattr(aggregate_result, "MAX_ROWS", 2)
    case.put(*[product(f"p{n}", name=f"n{n}") for n in range(3)])
    client = case.follow("facet(name)")
    case.events(client)
    assert "at most 2 rows" in client.resets[0] and client.source.ended is EndReason.FINISHED


def test_a_result_that_becomes_too_large_to_compare_is_reset(case, monkeypatch):
    monkeypatch.setattr(materialized_result, "MAX_COMPARED", 3)
    monkeypatch.setattr("svc.realtime.live.query_spec.MAX_LEADING_RECORDS", 0)
    case.put({"id": "b1", "name": "A"}, table=case.brands)
    case.put(*[product(f"p{n}", brandId="b1") for n in range(6)])
    client = case.follow("sort(id)&select(id,brand{name})")
    case.events(client)
    case.put({"id": "b1", "name": "B"}, table=case.brands)
    assert [event[0] for event in case.events(client)] == ["reset", *["snapshot"] * 6, "ready"]
    assert client.resets == [recomputed_result.TOO_MANY_CHANGES]
    check(client, client.source.query)


def test_a_slow_client_is_reset_and_has_the_result_again(case, monkeypatch):
    monkeypatch.setattr(subscription_module, "MAX_QUEUED", 10)
    client = case.follow("name==x")
    case.events(client)
    for n in range(50):
        case.put(product(f"p{n}", name="x"))
    assert [event[0] for event in case.events(client)] == ["reset", *["snapshot"] * 50, "ready"]
    check(client, client.source.query)


def test_a_snapshot_that_is_not_read_is_closed(case):
    case.put(*[product(f"p{n}", name="x") for n in range(300)])
    clients = [case.follow("name==x"), case.follow("name==x&sort(id)")]
    for client in clients:
        client.take(1)
    assert case.made.store.snapshots.readers == 2
    case.made.clock.advance(31)
    case.made.store.snapshots.abort_due()
    assert len(case.made.store.snapshots) == 0
    for client in clients:
        assert case.events(client)[0] == ("reset", None)
        check(client, client.source.query)


# --- expiry


def test_an_expired_record_leaves_when_it_is_removed(case):
    ends = (case.made.clock.wall() + 10) * 1000
    case.put(product("a", name="x", price=1), product("b", name="x", price=2), expires_at=ends)
    case.put(product("c", name="x", price=3))
    plain, window = case.follow("name==x"), case.follow("name==x&sort(price)&limit(2)")
    case.events(plain)
    assert case.events(window) == [("snapshot", "a", 0), ("snapshot", "b", 1), ("ready", None)]
    case.made.clock.advance(11)
    late = case.follow("name==x&sort(price)&limit(2)")
    late_events = case.events(late)
    assert late_events == [("snapshot", "c", 0), ("ready", None)], "a later client does not get it any more"
    case.made.expire()
    assert sorted(case.events(plain)) == [("leave", "a"), ("leave", "b")]
    case.events(window)
    for client in (plain, window, late):
        check(client, client.source.query)


def test_a_record_that_is_written_with_its_life_behind_it_never_enters(case):
    client = case.follow("name==x")
    case.events(client)
    case.put(product("a", name="x"), expires_at=(case.made.clock.wall() - 1) * 1000)
    assert case.events(client) == []


def test_a_record_that_is_written_again_after_its_end_enters(case):
    case.put(product("a", name="x"), expires_at=(case.made.clock.wall() + 1) * 1000)
    client = case.follow("name==x")
    client.strict = False
    case.events(client)
    case.made.clock.advance(2)
    case.put(product("a", name="x", price=1))
    assert case.events(client) == [("enter", "a")]
    case.made.clock.advance(2)
    check(client, client.source.query)


# --- rights


def test_the_caller_needs_the_right_to_read(case):
    user = case.users.set("u", case.database, Brand=True)
    for someone in (user, None):
        with pytest.raises(AccessViolation):
            case.live.subscribe(parse_query("live()"), case.products, someone)
    with pytest.raises(AccessViolation):
        case.live.subscribe(parse_query("products.name==a&live()"), case.brands, user, allow_full_scan=True)
    assert len(case.live) == 0


def test_only_what_may_be_read_is_shown(case):
    user = case.users.set("u", case.database, Product=["id", "name"])
    case.put(product("a", name="x", cost=5, brandId="b"))
    client = case.follow("name==x", user=user)
    case.events(client)
    assert client.seen[0]["value"] == {"id": "a", "name": "x"}
    case.patch("a", cost=6)
    assert case.events(client) == [], "attributes that may not be read make no event, not even for their change"
    with pytest.raises(AccessViolation):
        case.follow("cost=gt=5", user=user)


def test_users_with_the_same_rights_share_and_others_do_not(case):
    one, two = [case.users.set(name, case.database, Product=["id", "name"]) for name in ("one", "two")]
    more = case.users.set("more", case.database, Product=True)
    for user in (one, two, more):
        case.follow("name==x", user=user)
    assert case.live.results == 2


def test_a_right_that_is_gone_ends_the_subscription(case):
    user = case.users.set("u", case.database, Product=True)
    client = case.follow("name==x", user=user)
    case.events(client)
    case.users.set("u", case.database, Brand=True)
    case.put(product("a", name="x"))
    case.live._check_soon()
    case.made.turns(5)
    assert client.source.take(9) == [] and client.source.ended is EndReason.REVOKED and len(case.live) == 0


@pytest.mark.parametrize("gone", [True, False])
def test_a_user_that_is_gone_ends_the_subscription(case, gone):
    user = case.users.set("u", case.database, Product=True)
    client = case.follow("name==x", user=user)
    client.drain()
    if gone:
        case.users.users.clear()
    else:
        case.users.set("u", case.database, active=False, Product=True)
    case.live._check_soon()
    case.made.turns(5)
    assert client.source.ended is EndReason.NO_LOGIN and client.calls == 1


def test_changed_rights_on_attributes_reset_to_the_new_shape(case):
    user = case.users.set("u", case.database, Product=["id", "name"])
    case.put(product("a", name="x", price=5))
    client = case.follow("name==x", user=user)
    case.events(client)
    case.users.set("u", case.database, Product=["id", "name", "price"])
    case.live._check_soon()
    case.made.turns(5)
    assert [event[0] for event in case.events(client)] == ["reset", "snapshot", "ready"]
    assert client.resets == [queries.NEW_RIGHTS] and client.seen[-2]["value"] == {"id": "a", "name": "x", "price": 5}
    assert case.live.results == 1


def test_rights_are_looked_at_again_every_minute(case):
    user = case.users.set("u", case.database, Product=True)
    client = case.follow("name==x", user=user)
    client.drain()
    case.users.users.clear()
    case.live._sweep()
    case.made.turns(5)
    assert client.source.ended is None
    case.made.clock.advance(queries.RECHECK)
    case.live._sweep()
    case.made.turns(5)
    assert client.source.ended is EndReason.NO_LOGIN


def test_a_change_of_accounts_is_looked_at_at_once(tmp_path):
    users = Users()
    made = LiveStore(tmp_path, users=users)
    database = made.store.open_database("data")
    table = database.define_table(BRAND)
    database.define_table(PRODUCT)
    system = made.store.open_database("system")
    accounts = system.define_table(TableDefinition("svc_user", attributes=(Attribute("id", "ID", primary_key=True),)))
    user = users.set("u", database, Brand=True)
    client = LiveClient(made.live.subscribe(parse_query("live()"), table, user))
    client.drain()
    users.users.clear()
    made.write(("put", accounts, {"id": "u"}))
    made.commit()
    made.turns(5)
    assert client.source.ended is EndReason.NO_LOGIN
    assert not made.store.has_listeners(system)
    made.close()


# --- definitions


def test_a_dropped_table_ends_its_live_queries(case):
    client, related = case.follow("name==x"), case.follow("select(id,brand{name})")
    case.events(client)
    case.events(related)
    case.database.drop_table("Product")
    case.made.settle()
    assert client.source.ended is EndReason.DROPPED and related.source.ended is EndReason.DROPPED
    assert len(case.live) == 0 and case.live.results == 0


def test_a_related_table_that_is_dropped_leaves_nothing_to_follow(case):
    client = case.follow("select(id,brand{name})")
    case.events(client)
    case.database.drop_table("Brand")
    case.made.settle()
    assert client.source.ended is EndReason.DROPPED and case.live.results == 0


def test_a_changed_definition_is_a_reset(case):
    case.put(product("a", name="x"))
    clients = [case.follow("name==x"), case.follow("name==x&sort(price)"), case.follow("name==x&count()")]
    for client in clients:
        case.events(client)
    case.database.define_table(replace(PRODUCT, attributes=(*PRODUCT.attributes, Attribute("extra", "String"))))
    case.live._sweep()
    for client in clients:
        assert [event[0] for event in case.events(client)] == ["reset", "snapshot", "ready"]
        assert client.resets == [queries.NEW_SHAPE]
    case.put(product("b", name="x", extra="y"))
    for client in clients:
        case.events(client)
        check(client, client.source.query)


def test_a_definition_is_compared_with_each_commit(case):
    case.put(product("a", name="x"))
    client = case.follow("name==x")
    case.events(client)
    case.database.define_table(replace(PRODUCT, attributes=(*PRODUCT.attributes, Attribute("extra", "String"))))
    case.put(product("b", name="x"))
    assert [event[0] for event in case.events(client)] == ["reset", "snapshot", "snapshot", "ready"]


def test_an_attribute_that_is_gone_ends_what_asks_for_it(case):
    client = case.follow("price=gt=1")
    case.events(client)
    case.database.define_table(replace(PRODUCT, attributes=tuple([a for a in PRODUCT.attributes if a.name != "price"])))
    case.live._sweep()
    case.made.settle()
    assert client.source.ended is EndReason.DROPPED and case.live.results == 0 and len(case.live) == 0


def test_a_query_waits_for_an_index_that_is_built_again(case, monkeypatch):
    case.put(product("a", name="x"))
    client = case.follow("name==x", allow_full_scan=False)
    case.events(client)
    monkeypatch.setattr("svc.store.database.BUILD_AT_ONCE", 0)
    attributes = tuple([replace(a, indexed=a.indexed or a.name == "stock") for a in PRODUCT.attributes])
    case.database.define_table(replace(PRODUCT, attributes=attributes))
    with pytest.raises(IndexRebuilding):
        case.follow("stock==1", allow_full_scan=False)
    case.live._sweep()
    assert [event[0] for event in case.events(client)] == ["reset", "snapshot", "ready"]
    rebuild_index(case.products, "name")
    attributes = (*attributes, Attribute("extra", "String"))
    case.database.define_table(replace(PRODUCT, attributes=attributes))
    case.live._sweep()
    case.made.settle()
    assert client.source.result is None
    assert case.events(client) == [("reset", None)]
    while case.made.store.maintenance(1.0):
        pass
    case.live._sweep()
    assert [event[0] for event in case.events(client)] == ["snapshot", "ready"]
    case.put(product("b", name="x"))
    assert case.events(client) == [("enter", "b")]


def test_following_an_unlogged_table_switches_its_log_on(case):
    case.database.define_table(replace(BRAND, audit=False))
    case.put({"id": "a", "name": "x"}, table=case.brands)
    client = case.follow("name==x", case.brands)
    assert case.brands.audit
    assert case.events(client) == [("snapshot", "a"), ("ready", None)]
    case.put({"id": "a", "name": "y"}, table=case.brands)
    assert case.events(client) == [("leave", "a")]


def test_a_failure_ends_the_query_it_meets_and_no_other(case, caplog, monkeypatch):
    case.put(product("a", name="x"))
    other = case.follow("name==x")
    case.events(other)

    def fail(*arguments, **more):
        raise RuntimeError("broken")

    monkeypatch.setattr(materialized_result.MaterializedResult, "_contents_of", fail)
    client = case.follow("name==x&sort(id)")
    case.made.turns(3)
    assert client.source.take(9) == [] and client.source.ended is EndReason.FAILED
    case.put(product("b", name="x"))
    assert case.events(other) == [("enter", "b")]
    assert "failed" in caplog.text
    caplog.clear()


def test_a_defect_in_following_commits_is_no_silent_loss(case, caplog, monkeypatch):
    plain, ordered = case.follow("name==x"), case.follow("name==x&sort(id)")
    for client in (plain, ordered):
        case.events(client)
    with monkeypatch.context() as patch:
        patch.setattr(commit_dispatcher, "change_of", lambda *arguments: 1 / 0)
        case.put(product("a", name="x"))
    assert "a defect" in caplog.text and "ZeroDivisionError" in caplog.text
    caplog.clear()
    assert case.events(plain) == [("reset", None), ("snapshot", "a"), ("ready", None)]
    assert case.events(ordered) == [("enter", "a", 0)]
    case.put(product("b", name="x"))
    assert case.events(plain) == [("enter", "b")]


def test_a_subscription_without_a_result_can_be_closed(case, monkeypatch):
    client = case.follow("name==x", allow_full_scan=False)
    case.events(client)
    monkeypatch.setattr("svc.store.database.BUILD_AT_ONCE", 0)
    case.put(product("a", name="x"))
    rebuild_index(case.products, "name")
    case.database.define_table(replace(PRODUCT, attributes=(*PRODUCT.attributes, Attribute("extra", "String"))))
    case.live._sweep()
    case.made.settle()
    assert client.source.result is None and len(case.live) == 1
    client.source.close()
    assert len(case.live) == 0 and case.live.is_idle


def test_closing_ends_everything(case):
    clients = [case.follow("name==x"), case.follow("name==x&sort(id)"), case.follow("count()")]
    for client in clients:
        client.take(1)
    case.live.close()
    assert all(client.source.ended is EndReason.FINISHED for client in clients)
    assert case.live.results == 0
    case.made.store.on_drop.append(case.live._dropped)  # closed again by the fixture


def test_faults_of_the_language_keep_their_code(case):
    with pytest.raises(QueryError) as caught:
        case.live.subscribe(parse_query("stock==1&live()"), case.products, None, check_rights=False)
    assert caught.value.code == "NOT_INDEXED"
