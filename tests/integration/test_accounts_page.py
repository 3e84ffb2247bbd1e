"""docs/accounts.md, done as it says with `svc dev`; what its reader does in a browser is done here by a client."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import httpx
import pytest
import yaml

from svc.accounts.settings import SettingsReader
from tests.support.walkthrough import LIMIT, Shop, blocks, commands

pytestmark = pytest.mark.programs

PAGE = Path(__file__).parents[2] / "docs" / "accounts.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_page_is_as_it_says(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    try:
        for block in blocks(PAGE.read_text("utf-8")):
            if block.file:
                shop.write(block)
            elif block.language == "console":
                if shop.process is None:
                    shop.start()
                for command, output in commands(block.text):
                    assert shop.run(command).rstrip("\n") == output.rstrip("\n"), (command, shop.log.read_text()[-3000:])
                    if "correct horse" in command and "/me" not in command:
                        follow_the_link(shop)
    finally:
        shop.close()
    assert "Traceback" not in shop.log.read_text()


def follow_the_link(shop: Shop) -> None:
    site = shop.local("http://localhost:9926")
    with httpx.Client(base_url=site, timeout=LIMIT) as client:
        (mail,) = client.get("/dev/mail").json()
        text = client.get("/dev/mail", params={"id": mail["id"]}).json()["text"]
        link = re.search(r"^(http\S+/accounts/confirm)\?code=(\S+)$", text, re.MULTILINE)
        assert link is not None and link[1].startswith(site), text
        assert client.post(link[1], data={"code": link[2]}).status_code == 200


def test_settings_that_are_shown_are_right() -> None:
    found = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)]
    entries = [document["accounts"] for document in found if "accounts" in document]
    assert len(entries) == 2
    for entry in entries:
        reader = SettingsReader()
        assert reader.read(entry) is not None, reader.faults


def test_code_that_is_shown_runs(tmp_path: Path) -> None:
    from tests.support.accounts import open_site

    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    schema = next(block.text for block in blocks(PAGE.read_text("utf-8")) if block.file.endswith("schema.graphql"))
    roles = next(block.text for block in blocks(PAGE.read_text("utf-8")) if block.file.endswith("roles.yaml"))
    entry = "{role: member, identity: email, url: 'http://localhost'}"
    with open_site(tmp_path / "site", entry, {"accounts.py": code}, schema=schema, roles=roles) as site:
        assert site.sign_up(email="eve@example.com").json["code"] == "NOT_INVITED"
        assert site.sign_up(email="ann@example.org").status == 202
        username = site.post("/confirm", {"code": site.code()}).json["username"]
        assert site.application.tables.Issue.get(f"welcome-{username}")["title"] == "Say hello"
        assert site.accounts.record_of(username)["name"] == "somebody"  # type: ignore[index]
