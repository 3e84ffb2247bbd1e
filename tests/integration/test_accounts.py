"""Accounts of the real program: a client over HTTP, several processes that are shown one code, and a person in Chromium with a mailbox (spec: rows §2)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.conftest import LIMIT, Process
from tests.support.account_forms import fill, heading
from tests.support.accounts import ADDRESS, PASSWORD, write_site
from tests.support.chromium import CHROMIUM, open_page
from tests.support.instances import started
from tests.support.ports import free_port
from tests.support.smtp_server import MailServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

NEW = "another horse"


class Mailbox:
    """What has come to a server of mail."""

    def __init__(self, server: MailServer) -> None:
        self._server = server

    def text(self, subject: str, count: int = 1) -> str:
        """The text of the `count`-th mail with this subject."""

        def found() -> list[str]:
            return [mail.message.get_content() for mail in self._server.taken if mail.message["Subject"] == subject]

        wait_until(lambda: len(found()) >= count)
        return str(found()[count - 1])

    def code(self, subject: str, count: int = 1) -> str:
        match = re.search(r"^The code is (\S+)$", self.text(subject, count).replace("\r", ""), re.MULTILINE)
        assert match is not None
        return match[1]

    def link(self, subject: str, count: int = 1) -> str:
        match = re.search(r"^(http\S+)$", self.text(subject, count).replace("\r", ""), re.MULTILINE)
        assert match is not None
        return match[1]


@pytest.fixture(scope="module")
def post_office() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


@pytest.fixture
def mailbox(post_office: MailServer) -> Mailbox:
    post_office.taken.clear()
    return Mailbox(post_office)


def mail_settings(post_office: MailServer) -> dict[str, str]:
    return {"MAIL_HOST": "127.0.0.1", "MAIL_PORT": str(post_office.port), "MAIL_TLS": "none", "MAIL_FROM": "Shop <shop@example.org>"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, post_office: MailServer) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("accounts")
    port = free_port()
    site = write_site(folder / "site", f"{{role: member, identity: email, url: 'http://localhost:{port}', limits: {{mails: 100}}}}")
    process = Process(folder / "root", site, env=mail_settings(post_office))
    process.port, process.env["HTTP_PORT"] = port, str(port)
    yield process.start()
    assert process.stop() == 0, process.output()
    assert "[error]" not in process.logged()


@pytest.fixture
def browser(server: Process) -> Iterator[httpx.Client]:
    """With cookies."""
    with httpx.Client(base_url=server.url, timeout=LIMIT, trust_env=False) as client:
        yield client


def log_in(client: httpx.Client, name: str, password: str = PASSWORD) -> int:
    return client.post("/login", json={"username": name, "password": password}).status_code


def test_the_whole_way(server: Process, browser: httpx.Client, mailbox: Mailbox) -> None:
    fields = {"email": ADDRESS, "password": PASSWORD, "name": "Ann"}
    assert browser.post("/accounts", json=fields).status_code == 202
    assert log_in(browser, ADDRESS) == 401
    assert browser.post("/accounts/confirm", data={"code": mailbox.code("Confirm your address")}).status_code == 200
    assert log_in(browser, ADDRESS) == 200
    me = browser.get("/accounts/me").json()
    assert me["record"]["name"] == "Ann" and me["rights"]["data"]["Note"]["insert"] is True
    assert httpx.get(f"{server.url}/accounts/me", auth=(ADDRESS, PASSWORD), timeout=LIMIT).json() == me
    assert browser.patch("/accounts/me", json={"name": "Annie"}).json()["record"]["name"] == "Annie"
    assert browser.post("/Note/", json={"owner": me["username"]}).status_code == 201

    assert browser.post("/accounts/forgot", json={"email": ADDRESS}).status_code == 202
    code = mailbox.code("A new password")
    assert browser.post("/accounts/reset", json={"code": code, "password": NEW}).status_code == 200
    assert browser.get("/accounts/me").status_code == 401
    assert log_in(browser, ADDRESS, NEW) == 200

    assert browser.post("/accounts/email", json={"email": "new@example.org"}).status_code == 202
    assert browser.post("/accounts/confirm", json={"code": mailbox.code("Confirm your new address")}).status_code == 200
    mailbox.text("Your address was changed")
    assert log_in(browser, "new@example.org", NEW) == 200

    assert browser.delete("/accounts/me").status_code == 204
    assert browser.get("/accounts/me").status_code == 401
    assert log_in(browser, "new@example.org", NEW) == 401
    assert server.operate("search_by_value", table="Person", search_attribute="username", search_value="*").json() == []


def test_a_known_address_is_told_by_the_mail_alone(server: Process, browser: httpx.Client, mailbox: Mailbox) -> None:
    def see(path: str, **fields: str) -> tuple[int, bytes, set[str]]:
        answer = browser.post(path, json=fields)
        return answer.status_code, answer.content, set(answer.headers)

    browser.post("/accounts", json={"email": "known@example.org", "password": PASSWORD})
    browser.post("/accounts/confirm", json={"code": mailbox.code("Confirm your address")})
    for path, more in (("/accounts", {"password": NEW}), ("/accounts/forgot", {})):
        assert see(path, email="known@example.org", **more) == see(path, email="unknown@example.org", **more)
    assert "known@example.org" in mailbox.text("You have an account already")


def test_a_flood_of_sign_ups_is_bounded(tmp_path: Path) -> None:
    """It comes from one network; logins from there go on."""
    process = Process(tmp_path / "root", write_site(tmp_path / "site", "{role: member, limits: {signUps: 20}}")).start()
    try:
        with ThreadPoolExecutor(40) as pool:
            statuses = list(
                pool.map(
                    lambda number: (
                        httpx.post(
                            f"{process.url}/accounts", json={"username": f"u{number}", "password": PASSWORD}, timeout=LIMIT
                        ).status_code
                    ),
                    range(60),
                )
            )
        assert set(statuses) <= {201, 429, 503} and 0 < statuses.count(201) <= 20
        assert httpx.get(f"{process.url}/Note/", auth=("u0", "x"), timeout=LIMIT).status_code == 401
        refused = httpx.post(f"{process.url}/accounts", json={"username": "late", "password": PASSWORD}, timeout=LIMIT)
        if refused.status_code == 429:
            assert int(refused.headers["Retry-After"]) > 0
        users = {user["username"] for user in process.operate("list_users").json()} - {"admin"}
        assert len(users) == statuses.count(201) + (refused.status_code == 201)
        assert process.stop() == 0
        assert "[error]" not in process.logged()
    finally:
        process.kill()


def test_one_code_and_several_processes(tmp_path: Path, post_office: MailServer, mailbox: Mailbox) -> None:
    """Each is shown the code at the same time; one of them finds it."""
    entry = "{role: member, verify: true, identity: email, url: 'http://localhost', limits: {mails: 100, signUps: 1000}}"
    with started(tmp_path, 3, app=write_site(tmp_path / "site", entry), **mail_settings(post_office)) as process:
        for number in range(1, 6):
            address = f"u{number}@example.org"
            assert post(process, "", email=address, password=PASSWORD).status_code == 202
            together(process, "/confirm", code=mailbox.code("Confirm your address", number))
            assert post(process, "/forgot", email=address).status_code == 202
            together(process, "/reset", code=mailbox.code("A new password", number), password=NEW)
        users = [user["username"] for user in process.operate("list_users").json() if user["role"]["role"] == "member"]
        records = process.operate("search_by_value", table="Person", search_attribute="username", search_value="*").json()
        assert sorted(users) == sorted(record["username"] for record in records) and len(users) == 5
        assert "[error]" not in process.logged()


def post(process: Process, path: str, **fields: Any) -> httpx.Response:
    return httpx.post(f"{process.url}/accounts{path}", json=fields, timeout=LIMIT)


def together(process: Process, path: str, **fields: Any) -> None:
    """Eight connections at once, which the kernel spreads over the processes: one is answered with success."""
    barrier = threading.Barrier(8)

    def send(_: int) -> tuple[int, str]:
        with httpx.Client(base_url=process.url, timeout=LIMIT) as client:
            barrier.wait(LIMIT)
            answer = client.post(f"/accounts{path}", json=fields)
            return answer.status_code, answer.json().get("code", "")

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(send, range(8)))
    assert answers[0] == (200, ""), answers
    assert set(answers[1:]) <= {(400, "INVALID_CODE"), (409, "NAME_TAKEN"), (409, "ADDRESS_TAKEN")}, answers


# --- a person -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_person_and_a_mailbox(server: Process, tmp_path: Path, mailbox: Mailbox) -> None:
    with open_page(tmp_path) as page:
        site = f"http://localhost:{server.port}"
        page.open(f"{site}/login")
        page.click_on("[...document.links].find((link) => link.textContent == 'Sign up')")
        fill(page, "Sign up", email="eve@example.org", password=PASSWORD, name="Eve")
        heading(page, "Look into your mail")

        page.open(mailbox.link("Confirm your address"))
        heading(page, "Confirm your address")
        page.click("form.login button")
        heading(page, "Your address is confirmed")
        page.click("main a[href$='login']")
        fill(page, "Log in", username="eve@example.org", password=PASSWORD)
        page.until("!!document.querySelector('.who b')")

        page.open(f"{site}/accounts/me")
        fill(page, "Your account", name="Evelyn")
        page.until("document.querySelector('[name=name]')?.defaultValue == 'Evelyn' && document.readyState == 'complete'")  # as stored

        page.open(f"{site}/accounts/email")
        fill(page, "Change your address", email="evelyn@example.org")
        heading(page, "Look into your mail")
        page.open(mailbox.link("Confirm your new address"))
        heading(page, "Confirm your address")
        page.click("form.login button")
        heading(page, "Your address is confirmed")

        page.open(f"{site}/logout")
        page.until("!!document.querySelector('form button')")
        page.click("main form button")
        page.until("!document.querySelector('.who b')")
        page.open(f"{site}/accounts/forgot")
        fill(page, "Forgot your password?", email="evelyn@example.org")
        heading(page, "Look into your mail")
        page.open(mailbox.link("A new password"))
        fill(page, "Choose a new password", password=NEW)
        heading(page, "Your password is changed")
        page.click("main a[href$='login']")
        fill(page, "Log in", username="evelyn@example.org", password=PASSWORD)
        page.until("!!document.querySelector('.fault')")
        fill(page, "Log in", username="evelyn@example.org", password=NEW)
        page.until("!!document.querySelector('.who b')")

        page.open(f"{site}/accounts/me")
        heading(page, "Your account")
        page.click("[name=confirm]")
        page.click_on("[...document.querySelectorAll('button')].find((button) => button.textContent == 'Remove the account')")
        heading(page, "Your account is removed")
        assert page.problems == []
