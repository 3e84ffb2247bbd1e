"""docs/tutorial.md, done as it says, from the first file to the page in a browser and the server without `svc dev`."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import httpx
import pytest

from tests.support.account_forms import fill, heading
from tests.support.chromium import CHROMIUM, Page, open_page
from tests.support.walkthrough import LIMIT, Shop, blocks, commands

pytestmark = pytest.mark.programs

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
UNSHOWN = "...\n"  # output that is not compared


def sections() -> list[tuple[str, str]]:
    """(heading, text), in the order of the page."""
    return re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_steps_lead_where_they_say(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    try:
        for title, text in sections():
            do(shop, text)
            if "page" in title and CHROMIUM is not None:
                look(shop, tmp_path / "browser")
            if "Customers" in title and CHROMIUM is not None:
                be_a_customer(shop, tmp_path / "customer")
    finally:
        shop.run("svc stop")
        shop.close()
    assert "Traceback" not in shop.log.read_text()


def do(shop: Shop, text: str) -> None:
    """The files and commands of one section."""
    place, saved = 0, set()
    for block in blocks(text):
        if block.file:
            if not saved and shop.process is not None:
                place = len(shop.log.read_text())
            shop.write(block)
            if block.file.startswith("shop/") and not block.file.startswith("shop/tests/") and shop.process is not None:
                saved.add(block.file.removeprefix("shop/"))
        elif block.language == "console":
            if "svc start" in block.text:
                shop.stop()
            elif shop.process is None and "localhost" in block.text and "svc grant" not in block.text:
                shop.start()
            if shop.process is not None:
                shop.wait_for_reload(saved, place)
            saved.clear()
            for command, output in commands(block.text):
                said = shop.run(command)
                assert output == UNSHOWN or said.rstrip("\n") == output.rstrip("\n"), (command, shop.log.read_text()[-3000:])
                if "/accounts --json" in command:
                    assert (
                        httpx.post(mailed_link(shop, "Confirm your address").split("?")[0], data={"code": code_of(shop)}).status_code == 200
                    )


def look(shop: Shop, profile: Path) -> None:
    """Two windows; what is bought in one leaves the list in both."""
    profile.mkdir()
    with open_page(profile) as page:
        deadline = time.monotonic() + LIMIT
        while True:
            page.open(shop.local("http://localhost:9926/shop.html"))
            if page.evaluate("document.title") == "Shop":
                break
            assert time.monotonic() < deadline
        page.until("document.querySelectorAll('li').length === 4")
        page.evaluate("window.other = document.body.appendChild(document.createElement('iframe')), other.src = '/shop.html', 1")
        page.until("other.contentDocument?.querySelectorAll('li').length === 4")
        page.evaluate(
            "[...document.querySelectorAll('li')].find((item) => item.textContent.startsWith('Fountain pen')).querySelector('button').click()"
        )
        for document in ("document", "other.contentDocument"):
            page.until(f"{document}.querySelectorAll('li').length === 3")
        assert "Fountain pen" not in page.text("ul")
        assert page.problems == []


def mails(shop: Shop) -> list[dict[str, str]]:
    return httpx.get(shop.local("http://localhost:9926/dev/mail"), timeout=LIMIT).json()  # type: ignore[no-any-return]


def mailed_link(shop: Shop, subject: str) -> str:
    """The link in the newest mail with this subject."""
    mail = next(mail for mail in mails(shop) if mail["subject"] == subject)
    text = httpx.get(shop.local("http://localhost:9926/dev/mail"), params={"id": mail["id"]}, timeout=LIMIT).json()["text"]
    found = re.search(r"^http\S+code=\S+$", text, re.MULTILINE)
    assert found is not None, text
    return found[0]


def code_of(shop: Shop) -> str:
    return mailed_link(shop, "Confirm your address").partition("code=")[2]


LOGGED_IN = "(document.querySelector('.who b')?.textContent ?? 'admin') !== 'admin'"  # who has no login is the super user with `svc dev`
_LIVE = "(found, {data}) => { const {type, id} = JSON.parse(data); if (type === 'ready') found(rows.size); else if (id !== undefined) rows.add(id) }"
WAYS = {
    "REST": "fetch('/Order/', {headers: {Accept: 'application/json'}}).then((answer) => answer.json()).then((rows) => rows.length)",
    "a count": "fetch('/Order/?count()', {headers: {Accept: 'application/json'}}).then((answer) => answer.json()).then(({count}) => count)",
    "GraphQL": """fetch('/graphql', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{"query": "{ Order { id } }"}'})
        .then((answer) => answer.json()).then(({data}) => data.Order.length)""",
    "an event stream": f"""new Promise((found) => {{ const rows = new Set(), take = {_LIVE}, events = new EventSource('/Order/?live()')
        events.onmessage = (event) => take((count) => {{ events.close(); found(count) }}, event) }})""",
    "a WebSocket": f"""new Promise((found) => {{ const rows = new Set(), take = {_LIVE}, socket = new WebSocket(`ws://${{location.host}}/Order/?live()`)
        socket.onmessage = (event) => take((count) => {{ socket.close(); found(count) }}, event) }})""",
}
"""What finds the number of orders in a browser."""


def be_a_customer(shop: Shop, profile: Path) -> None:
    """Sign up, buy, see the own order alone over every interface that a browser has, forget the password and choose another one."""
    profile.mkdir()
    site = shop.local("http://localhost:9926")
    with open_page(profile) as page:
        page.open(f"{site}/accounts")
        fill(page, "Sign up", email="dan@example.org", password="blue heron 7", name="Dan")
        heading(page, "Look into your mail")
        page.open(mailed_link(shop, "Confirm your address"))
        heading(page, "Confirm your address")
        page.click("form.login button")
        heading(page, "Your address is confirmed")
        page.open(f"{site}/login")
        fill(page, "Log in", username="dan@example.org", password="blue heron 7")
        page.until(LOGGED_IN)

        page.open(f"{site}/shop.html")
        page.until("document.querySelectorAll('li').length === 3")
        sees(page, 0)
        page.evaluate(
            "[...document.querySelectorAll('li')].find((item) => item.textContent.startsWith('Notebook')).querySelector('button').click()"
        )
        page.until("document.body.textContent.includes('39 left')")
        sees(page, 1)
        page.open(f"{site}/Order/")
        page.until("document.querySelectorAll('tbody tr').length === 1")

        page.open(f"{site}/logout")
        page.until("!!document.querySelector('main form button')")
        page.click("main form button")
        page.until(f"!({LOGGED_IN}) && location.pathname !== '/logout'")
        page.open(f"{site}/accounts/forgot")
        fill(page, "Forgot your password?", email="dan@example.org")
        heading(page, "Look into your mail")
        page.open(mailed_link(shop, "A new password"))
        fill(page, "Choose a new password", password="grey heron 8")
        heading(page, "Your password is changed")
        page.open(f"{site}/login")
        fill(page, "Log in", username="dan@example.org", password="blue heron 7")
        page.until("!!document.querySelector('.fault')")
        fill(page, "Log in", username="dan@example.org", password="grey heron 8")
        page.until(LOGGED_IN)
        page.open(f"{site}/shop.html")
        page.until("document.querySelectorAll('li').length === 3")
        sees(page, 1)


def sees(page: Page, orders: int) -> None:
    for way, script in WAYS.items():
        assert page.evaluate(script) == orders, way
