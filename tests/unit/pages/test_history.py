"""The history of a record, and putting it back as it was (spec: http §7.8.3)."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.pages.history.history import PAGE
from tests.support.application import ADMIN, Application, application
from tests.support.page_operations import with_operations
from tests.support.pages import BROWSER, Parsed

HOSTILE = "\"'><img src=x onerror=alert(1)>"
SCHEMA = """
type Plant @table @export { id: ID @primaryKey name: String height: Int place: Any photo: Blob made: Date @createdTime changed: Date @updatedTime }
type Quiet @table(audit: false) @export { id: ID @primaryKey name: String }
type Pair @table @export { id: Any @primaryKey name: String }
"""
RIGHTS = {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    path = tmp_path_factory.mktemp("history")
    with application(path, "", schema=SCHEMA) as made:
        with_operations(made, path)
        yield made
        assert made.errors == []


def show(site: Application, target: str, status: int = 200) -> Parsed:
    found, _, body = site.answer("GET", target, accept=BROWSER)
    assert found == status, (found, body)
    return Parsed(body)


def send(site: Application, path: str, page: Parsed, status: int = 303, **changes: str) -> tuple[dict[str, str], bytes]:
    fields = {each["name"]: each["value"] for tag, each in page.elements if tag == "input"}
    form = urlencode(fields | changes).encode()
    found, answered, body = site.answer("POST", path, form, accept=BROWSER, content_type="application/x-www-form-urlencoded")
    assert found == status, (found, body)
    return answered, body


def kinds(page: Parsed) -> list[str]:
    return [text.split()[0] for text in page.text.split("\n") if " UTC" in text and " by " in text]


def entry(site: Application, path: str, number: int) -> tuple[str, Parsed]:
    """The page of one entry, from the newest."""
    page = show(site, f"{path}?_view=history")
    links = [each["href"] for tag, each in page.elements if tag == "a" and "version=" in each.get("href", "")]
    return f"{path}{links[number]}", show(site, f"{path}{links[number]}")


def test_what_changed_by_whom(site: Application) -> None:
    path = "/Plant/a%2Fb"
    site.ask("PUT", path, {"name": HOSTILE, "height": 5})
    site.ask("PATCH", path, {"height": 6})
    assert show(site, path).links["History"] == "?_view=history"
    page = show(site, f"{path}?_view=history")
    assert kinds(page) == ["Update", "Upsert"]
    rows = [row for row in page.rows if row[0] in ("height", "name", "id")]
    assert rows[0] == ["height", "5", "6"] and ["name", "missing", HOSTILE] in rows and ["id", "missing", "a/b"] in rows
    times = [each["datetime"] for tag, each in page.elements if tag == "time"]
    assert len(times) == 2 and times[0].endswith("Z") and "admin" in page.text
    assert "Older entries" not in page.links and "Newer entries" not in page.links


def test_pages_of_entries(site: Application) -> None:
    for number in range(PAGE + 5):
        site.ask("PUT", "/Plant/many", {"height": number})
    page = show(site, "/Plant/many?_view=history")
    assert len(kinds(page)) == PAGE and page.links["Older entries"] == f"?_view=history&at={PAGE}"
    page = show(site, f"/Plant/many{page.links['Older entries']}")
    assert len(kinds(page)) == 5 and page.links["Newer entries"] == "?_view=history&at=0" and "Older entries" not in page.links
    assert "No more entries" in show(site, "/Plant/many?_view=history&at=400").text
    for wrong in ("x", "-1", "99999999999", "%D9%A3"):
        show(site, f"/Plant/many?_view=history&at={wrong}", 400)


def test_a_version_is_put_back(site: Application) -> None:
    site.ask("PUT", "/Plant/back", {"name": "first", "height": 1, "place": {"a": [1, 2**70]}})
    site.ask("PUT", "/Plant/back", {"name": "second"})
    path, page = entry(site, "/Plant/back", 1)
    assert ["height", "missing", "1"] in page.rows and ["name", "second", "first"] in page.rows
    answered, _ = send(site, path, page)
    assert answered["location"] == "./back"
    found = site.ask("GET", "/Plant/back")[1]
    assert (found["name"], found["height"], found["place"]) == ("first", 1, {"a": [1, 2**70]})
    assert not any(each.get("name") == "match" for _, each in entry(site, "/Plant/back", 0)[1].elements), "it is so already"


def test_a_change_meanwhile_is_not_overwritten(site: Application) -> None:
    site.ask("PUT", "/Plant/race", {"name": "first"})
    site.ask("PUT", "/Plant/race", {"name": "second"})
    path, page = entry(site, "/Plant/race", 1)
    site.ask("PUT", "/Plant/race", {"name": "third"})
    _, body = send(site, path, page, 412)
    assert site.ask("GET", "/Plant/race")[1]["name"] == "third"
    again = Parsed(body)
    assert ["name", "third", "first"] in again.rows and again.find("p", role="alert")
    send(site, path, again)
    assert site.ask("GET", "/Plant/race")[1]["name"] == "first"


def test_a_deleted_record_is_made_again(site: Application) -> None:
    site.ask("PUT", "/Plant/gone", {"name": "was", "height": 3})
    site.ask("DELETE", "/Plant/gone")
    path, page = entry(site, "/Plant/gone", 0)
    assert "The record is not there any more" in page.text and page.find("input", name="match")["value"] == ""
    send(site, path, page)
    assert site.ask("GET", "/Plant/gone")[1]["height"] == 3
    send(site, path, page, 412)


def test_files_are_not_restored(site: Application) -> None:
    site.ask("PUT", "/Plant/file", {"name": "x"})
    assert site.wire.ask("PUT", "/Plant/file/photo", b"abc", {"Content-Type": "image/png"})[0] == 204
    site.ask("PATCH", "/Plant/file", {"name": "y"})
    path, page = entry(site, "/Plant/file", 1)
    assert not any(each.get("name") == "match" for _, each in page.elements)
    form = {"version": path.partition("version=")[2], "at": "1"}
    token = entry(site, "/Plant/file", 2)[1].find("input", name="_token")["value"]
    body = urlencode({**form, "_token": token, "match": "*"}).encode()
    assert site.answer("POST", path, body, accept=BROWSER, content_type="application/x-www-form-urlencoded")[0] == 400


def test_who_may_not_read_the_log_has_no_history(site: Application) -> None:
    site.ask("PUT", "/Plant/mine", {"name": "x"})
    path, page = "/Plant/mine?_view=history", None
    for permission, status in (({}, 403), ({"operations": ["read_audit_log"]}, 200), ({"operations": ["standard_user"]}, 403)):
        role = Role("r", "r", {"data": {"tables": {"Plant": RIGHTS}}, **permission}, databases=site.node.store.databases)
        site.node.as_user(User("r", role=role))
        try:
            assert ("History" in show(site, "/Plant/mine").links) == (status == 200)
            page = show(site, path, status)
        finally:
            site.node.as_user(ADMIN)
    site.node.as_user(None)
    try:
        show(site, path, 401)
    finally:
        site.node.as_user(ADMIN)
    assert page is not None


def test_a_form_needs_its_token(site: Application) -> None:
    site.ask("PUT", "/Plant/token", {"name": "first"})
    site.ask("PUT", "/Plant/token", {"name": "second"})
    path, page = entry(site, "/Plant/token", 1)
    send(site, path, page, 403, _token="x")
    assert site.ask("GET", "/Plant/token")[1]["name"] == "second"


def test_tables_without_audit_say_so(site: Application) -> None:
    site.ask("PUT", "/Quiet/a", {"name": "x"})
    assert "audit: false" in show(site, "/Quiet/a?_view=history").text


def test_versions_that_are_not_there(site: Application) -> None:
    site.ask("PUT", "/Plant/v", {"name": "x"})
    show(site, "/Plant/v?_view=history&version=5.0", 404)
    show(
        site,
        f"/Plant/v?_view=history&version={HOSTILE}".replace("<", "%3C").replace('"', "%22").replace(" ", "%20").replace(">", "%3E"),
        404,
    )
    show(site, "/Plant/?_view=history", 404)
    assert "no entry" in show(site, "/Plant/never?_view=history").text
