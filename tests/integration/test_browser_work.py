"""A person works in Chromium with pages that a real server makes: what they have to see, row by row, then one way
through all of it by the keyboard alone, and the same with scripts switched off.

Which test shows which row:

log in wrong, right, log out         `login_and_logout` here, `a_login_ends_while_a_form_is_filled_in`, and both ways
1000 records: pages, order, filter   `rows_are_those_of_the_address` here
filters with faults                  `faults_of_a_filter` here; test_browser_table
insert, edit, delete                 both ways, with a change by somebody else in between; test_browser_forms
import, export                       `files_come_back` here; test_browser_import
GraphQL, operation, SQL              test_graphql_page, test_console_panels; by both ways too, GraphQL by keyboard
100 requests, the chart rises        test_console_charts
a role with one table                both ways
the log is followed                  both ways; test_console_logs
all of it by keyboard                `test_the_way_through` by keyboard
a hostile value is text              `hostile_values_are_text` here
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.axe import emulate
from tests.support.chromium import CHROMIUM, CTRL, Navigated, Page, open_page
from tests.support.hands import ENTERED, Keyboard, Pointer
from tests.support.waiting import wait_until
from tests.support.workshop import HOSTILE, check_page, fill, make_application, tool

pytestmark = [pytest.mark.programs, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]

RESOURCES = """
from svc import Resource, logger


class Fail(Resource):
    def allow_read(self, *arguments):
        return True

    def get(self, target, *arguments):
        logger.error(f"it has failed: {target.id}")
        return "failed"
