"""Mails of an application, from the request that causes them to a server that is not ours (aiosmtpd), and the ones of `svc dev`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.conftest import Process
from tests.support import certificates
from tests.support.chromium import CHROMIUM, open_page
from tests.support.mailing import settings, write_application
from tests.support.smtp_server import MailServer, TakenMail
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

LOGIN = ("shop", "pass-of-the-shop")


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """In place of the fixture of that name: mails are sent in the server's own time, by a thread and a connection that may be there or not."""


@pytest.fixture(scope="module")
def mails() -> Iterator[MailServer]:
    with MailServer(context=certificates.server_context(), user=LOGIN) as server:
        yield server


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, mails: MailServer) -> Iterator[Process]:
    path = tmp_path_factory.mktemp("shop")
    more = {
        "MAIL_TLS": "starttls",
        "MAIL_HOST": "localhost",
        "MAIL_CERTIFICATEAUTHORITY": str(certificates.authority().file),
        "MAIL_USERNAME": LOGIN[0],
        "MAIL_PASSWORD": LOGIN[1],
        "LOGGING_LEVEL": "trace",
    }
    process = Process(path / "root", write_application(path / "shop"), env=settings(mails.port, **more)).start()
    yield process
    assert process.stop() == 0, process.output()


@pytest.fixture
def client(shop: Process) -> Iterator[httpx.Client]:
    with shop.client() as http:
        yield http


def order(client: httpx.Client, id: str, to: str, **more: Any) -> httpx.Response:
    return client.post("/Orders/", json={"id": id, "to": to, **more})


def mails_to(mails: MailServer, address: str) -> list[TakenMail]:
    return [mail for mail in mails.taken if mail.recipients == [address]]


def listed(shop: Process, address: str, **fields: Any) -> list[dict[str, Any]]:
    answer = shop.operate("list_mails", limit=1000, **fields)
    assert answer.status_code == 200, answer.text
    return [row for row in answer.json() if row["to"] == address]


def wait_for_mail(mails: MailServer, address: str, count: int = 1) -> list[TakenMail]:
    wait_until(lambda: len(mails_to(mails, address)) >= count, lambda: f"no mail to {address}")
    return mails_to(mails, address)


def test_a_mail_is_sent(client: httpx.Client, mails: MailServer, shop: Process) -> None:
    answer = order(client, "1", "ann@example.org", name="Ann")
    assert answer.status_code == 200, answer.text
    (mail,) = wait_for_mail(mails, "ann@example.org")
    assert mail.is_encrypted and mail.user == "shop" and mail.sender == "shop@example.org"
    message = mail.message
    assert (message["Subject"], message["From"], message["To"]) == ("Order 1 of Ann", "The shop <shop@example.org>", "ann@example.org")
    assert message["Message-ID"] == answer.json()["message_id"]
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None and "https://example.org/orders?id=1&code=s3cret-code" in text.get_content()
    assert html is not None and "Hello Ann" in html.get_content()
    wait_until(lambda: [row["status"] for row in listed(shop, "ann@example.org")] == ["sent"])


def test_hostile_values(client: httpx.Client, mails: MailServer) -> None:
    name = "Eve\r\nBcc: eve@example.org\r\n\r\n<img src=x onerror=alert(1)>\x00"
    assert order(client, "2", "hostile@example.org", name=name).status_code == 200
    (mail,) = wait_for_mail(mails, "hostile@example.org")
    assert mail.recipients == ["hostile@example.org"] and "Bcc" not in mail.message
    assert mail.message["Subject"] == "Order 2 of Eve Bcc: eve@example.org <img src=x onerror=alert(1)>"
    html = mail.message.get_body(("html",))
    assert html is not None and "<img" not in html.get_content()


