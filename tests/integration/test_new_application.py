"""What `svc new` makes: its own tests, and the application on the real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from svc.stubs import write_application
from tests.integration.conftest import PASSWORD, Process
from tests.integration.test_browser import CHROMIUM, visit
from tests.support.chromium import Page, open_page

pytestmark = pytest.mark.programs

LIMIT = 300  # seconds


@pytest.mark.parametrize(("accounts", "count"), [(False, 4), (True, 7)])
def test_its_own_tests_pass(tmp_path: Path, accounts: bool, count: int) -> None:
    write_application(tmp_path / "shop", "shop", accounts=accounts)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "error",
        "--override-ini",
        "addopts=--import-mode=importlib",
    ]
    done = subprocess.run(command, cwd=tmp_path / "shop", env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} passed" in done.stdout


def test_it_is_served_as_it_says(tmp_path: Path) -> None:
    write_application(tmp_path / "shop", "shop")
    process = Process(tmp_path / "root", tmp_path / "shop").start()
    try:
        with httpx.Client(base_url=process.url, auth=("admin", PASSWORD), timeout=30) as client:
            page = client.get("/")
            assert (page.status_code, page.headers["content-type"].split(";")[0]) == (200, "text/html")
            assert "<title>shop</title>" in page.text
            made = client.post("/Task/", json={"title": "Water the plants", "done": False, "listName": "home"})
            assert made.status_code == 201
            assert client.patch(made.headers["location"], json={"title": "  "}).json()["detail"] == "a task needs a title"
            assert client.post(made.headers["location"]).json()["done"] is True
            assert client.get("/Progress").json() == {"home": {"open": 0, "done": 1}}
            assert [each["name"] for each in client.get("/List/?sort(name)").json()] == ["home", "work"]
            assert client.get("/resources.py").status_code == 404
        with httpx.stream("GET", f"{process.url}/Task/", headers={"Accept": "text/event-stream"}, auth=("admin", PASSWORD)) as events:
            assert any('"title":"Water the plants"' in line for line in _until_data(events))
    finally:
        assert process.stop() == 0, process.output()
    assert_nothing_is_wrong(process)


def assert_nothing_is_wrong(process: Process) -> None:
    assert "[error]" not in process.logged()
    # That a handler held the loop is said where the machine is busy; that there is little room, where its disk is full.
    of_the_machine = (" held the loop for ", " of the volume of the databases is free")
    warnings = [line for line in process.logged().splitlines() if "[warn]" in line]
    assert not [line for line in warnings if not any(each in line for each in of_the_machine)]


def _until_data(events: httpx.Response) -> list[str]:
    lines = []
    for line in events.iter_lines():
        lines.append(line)
        if line.startswith("data:"):
            break
    return lines


USER = """<script type="module">
const until = async (holds) => { while (!holds()) await new Promise((resolve) => setTimeout(resolve, 10)) }
const items = () => [...document.querySelectorAll("li")].map((item) => `${item.lastChild.textContent}:${item.className}`)
const send = (method, path, value) => fetch(path, {method, headers: {"Content-Type": "application/json"}, body: JSON.stringify(value)})
const form = document.querySelector("form"), told = []
async function run() {
  await until(() => items().length === 1)
  told.push(items())
  form.elements.title.value = "<b>bold</b>"
  form.requestSubmit()
  await until(() => items().length === 2 && form.elements.title.value === "")  // the event may come before the answer
  told.push(items())
  document.querySelector("li input").click()
  await until(() => document.querySelector("li").className === "done")
  told.push(items())
  form.elements.title.value = " "
  form.requestSubmit()
  await until(() => document.querySelector("#fault").textContent)
  told.push(document.querySelector("#fault").textContent)
  await send("DELETE", "/Task/first")
  await until(() => items().length === 1)
  told.push(items())
}
run().then(() => told, String).then((value) => send("PUT", "/List/result", {value}))
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_its_page_shows_and_changes_tasks(tmp_path: Path) -> None:
    directory = tmp_path / "shop"
    write_application(directory, "shop")
    with (directory / "web" / "index.html").open("a") as page:
        page.write(USER)
    process = Process(tmp_path / "root", directory, env={"AUTHENTICATION_AUTHORIZELOCAL": "true"}).start()
    try:
        with httpx.Client(base_url=process.url, auth=("admin", PASSWORD), timeout=30) as client:
            assert client.put("/Task/first", json={"title": "Water the plants", "done": False}).status_code == 204
            result = visit(client, f"{process.url}/", "/List/result", tmp_path)
    finally:
        assert process.stop() == 0, process.output()
    before, added, done, fault, after = result["value"]
    assert before == ["Water the plants:"]
    assert added == ["Water the plants:", "<b>bold</b>:"]
    assert done == ["Water the plants:done", "<b>bold</b>:"]
    assert fault == "a task needs a title"
    assert after == ["<b>bold</b>:"]


# --- with accounts ------------------------------------------------------------------------------------------------------------------------

MEMBER_PASSWORD = "blue-heron-17"


@pytest.fixture
def developed(tmp_path: Path) -> Iterator[Process]:
    """`svc dev` with accounts, which asks requests of this machine for a login, too: a browser is a visitor at first."""
    write_application(tmp_path / "shop", "shop", accounts=True)
    process = Process(tmp_path / "root", tmp_path / "shop")
    process._words[0] = "dev"
    process._words += ["--AUTHENTICATION_AUTHORIZELOCAL", "false"]
    process.start()
    yield process
    try:
        assert process.stop() == 0, process.output()
    finally:
        process.kill()
    assert_nothing_is_wrong(process)


