"""Login with a provider that is not ours, oidc-provider of npm, by programs and in Chromium (spec: rows §2.6)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from tests.integration.conftest import LIMIT, PASSWORD, Process
from tests.support.chromium import CHROMIUM, open_page
from tests.support.npm import NODE, needs_node, node_packages
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.programs, needs_node]

FILES = Path(__file__).parent / "openid"
SECRET = "s3cret/:?"


@contextmanager
def provider(packages: Path, directory: Path, port: int, *redirects: str, **environment: str) -> Iterator[str]:
    """A provider in a process of its own: its issuer."""
    directory.mkdir(exist_ok=True)
    shutil.copy(FILES / "provider.mjs", directory)
    if not (directory / "node_modules").exists():
        (directory / "node_modules").symlink_to(packages / "node_modules")
    log = directory / "provider.log"
    with log.open("wb") as output:
        command = [NODE or "", "--no-warnings", "provider.mjs", str(port), *redirects]
        process = subprocess.Popen(command, cwd=directory, stdout=output, stderr=output, env={**os.environ, **environment})
    try:
        wait_until(lambda: b"listening" in log.read_bytes() or process.poll() is not None, log.read_text)
        assert process.poll() is None, log.read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


class Site:
    """`process`: the server. `issuer`: of the provider."""

    def __init__(self, directory: Path, packages: Path, **environment: str) -> None:
        self.directory, self.packages = directory, packages
        self.provider_port = free_port()
        self.issuer = f"http://127.0.0.1:{self.provider_port}"
        app = shutil.copytree(FILES, directory / "app", ignore=shutil.ignore_patterns("*.mjs"))
        config = app / "config.yaml"
        config.write_text(config.read_text().replace("ISSUER", self.issuer))
        self.process = Process(directory / "root", app, env={"EXAMPLE_SECRET": SECRET, **environment})

    @property
    def address(self) -> str:
        """By a name that is another site than that of the provider."""
        return f"http://localhost:{self.process.port}"

    def provider(self, **environment: str) -> Any:
        redirects = [f"{address}/login/example/callback" for address in (self.address, self.process.url)]
        return provider(self.packages, self.directory / "provider", self.provider_port, *redirects, **environment)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("openid"), node_packages(tmp_path_factory))
    found.process.start()
    with found.provider(), new_client() as client:  # now its threads are there, which stay
        for _ in range(3):
            log_in(client, found, "first")
    yield found
    assert found.process.stop() == 0, found.process.output()
    assert "[error]" not in found.process.logged(), found.process.logged()


class Form(HTMLParser):
    """The first form of a page: where it is sent, and its fields."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = self.action or attributes["action"]
        elif tag == "input" and "name" in attributes:
            self.fields[attributes["name"]] = attributes.get("value", "")


def log_in(client: httpx.Client, site: Site, name: str, path: str = "/login/example") -> httpx.Response:
    """All steps of a person: the answer of the server at the end."""
    return client.get(way_back(client, site, name, path))


def way_back(client: httpx.Client, site: Site, name: str, path: str = "/login/example", begun: httpx.Response | None = None) -> str:
    """All steps but the last one: the address by which the provider sends the person back. `begun`: the answer that has led to it."""
    response = begun or client.get(site.address + path)
    while True:
        if response.is_redirect:
            address = urljoin(str(response.url), response.headers["location"])
            if httpx.URL(address).path.endswith("/callback"):
                return address
            response = client.get(address)
            continue
        assert response.status_code == 200 and str(response.url).startswith(site.issuer), response.text
        form = Form(response.text)
        fields = {**form.fields, **({"login": name, "password": "x"} if "login" in form.fields else {})}
        response = client.post(urljoin(str(response.url), form.action), data=fields)


def new_client() -> httpx.Client:
    return httpx.Client(timeout=LIMIT, trust_env=False)


def me(client: httpx.Client, site: Site) -> Any:
    response = client.get(f"{site.address}/accounts/me")
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("in_token", ["true", "false"])
def test_a_login(site: Site, in_token: str) -> None:
    """With claims in the token, and at the UserInfo endpoint."""
    name = f"ann{in_token}"
    with site.provider(CLAIMS_IN_TOKEN=in_token), new_client() as client:
        response = log_in(client, site, name, "/login/example?redirect=/accounts/me")
        assert (response.status_code, response.headers["location"]) == (303, "/accounts/me"), response.text
        found = me(client, site)
        assert (found["username"], found["role"]) == (name, "member")
        assert found["record"] == {"username": name, "email": f"{name}@example.org", "name": name.upper()}
        again = client.get(str(response.url))
        assert (again.status_code, again.json()["code"]) == (400, "LOGIN_NOT_BEGUN")
    with site.provider(CLAIMS_IN_TOKEN=in_token), new_client() as client:  # its sessions are gone, the account is not
        log_in(client, site, name)
        assert me(client, site)["username"] == name


def test_the_provider_is_down(site: Site) -> None:
    with new_client() as client:
        with site.provider():
            log_in(client, site, "bob")
            begun = client.get(f"{site.address}/login/example")
        response = client.get(f"{site.address}/login/example/callback", params={"code": "x", "state": "y"})
        assert response.json()["code"] == "LOGIN_STATE_MISMATCH"
        state = httpx.URL(begun.headers["location"]).params["state"]
        response = client.get(f"{site.address}/login/example/callback", params={"code": "x", "state": state, "iss": site.issuer})
        assert (response.status_code, response.json()["code"]) == (503, "PROVIDER_UNAVAILABLE")
        assert response.json()["retryable"] is True and me(client, site)["username"] == "bob"