def test_a_handler_that_fails_sends_nothing(client: httpx.Client, mails: MailServer, shop: Process) -> None:
    assert order(client, "3", "undone@example.org", fails=True).status_code == 500
    assert client.get("/Order/3").status_code == 404
    assert client.post("/Many/", json={"numbers": [901, 902], "aborts": True}).status_code == 200
    assert order(client, "4", "after@example.org").status_code == 200
    wait_for_mail(mails, "after@example.org")
    assert not mails_to(mails, "undone@example.org") and not mails_to(mails, "901@example.org")
    assert listed(shop, "undone@example.org") == [] == listed(shop, "901@example.org")


@pytest.mark.parametrize("to", ["ann", "ann@example.org\r\nBcc: eve@example.org", "a@b.c, d@e.f", "Ann <a@b.c>", "", 5, None, ["a@b.c"]])
def test_what_is_no_address(client: httpx.Client, to: Any) -> None:
    answer = order(client, "5", to)
    assert (answer.status_code, answer.json()["code"]) in ((400, "BAD_ADDRESS"), (400, "VALIDATION"))
    assert client.get("/Order/5").status_code == 404


def test_no_more_than_twenty_an_hour_to_one_address(client: httpx.Client, mails: MailServer) -> None:
    codes = [order(client, str(number), "often@example.org").status_code for number in range(21)]
    assert codes == [200] * 20 + [429]
    assert order(client, "x", "OFTEN@example.org").json()["code"] == "TOO_MANY_MAILS"
    assert len(wait_for_mail(mails, "often@example.org", 20)) == 20


def test_nor_at_the_same_time(client: httpx.Client, mails: MailServer) -> None:
    with ThreadPoolExecutor(10) as pool:
        codes = Counter(pool.map(lambda number: order(client, f"c{number}", "burst@example.org").status_code, range(60)))
    assert codes == {200: 20, 429: 40}
    assert len(wait_for_mail(mails, "burst@example.org", 20)) == 20


def test_defects_of_an_application(client: httpx.Client) -> None:
    for template in ("other", "../secret", "missing"):
        assert order(client, "6", "ann@example.org", template=template).status_code == 500
    assert client.post("/Thread/", json={}).status_code == 500


def test_a_large_mail(client: httpx.Client, mails: MailServer) -> None:
    assert order(client, "7", "large@example.org", name="x" * (1 << 20), template="plain").status_code == 413
    assert order(client, "7", "large@example.org", name="ä" * 400_000, template="plain").status_code == 200
    wait_for_mail(mails, "large@example.org")


def test_refused_for_now_then_tried_again(client: httpx.Client, mails: MailServer, shop: Process) -> None:
    mails.answers["RCPT"].append("450 greylisted, try later")
    assert order(client, "8", "grey@example.org").status_code == 200
    (row,) = wait_until(lambda: [row for row in listed(shop, "grey@example.org", status="waiting") if row["attempts"]])
    assert row["error"] == "450 greylisted, try later" and row["due"] > row["created"] + 50_000
    assert "body" not in row and "subject" not in row
    answer = shop.operate("retry_mails", ids=[row["id"]])
    assert answer.json() == {"message": "1 mail is tried again", "retried": [row["id"]]}
    (mail,) = wait_for_mail(mails, "grey@example.org")
    assert mail.message["Message-ID"] == row["message_id"]


def test_refused_for_good_then_tried_by_hand(client: httpx.Client, mails: MailServer, shop: Process) -> None:
    mails.answers["RCPT"].append("550 no such user")
    assert order(client, "9", "gone@example.org").status_code == 200
    (row,) = wait_until(lambda: listed(shop, "gone@example.org", status="given_up"))
    assert (row["error"], row["attempts"], row["due"]) == ("550 no such user", 1, None)
    assert shop.operate("retry_mails").status_code == 200
    wait_for_mail(mails, "gone@example.org")
    wait_until(lambda: [row["status"] for row in listed(shop, "gone@example.org")] == ["sent"])
    assert shop.operate("retry_mails", ids=[row["id"], "other", "x" * 3000]).status_code in (400, 404)


