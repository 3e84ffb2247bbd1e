"""Backups in the console (spec: console §7)."""

from __future__ import annotations

import io
import tarfile
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.console import ConsoleAnswer, ConsoleSite

HOSTILE = "\"'><img src=x onerror=alert(1)>"


@pytest.fixture
def site(site: ConsoleSite) -> ConsoleSite:
    site.node.run("create_table", database="garden", table="plant", primary_key="id")
    site.node.run("insert", database="garden", table="plant", records=[{"id": number} for number in range(3)])
    return site


def job_of(site: ConsoleSite, answer: ConsoleAnswer) -> dict[str, Any]:
    """The job that a form has started, when it has ended."""
    assert answer.status == 303 and "jobs/" in answer.location, answer.body.decode()
    return site.node.finished({"job_id": answer.location.partition("jobs/")[2].partition("?")[0]})


def back_up(site: ConsoleSite, database: str = "garden") -> dict[str, Any]:
    job = job_of(site, site.post(f"/console/backups?database={quote(database)}", {"do": "create"}))
    site.node.clock.advance(60)
    return job


def numbers(site: ConsoleSite) -> list[int]:
    return [each["backup_id"] for each in site.node.run("list_backups", database="garden")]


def test_databases_are_offered(site: ConsoleSite) -> None:
    page = site.get("/console/backups").page
    assert page.links["garden"] == "./backups?database=garden" and "system" in page.links
    chosen = site.get("/console/backups?database=garden").page
    assert "No backups." in chosen.text and chosen.find("a", href="./backups?database=garden")["aria-current"] == "true"
    assert "svc restore_backup database=garden" in chosen.text


def test_backups_are_made_and_listed(site: ConsoleSite) -> None:
    assert back_up(site)["status"] == "COMPLETE"
    assert back_up(site)["result"]["backup_id"] == 2
    page = site.get("/console/backups?database=garden").page
    assert [row[0] for row in page.rows[1:]] == ["2", "1"]
    assert page.rows[1][1].endswith(" UTC") and page.rows[1][2].endswith("B") and page.rows[1][3] == "1"


def test_a_backup_is_checked(site: ConsoleSite) -> None:
    back_up(site)
    job = job_of(site, site.post("/console/backups?database=garden", {"do": "verify", "backup_id": "1", "checksum": "1"}))
    assert (job["type"], job["status"]) == ("verify_backup", "COMPLETE")
    [file] = (site.node.config.storage.backup_path / "garden" / "1").rglob("*.mdb")
    file.write_bytes(file.read_bytes()[:-4096] + b"x" * 4096)
    job = job_of(site, site.post("/console/backups?database=garden", {"do": "verify", "backup_id": "1", "checksum": "1"}))
    assert job["status"] == "ERROR" and "is bad" in job["message"]


def test_a_backup_is_deleted_after_a_question(site: ConsoleSite) -> None:
    back_up(site)
    page = site.get("/console/backups?database=garden").page
    asked = site.get("/console/backups?" + page.links["Delete backup 1"].partition("?")[2])
    assert "Backup 1 of garden" in asked.page.text and numbers(site) == [1]
    answer = site.post("/console/backups?database=garden&delete=1", {"do": "delete", "backup_id": "1"})
    assert answer.status == 303 and answer.location == "./backups?database=garden&note=Backup+1+was+deleted" and numbers(site) == []
    assert site.post("/console/backups?database=garden", {"do": "delete", "backup_id": "1"}).status == 404
    assert site.get("/console/backups?database=garden&delete=1").status == 404


def test_old_backups_are_removed(site: ConsoleSite) -> None:
    for _ in range(4):
        back_up(site)
    asked = site.get("/console/backups?database=garden&keep=1").page
    assert "3 of the 4 backups of garden are removed" in asked.text and "number 1, 2, 3." in asked.text
    form = {each["name"]: each["value"] for tag, each in asked.elements if tag == "input" and each.get("name") in ("do", "keep_count")}
    answer = site.post("/console/backups?database=garden&keep=1", form)
    assert answer.status == 303 and "3+backups+were+removed%2C+1+are+left" in answer.location and numbers(site) == [4]
    assert "0 of the 1 backups" in site.get("/console/backups?database=garden&keep=5").page.text


@pytest.mark.parametrize("keep", ["x", "-1", "1.5", "9" * 30, HOSTILE])
def test_numbers_to_keep_that_are_none(site: ConsoleSite, keep: str) -> None:
    assert site.get(f"/console/backups?database=garden&keep={quote(keep)}").status == 400
    back_up(site)
    assert site.post("/console/backups?database=garden", {"do": "purge", "keep_count": keep}).status == 400 or keep.isdigit()
    assert numbers(site) == [1]


