"""Databases, tables and attributes in the console (spec: console §6)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from svc.auth.users import User
from svc.resources import TableResource
from tests.support.console import ConsoleAnswer, ConsoleSite
from tests.support.pages import Parsed

HOSTILE = "\"'><img src=x onerror=alert(1)>"
ODD = "a \"b'<%41>&c?#"  # a name that a database or a table may have


@pytest.fixture
def site(site: ConsoleSite) -> ConsoleSite:
    site.node.node.addresses = lambda: {"applications": ["https://*:9927", "http://*:9926"]}
    site.node.run("create_database", database="garden")
    site.node.run("create_table", database="garden", table="plant", primary_key="id")
    site.node.run("insert", database="garden", table="plant", records=[{"id": number, "name": f"n{number}"} for number in range(3)])
    return site


def names(site: ConsoleSite) -> dict[str, list[str]]:
    return {name: list(tables) for name, tables in site.node.run("describe_all").items()}


def attributes(site: ConsoleSite, table: str, database: str = "garden") -> dict[str, Any]:
    described = site.node.run("describe_table", database=database, table=table)
    return {each["attribute"]: each for each in described["attributes"]}


def alert(answer: ConsoleAnswer) -> str:
    """What is said to be wrong; "" nothing."""
    text = answer.body.decode()
    return text.partition('id="fault"><p><bdi>')[2].partition("</bdi>")[0]


def path_of(database: str, table: str = "") -> str:
    return f"/console/databases/{quote(database, safe='')}" + (f"/{quote(table, safe='')}" if table else "")


# --- what there is --------------------------------------------------------------------------------------------------------------------


def test_the_tree_of_databases_and_tables(site: ConsoleSite) -> None:
    page = site.get("/console/databases").page
    assert page.links["garden"] == "./databases/garden" and page.links["plant"] == "./databases/garden/plant"
    assert page.links["system"] == "./databases/system"
    row = next(row for row in page.rows if row[0] == "plant")
    assert row[1] == "3" and row[2].endswith("kB") and row[3].endswith("UTC") and row[4] == ""


def test_a_table_with_an_address_leads_to_its_pages(site: ConsoleSite) -> None:
    site.node.node.resources.set("Plant", type("Plant", (TableResource,), {"table": site.node.store.databases["garden"].tables["plant"]}))
    page = site.get("/console/databases/garden").page
    assert page.links["/Plant"] == "http://localhost:9926/Plant/"
    table = site.get("/console/databases/garden/plant").page
    assert table.links["/Plant"] == "http://localhost:9926/Plant/"
    assert "no address on the application port" not in table.text
    dropping = site.get("/console/databases/garden/plant?do=drop").page.text
    assert "/Plant answer 404" in dropping


def test_the_page_of_a_table(site: ConsoleSite) -> None:
    at = {"name": "at", "type": "Date", "indexed": True, "nullable": False}
    declared = [{"name": "code", "type": "String"}, {"name": "sizes", "elements": "Int"}, at]
    site.node.run("create_table", database="garden", table="bed", primary_key="code", expiration=60, audit=False, attributes=declared)
    page = site.get("/console/databases/garden/bed").page
    assert ["code", "String", "primary key", ""] in page.rows
    assert ["sizes", "[Int]", "", "Drop"] in page.rows
    assert ["at", "Date", "indexed, required", "Drop"] in page.rows
    assert "expires after 60s" in page.text and "does not keep what records were before" in page.text and "declared" in page.text
    assert page.links["Drop sizes"] == "../../databases/garden/bed?do=drop-attribute&attribute=sizes"
    assert not [each for tag, each in page.elements if each.get("value") == "log"]  # there is nothing to remove


def test_records_of_a_table_without_an_address(site: ConsoleSite) -> None:
    site.node.run("insert", database="garden", table="plant", records=[{"id": number, "name": HOSTILE} for number in range(3, 120)])
    page = site.get("/console/databases/garden/plant").page
    ids = [row[0] for row in page.rows if row[0].isdecimal()]
    assert ids == [str(number) for number in range(50)] and "Records 1 to 50" in page.text and HOSTILE in page.text
    assert page.links["Search it with an operation"] == "../../operations/search_by_conditions?database=garden&table=plant"
    last = site.get("/console/databases/garden/plant?start=100").page
    assert "Records 101 to 120" in last.text and "Next page" not in last.links
    assert last.links["Previous page"] == "../../databases/garden/plant?start=50"
    assert "No more records" in site.get("/console/databases/garden/plant?start=9999999").page.text
    for start in ("-1", "x", "1e9", "²", "9" * 30):
        assert "Records 1 to 50" in site.get(f"/console/databases/garden/plant?start={quote(start)}").page.text


def test_system_is_read_only(site: ConsoleSite) -> None:
    for path in ("/console/databases/system", "/console/databases/system/svc_user"):
        page = site.get(path).page
        assert offered(page) == set()
        assert not any("do=drop" in each or "do=create" in each for each in page.links.values())
    users = site.get("/console/databases/system/svc_user").page
    assert "admin" in users.text and "password" not in [row[0] for row in users.rows[-3:]]
    assert site.get("/console/databases/system?do=drop").status == 404
    answer = site.post("/console/databases/system", {"do": "drop", "typed": "system"})
    assert answer.status == 403 and "svc_user" in site.node.store.databases["system"].tables


@pytest.mark.parametrize(
    "path",
    ["nosuch", "garden/nosuch", "garden/plant/more", "garden?do=nosuch", "garden/plant?do=drop-attribute&attribute=nosuch", "%2e%2e"],
)
def test_what_is_not_there(site: ConsoleSite, path: str) -> None:
    assert site.get(f"/console/databases/{path}").status == 404


# --- making ---------------------------------------------------------------------------------------------------------------------------


def test_a_database_is_made(site: ConsoleSite) -> None:
    answer = site.post("/console/databases", {"do": "create-database", "database": "shop"})
    assert answer.status == 303 and answer.location == "./databases/shop?note=The+database+shop+was+made"
    assert names(site)["shop"] == []
    again = site.post("/console/databases", {"do": "create-database", "database": "shop"})
    assert again.status == 400 and "already exists" in alert(again) and "DATABASE_EXISTS" in again.page.text
    assert again.page.find("input", name="database") == again.page.find("input", value="shop", **{"aria-invalid": "true"})


@pytest.mark.parametrize("name", ["", "a/b", "..", ".x", "a`b", "ü", HOSTILE + "/", "x" * 251])
def test_a_database_that_cannot_be(site: ConsoleSite, name: str) -> None:
    answer = site.post("/console/databases", {"do": "create-database", "database": name})
    assert answer.status == 400 and alert(answer)
    assert answer.page.find("input", name="database")["value"] == name
    assert list(names(site)) == ["garden"]


def test_a_dynamic_table_is_made(site: ConsoleSite) -> None:
    answer = site.post("/console/databases/garden?do=create-table", {"do": "create-table", "table": "bed", "lines": "6"})
    assert answer.status == 303 and answer.location.startswith("../databases/garden/bed?note=")
    assert site.node.run("describe_table", database="garden", table="bed")["schema_defined"] is False


def test_a_declared_table_is_made(site: ConsoleSite) -> None:
    form = {
        "do": "create-table", "lines": "12", "table": "bed", "primary_key": "code", "expiration": "90", "audit": "no",
        "name0": "code", "type0": "String", "name1": "size", "type1": "[Int]", "name9": "ü '\"", "type9": "Date", "indexed9": "1", "nullable9": "1",
        "name20": "beyond",
    }  # fmt: skip
    assert site.post("/console/databases/garden?do=create-table", form).status == 303
    described = site.node.run("describe_table", database="garden", table="bed")
    assert (described["hash_attribute"], described["expiration"], described["audit"]) == ("code", "90s", False)
    found = attributes(site, "bed")
    assert list(found) == ["code", "size", "ü '\""] and found["size"]["elements"] == "Int"
    assert found["ü '\""]["indexed"] and found["ü '\""]["nullable"] is False
    assert "ü '\"" in site.get("/console/databases/garden/bed").page.text


def test_more_lines_for_attributes_keep_what_was_entered(site: ConsoleSite) -> None:
    form = {"do": "create-table", "lines": "6", "table": HOSTILE, "name5": HOSTILE, "type5": "[Date]", "indexed5": "1", "more": "1"}
    answer = site.post("/console/databases/garden?do=create-table", form)
    page = answer.page
    assert answer.status == 200 and alert(answer) == "" and names(site) == {"garden": ["plant"]}
    assert page.find("input", name="lines")["value"] == "12" and page.find("input", name="name11")["value"] == ""
    assert page.find("input", name="name5")["value"] == HOSTILE and "checked" in page.find("input", name="indexed5")
    assert page.find("option", value="[Date]", selected="")
    most = site.post("/console/databases/garden?do=create-table", {**form, "lines": "999999"}).page
    assert most.find("input", name="lines")["value"] == "256" and not [each for tag, each in most.elements if each.get("name") == "more"]


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"table": ""}, "'table' is not allowed to be empty"),
        ({"table": "plant"}, "already exists"),
        ({"table": "a/b"}, "names cannot include backticks or forward slashes"),
        ({"expiration": "soon"}, "'expiration' must be a number"),
        ({"expiration": "-1"}, "'expiration' must be greater than 0"),
        ({"name0": "a", "name1": "a"}, "listed twice"),
        ({"name0": "a", "type0": "nosuch"}, "'attributes[0].type' must be one of"),
        ({"name0": "x" * 300}, "too long"),
    ],
)
def test_a_table_that_cannot_be(site: ConsoleSite, changes: dict[str, str], text: str) -> None:
    form = {"do": "create-table", "lines": "6", "table": "bed", **changes}
    answer = site.post("/console/databases/garden?do=create-table", form)
    assert answer.status == 400 and text in answer.page.text
    assert all(
        answer.page.find("input", name=name)["value"] == value for name, value in form.items() if name[:4] in ("tabl", "expi", "name")
    )
    assert names(site) == {"garden": ["plant"]}


def test_an_attribute_is_added(site: ConsoleSite) -> None:
    answer = site.post("/console/databases/garden/plant", {"do": "create-attribute", "attribute": HOSTILE, "type": "Date", "indexed": "1"})
    assert answer.status == 303
    assert attributes(site, "plant")[HOSTILE] == {"attribute": HOSTILE, "type": "Date", "indexed": True}
    assert HOSTILE in site.get("/console/databases/garden/plant").page.text
    again = site.post("/console/databases/garden/plant", {"do": "create-attribute", "attribute": HOSTILE, "type": "Date"})
    assert again.status == 400 and "ATTRIBUTE_EXISTS" in again.page.text and again.page.find("input", name="attribute")["value"] == HOSTILE
    assert again.page.find("option", value="Date", selected="")


# --- dropping -------------------------------------------------------------------------------------------------------------------------


def test_dropping_asks_for_the_name(site: ConsoleSite) -> None:
    page = site.get("/console/databases/garden/plant?do=drop").page
    assert "It has 3 records, " in page.text and page.links["Cancel"] == "../../databases/garden/plant"
    for typed in ("", "Plant", "plant ", HOSTILE, "garden"):
        answer = site.post("/console/databases/garden/plant?do=drop", {"do": "drop", "typed": typed})
        assert answer.status == 400 and "NOT_CONFIRMED" in answer.page.text
        assert (
            answer.page.find("input", name="typed")["aria-describedby"] == "fault"
            and answer.page.find("input", name="typed")["value"] == typed
        )
        assert names(site) == {"garden": ["plant"]}
    answer = site.post("/console/databases/garden/plant?do=drop", {"do": "drop", "typed": "plant"})
    assert answer.status == 303 and answer.location == "../../databases/garden?note=The+table+plant+was+dropped"
    assert names(site) == {"garden": []}


def test_a_form_without_its_page_drops_nothing_unless_confirmed(site: ConsoleSite) -> None:
    assert site.post("/console/databases/garden", {"do": "drop"}).status == 400
    assert site.post("/console/databases/garden/plant", {"do": "drop"}).status == 400
    assert site.post("/console/databases/garden/plant", {"do": "nosuch"}).status == 400
    assert site.post("/console/databases/garden/plant?do=drop", {"do": "drop", "typed": "plant"}, token="0" * 32).status == 403
    assert site.post("/console/databases/garden/plant?do=drop", {"do": "drop", "typed": "plant"}, None).status == 401
    assert names(site) == {"garden": ["plant"]}


def test_a_database_is_dropped(site: ConsoleSite) -> None:
    page = site.get("/console/databases/garden?do=drop").page
    assert "It has 1 table and 3 records, " in page.text
    assert site.post("/console/databases/garden?do=drop", {"do": "drop", "typed": "plant"}).status == 400
    assert site.post("/console/databases/garden?do=drop", {"do": "drop", "typed": "garden"}).status == 303
    assert names(site) == {}


def test_what_was_dropped_meanwhile_is_not_there(site: ConsoleSite) -> None:
    shown = site.get("/console/databases/garden/plant?do=drop").page
    token = shown.find("input", name="_token")["value"]
    site.node.run("drop_table", database="garden", table="plant")
    answer = site.post("/console/databases/garden/plant?do=drop", {"do": "drop", "typed": "plant"}, token=token)
    assert answer.status == 404 and "does not exist" in answer.page.text


def test_an_attribute_is_dropped(site: ConsoleSite) -> None:
    path = "/console/databases/garden/plant?do=drop-attribute&attribute=name"
    assert "removed from every record" in site.get(path).page.text
    form = {"do": "drop-attribute", "attribute": "name", "typed": "nam"}
    assert site.post(path, form).status == 400 and "name" in attributes(site, "plant")
    assert site.post(path, {**form, "typed": "name"}).status == 303 and "name" not in attributes(site, "plant")


def test_an_attribute_whose_name_cannot_be_typed(site: ConsoleSite) -> None:
    name = "a\u202eb\x01"
    site.node.run("insert", database="garden", table="plant", records=[{"id": 9, name: 1}])
    page = site.get("/console/databases/garden/plant").page
    path = follow("/console/databases/garden/plant", page, "Drop a\\u202eb\\u0001")
    assert "a\\u202eb\\u0001" in site.get(path).page.text
    assert site.post(path, {"do": "drop-attribute", "attribute": name, "typed": "a\\u202eb\\u0001"}).status == 303
    assert name not in attributes(site, "plant")


def test_a_declared_table_is_said_to_come_back(site: ConsoleSite) -> None:
    site.node.run("create_table", database="garden", table="bed", attributes=[{"name": "id"}, {"name": "size", "type": "Int"}])
    assert "schema of an application" in site.get("/console/databases/garden/bed?do=drop").page.text
    assert "Records keep their values" in site.get("/console/databases/garden/bed?do=drop-attribute&attribute=size").page.text


@pytest.mark.parametrize("name", [ODD, HOSTILE, "..", ".", "%2e%2e", "drop", "a|b;c,d"])
def test_names_that_addresses_have_to_escape(site: ConsoleSite, name: str) -> None:
    """From the list to the page of the table, through its forms, and away."""
    database = name.strip(".") or "odd"
    site.node.run("create_table", database=database, table=name)
    site.node.run("insert", database=database, table=name, records=[{"id": 1, name: name}])
    at = follow("/console/databases", site.get("/console/databases").page, name)
    page = site.get(at)
    assert page.status == 200 and name in page.page.text
    dropping = follow(at, page.page, "Drop the table")
    assert name in site.get(dropping).page.text
    answer = site.post(dropping, {"do": "drop", "typed": name})
    assert answer.status == 303, answer.body.decode()
    assert names(site)[database] == []
    assert site.get(resolve(dropping, answer.location)).status == 200


def follow(at: str, page: Parsed, text: str) -> str:
    return resolve(at, page.links[text])


def resolve(at: str, reference: str) -> str:
    """As a browser does it: `%2e%2e` is a step as well."""
    path, mark, query = reference.partition("?")
    steps = at.partition("?")[0].split("/")[:-1] if path else [at.partition("?")[0]]
    for step in path.split("/") if path else []:
        plain = step.lower().replace("%2e", ".")
        if plain == "..":
            steps.pop()
        elif plain != ".":
            steps.append(step)
    return "/".join(steps) + mark + query


# --- cleaning up ----------------------------------------------------------------------------------------------------------------------


def test_old_records_are_deleted_by_a_job(site: ConsoleSite) -> None:
    page = site.get("/console/databases/garden/plant?do=records&before=2100-01-01").page
    assert "2100-01-01T00:00:00" in page.text
    form = {name: page.find("input", name=name)["value"] for name in ("do", "before")}
    wrong = site.post("/console/databases/garden/plant?do=records&before=2100-01-01", {**form, "typed": "x"})
    assert wrong.status == 400 and site.node.run("describe_table", database="garden", table="plant")["record_count"] == 3
    answer = site.post("/console/databases/garden/plant?do=records&before=2100-01-01", {**form, "typed": "plant"})
    assert answer.status == 303 and "/jobs/" in answer.location
    assert site.node.finished({"job_id": answer.location.partition("jobs/")[2].partition("?")[0]})["message"].startswith("3 of 3")


def test_old_entries_of_the_log_are_removed_by_a_job(site: ConsoleSite) -> None:
    page = site.get("/console/databases/garden/plant?do=log&before=2100-01-01").page
    form = {name: page.find("input", name=name)["value"] for name in ("do", "before")}
    answer = site.post("/console/databases/garden/plant?do=log&before=2100-01-01", {**form, "typed": "plant"})
    assert answer.status == 303
    site.node.finished({"job_id": answer.location.partition("jobs/")[2].partition("?")[0]})
    assert site.node.run("read_audit_log", database="garden", table="plant") == []


@pytest.mark.parametrize("before", ["", "yesterday", "2026-13-01", HOSTILE])
def test_a_time_that_is_none(site: ConsoleSite, before: str) -> None:
    answer = site.get(f"/console/databases/garden/plant?do=records&before={quote(before)}")
    assert answer.status == 400


def test_blobs_are_cleaned_up(site: ConsoleSite) -> None:
    assert "Clean up" in site.get("/console/databases/garden?do=blobs").page.text
    assert site.post("/console/databases/garden?do=blobs", {"do": "blobs"}).status == 303


# --- who may what ---------------------------------------------------------------------------------------------------------------------


def offered(page: Parsed) -> set[str]:
    return {each.partition("do=")[2].partition("&")[0] for each in page.links.values() if "do=" in each} | {
        each["value"] for tag, each in page.elements if tag == "input" and each.get("name") == "do"
    }


def users(site: ConsoleSite) -> dict[str, User]:
    reader = {
        "garden": {"tables": {"plant": {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}}}
    }
    return {
        "structure": site.node.user("structure", {"structure_user": True}),
        "garden structure": site.node.user("gardener", {"structure_user": ["garden"], **reader}),
        "reader": site.node.user("reader", reader),
        "log reader": site.node.user("log", {"operations": ["read_log"]}),
    }


@pytest.mark.parametrize(
    "who, tree, database, table",
    [
        (
            "super user",
            {"create-database"},
            {"create-table", "drop", "blobs"},
            {"drop", "drop-attribute", "create-attribute", "records", "log"},
        ),
        ("structure", {"create-database"}, {"create-table", "drop"}, {"drop", "drop-attribute", "create-attribute"}),
        ("garden structure", set(), {"create-table"}, {"drop", "drop-attribute", "create-attribute"}),
        ("reader", set(), set(), set()),
        ("log reader", None, None, None),
    ],
)
def test_what_is_offered_is_what_is_allowed(
    site: ConsoleSite, who: str, tree: set[str] | None, database: set[str] | None, table: set[str] | None
) -> None:
    user: Any = users(site).get(who, "admin")
    for path, expected in (("", tree), ("/garden", database), ("/garden/plant", table)):
        answer = site.get(f"/console/databases{path}", user)
        if expected is None:
            assert answer.status in (403, 404), (path, answer.status)
        else:
            assert answer.status == 200 and offered(answer.page) == expected, path
    if table is not None and "drop" not in table:
        answer = site.post("/console/databases/garden/plant?do=drop", {"do": "drop", "typed": "plant"}, user)
        assert answer.status == 403 and names(site) == {"garden": ["plant"]}


def test_a_structure_user_sees_databases_without_the_rest(site: ConsoleSite) -> None:
    user = users(site)["structure"]
    page = site.get("/console/databases", user).page
    assert "plant" in page.links and "system" not in page.links
    places = {text for text, href in page.links.items() if href.count("/") == 1}
    assert {"Databases", "Jobs"} <= places and {"Backups", "Scheduler", "Logs", "Audit log"}.isdisjoint(places)
    assert site.post("/console/databases/garden?do=drop", {"do": "drop", "typed": "garden"}, user).status == 303 and names(site) == {}


def test_who_may_drop_what_it_may_not_see(site: ConsoleSite) -> None:
    user = site.node.user("dropper", {"operations": ["describe_all", "drop_table"]})
    assert "garden" not in site.get("/console/databases", user).page.links
    asked = site.get("/console/databases/garden/plant?do=drop", user)
    assert asked.status == 200 and "It has" not in asked.page.text
    assert site.post("/console/databases/garden/plant?do=drop", {"do": "drop", "typed": "plant"}, user).status == 303
    assert names(site) == {"garden": []}


def test_a_reader_sees_what_it_may_read(site: ConsoleSite) -> None:
    user = users(site)["reader"]
    page = site.get("/console/databases/garden/plant", user).page
    assert "n2" in page.text and "Drop" not in page.text
    site.node.run("create_table", database="garden", table="secret")
    assert "secret" not in site.get("/console/databases/garden", user).page.text
    assert site.get("/console/databases/garden/secret", user).status in (403, 404)
    assert site.get("/console/databases/system", user).status == 403
    assert site.get("/console/databases", None).status == 401


def test_many_tables_are_told_and_not_shown(site: ConsoleSite) -> None:
    for number in range(60):
        site.node.run("create_table", database="garden", table=f"t{number:02}")
    page = site.get("/console/databases").page
    assert "t48" in page.links and "t49" not in page.links and "11 more tables" in page.text
    assert "t59" in site.get("/console/databases/garden").page.links