def test_operations_are_for_super_users(shop: Process) -> None:
    assert shop.operate("list_mails", auth=None).status_code == 401
    shop.operate("add_role", role="clerk", permission={})
    shop.operate("add_user", username="clerk", password="p" * 12, role="clerk", active=True)
    for operation in ("list_mails", "retry_mails"):
        assert shop.operate(operation, auth=("clerk", "p" * 12)).status_code == 403


def test_nothing_tells_the_secrets(client: httpx.Client, mails: MailServer, shop: Process) -> None:
    order(client, "10", "secret@example.org", name="Ann")
    wait_for_mail(mails, "secret@example.org")
    rows = [
        shop.operate("search_by_value", database="system", table="svc_mail", attribute="id", value="*", get_attributes=["*"]),
        shop.operate("sql", sql="SELECT * FROM system.svc_mail"),
        shop.operate("read_transaction_log", database="system", table="svc_mail"),
        shop.operate("read_audit_log", database="system", table="svc_mail"),
        shop.operate("list_mails"),
        shop.operate("get_configuration"),
    ]
    assert rows[0].status_code == 200 and rows[5].status_code == 200
    for answer in rows:
        assert "body" not in answer.text and "s3cret-code" not in answer.text and LOGIN[1] not in answer.text, answer.text[:300]
    assert "s3cret-code" not in shop.logged() and LOGIN[1] not in shop.logged() + shop.output()
    for path in (shop.root / "database").rglob("*.mdb"):
        assert b"s3cret-code" not in path.read_bytes()


def test_without_mail(tmp_path: Path) -> None:
    process = Process(tmp_path / "root", write_application(tmp_path / "shop")).start()
    try:
        with process.client() as client:
            answer = order(client, "1", "ann@example.org")
            assert answer.status_code == 501 and "set mail.host" in answer.json()["detail"]
            assert client.get("/dev/mail").status_code == 404
        assert process.operate("list_mails").status_code == 501
    finally:
        process.stop()


def test_two_servers_send_each_mail_once(tmp_path: Path) -> None:
    with MailServer() as server:
        app = write_application(tmp_path / "shop")
        env = {"STORAGE_PATH": str(tmp_path / "databases"), **settings(server.port)}
        processes = [Process(tmp_path / name, app, env=env).start() for name in ("first", "second")]
        try:
            with processes[0].client() as first, processes[1].client() as second:
                for number in range(20):
                    assert order((first, second)[number % 2], str(number), f"{number}@example.org").status_code == 200
                server.wait_for(20)
                assert processes[0].stop() == 0
                for number in range(20, 25):
                    assert order(second, str(number), f"{number}@example.org").status_code == 200
                server.wait_for(25)
            statuses = {row["status"] for row in wait_until(lambda: _all_sent(processes[1]))}
        finally:
            for process in processes:
                process.kill()
        assert statuses == {"sent"}
        assert sorted(int(mail.recipients[0].partition("@")[0]) for mail in server.taken) == list(range(25))


def _all_sent(process: Process) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = process.operate("list_mails").json()
    return rows if all(row["status"] == "sent" for row in rows) else []


def test_a_server_that_is_away_and_comes_back(tmp_path: Path) -> None:
    server = MailServer()
    process = Process(tmp_path / "root", write_application(tmp_path / "shop"), env=settings(server.port)).start()
    try:
        with process.client() as client:
            assert order(client, "1", "ann@example.org").status_code == 200
            wait_until(lambda: "the server does not take mails" in process.logged(), process.logged)
            with server:
                wait_until(lambda: process.operate("retry_mails", ids=_ids(process)).status_code == 200)
                server.wait_for(1)
    finally:
        process.stop()


def _ids(process: Process) -> list[str]:
    return [row["id"] for row in process.operate("list_mails").json()]


# --- svc dev ------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def developed(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path / "root", write_application(tmp_path / "shop"))
    process._words[0] = "dev"
    process.start()
    yield process
    process.stop()


