"""Rules on rows in operations, beside a look at every record (spec: rows §1.3, §1.4)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from svc.auth.users import User
from svc.errors import NotFound, Problem, RowNotAllowed
from svc.store import Table, Transaction
from svc.store.values.records import decode
from tests.support.operations import OperationsNode
from tests.support.row_rules import DATABASE, TABLES, USERS, Brute, define, ids_of, user_of


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as made:
        yield made


@pytest.fixture
def tables(node: OperationsNode) -> dict[str, Table]:
    return define(node.store)


@pytest.fixture
def brute(tables: dict[str, Table]) -> Brute:
    return Brute(tables)


@pytest.fixture
def ann(node: OperationsNode) -> User:
    return user_of(node.store, "ann")


def ask(node: OperationsNode, operation: str, user: User | None, table: str = "Issue", **fields: Any) -> Any:
    return node.run(operation, user, database=DATABASE, table=table, **fields)


def stored(table: Table, key: str) -> dict[str, Any] | None:
    raw = table.get_raw(key)
    return None if raw is None else decode(raw)


# --- reading ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(("name", "role"), [*[(name, "member") for name in USERS], ("ann", "moderator"), ("nobody", "member")])
def test_searches_find_what_may_be_read(node: OperationsNode, brute: Brute, table: str, name: str, role: str) -> None:
    user = user_of(node.store, name, role)
    expected = brute.ids(table, name, role)
    every = ids_of(brute.records(table))
    assert sorted(ids_of(ask(node, "search_by_value", user, table, attribute="id", value="*"))) == expected
    assert sorted(ids_of(ask(node, "search_by_id", user, table, ids=every))) == expected
    condition = {"attribute": "id", "comparator": "greater_than", "value": "c"}
    assert sorted(ids_of(ask(node, "search_by_conditions", user, table, conditions=[condition]))) == [id for id in expected if id > "c"]
    for _ in range(3):  # planned by shape, parsed, from the cache
        assert sorted(ids_of(ask(node, "search_by_conditions", user, table, query="id=gt=c"))) == [id for id in expected if id > "c"]
    assert len(ask(node, "search_by_value", None, table, attribute="id", value="*")) == len(every)  # a super user is not narrowed


def test_conditions_orders_and_limits_are_of_what_may_be_read(node: OperationsNode, brute: Brute, ann: User) -> None:
    seen = brute.seen("Issue", "ann")
    found = ask(node, "search_by_conditions", ann, query="points=ge=3&sort(-points,+id)&limit(5)")
    expected = sorted([each for each in seen if (each["points"] or 0) >= 3], key=lambda each: (-each["points"], each["id"]))
    assert ids_of(found) == ids_of(expected[:5])
    hidden = {each["owner"] for each in brute.hidden("Issue", "ann")}
    for owner in filter(None, hidden):
        assert sorted(ids_of(ask(node, "search_by_value", ann, attribute="owner", value=owner))) == [
            each["id"] for each in seen if each["owner"] == owner
        ]


def test_groups_and_selections_see_no_hidden_record(node: OperationsNode, brute: Brute, ann: User) -> None:
    rows = ask(node, "search_by_conditions", ann, query="group(state)")
    expected: dict[str, int] = {}
    for each in brute.seen("Issue", "ann"):
        expected[each["state"]] = expected.get(each["state"], 0) + 1
    assert {row["state"]: next(value for name, value in row.items() if name != "state") for row in rows} == expected
    projects = set(brute.ids("Project", "ann"))
    for row in ask(node, "search_by_conditions", ann, query="id=gt=a&select(id,projectId,project{id})"):
        assert (row.get("project") is not None) == (row["projectId"] in projects)


def test_a_search_by_id_tells_nothing_of_hidden_records(node: OperationsNode, brute: Brute, ann: User) -> None:
    [hidden, *_] = ids_of(brute.hidden("Issue", "ann"))
    assert ask(node, "search_by_id", ann, ids=[hidden]) == []
    assert ask(node, "search_by_id", ann, ids=[hidden], get_attributes=["id"]) == []


def test_code_that_is_trusted_sees_all(node: OperationsNode, brute: Brute, ann: User) -> None:
    body = {"operation": "search_by_value", "database": DATABASE, "table": "Issue", "attribute": "id", "value": "*"}
    assert len(node.wait(lambda: node.operations.perform(body, ann))) == len(brute.records("Issue"))
    assert len(node.wait(lambda: node.operations.perform(body, ann, authorize=True))) == len(brute.ids("Issue", "ann"))


def test_an_impersonated_user_is_narrowed(node: OperationsNode, brute: Brute, ann: User) -> None:
    wish = {"username": "ann", "role": {"permission": {"super_user": False, **_permission(ann)}}}
    found = ask(node, "search_by_value", None, attribute="id", value="*", impersonate=wish)
    assert sorted(ids_of(found)) == brute.ids("Issue", "ann")


def _permission(user: User) -> dict[str, Any]:
    assert user.role is not None
    return {DATABASE: user.role.permission[DATABASE]}


# --- writing ------------------------------------------------------------------------------------------------------------------------------


def test_updates_of_hidden_records_are_skipped(node: OperationsNode, tables: dict[str, Table], brute: Brute, ann: User) -> None:
    hidden = ids_of(brute.hidden("Issue", "ann"))[0]
    mine = next(each["id"] for each in brute.seen("Issue", "ann") if each["owner"] == "ann")
    before = stored(tables["Issue"], hidden)
    answer = ask(node, "update", ann, records=[{"id": hidden, "points": 9}, {"id": mine, "points": 9}, {"id": "none", "points": 9}])
    assert answer["update_hashes"] == [mine] and answer["skipped_hashes"] == [hidden, "none"]
    assert stored(tables["Issue"], hidden) == before and (stored(tables["Issue"], mine) or {})["points"] == 9
    with pytest.raises(NotFound):
        ask(node, "upsert", ann, records=[{"id": hidden, "points": 9}])
    assert stored(tables["Issue"], hidden) == before


def test_what_may_be_read_but_not_written_is_refused(node: OperationsNode, tables: dict[str, Table], brute: Brute, ann: User) -> None:
    foreign = next(each["id"] for each in brute.seen("Issue", "ann") if each["owner"] == "bob")
    mine = next(each["id"] for each in brute.seen("Issue", "ann") if each["owner"] == "ann")
    for operation, record in (
        ("update", {"id": foreign, "points": 9}),
        ("upsert", {"id": foreign, "points": 9}),
        ("update", {"id": mine, "owner": "bob"}),  # as it becomes
        ("insert", {"id": "new", "owner": "bob"}),
        ("upsert", {"id": "new", "owner": "bob"}),
        ("insert", {"id": "new"}),
    ):
        with pytest.raises(RowNotAllowed) as caught:
            ask(node, operation, ann, records=[{"id": "other", "owner": "ann"}] * (operation != "update") + [record])
        assert (caught.value.status_code, caught.value.code) == (403, "ROW_NOT_ALLOWED")
        assert stored(tables["Issue"], "other") is None and stored(tables["Issue"], "new") is None  # nothing of it
    assert ask(node, "insert", ann, records=[{"id": "new", "owner": "ann"}])["inserted_hashes"] == ["new"]
    assert ask(node, "upsert", ann, records=[{"id": "new", "points": 1}])["upserted_hashes"] == ["new"]


def test_an_insert_of_a_key_that_is_taken_is_skipped(node: OperationsNode, brute: Brute, ann: User) -> None:
    hidden = ids_of(brute.hidden("Issue", "ann"))[0]
    assert ask(node, "insert", ann, records=[{"id": hidden, "owner": "ann"}])["skipped_hashes"] == [hidden]


def test_old_and_new_are_compared(node: OperationsNode, tables: dict[str, Table], ann: User) -> None:
    assert ask(node, "update", ann, "Note", records=[{"id": "n0", "state": "x"}])["update_hashes"] == ["n0"]
    for record in ({"id": "n0", "author": "bob"}, {"id": "n3", "state": "free"}):  # n3 is locked
        with pytest.raises(RowNotAllowed):
            ask(node, "update", ann, "Note", records=[record])
    assert (stored(tables["Note"], "n0") or {})["author"] == "ann"


def test_deletions(node: OperationsNode, tables: dict[str, Table], brute: Brute, ann: User) -> None:
    hidden = ids_of(brute.hidden("Issue", "ann"))[0]
    seen = brute.seen("Issue", "ann")
    draft = next(each["id"] for each in seen if each["owner"] == "ann" and each["state"] == "draft")
    for refused in (
        next(each["id"] for each in seen if each["owner"] == "ann" and each["state"] == "open"),
        next(each["id"] for each in seen if each["owner"] == "bob" and each["state"] == "draft"),
    ):
        with pytest.raises(RowNotAllowed):
            ask(node, "delete", ann, ids=[draft, refused])
        assert stored(tables["Issue"], draft) is not None
    answer = ask(node, "delete", ann, ids=[draft, hidden, "none"])
    assert answer["deleted_hashes"] == [draft] and answer["skipped_hashes"] == [hidden, "none"]


def test_a_role_that_is_named_has_its_own_rules(node: OperationsNode, brute: Brute) -> None:
    moderator = user_of(node.store, "ann", "moderator")
    records = brute.records("Issue")
    published = next(each["id"] for each in records if each["state"] == "published")
    draft = next(each["id"] for each in records if each["state"] == "draft")
    with pytest.raises(RowNotAllowed):
        ask(node, "delete", moderator, ids=[published])
    assert ask(node, "delete", moderator, ids=[draft])["deleted_hashes"] == [draft]
    assert ask(node, "update", moderator, records=[{"id": published, "owner": "zoe"}])["update_hashes"] == [published]
    assert ask(node, "insert", moderator, records=[{"id": "new", "owner": "zoe"}])["inserted_hashes"] == [
        "new"
    ]  # no rule says anything of it


def test_a_conflict_with_a_hidden_record_names_the_attribute_only(node: OperationsNode, brute: Brute, ann: User) -> None:
    hidden = next(each for each in brute.hidden("Issue", "ann") if each["code"] is not None)
    with pytest.raises(Problem) as caught:
        ask(node, "insert", ann, records=[{"id": "new", "owner": "ann", "code": hidden["code"]}])
    assert caught.value.code == "NOT_UNIQUE"
    assert hidden["id"] not in json.dumps([caught.value.message, list(map(dict, caught.value.faults))])


# --- loads and exports --------------------------------------------------------------------------------------------------------------------


def load(node: OperationsNode, user: User, action: str, *rows: str) -> dict[str, Any]:
    """The result of a load of rows `id,owner,points`."""
    data = "\n".join(("id,owner,points", *rows))
    job = node.finished(ask(node, "csv_data_load", user, action=action, data=data))
    assert job["status"] == "COMPLETE", job
    return job["result"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("action", ["insert", "update", "upsert"])
def test_loads_ask_for_each_record(node: OperationsNode, tables: dict[str, Table], brute: Brute, ann: User, action: str) -> None:
    hidden = ids_of(brute.hidden("Issue", "ann"))[0]
    before = stored(tables["Issue"], hidden)
    mine = next(each["id"] for each in brute.seen("Issue", "ann") if each["owner"] == "ann")
    foreign = next(each["id"] for each in brute.seen("Issue", "ann") if each["owner"] == "bob")
    result = load(node, ann, action, f"{hidden},ann,7", f"{mine},ann,7", f"{foreign},bob,7", f"{mine},bob,8", "new,ann,7", "bad,bob,7")
    codes = {error["key"]: error["code"] if "code" in error else error["message"] for error in result["errors"]}
    assert stored(tables["Issue"], hidden) == before
    assert stored(tables["Issue"], "bad") is None
    if action == "insert":
        assert (result["written"], result["skipped"], set(codes)) == (1, 4, {"bad"})
    elif action == "update":
        assert (result["written"], result["skipped"], set(codes)) == (1, 3, {foreign, mine})
    else:
        assert (result["written"], result["skipped"], set(codes)) == (2, 0, {hidden, foreign, mine, "bad"})
    if action != "insert":
        assert (stored(tables["Issue"], mine) or {})["points"] == 7 and (stored(tables["Issue"], foreign) or {})["points"] != 7


def test_a_refused_row_of_a_load_has_its_code(node: OperationsNode, tables: dict[str, Table], ann: User) -> None:
    job = node.finished(ask(node, "csv_data_load", ann, data="id,owner\nx,bob\ny,ann"))
    [fault] = job["faults"]
    assert (fault["key"], fault["code"]) == ("x", "ROW_NOT_ALLOWED")
    assert stored(tables["Issue"], "y") is not None


@pytest.mark.parametrize("format", ["json", "csv"])
def test_exports_have_what_may_be_read(tmp_path: Path, format: str) -> None:
    (tmp_path / "out").mkdir()
    with OperationsNode(tmp_path / "root", settings={"operationsApi": {"importRoots": [str(tmp_path / "out")]}}) as node:
        brute = Brute(define(node.store))
        exporter = user_of(node.store, "ann", operations=["export_local", "search_by_value", "get_job"])
        search = {"operation": "search_by_value", "database": DATABASE, "table": "Issue", "attribute": "id", "value": "*"}
        started = node.run("export_local", exporter, format=format, path=str(tmp_path / "out"), filename="all", search_operation=search)
        job = node.finished(started)
        text = (tmp_path / "out" / f"all.{format}").read_text()
        rows = json.loads(text) if format == "json" else list(csv.DictReader(io.StringIO(text)))
        assert sorted(row["id"] for row in rows) == brute.ids("Issue", "ann")
        assert job["progress"] == {"done": len(rows), "total": None}  # not the number of all


# --- descriptions, the log, removal -------------------------------------------------------------------------------------------------------


def test_descriptions_count_what_may_be_read(node: OperationsNode, brute: Brute, ann: User) -> None:
    hints = {"record_count", "estimated_record_range", "table_size", "db_audit_size", "last_updated_record", "leftovers"}
    assert not hints & ask(node, "describe_table", ann).keys()
    assert ask(node, "describe_table", ann, exact_count=True)["record_count"] == len(brute.ids("Issue", "ann"))
    assert ask(node, "describe_table", ann, "Post")["record_count"] == 20  # no rule is about it
    described = node.run("describe_database", ann, database=DATABASE)
    assert "record_count" not in described["Board"] and described["Post"]["record_count"] == 20
    assert not hints & node.run("describe_all", ann)[DATABASE]["Offer"].keys()
    assert ask(node, "describe_table", None)["record_count"] == len(brute.records("Issue"))


AUDITOR = (
    "read_audit_log",
    "read_transaction_log",
    "delete_audit_logs_before",
    "delete_records_before",
    "get_backup",
    "system_information",
)


@pytest.fixture
def auditor(node: OperationsNode) -> User:
    return user_of(node.store, "ann", operations=[*AUDITOR, "search_by_value", "get_job"])


def write(node: OperationsNode, table: Table, key: str, changes: dict[str, Any] | None, *, is_new: bool = False) -> None:
    node.clock.advance(1)
    transaction = Transaction(node.store, "zoe")
    if changes is None:
        transaction.delete(table, key)
    elif is_new:
        transaction.put(table, key, {"id": key, **changes})
    else:
        transaction.patch(table, key, changes)
    transaction.apply()
    node.store.commit_turn()


def test_the_log_has_entries_about_what_may_be_read(node: OperationsNode, tables: dict[str, Table], auditor: User) -> None:
    issues = tables["Issue"]
    write(node, issues, "mine", {"owner": "ann", "points": 1}, is_new=True)
    write(node, issues, "theirs", {"owner": "bob", "points": 1}, is_new=True)
    write(node, issues, "theirs", {"points": 2})
    write(node, issues, "given", {"owner": "bob", "points": 1}, is_new=True)  # hidden when it was written
    write(node, issues, "given", {"owner": "ann"})  # hidden before
    write(node, issues, "given", {"points": 3})
    write(node, issues, "taken", {"owner": "ann", "points": 1}, is_new=True)
    write(node, issues, "taken", {"owner": "bob"})  # hidden now
    write(node, issues, "gone", {"owner": "ann", "points": 1}, is_new=True)
    write(node, issues, "gone", None)
    write(node, issues, "lost", {"owner": "bob"}, is_new=True)
    write(node, issues, "lost", None)

    def entries(found: list[dict[str, Any]]) -> list[tuple[str, Any]]:
        """Of those that this test has written."""
        return [
            (entry["operation"], key)
            for entry in found
            for key in entry["hash_values"]
            if entry["user_name"] == "zoe" and not key[-1].isdigit()
        ]

    expected = [("upsert", "mine"), ("update", "given"), ("upsert", "gone"), ("delete", "gone")]
    assert entries(ask(node, "read_audit_log", auditor)) == expected
    assert entries(ask(node, "read_transaction_log", auditor)) == expected
    by_key = ask(
        node, "read_audit_log", auditor, search_type="hash_value", search_values=["mine", "theirs", "given", "taken", "gone", "none"]
    )
    assert {key: len(found) for key, found in by_key.items()} == {"mine": 1, "theirs": 0, "given": 1, "taken": 0, "gone": 2, "none": 0}
    assert entries(ask(node, "read_audit_log", auditor, search_type="username")["zoe"]) == expected
    assert len(entries(ask(node, "read_audit_log", None))) == 12
    limited = ask(node, "read_transaction_log", auditor, limit=1)
    assert len(limited) == 1


def test_users_whose_entries_are_all_hidden_are_not_named(node: OperationsNode, tables: dict[str, Table], auditor: User) -> None:
    write(node, tables["Issue"], "theirs", {"owner": "bob"}, is_new=True)
    assert "zoe" not in ask(node, "read_audit_log", auditor, search_type="username")
    assert "zoe" in ask(node, "read_audit_log", None, search_type="username")


def test_messages_are_like_the_records_they_are_about(node: OperationsNode, tables: dict[str, Table], auditor: User) -> None:
    issues = tables["Issue"]
    write(node, issues, "mine", {"owner": "ann"}, is_new=True)
    write(node, issues, "theirs", {"owner": "bob"}, is_new=True)
    transaction = Transaction(node.store, "zoe")
    for key in ("mine", "theirs", "none"):
        transaction.publish(issues, key, {"note": key})
    transaction.publish(issues, None, {"owner": "ann", "note": "all"})
    transaction.publish(issues, None, {"owner": "bob", "note": "none"})
    transaction.publish(issues, None, "text")
    transaction.apply()
    node.store.commit_turn()
    found = [entry["records"] for entry in ask(node, "read_transaction_log", auditor) if entry["operation"] == "message"]
    assert found == [[{"note": "mine"}, {"owner": "ann", "note": "all"}]]


def test_the_log_is_not_removed_by_those_who_may_not_see_all(node: OperationsNode, tables: dict[str, Table], auditor: User) -> None:
    with pytest.raises(RowNotAllowed):
        ask(node, "delete_audit_logs_before", auditor, timestamp=node.clock.wall() * 1000)
    assert ask(node, "delete_audit_logs_before", None, timestamp=0)["job_id"]
    tables["Post"].database.define_table(replace(tables["Post"].definition, audit=True))
    assert ask(node, "delete_audit_logs_before", auditor, "Post", timestamp=0)["job_id"]  # no rule is about it


def test_old_records_that_may_be_deleted_are(node: OperationsNode, tables: dict[str, Table], brute: Brute, auditor: User) -> None:
    deletable = [each["id"] for each in brute.seen("Issue", "ann") if each["owner"] == "ann" and each["state"] == "draft"]
    left = [each for each in ids_of(brute.records("Issue")) if each not in deletable]
    job = node.finished(ask(node, "delete_records_before", auditor, date="2200-01-01"))
    assert job["message"] == f"{len(deletable)} of {len(deletable)} records successfully deleted"
    assert ids_of(brute.records("Issue")) == left


def test_a_copy_of_the_database_is_refused(node: OperationsNode, tables: dict[str, Table], auditor: User) -> None:
    with pytest.raises(RowNotAllowed):
        node.run("get_backup", auditor, database=DATABASE)


def test_figures_of_narrowed_databases_are_left_out(node: OperationsNode, tables: dict[str, Table], auditor: User) -> None:
    asked = ["table_size", "database_metrics"]
    found = node.run("system_information", auditor, attributes=asked)
    assert DATABASE not in [row["schema"] for row in found["table_size"]] and DATABASE not in found["database_metrics"]
    found = node.run("system_information", attributes=asked)
    assert DATABASE in [row["schema"] for row in found["table_size"]] and DATABASE in found["database_metrics"]