def kept_code(process: Process, address: str) -> str:
    """That of the mail to this address."""
    with process.client() as client:
        (mail,) = [mail for mail in client.get("/dev/mail").json() if mail["to"] == address]
        text = client.get("/dev/mail", params={"id": mail["id"]}).json()["text"]
    link, code = re.search(r"^(http\S+)\?code=(\S+)$", text, re.MULTILINE).groups()  # type: ignore[union-attr]
    assert link == "http://localhost:9926/accounts/confirm"
    return str(code)


def sign_up(process: Process, visitor: httpx.Client, address: str) -> None:
    """They are logged in afterwards."""
    assert visitor.post("/accounts", json={"email": address, "password": MEMBER_PASSWORD}).status_code == 202
    login = {"username": address, "password": MEMBER_PASSWORD}
    assert visitor.post("/login", json=login).status_code == 401
    assert visitor.post("/accounts/confirm", json={"code": kept_code(process, address)}).status_code == 200
    assert visitor.post("/login", json=login).status_code == 200


def test_people_sign_up_and_have_tasks_of_their_own(developed: Process) -> None:
    with httpx.Client(base_url=developed.url, timeout=30) as ann, httpx.Client(base_url=developed.url, timeout=30) as bob:
        assert ann.get("/Task/").status_code == 401
        assert "Sign up" in ann.get("/").text
        sign_up(developed, ann, "ann@example.org")
        sign_up(developed, bob, "bob@example.org")
        me = ann.get("/accounts/me").json()
        assert (me["role"], me["record"]["email"]) == ("member", "ann@example.org")

        made = ann.post("/Task/", json={"title": "Water the plants", "done": False, "listName": "home"})
        assert made.status_code == 201
        address = made.headers["location"]
        assert ann.get(address).json()["owner"] == me["username"]
        assert bob.get("/Task/").json() == [] and bob.get("/Progress").json() == {}
        for answer in (bob.get(address), bob.post(address), bob.patch(address, json={"done": True})):
            assert answer.status_code == 404
        taken = {"title": "Not hers", "done": False, "owner": me["username"]}
        assert bob.post("/Task/", json=taken).json()["code"] == "ROW_NOT_ALLOWED"
        assert bob.put("/Task/1", json={"title": "Nobody's", "done": False}).status_code == 403
        assert ann.patch(address, json={"owner": bob.get("/accounts/me").json()["username"]}).status_code == 403
        bob.delete(address)
        assert ann.post(address).json()["done"] is True
        assert ann.get("/Progress").json() == {"home": {"open": 0, "done": 1}}
        assert bob.get("/List/home").json() == ann.get("/List/home").json()
        assert bob.put("/List/home", json={"color": "red"}).status_code == 403
        assert bob.get("/Member/").status_code == 404
        for body in ([{"title": "A", "done": False}], "text", 3, None):
            assert 400 <= bob.post("/Task/", json=body).status_code < 500


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_its_page_leads_to_a_login_and_shows_own_tasks(developed: Process, tmp_path: Path) -> None:
    with httpx.Client(base_url=developed.url, timeout=30) as ann:
        sign_up(developed, ann, "ann@example.org")
        assert ann.post("/Task/", json={"title": "Hers", "done": False}).status_code == 201
    with open_page(tmp_path) as page:
        page.open(f"{developed.url}/")
        page.until("!document.getElementById('visitor').hidden && document.getElementById('member').hidden")
        assert page.evaluate("document.querySelector('form')") is None
        page.click("#visitor a")
        page.until("document.querySelector('h1')?.textContent == 'Sign up' && document.readyState == 'complete'")
        fill(page, email="bob@example.org", password=MEMBER_PASSWORD, name="Bob")
        page.until("document.querySelector('h1')?.textContent == 'Look into your mail'")
        page.open(f"{developed.url}/accounts/confirm?code={kept_code(developed, 'bob@example.org')}")
        page.click("form.login button")
        page.until("document.querySelector('h1')?.textContent == 'Your address is confirmed' && document.readyState == 'complete'")
        page.open(f"{developed.url}/")
        page.until("!document.getElementById('visitor').hidden")
        page.click("#visitor a + a")
        page.until("document.querySelector('h1')?.textContent == 'Log in' && document.readyState == 'complete'")
        fill(page, username="bob@example.org", password=MEMBER_PASSWORD)
        page.until("document.querySelector('#member b')?.textContent == 'Bob' && !document.getElementById('member').hidden")
        page.evaluate("document.querySelector('input[name=title]').focus()")
        page.type("His\n")
        page.until("document.querySelectorAll('li').length == 1")
        assert page.evaluate("[...document.querySelectorAll('li span')].map((each) => each.textContent)") == ["His"]
        page.click("li input")
        page.until("document.querySelector('li').className == 'done'")
        assert page.text("#fault") == ""
        assert page.problems == []


def fill(page: Page, **fields: str) -> None:
    for name, text in fields.items():
        page.evaluate(f"document.querySelector('form.login [name={name}]').select()")
        page.type(text)
    page.click("form.login button")