def test_a_database_is_restored(site: ConsoleSite) -> None:
    back_up(site)
    site.node.run("insert", database="garden", table="plant", records=[{"id": 9}])
    path = "/console/backups?database=garden&restore=1"
    asked = site.get(path).page
    assert "what was written since is lost" in asked.text and "svc restore_backup database=garden backup_id=1" in asked.text
    wrong = site.post(path, {"do": "restore", "backup_id": "1", "typed": "plant"})
    assert wrong.status == 400 and "NOT_CONFIRMED" in wrong.page.text
    assert job_of(site, site.post(path, {"do": "restore", "backup_id": "1", "typed": "garden"}))["status"] == "COMPLETE"
    assert site.node.run("describe_table", database="garden", table="plant")["record_count"] == 3


def test_a_download_is_the_operation(site: ConsoleSite) -> None:
    page = site.get("/console/backups?database=garden").page
    assert page.find("form", action="./backups/download")["method"] == "get"
    answer = site.get("/console/backups/download?database=garden")
    found = {name.lower(): value for name, value in answer.headers}
    assert answer.status == 200 and found["content-disposition"] == 'attachment; filename="garden.tar.gz"'
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as archive:
        assert "database/data.mdb" in archive.getnames()
    away = site.get("/console/backups/download?database=garden", sec_fetch_site="cross-site")
    assert away.status == 303 and away.location == "../backups?database=garden"
    assert site.get("/console/backups/download?database=nosuch").status == 404
    assert site.get("/console/backups/download?database=../x").status == 400
    assert site.get("/console/backups/download").status in (400, 404)
    assert site.get("/console/backups/download?database=garden", None).status == 401
    assert site.get("/console/backups/download?database=garden", site.node.user("ann", {"structure_user": True})).status == 403
    assert site.post("/console/backups/download?database=garden", {}, token=page.find("input", name="_token")["value"]).status == 404


@pytest.mark.parametrize("name", ["../../etc", "..", ".", "a/b", HOSTILE, "ü", "x" * 300, "nosuch"])
def test_names_of_databases(site: ConsoleSite, name: str) -> None:
    answer = site.get(f"/console/backups?database={quote(name, safe='')}")
    assert answer.status in (200, 400) and answer.page.find("input", name="database")["value"] == name
    assert "Restore backup" not in answer.page.text
    back_up = site.post(f"/console/backups?database={quote(name, safe='')}", {"do": "create"})
    assert back_up.status in (400, 404)


def test_the_command_that_restores_is_one_for_a_shell(site: ConsoleSite) -> None:
    site.node.run("create_database", database="a b'; reboot")
    assert "svc restore_backup 'database=a b'\"'\"'; reboot'" in site.get("/console/backups?database=a%20b'%3B%20reboot").page.text
    assert "svc restore_backup 'database=x\\u202ey'" in site.get("/console/backups?database=x%E2%80%AEy").page.text


def test_backups_of_a_database_that_is_gone(site: ConsoleSite) -> None:
    back_up(site)
    site.node.run("drop_database", database="garden")
    page = site.get("/console/backups?database=garden").page
    assert [row[0] for row in page.rows[1:]] == ["1"] and "garden" not in page.links


@pytest.mark.parametrize(
    "form", [{}, {"do": "nosuch"}, {"do": "verify"}, {"do": "verify", "backup_id": "x"}, {"do": "delete", "backup_id": "0"}]
)
def test_forms_that_are_none(site: ConsoleSite, form: dict[str, str]) -> None:
    back_up(site)
    assert site.post("/console/backups?database=garden", form).status == 400
    assert numbers(site) == [1]


def test_system_is_not_restored_here(site: ConsoleSite) -> None:
    assert back_up(site, "system")["status"] == "COMPLETE"
    page = site.get("/console/backups?database=system").page
    assert "Restore backup 1" not in page.links and "only while the service is stopped" in page.text
    answer = site.post("/console/backups?database=system", {"do": "restore", "backup_id": "1", "typed": "system"})
    assert answer.status == 400 and "only while svc is stopped" in answer.page.text


def test_what_is_offered_is_what_is_allowed(site: ConsoleSite) -> None:
    back_up(site)
    lister = site.node.user("lister", {"operations": ["list_backups", "verify_backup"]})
    page = site.get("/console/backups?database=garden", lister).page
    assert "Check backup 1" in [each.get("aria-label") for _, each in page.elements]
    offered = {each["value"] for tag, each in page.elements if tag == "input" and each.get("name") == "do"}
    assert (
        offered == {"verify"} and not {"Delete backup 1", "Restore backup 1", "garden"} & page.links.keys() and "Download" not in page.text
    )
    for do in ("create", "delete", "purge", "restore"):
        form = {"do": do, "backup_id": "1", "keep_count": "0", "typed": "garden"}
        assert site.post("/console/backups?database=garden", form, lister).status == 403
    assert numbers(site) == [1]
    for permission in ({}, {"structure_user": True}, {"operations": ["read_log"]}):
        assert site.get("/console/backups?database=garden", site.node.user("other", permission)).status == 403
    assert site.post("/console/backups?database=garden", {"do": "purge", "keep_count": "0"}, token="0" * 32).status == 403
    assert numbers(site) == [1]