def test_a_restart_in_between(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    site = Site(tmp_path, node_packages(tmp_path_factory))
    site.process.start()
    try:
        with site.provider(), new_client() as client:
            address = way_back(client, site, "ann")
            site.process.kill()
            site.process.start()
            assert client.get(address).status_code == 303
            assert me(client, site)["username"] == "ann"
            used = way_back(client, site, "ann")
            cookies = {cookie.name: str(cookie.value) for cookie in client.cookies.jar if cookie.name.startswith("svc-login")}
            assert client.get(used).status_code == 303
            site.process.kill()
            site.process.start()
            response = httpx.get(used, cookies=cookies, timeout=LIMIT, trust_env=False)
            assert (response.status_code, response.json()["code"]) == (400, "LOGIN_USED")
        assert site.process.stop() == 0
    finally:
        site.process.kill()


def test_the_account_goes(site: Site) -> None:
    with site.provider(), new_client() as client:
        log_in(client, site, "eve")
        assert client.delete(f"{site.address}/accounts/me").status_code == 204
        rows = site.process.operate("search_by_value", database="system", table="svc_identities", attribute="user", value="eve").json()
        assert rows == []
        log_in(client, site, "eve")
        assert me(client, site)["username"] == "eve"


def test_a_member_adds_a_login(site: Site) -> None:
    with site.provider(), new_client() as client:
        body = {"username": "carl", "password": "correct horse"}
        assert client.post(f"{site.address}/accounts", json=body).status_code == 201
        assert client.post(f"{site.address}/login", json=body).status_code == 200
        begun = client.post(f"{site.address}/login/example")
        response = client.get(way_back(client, site, "carl-at-provider", begun=begun))
        assert (response.status_code, response.headers["location"]) == (303, "/accounts/me/logins"), response.text
        (login,) = client.get(f"{site.address}/accounts/me/logins").json()["logins"]
        assert login["provider"] == "example" and login["email"] == "carl-at-provider@example.org"
        with new_client() as other:
            log_in(other, site, "carl-at-provider")
            assert me(other, site)["username"] == "carl"


def test_several_instances(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whichever of them a login comes back to goes on with it; of several at the same moment one does, and nobody gets two accounts."""
    site = Site(tmp_path, node_packages(tmp_path_factory), INSTANCES="2")
    site.process.start()
    wait_until(lambda: site.process.logged().count("successfully started") == 2)

    def come_back(address: str, cookies: dict[str, str]) -> tuple[int, str]:
        response = httpx.get(address, cookies=cookies, timeout=LIMIT, trust_env=False)
        return response.status_code, "" if response.status_code == 303 else response.json()["code"]

    try:
        with site.provider(), ThreadPoolExecutor(8) as pool:
            for number in range(3):
                with new_client() as client:
                    address = way_back(client, site, f"ann{number}")
                    cookies = {cookie.name: str(cookie.value) for cookie in client.cookies.jar if cookie.name.startswith("svc-login")}
                    found = Counter(pool.map(lambda _: come_back(address, cookies), range(8)))  # noqa: B023
                    assert found == {(303, ""): 1, (400, "LOGIN_USED"): 7}
            clients = [new_client() for _ in range(8)]
            addresses = list(pool.map(lambda client: way_back(client, site, "bob"), clients))
            answers = list(pool.map(lambda client, address: client.get(address), clients, addresses))
            assert [answer.status_code for answer in answers] == [303] * 8, [answer.text for answer in answers]
            assert {me(client, site)["username"] for client in clients} == {"bob"}
            for client in clients:
                client.close()
        users = {user["username"] for user in site.process.operate("list_users").json()}
        assert users == {"admin", "ann0", "ann1", "ann2", "bob"}
        assert len(httpx.get(f"{site.process.url}/Person/", auth=("admin", PASSWORD), timeout=LIMIT).json()) == 4
        assert site.process.stop() == 0 and "[error]" not in site.process.logged(), site.process.logged()
    finally:
        site.process.kill()


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_in_a_browser(site: Site, tmp_path: Path) -> None:
    """Provider and server are of different sites to the browser, so what it says of the request that comes back is `Sec-Fetch-Site: cross-site`."""
    with site.provider(), open_page(tmp_path) as page:
        page.open(f"{site.address}/login?redirect=/accounts/me")
        assert page.text("a.button") == "Log in with Example"
        page.click("a.button")
        page.until(f"location.origin == {site.issuer!r} && document.querySelector('input[name=login]') !== null")
        page.evaluate(
            "document.querySelector('input[name=login]').value = 'dora'; document.querySelector('input[name=password]').value = 'x'"
        )
        page.click("button[type=submit]")
        page.until("document.querySelector('input[name=login]') === null && document.querySelector('button[type=submit]') !== null")
        page.click("button[type=submit]")
        page.until("location.pathname == '/accounts/me' && document.readyState == 'complete'")
        assert page.text(".who b") == "dora"
        assert [status for address, status in page.statuses.items() if "/callback?code=" in address] == [
            200
        ]  # a page that leads on, no redirect
        assert "dora@example.org" in page.text("main")
        page.open(f"{site.address}/accounts/me/logins")
        assert page.text("tbody th") == "example" and "dora@example.org" in page.text("tbody td")
        page.click("form.login button")  # adds the same one: the provider knows who it is
        page.until("location.pathname == '/accounts/me/logins' && document.readyState == 'complete' && document.referrer != ''")
        assert page.text("tbody th") == "example" and page.text(".who b") == "dora"
        page.open(f"{site.address}/login/example/callback?code=x&state=y&iss={site.issuer}")
        page.until("document.querySelector('.fault') !== null")
        assert "was not begun in this browser" in page.text(".fault") and page.text("p.quiet code") == "400 LOGIN_NOT_BEGUN"
        assert not page.problems, page.problems
