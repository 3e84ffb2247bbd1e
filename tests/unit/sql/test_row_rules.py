"""Rules on rows in SQL: a caller gets what a super user gets of tables that have nothing but what the caller may see (spec: rows §1.3, §1.4)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.api.context import Context
from svc.api.transactions import Transaction
from svc.auth.roles import Role
from svc.auth.users import User
from svc.awaitables import is_waiting, settled
from svc.clock import FakeClock
from svc.errors import Problem, RowNotAllowed
from svc.store.values.records import decode
from tests.support.row_rules import DATABASE, TABLES, USERS, Brute, define, user_of
from tests.support.sql_engine import SqlStore

COUNT = 120


class Scene:
    """`full`: all records, and rules. `of(name)`: what a user may see of them, and no rules."""

    def __init__(self, path: Path, count: int = COUNT) -> None:
        self._path = path
        self.full = SqlStore(path / "full", (), clock=FakeClock())
        self.tables = define(self.full.store, count)
        self.full.tables = self.tables
        self.brute = Brute(self.tables)
        self._others: dict[tuple[str, str], SqlStore] = {}

    def user(self, name: str, role: str = "member") -> User:
        return user_of(self.full.store, name, role)

    def of(self, name: str, role: str = "member") -> SqlStore:
        known = self._others.get((name, role))
        if known is None:
            known = self._others[name, role] = SqlStore(self._path / f"{name}-{role}", (), clock=FakeClock())
            known.tables = define(known.store, 0, with_rules=False)
            transaction = known.store.begin()
            for table in TABLES:
                seen = {record["id"]: record for record in self.brute.seen(table, name, role)}
                for record in Brute(known.tables).records(table):
                    if record["id"] not in seen:
                        transaction.delete(known.tables[table], record["id"])
                for key, record in seen.items():
                    transaction.put(known.tables[table], key, dict(record))
            transaction.apply()
            known.end_turn()
        return known

    def close(self) -> None:
        for store in (self.full, *self._others.values()):
            store.close()

    def stored(self, key: str, table: str = "Issue") -> dict[str, Any] | None:
        raw = self.tables[table].get_raw(key)
        return None if raw is None else decode(raw)


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("rules"))
    yield scene
    scene.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


@pytest.fixture
def ann(scene: Scene) -> User:
    return scene.user("ann")


QUERIES = [
    *[f"SELECT * FROM rules.{table}" for table in TABLES],
    *[f"SELECT id FROM rules.{table} ORDER BY id" for table in TABLES],
    *[f"SELECT id FROM rules.{table} ORDER BY id DESC LIMIT 3" for table in TABLES],
    *[f"SELECT COUNT(*) FROM rules.{table}" for table in TABLES],
    # counts and groups that indexes would answer
    "SELECT COUNT(*), MIN(points), MAX(points) FROM rules.Issue",
    "SELECT MAX(id), MIN(id) FROM rules.Issue",
    "SELECT COUNT(points), COUNT(DISTINCT owner) FROM rules.Issue",
    "SELECT owner, COUNT(*) FROM rules.Issue GROUP BY owner",
    "SELECT state, COUNT(*), SUM(points), AVG(points) FROM rules.Issue GROUP BY state HAVING COUNT(*) > 3",
    "SELECT COUNT(*) FROM rules.Issue WHERE public = true",
    "SELECT COUNT(*) FROM rules.Issue WHERE owner = 'bob'",
    "SELECT points, COUNT(*) FROM rules.Issue WHERE points > 2 GROUP BY points ORDER BY points",
    "SELECT price, COUNT(*) FROM rules.Offer GROUP BY price",
    "SELECT title, COUNT(*) FROM rules.Board GROUP BY title",
    "SELECT DISTINCT owner FROM rules.Issue",
    # entries of an index that have all that is asked for
    "SELECT id, owner FROM rules.Issue WHERE owner = 'bob'",
    "SELECT points, id FROM rules.Issue WHERE points >= 3 ORDER BY points, id",
    "SELECT state FROM rules.Issue ORDER BY state LIMIT 7",
    "SELECT id, points FROM rules.Issue WHERE points BETWEEN 1 AND 4 ORDER BY points DESC, id DESC LIMIT 5 OFFSET 4",
    "SELECT id FROM rules.Issue WHERE owner = 'bob' LIMIT 4 OFFSET 2",
    "SELECT id FROM rules.Issue WHERE owner IS NULL ORDER BY id",
    "SELECT id FROM rules.Issue WHERE owner LIKE 'b%' ORDER BY id",
    "SELECT id FROM rules.Issue ORDER BY id LIMIT 5 OFFSET 11",
    "SELECT id FROM rules.Issue ORDER BY points, id LIMIT 5 OFFSET 11",
    # keys
    "SELECT id, points FROM rules.Issue WHERE id = 'i001'",
    "SELECT id FROM rules.Issue WHERE id IN ('i000', 'i001', 'i002', 'i003', 'i004', 'i005', 'i006', 'i007')",
    "SELECT id FROM rules.Issue WHERE id > 'i050' AND id < 'i070' ORDER BY id",
    "SELECT id FROM rules.Issue WHERE id >= 'i100' OR state = 'draft'",
    "SELECT id FROM rules.Issue WHERE NOT (owner = 'ann')",
    "SELECT i.\"id\" FROM rules.Issue i WHERE i.code = 'c3'",
    # joins and sub-selects
    "SELECT i.id, p.id FROM rules.Issue i JOIN rules.Project p ON p.id = i.projectId",
    "SELECT i.id, p.id FROM rules.Issue i LEFT JOIN rules.Project p ON p.id = i.projectId",
    "SELECT i.id, p.id FROM rules.Project p LEFT JOIN rules.Issue i ON p.id = i.projectId AND i.state = 'draft'",
    "SELECT i.id, p.id FROM rules.Issue i FULL JOIN rules.Project p ON p.id = i.projectId",
    "SELECT a.id, b.id FROM rules.Issue a JOIN rules.Issue b ON a.owner = b.owner AND a.id < b.id",
    "SELECT b.title, COUNT(p.id) FROM rules.Board b JOIN rules.Post p ON p.boardId = b.id GROUP BY b.title",
    "SELECT p.id FROM rules.Post p WHERE p.boardId IN (SELECT id FROM rules.Board)",
    "SELECT id FROM rules.Project p WHERE EXISTS (SELECT 1 FROM rules.Issue i WHERE i.projectId = p.id AND i.state = 'open')",
    "SELECT id, (SELECT COUNT(*) FROM rules.Issue i WHERE i.projectId = p.id) FROM rules.Project p",
    "SELECT * FROM rules.Issue NATURAL JOIN rules.Note",
    "SELECT id FROM rules.Issue JOIN rules.Project USING (id)",
    "SELECT COUNT(*) FROM rules.Issue, rules.Project",
    "WITH mine AS (SELECT * FROM rules.Issue WHERE points > 1) SELECT owner, COUNT(*) FROM mine GROUP BY owner",
    "WITH RECURSIVE n(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM n WHERE x < (SELECT COUNT(*) FROM rules.Issue)) SELECT MAX(x) FROM n",
    "SELECT id FROM rules.Issue UNION SELECT id FROM rules.Project",
    "SELECT id FROM rules.Issue EXCEPT SELECT id FROM rules.Issue WHERE owner = 'bob'",
    "SELECT id, ROW_NUMBER() OVER (ORDER BY id) FROM rules.Issue",
    "SELECT id, SUM(points) OVER (PARTITION BY owner ORDER BY id) FROM rules.Issue",
    "SELECT id FROM rules.Offer WHERE price > 1 ORDER BY until",
    "SELECT MAX(until) FROM rules.Offer",
]


def _sorted(rows: Any) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


@pytest.mark.parametrize(("name", "role"), [*[(name, "member") for name in USERS], ("nobody", "member"), ("ann", "moderator")])
@pytest.mark.parametrize("text", QUERIES)
def test_queries_read_what_may_be_read(read_only: Scene, text: str, name: str, role: str) -> None:
    expected = read_only.of(name, role).ask(text)
    user = read_only.user(name, role)
    for _ in range(2):
        found = read_only.full.ask(text, user=user)
        assert found == expected if "ORDER BY" in text and "OVER" not in text else _sorted(found) == _sorted(expected)


def test_values_that_differ_share_what_was_bound(read_only: Scene) -> None:
    for owner in ("ann", "bob", "cleo", "dan", "ann"):
        for name in USERS:
            text = f"SELECT id FROM rules.Issue WHERE owner = '{owner}' ORDER BY id"
            assert read_only.full.ask(text, user=read_only.user(name)) == read_only.of(name).ask(text)
            with_parameter = "SELECT id FROM rules.Issue WHERE owner = ? ORDER BY id"
            assert read_only.full.ask(with_parameter, [owner], user=read_only.user(name)) == read_only.of(name).ask(with_parameter, [owner])


def test_users_of_one_role_who_ask_in_turn(read_only: Scene) -> None:
    """What is kept of a statement is the same for all of them."""
    role = read_only.user("ann").role
    for _ in range(3):
        for name in USERS:
            found = read_only.full.ask("SELECT COUNT(*), MAX(points) FROM rules.Issue", user=User(name, role=role))
            assert found == read_only.of(name).ask("SELECT COUNT(*), MAX(points) FROM rules.Issue")


def test_code_is_not_narrowed(read_only: Scene) -> None:
    everything = [[len(read_only.brute.records("Issue"))]]
    assert read_only.full.ask("SELECT COUNT(*) FROM rules.Issue") == everything
    caller = read_only.full.caller(read_only.user("ann"))
    caller.authorized = False  # of an application
    assert asyncio.run(read_only.full.answer("SELECT COUNT(*) FROM rules.Issue", None, caller)) == everything
    admin = User("admin", role=Role("super_user", "super_user", {"super_user": True}, databases=read_only.full.store.databases))
    assert read_only.full.ask("SELECT COUNT(*) FROM rules.Issue", user=admin) == everything


def test_the_time_of_a_rule_is_that_of_the_statement(scene: Scene, ann: User) -> None:
    before = scene.full.ask("SELECT COUNT(*) FROM rules.Offer", user=ann)
    scene.full.store.clock.advance(120)  # type: ignore[attr-defined]
    after = scene.full.ask("SELECT COUNT(*) FROM rules.Offer", user=ann)
    assert (before, after) == ([[6]], [[4]])


def test_plans_do_not_tell_how_many_records_there_are(read_only: Scene) -> None:
    user = read_only.user("ann")
    texts = [text for text in QUERIES if "rules.Post" not in text]  # about which there is no rule
    told = [read_only.full.ask(text, user=user, explain=True)["plan"] for text in texts]
    assert [plan for plan in told if re.search(r"[0-9] rows?", plan)] == []
    assert "about" in read_only.full.ask("SELECT * FROM rules.Issue WHERE points > 3", explain=True)["plan"]
    told = [
        read_only.full.ask(text, user=user, explain=True)["plan"]
        for text in ("UPDATE rules.Issue SET points = 1", "DELETE FROM rules.Note")
    ]
    assert [plan for plan in told if "about" in plan] == []


def test_a_rule_that_always_holds_narrows_nothing(read_only: Scene) -> None:
    moderator = read_only.user("ann", "moderator")
    plan = read_only.full.ask("SELECT COUNT(*) FROM rules.Issue", user=moderator, explain=True)["plan"]
    assert plan == read_only.full.ask("SELECT COUNT(*) FROM rules.Issue", explain=True)["plan"] and "count of records" in plan


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("large"), 3000)
    yield scene
    scene.close()


@pytest.mark.parametrize("name", ["ann", "nobody"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM rules.Issue",  # on a thread: more rows than a turn takes
        "SELECT id FROM rules.Issue ORDER BY points DESC, id",
        "SELECT id FROM rules.Issue ORDER BY id",
        "SELECT id FROM rules.Issue ORDER BY id DESC",
        "SELECT a.id, b.id FROM rules.Issue a JOIN rules.Issue b ON b.id = a.id",
        "SELECT i.id, p.id FROM rules.Issue i LEFT JOIN rules.Project p ON p.id = i.projectId",
    ],
)
def test_threads_read_what_may_be_read(large: Scene, text: str, name: str) -> None:
    expected = large.of(name).ask(text)
    assert len(expected) > 1024 or name == "nobody"
    for _ in range(2):
        assert _sorted(large.full.ask(text, user=large.user(name))) == _sorted(expected)


def test_a_rule_that_an_index_serves_is_not_tested_on_all_records(large: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    from svc.sql.row_filters import SeenRecords

    tested: list[int] = []
    real = SeenRecords.of

    def counting(self: SeenRecords, raws: Any) -> Any:
        tested.append(len(raws))
        return real(self, raws)

    monkeypatch.setattr(SeenRecords, "of", counting)
    found = large.full.ask("SELECT COUNT(*) FROM rules.Offer", user=large.user("ann"))
    assert found == [[6]] and sum(tested) == 6


# --- writing ------------------------------------------------------------------------------------------------------------------------------


def test_updates_find_what_may_be_read_and_changed(scene: Scene, ann: User) -> None:
    before = {record["id"]: record for record in scene.brute.records("Issue")}
    mine = sorted(record["id"] for record in before.values() if record["owner"] == "ann")
    answer = scene.full.ask("UPDATE rules.Issue SET points = 99", user=ann)
    assert sorted(answer["update_hashes"]) == mine and answer["skipped_hashes"] == []
    for record in scene.brute.records("Issue"):
        assert record == before[record["id"]] | ({"points": 99} if record["id"] in mine else {})


def test_an_update_reads_all_that_may_be_read_elsewhere(scene: Scene, ann: User) -> None:
    seen = len(scene.brute.ids("Issue", "ann"))
    scene.full.ask("UPDATE rules.Issue SET points = (SELECT COUNT(*) FROM rules.Issue) WHERE state = 'draft'", user=ann)
    changed = [record for record in scene.brute.records("Issue") if record["points"] == seen]
    assert changed and all(record["owner"] == "ann" and record["state"] == "draft" for record in changed)


def test_a_limit_counts_what_may_be_changed(scene: Scene, ann: User) -> None:
    mine = sorted(record["id"] for record in scene.brute.records("Issue") if record["owner"] == "ann")
    answer = scene.full.ask("UPDATE rules.Issue SET points = 99 ORDER BY id LIMIT 3", user=ann)
    assert answer["update_hashes"] == mine[:3]
    drafts = [key for key in mine if (scene.stored(key) or {})["state"] == "draft"]
    assert scene.full.ask("DELETE FROM rules.Issue ORDER BY id LIMIT 2", user=ann)["deleted_hashes"] == drafts[:2]


@pytest.mark.parametrize("statement", ["UPDATE rules.Issue SET points = 1 WHERE id = ?", "DELETE FROM rules.Issue WHERE id = ?"])
def test_one_record_that_may_not_be_changed_is_not_found(scene: Scene, ann: User, statement: str) -> None:
    hidden = scene.brute.hidden("Issue", "ann")[0]["id"]
    foreign = next(record["id"] for record in scene.brute.seen("Issue", "ann") if record["owner"] == "bob")
    for key in (hidden, foreign):
        before = scene.stored(key)
        answer = scene.full.ask(statement, [key], user=ann)
        assert answer.get("update_hashes", answer.get("deleted_hashes")) == [] and scene.stored(key) == before


def test_what_a_record_becomes_is_refused(scene: Scene, ann: User) -> None:
    before = scene.brute.records("Issue")
    for text in (
        "UPDATE rules.Issue SET owner = 'bob'",
        "INSERT INTO rules.Issue (id, owner) VALUES ('x', 'ann'), ('y', 'bob')",
        "INSERT INTO rules.Issue (id) VALUES ('x')",
        "INSERT INTO rules.Issue (id, owner) SELECT 'x' || id, 'bob' FROM rules.Note",
        "INSERT INTO rules.Issue (id, owner) VALUES ('x', 'bob') RETURNING id",
    ):
        with pytest.raises(RowNotAllowed) as caught:
            scene.full.ask(text, user=ann)
        assert (caught.value.status_code, caught.value.code) == (403, "ROW_NOT_ALLOWED")
        assert scene.brute.records("Issue") == before
    assert scene.full.ask("INSERT INTO rules.Issue (id, owner) VALUES ('x', 'ann')", user=ann)["inserted_hashes"] == ["x"]


def test_deletions_find_what_may_be_deleted(scene: Scene, ann: User) -> None:
    before = scene.brute.records("Issue")
    drafts = [record["id"] for record in before if record["owner"] == "ann" and record["state"] == "draft"]
    rows = scene.full.ask("DELETE FROM rules.Issue RETURNING id, owner", user=ann)
    assert sorted(row["id"] for row in rows) == drafts and {row["owner"] for row in rows} == {"ann"}
    assert scene.brute.records("Issue") == [record for record in before if record["id"] not in drafts]
    assert scene.full.ask("DELETE FROM rules.Note", user=ann)["deleted_hashes"] == []


def test_rules_that_compare_old_and_new(scene: Scene, ann: User) -> None:
    answer = scene.full.ask("UPDATE rules.Note SET state = 'x'", user=ann)
    assert answer["update_hashes"] == ["n0", "n6"]  # n3 is locked
    with pytest.raises(RowNotAllowed):
        scene.full.ask("UPDATE rules.Note SET author = 'bob'", user=ann)
    assert (scene.stored("n0", "Note") or {})["author"] == "ann"


def test_a_role_that_is_named_has_its_own_rules(scene: Scene) -> None:
    moderator = scene.user("ann", "moderator")
    before = scene.brute.records("Issue")
    assert len(scene.full.ask("UPDATE rules.Issue SET owner = 'zoe'", user=moderator)["update_hashes"]) == len(before)
    gone = scene.full.ask("DELETE FROM rules.Issue", user=moderator)["deleted_hashes"]
    assert sorted(gone) == [record["id"] for record in before if record["state"] != "published"]


def test_keys_that_are_taken(scene: Scene, ann: User) -> None:
    hidden = scene.brute.hidden("Issue", "ann")[0]
    key = hidden["id"]
    for text in (
        f"INSERT INTO rules.Issue (id, owner) VALUES ('{key}', 'ann')",
        f"INSERT INTO rules.Issue (id, owner) VALUES ('{key}', 'ann') ON CONFLICT (id) DO NOTHING",
        f"INSERT INTO rules.Issue (id, owner) VALUES ('{key}', 'ann') ON CONFLICT (id) DO UPDATE SET points = 99",
    ):
        answer = scene.full.ask(text, user=ann)
        assert answer["inserted_hashes"] == [] and answer["skipped_hashes"] == [key] and answer.get("update_hashes", []) == []
        assert scene.stored(key) == hidden
    rows = scene.full.ask(
        f"INSERT INTO rules.Issue (id, owner) VALUES ('{key}', 'ann') ON CONFLICT (id) DO UPDATE SET points = 99 RETURNING *", user=ann
    )
    assert rows == []


def test_upserts_of_records_that_may_be_read_only(scene: Scene, ann: User) -> None:
    foreign = next(record for record in scene.brute.seen("Issue", "ann") if record["owner"] == "bob")
    with pytest.raises(RowNotAllowed):
        scene.full.ask(
            f"INSERT INTO rules.Issue (id, owner) VALUES ('{foreign['id']}', 'ann') ON CONFLICT (id) DO UPDATE SET points = 99", user=ann
        )
    assert scene.stored(foreign["id"]) == foreign


@pytest.mark.parametrize(
    "more",
    [
        "",
        "ON CONFLICT DO NOTHING",
        "ON CONFLICT (code) DO NOTHING",
        "ON CONFLICT (code) DO UPDATE SET points = 99",
        "ON CONFLICT (code) DO UPDATE SET points = 1 RETURNING *",
    ],
)
def test_a_conflict_with_a_hidden_record_names_the_attribute_only(scene: Scene, ann: User, more: str) -> None:
    hidden = next(record for record in scene.brute.hidden("Issue", "ann") if record["code"] is not None)
    with pytest.raises(Problem) as caught:
        scene.full.ask(f"INSERT INTO rules.Issue (id, owner, code) VALUES ('x', 'ann', ?) {more}", [hidden["code"]], user=ann)
    assert caught.value.code == "NOT_UNIQUE"
    assert hidden["id"] not in json.dumps([caught.value.message, list(map(dict, caught.value.faults))])
    assert scene.stored("x") is None and scene.stored(hidden["id"]) == hidden


def test_conflicts_with_records_that_may_be_read_are_as_ever(scene: Scene, ann: User) -> None:
    mine = next(record for record in scene.brute.records("Issue") if record["owner"] == "ann" and record["code"] is not None)
    text = "INSERT INTO rules.Issue (id, owner, code) VALUES ('x', 'ann', ?) ON CONFLICT (code) DO UPDATE SET points = 99"
    assert scene.full.ask(text, [mine["code"]], user=ann)["update_hashes"] == [mine["id"]]


def test_returning_has_what_may_be_read(scene: Scene, ann: User) -> None:
    rows = scene.full.ask("INSERT INTO rules.Note (id, author) VALUES ('x', 'ann'), ('y', 'bob') RETURNING id", user=ann)
    assert rows == [{"id": "x"}]
    assert scene.stored("y", "Note") is not None
    mine = sum(record["owner"] == "ann" for record in scene.brute.records("Issue"))
    assert len(scene.full.ask("UPDATE rules.Issue SET points = 7 RETURNING id, points", user=ann)) == mine


def test_insert_from_a_query_copies_what_may_be_read(scene: Scene, ann: User) -> None:
    seen = scene.brute.ids("Issue", "ann")
    answer = scene.full.ask("INSERT INTO rules.Post (id, author) SELECT 'copy-' || id, 'ann' FROM rules.Issue", user=ann)
    assert sorted(answer["inserted_hashes"]) == [f"copy-{key}" for key in seen]


def test_an_update_from_another_table_sees_what_may_be_read(scene: Scene, ann: User) -> None:
    projects = set(scene.brute.ids("Project", "ann"))
    expected = sorted(
        record["id"] for record in scene.brute.records("Issue") if record["owner"] == "ann" and record["projectId"] in projects
    )
    answer = scene.full.ask("UPDATE rules.Issue SET points = 77 FROM rules.Project p WHERE p.id = rules.Issue.projectId", user=ann)
    assert sorted(answer["update_hashes"]) == expected


def test_long_writes_are_narrowed(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 3000)
    try:
        ann = scene.user("ann")
        mine = sorted(record["id"] for record in scene.brute.records("Issue") if record["owner"] == "ann")
        assert len(mine) > 500
        rows = scene.full.ask("UPDATE rules.Issue SET points = 99 RETURNING id", user=ann)
        assert sorted(row["id"] for row in rows) == mine
        assert sorted(record["id"] for record in scene.brute.records("Issue") if record.get("points") == 99) == mine
        with pytest.raises(RowNotAllowed):
            scene.full.ask("UPDATE rules.Issue SET owner = CASE WHEN state = 'open' THEN 'bob' ELSE owner END", user=ann)
        drafts = [key for key in mine if (scene.stored(key) or {})["state"] == "draft"]
        assert sorted(scene.full.ask("DELETE FROM rules.Issue", user=ann)["deleted_hashes"]) == drafts
    finally:
        scene.close()


def test_a_transaction_of_an_application_is_narrowed_with_its_caller(scene: Scene, ann: User) -> None:
    context = Context(ann)
    transaction = Transaction(scene.full.store, context)
    transaction.is_lasting = True
    caller = scene.full.caller(ann, joined=transaction)
    mine = sorted(record["id"] for record in scene.brute.records("Issue") if record["owner"] == "ann")

    async def work() -> None:
        answer = scene.full.answer
        assert sorted((await answer("UPDATE rules.Issue SET points = 99", None, caller))["update_hashes"]) == mine
        found = await answer("SELECT id FROM rules.Issue WHERE points = 99 ORDER BY id", None, caller)
        assert found == [[key] for key in mine]
        await answer("INSERT INTO rules.Issue (id, owner) VALUES ('x', 'ann')", None, caller)
        assert await answer("SELECT COUNT(*) FROM rules.Issue", None, caller) == [[len(scene.brute.ids("Issue", "ann")) + 1]]
        with pytest.raises(RowNotAllowed):
            await answer("INSERT INTO rules.Issue (id, owner) VALUES ('y', 'bob')", None, caller)
        waiting = settled(transaction.apply())
        if is_waiting(waiting):
            await waiting

    asyncio.run(work())
    transaction.close()
    scene.full.end_turn()
    assert sorted(record["id"] for record in scene.brute.records("Issue") if record.get("points") == 99) == mine
    assert scene.stored("x") is not None and scene.stored("y") is None


# --- rules that change --------------------------------------------------------------------------------------------------------------------


def test_a_changed_rule_counts_for_the_next_statement(scene: Scene, ann: User) -> None:
    from dataclasses import replace

    from svc.store.schema import Allow

    text = "SELECT COUNT(*) FROM rules.Post"
    assert scene.full.ask(text, user=ann) == [[20]]
    definition = scene.tables["Post"].definition
    scene.full.store.open_database(DATABASE).define_table(replace(definition, allow=(Allow(read="author==$user.username"),)))
    mine = sum(record["author"] == "ann" for record in scene.brute.records("Post"))
    assert scene.full.ask(text, user=ann) == [[mine]]
    scene.full.store.open_database(DATABASE).define_table(definition)
    assert scene.full.ask(text, user=ann) == [[20]]


def test_a_changed_related_record_counts_for_the_next_statement(scene: Scene, ann: User) -> None:
    text = "SELECT COUNT(*) FROM rules.Issue"
    before = scene.full.ask(text, user=ann)[0][0]
    scene.full.put("Project", [{"id": f"p{number}", "open": False, "members": ["ann"]} for number in range(8)])
    after = scene.full.ask(text, user=ann)[0][0]
    assert after == len(scene.brute.ids("Issue", "ann")) > before


def test_anonymous_callers(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    role = scene.user("ann").role
    monkeypatch.setattr(scene.full.store, "anonymous_role", lambda: role)
    caller = scene.full.caller(None)
    caller.authorized = True
    found = asyncio.run(scene.full.answer("SELECT id FROM rules.Issue ORDER BY id", None, caller))
    assert found == [[record["id"]] for record in scene.brute.records("Issue") if record["public"] is True]