"""
COLUMNS = ("id", "name", "kind", "price", "stock", "serial")
SECRET = "a long word, and more"
SHOWN_ADDRESS = "#as-url"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("work")
    app = make_application(folder / "app")
    (app / "config.yaml").write_text((app / "config.yaml").read_text() + "resources: {files: 'resources.py'}\ngraphql: true\n")
    (app / "resources.py").write_text(RESOURCES)
    process = Process(folder / "root", app).start()
    with process.client() as client:
        fill(client)
    yield process
    assert process.stop() == 0, process.output()
    errors = [line for line in process.logged().splitlines() if "[error]" in line and "it has failed" not in line]
    assert errors == []


def log_in(hands: Keyboard, user: str = "admin", password: str = PASSWORD, button: str = "Log in") -> None:
    """At the form of the console, and at the one that keeps what was sent."""
    hands.enter("User name", user)
    hands.enter("Password", password)
    hands.press(button)


def rows(page: Page) -> list[dict[str, str]]:
    """What the table shows."""
    found: list[dict[str, str]] = page.evaluate(
        """(() => {
          const [head, ...rows] = document.querySelector('table.rows').rows;
          const names = [...head.cells].map((cell) => cell.querySelector('bdi').textContent);
          return rows.map((row) => Object.fromEntries(names.map((name, at) => [name, row.cells[at].textContent])));
        })()"""
    )
    return found


def text_of(value: Any) -> str:
    """A plain value, as a table shows it: what turns the direction of writing is named."""
    return str(value).replace("\u202e", r"\u202e")


def check_rows(page: Page, client: httpx.Client, count: int = 50) -> None:
    """The table has what another client gets from the address that the page shows."""
    answer = client.get(page.text(SHOWN_ADDRESS))
    assert answer.status_code == 200, answer.text
    expected = [{name: text_of(each[name]) for name in COLUMNS} for each in answer.json()]
    assert [{name: row[name] for name in COLUMNS} for row in rows(page)] == expected
    assert len(expected) == count


# --- row by row --------------------------------------------------------------------------------------------------------------------------


def test_rows_of_the_table(server: Process, tmp_path: Path) -> None:
    """All in one browser, for the start of one takes seconds."""
    with open_page(tmp_path) as page, server.client() as client:
        emulate(page)
        for scenario in SCENARIOS:
            scenario(Keyboard(page), server, client, tmp_path)
            check_page(page, server)


def login_and_logout(hands: Keyboard, server: Process, client: httpx.Client, folder: Path) -> None:
    page = hands.page
    page.open(f"{server.operations_url}/console/")
    log_in(hands, password="wrong")
    hands.arrive("Log in", text="Login failed")
    log_in(hands)
    hands.arrive("Overview")
    cookies = {each["name"]: each["value"] for each in page.call("Network.getCookies")["cookies"]}
    assert status_with(server, cookies) == 200
    hands.press("Log out")
    hands.arrive("Log in")
    assert hands.names(*ENTERED) == ["User name", "Password"]
    assert status_with(server, cookies) == 401
    page.open(f"{server.operations_url}/console/users")
    log_in(hands)
    hands.arrive("Users")


def status_with(server: Process, cookies: dict[str, str]) -> int:
    """Of `describe_all` with the session of a browser."""
    assert cookies
    return httpx.post(server.operations_url, json={"operation": "describe_all"}, cookies=cookies, trust_env=False).status_code


def a_login_ends_while_a_form_is_filled_in(hands: Keyboard, server: Process, client: httpx.Client, folder: Path) -> None:
    """It is asked for once more, and what was entered is done then."""
    page = hands.page
    page.open(f"{server.url}/Tool/t0003?_view=edit")
    hands.enter("name", f"Kept {HOSTILE[:-1]}")
    end_session(page, server)
    hands.press("Save")
    hands.arrive("Log in", text="Your login has ended")
    log_in(hands, password="wrong", button="Log in and go on")
    hands.arrive("Log in", text="Login failed")
    assert client.get("/Tool/t0003").json()["name"] == "Tool 3"
    log_in(hands, button="Log in and go on")
    hands.arrive(address="/Tool/t0003#saved")
    assert client.get("/Tool/t0003").json()["name"] == f"Kept {HOSTILE[:-1]}"
    assert client.patch("/Tool/t0003", json={"name": "Tool 3"}).status_code == 204
    page.open(f"{server.url}/sql")
    hands.enter("Statement", "SELECT 6 * 7 AS answer")
    end_session(page, server)
    hands.press("Run")
    hands.arrive("Log in", text="Your login has ended")
    log_in(hands, button="Log in and go on")
    hands.arrive("SQL", text="42")
    page.open(f"{server.url}/Tool/?_view=import")
    hands.attach("File", written_json(folder / "lost.json", [{"id": "lost", "name": "x"}]))
    end_session(page, server)
    hands.press("Show the columns")
    hands.arrive("Log in", text="has files")
    hands.press("log in")
    page.until("location.pathname === '/login' && document.readyState === 'complete'")
    hands.enter("User name", "admin")
    hands.enter("Password", PASSWORD)
    hands.press("Log in")
    hands.arrive("Import into Tool")


def end_session(page: Page, server: Process) -> None:
    """As another window would."""
    cookies = {each["name"]: each["value"] for each in page.call("Network.getCookies")["cookies"]}
    assert httpx.post(server.operations_url, json={"operation": "logout"}, cookies=cookies, trust_env=False).status_code == 200


def rows_are_those_of_the_address(hands: Keyboard, server: Process, client: httpx.Client, folder: Path) -> None:
    page = hands.page
    page.open(f"{server.url}/Tool/?select({','.join(COLUMNS)})")
    check_rows(page, client)
    hands.press("Next page")
    hands.arrive(address="after(")
    check_rows(page, client)
    hands.press("Sort by price, descending")
    hands.arrive(address="sort(-price)")
    check_rows(page, client)
    assert rows(page)[0]["price"] == "999.5"
    hands.enter("Query", f"price=gt=100&sort(-price)&select({','.join(COLUMNS)})")
    hands.press("Run")
    hands.arrive(address="price=gt=100&sort(-price)")
    check_rows(page, client)
    hands.press("Next page")
    hands.arrive(address="after(")
    check_rows(page, client)
    assert rows(page)[0]["price"] == "949.5"


def faults_of_a_filter(hands: Keyboard, server: Process, client: httpx.Client, folder: Path) -> None:
    page = hands.page
    page.open(f"{server.url}/Tool/?sort(price)")
    before = rows(page)
    for line, code, at in (("price=gt=", "QUERY_SYNTAX", ""), ("nosuch==1", "UNKNOWN_ATTRIBUTE", "n")):
        hands.enter("Query", line)
        page.type("\n")
        page.until(f"document.querySelector('#filter-fault code')?.textContent === {code!r}")
        assert page.text("#filter-fault mark").strip() == at
        assert rows(page) == before
        assert page.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"


def files_come_back(hands: Keyboard, server: Process, client: httpx.Client, folder: Path) -> None:
    page = hands.page
    page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    made = [tool(number) | {"id": f"file{number}", "name": HOSTILE} for number in (1, 2, 4)]
    for file in (written_csv(folder / "some.csv", made), written_json(folder / "some.json", made)):
        page.open(f"{server.url}/Tool/?id=sw=file")
        hands.press("Import")
        imported(hands, file)
        found = stored(client, made)
        page.open(f"{server.url}/Tool/?id=sw=file")
        hands.press(f"Export {file.suffix[1:].upper()}")
        exported = folder / f"Tool{file.suffix}"
        wait_until(exported.exists)
        for each in made:
            assert client.delete(f"/Tool/{each['id']}").status_code == 204
        page.open(f"{server.url}/Tool/?_view=import")
        imported(hands, exported)
        assert stored(client, made) == found
        for each in made:
            assert client.delete(f"/Tool/{each['id']}").status_code == 204


def written_csv(path: Path, records: list[dict[str, Any]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["id", "name", "price", "stock", "bought"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(records)
    return path


def written_json(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(records), "utf-8")
    return path


def imported(hands: Keyboard, file: Path) -> None:
    """Three records, from the page of the import on."""
    hands.arrive("Import into Tool")
    hands.attach("File", file)
    hands.press("Show the columns")
    hands.arrive(text="What the columns become")
    hands.press("Import")
    hands.page.until("document.getElementById('ended') && document.readyState === 'complete'")
    counts = hands.page.evaluate("[...document.querySelectorAll('#job td.number')].slice(0, 4).map((each) => each.textContent)")
    assert counts == ["3", "3", "0", "0"], hands.page.text("#job")


def stored(client: httpx.Client, records: list[dict[str, Any]]) -> list[Any]:
    """The records as they are now, but for the time of the last change."""
    return [client.get(f"/Tool/{each['id']}").raise_for_status().json() | {"changed": None} for each in records]


def hostile_values_are_text(hands: Keyboard, server: Process, client: httpx.Client, folder: Path) -> None:
    page = hands.page
    for address in ("?id==t0007", "t0007", "t0007?_view=edit", "t0007?_view=copy", "t0007?_view=delete", "t0007?_view=history"):
        page.open(f"{server.url}/Tool/{address}")
        assert page.evaluate("[...document.images].map((each) => each.alt)") == [""], address  # the icon of the home page
        assert "onerror=alert(1)" in page.evaluate(
            "document.querySelector('main').textContent + [...document.querySelectorAll('input')].map((each) => each.value)"
        ), address


SCENARIOS = (
    login_and_logout,
    a_login_ends_while_a_form_is_filled_in,
    rows_are_those_of_the_address,
    faults_of_a_filter,
    files_come_back,
    hostile_values_are_text,
)

# --- the way through ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["keyboard", "pointer"])
def test_the_way_through(server: Process, tmp_path: Path, by: str) -> None:
    """By the keyboard alone; and by a pointer without scripts."""
    profile = tmp_path / "profile"
    profile.mkdir()
    with open_page(profile) as page, server.client() as client:
        emulate(page)
        page.call("Emulation.setScriptExecutionDisabled", value=by == "pointer")
        hands = Keyboard(page) if by == "keyboard" else Pointer(page)
        page.open(f"{server.operations_url}/console/")
        log_in(hands)
        hands.arrive("Overview")
        hands.press("Databases")
        hands.arrive("Databases")
        hands.press("/Tool")
        hands.arrive("Tool")
        query(hands, client)
        record(hands, client, f"by-{by}")
        load(hands, client, tmp_path, f"file-{by}")
        hands.press("svc")
        hands.arrive("svc")
        hands.press("The console")
        hands.arrive("Overview")
        ask(hands)
        if by == "keyboard":  # GraphiQL is a script
            ask_graphiql(hands, server)
        follow_the_log(hands, client, by)
        add_people(hands, f"user-{by}")
        hands.press("Log out")
        hands.arrive("Log in")
        check_page(page, server)
        see_one_table(hands, server, f"user-{by}")
        check_page(page, server)


def query(hands: Keyboard, client: httpx.Client) -> None:
    """Order, a filter with a fault, and its mending."""
    page = hands.page
    hands.press("Sort by price, descending")
    hands.arrive("Tool", "sort(-price)")
    assert page.evaluate("document.querySelector('table.rows tbody').rows[0].cells[0].textContent") == "t0999"
    hands.enter("Query", "price=gt=")
    hands.press("Run")
    page.until("document.querySelector('#filter-fault code')?.textContent === 'QUERY_SYNTAX' && document.readyState === 'complete'")
    hands.enter("Query", f"price=gt=100&sort(-price)&select({','.join(COLUMNS)})")
    hands.press("Run")
    hands.arrive("Tool", "price=gt=100&sort(-price)")
    check_rows(page, client)


def record(hands: Keyboard, client: httpx.Client, key: str) -> None:
    """It is inserted, changed while somebody else changes it too, and deleted."""
    path = f"/Tool/{key}"
    hands.use("i", "New record")
    hands.arrive("New record of Tool")
    hands.enter("price", "dear")
    hands.press("Insert")
    hands.arrive(text="Correct this")
    hands.enter("id", key)
    hands.enter("name", "Made here")
    hands.enter("price", "12.5")
    hands.choose("kind", "POWER")
    hands.enter("tags", "a\nb, c")
    hands.press("Insert")
    hands.arrive(address=f"{path}#created")
    body = client.get(path).json()
    assert (body["name"], body["price"], body["kind"], body["tags"]) == ("Made here", 12.5, "POWER", ["a", "b, c"])
    hands.use("e", "Edit")
    hands.arrive(address="_view=edit")
    assert client.patch(path, json={"name": "Theirs", "stock": 9}).status_code == 204
    hands.enter("name", "Mine")
    hands.press("Save")
    hands.arrive("Changed by somebody else", text="Theirs")
    assert client.get(path).json()["name"] == "Theirs"
    hands.tick("take yours")
    hands.press("Save")
    hands.arrive(address=f"{path}#saved")
    body = client.get(path).json()
    assert (body["name"], body["stock"], body["price"]) == ("Mine", 9, 12.5)
    hands.use("d", "Delete")
    hands.arrive(address="_view=delete")
    hands.press("Delete")
    hands.arrive("Tool", "#deleted")
    assert client.get(path).status_code == 404


def load(hands: Keyboard, client: httpx.Client, folder: Path, key: str) -> None:
    """Three records from a file."""
    made = [{"id": f"{key}{number}", "name": f"Loaded {number}", "price": number / 2} for number in range(3)]
    file = folder / "three.json"
    file.write_text(json.dumps(made))
    hands.press("Import")
    imported(hands, file)
    assert [client.get(f"/Tool/{each['id']}").json()["name"] for each in made] == [each["name"] for each in made]
    hands.press("The records")
    hands.arrive("Tool")


def ask(hands: Keyboard) -> None:
    """SQL and an operation, each wrong and right."""
    page = hands.page
    hands.press("SQL")
    hands.arrive("SQL")
    hands.enter("Statement", "SELECT id\nFRM data.Tool")
    hands.press("Run")
    hands.arrive("SQL", text="Line 2, column")
    hands.enter("Statement", "SELECT id, name FROM data.Tool WHERE id = 't0003'")
    hands.press("Run")
    hands.arrive("SQL", text="1 row in")
    assert page.evaluate("[...document.querySelectorAll('table.rows td')].map((cell) => cell.textContent)") == ["t0003", "Tool 3"]
    hands.press("Operations")
    hands.arrive("Operations")
    hands.enter("Search", "describe_table")
    page.type("\n")
    hands.arrive("Operations", "q=describe_table")
    hands.press("describe_table")
    hands.arrive("describe_table")
    hands.enter("table", "Nothing")
    hands.press("Run")
    page.until("document.getElementById('fault') && document.readyState === 'complete'")
    hands.enter("table", "Maker")
    hands.press("Run")
    hands.arrive("describe_table", text='"record_count": 5')


def ask_graphiql(hands: Keyboard, server: Process) -> None:
    """There by a link of the console, and back by the address of that."""
    page = hands.page
    hands.press("GraphQL")
    hands.arrive("GraphQL")
    hands.press("Open GraphiQL")
    page.until("document.querySelector('.graphiql-query-editor .CodeMirror')?.CodeMirror && !document.querySelector('.graphiql-spinner')")
    hands.reach(".graphiql-query-editor textarea")
    page.press("a", CTRL)
    page.press("Backspace")
    page.type('{ Maker(id: "m1") { name } }')
    page.press("Enter", CTRL)
    page.until("document.querySelector('.result-window .CodeMirror').CodeMirror.getValue().includes('Birch')")
    page.open(f"{server.operations_url}/console/")
    hands.arrive("Overview")


def follow_the_log(hands: Keyboard, client: httpx.Client, name: str) -> None:
    """An error is logged, and appears."""
    hands.press("Logs")
    hands.arrive("Logs")
    hands.press("Follow")
    hands.arrive("Logs", "follow=1")
    assert client.get(f"/Fail/{name}").status_code == 200
    hands.arrive("Logs", "follow=1", f"it has failed: {name}")
    wait_until(lambda: has_left(hands, "Stop following", "!location.search.includes('follow')"))


def has_left(hands: Keyboard, link: str, gone: str) -> bool:
    """Press a link on a page that is loaded again and again, which may be in between: then it is pressed once more."""
    with suppress(Navigated, AssertionError):
        hands.press(link)
    with suppress(Navigated):
        return bool(hands.page.evaluate(f"{gone} && document.readyState === 'complete'"))
    return False


def add_people(hands: Keyboard, name: str) -> None:
    """A role that may read one table, and a user who has it."""
    hands.press("Roles")
    hands.arrive("Roles")
    hands.press("Add a role")
    hands.arrive("Add a role")
    hands.enter("Name", name)
    hands.press("Add the role")
    hands.arrive(name, text="was added")
    hands.tick("read data.Tool")
    hands.press("Save")
    hands.arrive(name, text="was saved")
    hands.press("Users")
    hands.arrive("Users")
    hands.press("Add a user")
    hands.arrive("Add a user")
    hands.enter("Name", name)
    hands.enter("Password", SECRET)
    hands.enter("Once more", SECRET + "!")
    hands.choose("Role", name)
    hands.press("Add the user")
    page = hands.page
    page.until("document.getElementById('fault') && document.readyState === 'complete'")
    hands.enter("Password", SECRET)
    hands.enter("Once more", SECRET)
    hands.press("Add the user")
    hands.arrive("Users", text=f"The user {name} was added")


def see_one_table(hands: Keyboard, server: Process, name: str) -> None:
    """Only that, without what would change it."""
    page = hands.page
    log_in(hands, name, SECRET)
    hands.arrive("Overview")
    assert "Users" not in hands.names("link") and "Roles" not in hands.names("link")
    hands.press("Databases")
    hands.arrive("Databases")
    assert not {"Maker", "Loan", "system"} & set(hands.names("link"))
    hands.press("/Tool")
    hands.arrive("Tool")
    assert not {"New record", "Import"} & set(hands.names())
    hands.press("t0003")
    hands.arrive(address="/Tool/t0003")
    assert not {"Edit", "Delete", "Duplicate"} & set(hands.names())
    page.open(f"{server.url}/Tool/?_view=new")
    hands.arrive("Forbidden", text="403")
    refused = httpx.post(f"{server.url}/Tool/", json={"name": "x"}, auth=(name, SECRET), trust_env=False)
    assert refused.status_code == 403
    assert httpx.get(f"{server.url}/Maker/", auth=(name, SECRET), trust_env=False).status_code == 403
