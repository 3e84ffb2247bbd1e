"""Records from a file by pages: the file, its columns, the job (spec: http §7.8.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.operations import load_sources
from svc.operations.node import Node
from svc.pages.importing.columns import MOST_COLUMNS
from tests.support.application import ADMIN, Application, _joined, application
from tests.support.page_operations import InlineWorker, end_jobs, with_operations
from tests.support.pages import BROWSER, Parsed

HOSTILE = "<img src=x onerror=alert(1)>"
SCHEMA = """
type Plant @table @export @sealed { id: ID @primaryKey species: String height: Int planted: Date }
type Free @table @export { id: ID @primaryKey name: String made: Date @createdTime }
type Coded @table { id: ID @primaryKey name: String }
type Types @table @export { id: ID @primaryKey i: Int l: Long big: BigInt f: Float b: Boolean d: Date t: String list: [String] numbers: [Int] any: Any }
type Copies @table @export { id: ID @primaryKey i: Int l: Long big: BigInt f: Float b: Boolean d: Date t: String list: [String] numbers: [Int] any: Any }
"""
CODE = """
from svc import tables

class Coded(tables.Coded):
    def post(self, data, target=None):
        return super().post(data, target)
"""
Site = tuple[Application, Node]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    path = tmp_path_factory.mktemp("importing")
    with application(path, CODE, schema=SCHEMA) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_sources, "Worker", InlineWorker)
        yield made, with_operations(made, path)
        assert made.errors == []


def show(site: Site, target: str, status: int = 200) -> Parsed:
    found, _, body = site[0].answer("GET", target, accept=BROWSER)
    assert found == status, (found, body)
    return Parsed(body)


def send_file(site: Site, path: str, content: bytes, status: int = 303, token: str | None = None) -> tuple[str, bytes]:
    """(where it leads, the page)."""
    if token is None:
        token = show(site, f"{path}?_view=import").find("input", name="_token")["value"]
    parts = [
        b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s' % each for each in ((b"_token", token.encode()), (b"step", b"file"))
    ]
    parts.append(b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\nContent-Type: text/csv\r\n\r\n' + content)
    body = b"\r\n".join(parts) + b"\r\n--b--\r\n"
    found, answered, page = site[0].answer(
        "POST", f"{path}?_view=import", body, accept=BROWSER, content_type="multipart/form-data; boundary=b"
    )
    assert found == status, (found, page)
    return answered.get("location", ""), page


def send(site: Site, path: str, page: Parsed, status: int = 303, **changes: str) -> tuple[str, bytes]:
    """The form with the columns, as the page has filled it in."""
    fields: dict[str, str] = {}
    chosen = ""
    for tag, each in page.elements:
        if tag == "input" and (each["type"] == "hidden" or "checked" in each):
            fields[each["name"]] = each["value"]
        elif tag == "select":
            chosen = each["name"]
            fields.setdefault(chosen, "")
        elif tag == "option" and "selected" in each and chosen.startswith("column"):
            fields[chosen] = each["value"]
    form = urlencode(fields | changes).encode()
    found, answered, body = site[0].answer(
        "POST", f"{path}?_view=import", form, accept=BROWSER, content_type="application/x-www-form-urlencoded"
    )
    assert found == status, (found, body)
    return answered.get("location", ""), body


def loaded(site: Site, path: str, content: bytes, reading: str = "", **changes: str) -> Parsed:
    """The page of the job when it has ended."""
    where, _ = send_file(site, path, content)
    job, _ = send(site, path, show(site, path + where + reading), 303, **changes)
    end_jobs(*site)
    return show(site, path + job)


def counts(page: Parsed) -> dict[str, str]:
    return {row[0]: row[1] for row in page.rows if row[0] in ("Read", "Written", "Skipped", "Refused") and len(row) == 2}


def get(site: Site, target: str) -> Any:
    return site[0].ask("GET", target)[1]


def test_a_file_is_loaded(site: Site) -> None:
    assert show(site, "/Plant/").links["Import"] == "?_view=import"
    where, _ = send_file(site, "/Plant/", b"ID;Species;remark\n1;fern;=1+1\n2;;x\n")
    page = show(site, f"/Plant/{where}")
    assert ["ID", "leave outidspeciesheightplanted", "ID", "1"] in page.rows
    assert page.rows[-2:] == [["1", "fern", "=1+1"], ["2", "", "x"]]
    job, _ = send(site, "/Plant/", page)
    end_jobs(*site)
    page = show(site, f"/Plant/{job}")
    assert counts(page) == {"Read": "2", "Written": "2", "Skipped": "0", "Refused": "0"} and "The import is done" in page.text
    assert page.reload == ""
    assert get(site, "/Plant/1") == {"id": "1", "species": "fern"}
    show(site, f"/Plant/{where}", 404)


def test_refused_rows_are_listed(site: Site) -> None:
    rows = "".join(f"r{n},x{n},2020-01-01\n" for n in range(150))
    page = loaded(site, "/Plant/", f'id,height,planted\nok,5,\n"=cmd,{HOSTILE}",@tall,\n{rows}'.encode())
    assert counts(page) == {"Read": "152", "Written": "1", "Skipped": "0", "Refused": "151"}
    refused = [row for row in page.rows if len(row) == 5][1:]
    assert len(refused) == 100 and refused[0][:4] == ["2", "3", f"=cmd,{HOSTILE}", "height"] and "first of 151" in page.text
    found, answered, body = site[0].answer("GET", f"/Plant/{page.links['Download as CSV']}", accept=BROWSER)
    lines = body.decode().split("\r\n")
    assert found == 200 and answered["content-type"].startswith("text/csv") and "attachment" in answered["content-disposition"]
    assert (
        lines[0] == "\ufeffrow,line,key,attribute,message"
        and lines[1].startswith(f"""2,3,"'=cmd,{HOSTILE}",height,""")
        and len(lines) == 102
    )


def test_update_and_upsert(site: Site) -> None:
    assert counts(loaded(site, "/Plant/", b"id,height\nu1,1\n"))["Written"] == "1"
    assert counts(loaded(site, "/Plant/", b"id,height\nu1,2\nu2,2\n", action="update")) == {
        "Read": "2", "Written": "1", "Skipped": "1", "Refused": "0",
    }  # fmt: skip
    assert counts(loaded(site, "/Plant/", b"id,height\nu1,3\nu2,3\n"))["Skipped"] == "1"
    assert counts(loaded(site, "/Plant/", b"id,height\nu1,4\nu2,4\n", action="upsert"))["Written"] == "2"
    assert get(site, "/Plant/u2")["height"] == 4


def test_what_columns_become(site: Site) -> None:
    where, _ = send_file(site, "/Plant/", b"a,b,c\n7,oak,x\n")
    page = show(site, f"/Plant/{where}")
    _, body = send(site, "/Plant/", page, 400)
    assert "All columns are left out" in Parsed(body).text
    _, body = send(site, "/Plant/", page, 400, column0="species", column1="species")
    again = Parsed(body)
    assert "The column a becomes this attribute already" in again.text
    assert again.find("select", name="column1")["aria-describedby"] == "fault-column1"
    _, body = send(site, "/Plant/", page, 400, column1="species", action="update")
    assert "a column has to become the key" in Parsed(body).text
    _, body = send(site, "/Plant/", page, 400, column0="nosuch", column1="__proto__")
    job, _ = send(site, "/Plant/", page, column0="id", column1="species")
    end_jobs(*site)
    assert counts(show(site, f"/Plant/{job}"))["Written"] == "1" and get(site, "/Plant/7") == {"id": "7", "species": "oak"}


def test_hostile_names_are_text_and_new_attributes(site: Site) -> None:
    page = loaded(site, "/Free/", f"id,{HOSTILE},name\nh,{HOSTILE},=2+5\n".encode())
    found = get(site, "/Free/h")
    assert counts(page)["Written"] == "1" and (found[HOSTILE], found["name"]) == (HOSTILE, "=2+5")
    where, _ = send_file(site, "/Plant/", f"id,{HOSTILE}\n1,{HOSTILE}\n".encode())
    assert HOSTILE in show(site, f"/Plant/{where}").text


def test_what_the_server_sets_is_not_offered(site: Site) -> None:
    where, _ = send_file(site, "/Free/", b"id,made\ns1,2020-01-01T00:00:00Z\n")
    page = show(site, f"/Free/{where}")
    assert ["made", "leave outidname", "", "2020-01-01T00:00:00Z"] in page.rows
    send(site, "/Free/", page)
    end_jobs(*site)
    assert not get(site, "/Free/s1")["made"].startswith("2020")


def test_how_a_file_is_read_can_be_chosen(site: Site) -> None:
    where, _ = send_file(site, "/Free/", "id,name\nm1,Märchen\n".encode("windows-1252"))
    assert "not valid UTF-8" in show(site, f"/Free/{where}", 400).text
    page = show(site, f"/Free/{where}&encoding=windows-1252")
    assert page.rows[-1] == ["m1", "Märchen"]
    job, _ = send(site, "/Free/", page)
    end_jobs(*site)
    assert get(site, "/Free/m1")["name"] == "Märchen" and counts(show(site, f"/Free/{job}"))["Written"] == "1"
    where, _ = send_file(site, "/Free/", b"id|name\nx|a,b\n")
    assert show(site, f"/Free/{where}").rows[-1] == ["x", "a,b"]
    assert show(site, f"/Free/{where}&separator=%2C").rows[-1] == ["x|a"]
    assert "is not an object" in show(site, f"/Free/{where}&format=json", 400).text
    assert show(site, f"/Free/{where}&format=xml&separator=zz&encoding=rot13").rows[-1] == ["x", "a,b"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\x1f\x8b\x08" + bytes(100), "compressed"),
        (b"", "Choose a file"),
    ],
)
def test_files_that_are_not_taken(site: Site, content: bytes, text: str) -> None:
    _, body = send_file(site, "/Free/", content, 400)
    assert text in Parsed(body).text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (("a," * 9_000 + "id\n1\n").encode(), f"here at most {MOST_COLUMNS}"),
        (b"id,a,a\n1,2,3\n", "Two columns of the file are called 'a'"),
        (b'[{"id": "1"', "its end is missing"),
        (b'{"a":' * 10_000, "nested too deeply"),
        (b"id,name\n1,\xff\xfe\n", "not valid UTF-8"),
    ],
)
def test_files_that_cannot_be_read(site: Site, content: bytes, text: str) -> None:
    where, _ = send_file(site, "/Free/", content)
    assert text in show(site, f"/Free/{where}", 400).text


def test_rights(site: Site) -> None:
    rights = {"read": True, "insert": True, "update": False, "delete": False, "attribute_permissions": []}
    users = {
        "adder": ({"tables": {"Plant": rights}}, {}, 200),
        "reader": ({"tables": {"Plant": rights | {"insert": False, "update": True}}}, {}, 403),
        "listed": ({"tables": {"Plant": rights}}, {"operations": ["insert"]}, 403),
        "standard": ({"tables": {"Plant": rights}}, {"operations": ["standard_user"]}, 200),
    }
    for name, (data, more, status) in users.items():
        site[0].node.as_user(User(name, role=Role(name, name, {"data": data, **more}, databases=site[0].node.store.databases)))
        try:
            assert ("Import" in show(site, "/Plant/").links) == (status == 200), name
            page = show(site, "/Plant/?_view=import", status)
            if status == 200:
                where, _ = send_file(site, "/Plant/", b"id,height\nn1,1\n")
                page = show(site, f"/Plant/{where}")
                assert [each["value"] for tag, each in page.elements if each.get("name") == "action"] == ["insert"]
                send(site, "/Plant/", page, 403, action="upsert")
            else:
                send_file(site, "/Plant/", b"id\nn1\n", status, token="x")
        finally:
            site[0].node.as_user(ADMIN)
        if status == 200:
            show(site, f"/Plant/{where}", 404)
    site[0].node.as_user(None)
    try:
        show(site, "/Plant/?_view=import", 401)
    finally:
        site[0].node.as_user(ADMIN)
    assert get(site, "/Plant/n1") is None or "code" in get(site, "/Plant/n1")


def test_attributes_that_may_not_be_written_are_not_offered(site: Site) -> None:
    attributes = [
        {"attribute_name": name, "read": True, "insert": name != "height", "update": False} for name in ("id", "species", "height")
    ]
    rights = {"read": True, "insert": True, "update": False, "delete": False, "attribute_permissions": attributes}
    site[0].node.as_user(
        User("few", role=Role("few", "few", {"data": {"tables": {"Plant": rights}}}, databases=site[0].node.store.databases))
    )
    try:
        where, _ = send_file(site, "/Plant/", b"id,height\nf1,1\n")
        page = show(site, f"/Plant/{where}")
        assert ["height", "leave outidspecies", "", "1"] in page.rows
        job, _ = send(site, "/Plant/", page, column1="height")
        end_jobs(*site)
        assert counts(show(site, f"/Plant/{job}"))["Written"] == "1"
        assert get(site, "/Plant/f1") == {"id": "f1"}
    finally:
        site[0].node.as_user(ADMIN)


def test_code_of_an_application_is_not_passed_by(site: Site) -> None:
    assert "Import" not in show(site, "/Coded/").links
    show(site, "/Coded/?_view=import", 403)
    send_file(site, "/Coded/", b"id\n1\n", 403, token="x")


def test_forms_need_their_token(site: Site) -> None:
    send_file(site, "/Plant/", b"id\n1\n", 403, token="x")
    where, _ = send_file(site, "/Plant/", b"id\nt1\n")
    page = show(site, f"/Plant/{where}")
    send(site, "/Plant/", page, 403, _token="x")
    assert "code" in get(site, "/Plant/t1")


def test_addresses_without_an_import(site: Site) -> None:
    for path in ("/Plant/1?_view=import", "/Plant/x/?_view=import", "/Plant/?_view=import&job=nosuch"):
        show(site, path, 404)
    show(site, "/Plant/?_view=import&upload=..%2F..", 400)
    page = show(site, "/Plant/?_view=import")
    token = page.find("input", name="_token")["value"]
    form = urlencode({"_token": token, "step": "else"}).encode()
    assert site[0].answer("POST", "/Plant/?_view=import", form, accept=BROWSER, content_type="application/x-www-form-urlencoded")[0] == 400


def test_a_running_job_can_be_cancelled(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    where, _ = send_file(site, "/Plant/", b"id,height\nc1,1\n")
    page = show(site, f"/Plant/{where}")

    class Held(InlineWorker):
        """Reads the file once, as for its preview, and then no more."""

        def __init__(self) -> None:
            self._runs = 0

        async def run(self, work: Callable[[], Any]) -> Any:
            self._runs += 1
            if self._runs == 4:
                await asyncio.Event().wait()
            return work()

    with monkeypatch.context() as patch:
        patch.setattr(load_sources, "Worker", Held)
        job, _ = send(site, "/Plant/", page)  # its columns are read first
    page = show(site, f"/Plant/{job}")
    assert page.find("section", id="job")["data-poll"] == "1" and page.reload == "3"
    assert "The import is running" in page.text
    assert send(site, "/Plant/", page)[0] == job
    end_jobs(*site)
    page = show(site, f"/Plant/{job}")
    assert "cancelled by admin" in page.text and "What was written before stays" in page.text
    send(site, "/Plant/", show(site, "/Plant/?_view=import"), step="cancel", job=job.rpartition("=")[2])
    send(site, "/Plant/", show(site, "/Plant/?_view=import"), 404, step="cancel", job="nosuch")


RECORDS: list[dict[str, Any]] = [
    {"id": "1", "i": 2147483647, "l": 2**53 - 1, "big": 2**80, "f": 0.1, "b": True, "d": "2024-02-29T12:34:56.789Z", "t": "x"},
    {"id": "2", "i": None, "l": None, "f": -1.5e300, "b": False, "t": "", "list": [], "numbers": [1, 2]},
    {"id": "3", "t": 'a "quoted", text\nof two lines\t', "list": ["a,b", '"', "ä", ""], "any": {"a": [1, {"b": None}], "c": "1.10"}},
    {"id": "4", "any": "1.10", "t": "=1+1", "d": "1969-12-31T23:59:59.999Z"},
    {"id": "5", "any": [1, "2", None, True], "f": 5e-324, "big": -(2**70) - 1},
    {"id": "007", "any": True, "t": "null", "l": -1},
    {"id": "ä/ö?", "any": 12345678901234567890, "t": "\u2028😀"},
]


def exported(site: Site, accept: str) -> bytes:
    """The table `Types` as a program gets it."""
    _, answered, raw = site[0].wire.ask("GET", "/Types/", b"", {"Accept": accept})
    return _joined(raw) if answered.get("transfer-encoding") == "chunked" else raw


@pytest.mark.parametrize("kind", ["json", "ndjson", "csv"])
def test_what_was_exported_comes_back(site: Site, kind: str) -> None:
    for record in site[0].ask("GET", "/Copies/?select(id)")[1]:
        site[0].ask("DELETE", f"/Copies/{quote(record, safe='')}")
    assert site[0].ask("PUT", "/Types/", RECORDS)[0] in (200, 204)
    accept = {"json": "application/json", "ndjson": "application/x-ndjson", "csv": "text/csv"}[kind]
    content = exported(site, accept)
    assert counts(loaded(site, "/Copies/", content))["Written"] == str(len(RECORDS))
    before, after = (sorted(get(site, f"/{name}/"), key=lambda each: each["id"]) for name in ("Types", "Copies"))
    if kind == "csv":  # in which an empty cell is a missing value
        before = [{name: value for name, value in record.items() if value is not None} for record in before]
    assert after == before