def test_development_keeps_mails(developed: Process) -> None:
    page = {"Accept": "text/html,application/xhtml+xml"}
    with httpx.Client(base_url=developed.url) as client:
        assert "There are none" in client.get("/dev/mail", headers=page).text
        name = "Ann <script>alert(2)</script>"
        assert order(client, "1", "ann@example.org", name=name).status_code == 200
        listed = client.get("/dev/mail", headers=page)
        assert "Order 1 of Ann &lt;script&gt;" in listed.text and "<script>" not in listed.text
        (kept,) = client.get("/dev/mail").json()
        assert (kept["to"], kept["subject"], kept["template"]) == ("ann@example.org", f"Order 1 of {name}", "order")
        one = client.get("/dev/mail", params={"id": kept["id"]}).json()
        assert "code=s3cret-code" in one["text"] and "Hello Ann" in one["html"]
        shown = client.get("/dev/mail", params={"id": kept["id"]}, headers=page)
        assert 'href="https://example.org/orders?id=1&amp;code=s3cret-code"' in shown.text
        assert '<iframe sandbox=""' in shown.text and "<script>" not in shown.text
        assert shown.headers["cache-control"] == "no-store" and "script-src 'self';" in shown.headers["content-security-policy"]
        frame = client.get("/dev/mail", params={"id": kept["id"], "part": "html"}, headers=page)
        assert "<script>alert(1)</script>" in frame.text  # shown as it is
        assert (
            frame.headers["content-security-policy"].endswith("sandbox")
            and "default-src 'none'" in frame.headers["content-security-policy"]
        )
        assert client.get("/dev/mail", params={"id": "other"}).status_code == 404
        assert client.get("/dev/mail", params={"id": "x" * 900}).status_code == 404
        assert client.delete("/dev/mail").status_code == 405
        assert "mails that would have been sent" in client.get("/", headers=page).text


def test_the_kept_mails_are_for_this_machine(developed: Process) -> None:
    with httpx.Client(base_url=developed.url) as client:
        assert (
            client.get("/dev/mail", headers={"Host": "evil.example"}).status_code == 401
        )  # a name that was made to resolve to this machine
        assert client.get("/dev/mail", headers={"X-Forwarded-For": "10.0.0.1"}).status_code == 401
        assert client.get("/dev/mail", headers={"Origin": "https://evil.example"}).status_code in (401, 403)
        developed.operate("add_role", role="clerk", permission={})
        developed.operate("add_user", username="clerk", password="p" * 12, role="clerk", active=True)
        assert client.get("/dev/mail", auth=("clerk", "p" * 12)).status_code == 403


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_browser_shows_a_kept_mail_and_runs_nothing_of_it(developed: Process, tmp_path: Path) -> None:
    template = developed.root.parent / "shop" / "mails" / "hostile.html"
    template.write_text(
        '<body style="background: url(/hit-style)" onload="document.title = 1"><script>fetch("/hit-script")</script><img src="/hit-image" onerror="alert(1)">'
        '<iframe src="/hit-frame"></iframe><form action="/hit-form"><button id="send">{{ name }}</button></form>'
    )
    template.with_suffix(".txt").write_text("Subject: Hostile\n\nhttps://example.org/x?a=1&b=2).\n")
    (tmp_path / "profile").mkdir()
    with httpx.Client(base_url=developed.url) as client:
        assert order(client, "1", "ann@example.org", template="hostile").status_code == 200
        (kept,) = client.get("/dev/mail").json()
    with open_page(tmp_path / "profile") as page:
        page.open(f"{developed.url}/dev/mail")
        page.click("td a")
        page.until(f"location.search === '?id={kept['id']}' && document.readyState === 'complete'")
        assert page.text("pre a") == "https://example.org/x?a=1&b=2"
        frame = f"{developed.url}/dev/mail?id={kept['id']}&part=html"
        wait_until(lambda: page.evaluate("1") and page.statuses.get(frame) == 200)
        assert page.evaluate("document.querySelector('iframe').contentDocument") is None
        assert page.evaluate("document.title") == "Hostile"
        assert not [address for address in page.requested if "/hit" in address]
        assert not [problem for problem in page.problems if "dialog" in problem]
