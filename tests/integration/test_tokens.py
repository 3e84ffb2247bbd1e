"""Tokens, sessions and keys of the real program (spec: security §2, §3, §11; http §11.2)."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

CREDENTIALS = {"username": "admin", "password": PASSWORD}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """With an application that asks for login, and the keys it makes itself."""
    root = tmp_path_factory.mktemp("tokens")
    app = root / "app"
    app.mkdir()
    (app / "config.yaml").write_text("rest: true\nlogin: true\ngraphqlSchema: {files: '*.graphql'}\n")
    (app / "schema.graphql").write_text('type Plant @table @export(name: "plant") { id: ID @primaryKey, name: String }\n')
    started = Process(root / "svc", app, own_keys=True).start()
    yield started
    started.stop()


def test_tokens(server: Process) -> None:
    made = server.operate("create_authentication_tokens", auth=None, **CREDENTIALS).json()  # may have to wait for the keys
    by_token = {"Authorization": f"Bearer {made['operation_token']}"}
    with httpx.Client(headers=by_token) as client:
        assert client.post(server.operations_url, json={"operation": "user_info"}).json()["username"] == "admin"
        assert client.put(f"{server.url}/plant/1", json={"name": "fern"}).status_code == 204
        assert client.get(f"{server.url}/plant/1").json()["name"] == "fern"
    with httpx.Client(headers={"Authorization": f"Bearer {made['refresh_token']}"}) as client:
        for response in (client.post(server.operations_url, json={"operation": "describe_all"}), client.get(f"{server.url}/plant/1")):
            assert response.status_code == 401 and response.json()["error"] == "invalid token"
            assert response.headers.get_list("WWW-Authenticate") == ['Basic realm="svc", charset="UTF-8"', 'Bearer realm="svc"']
        renewed = client.post(server.operations_url, json={"operation": "refresh_operation_token"}).json()
    assert httpx.get(f"{server.url}/plant/1", headers={"Authorization": f"Bearer {renewed['operation_token']}"}).status_code == 200


def test_key_files(server: Process) -> None:
    server.operate("create_authentication_tokens")
    keys = server.root / "keys"
    names = {".jwtPass", ".jwtPrivate.key", ".jwtPublic.key", "ca.pem", "caPrivateKey.pem", "certificate.pem", "privateKey.pem"}
    assert {path.name: path.stat().st_mode & 0o777 for path in keys.iterdir()} == dict.fromkeys(names, 0o600)


def test_session_of_both_ports(server: Process) -> None:
    """Acceptance example 10. The page is one of the operations port, which the other lists."""
    origin = {"Origin": server.operations_url}
    with httpx.Client(headers=origin) as client:
        response = client.post(server.operations_url, json={"operation": "login", **CREDENTIALS})
        assert response.json() == {"message": "Login successful"} and "HttpOnly" in response.headers["Set-Cookie"]
        cookie = response.headers["Set-Cookie"].partition(";")[0]
    sent = {**origin, "Cookie": cookie}
    assert httpx.get(f"{server.url}/plant/", headers=sent).status_code == 200
    assert httpx.get(f"{server.url}/plant/", headers={**sent, "Origin": "https://evil.example"}).status_code == 401
    assert httpx.post(server.operations_url, json={"operation": "logout"}, headers=sent).json() == {"message": "Logout successful"}
    assert httpx.get(f"{server.url}/plant/", headers=sent).status_code == 401


def test_login_of_an_application(server: Process) -> None:
    browser = {"User-Agent": "Mozilla/5.0", "Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    with httpx.Client(base_url=server.url) as client:
        page = client.get("/plant/?name=fern", headers=browser)
        assert (page.status_code, page.headers["Location"]) == (302, "/login?redirect=%2Fplant%2F%3Fname%3Dfern")
        wrong = client.post("/login", data={"username": "admin", "password": "no"}, headers=browser)
        assert wrong.status_code == 401 and "Set-Cookie" not in wrong.headers
        right = client.post("/login", data={**CREDENTIALS, "redirect": "/plant/?name=fern"}, headers=browser)
        assert right.status_code == 303, right.text
        assert right.headers["Location"] == "/plant/?name=fern"
        assert client.get("/plant/").status_code == 200
        assert client.post("/logout").status_code == 200
        assert client.get("/plant/").status_code == 401 and not client.cookies


def test_a_session_outlives_the_process(tmp_path: Path) -> None:
    server = Process(tmp_path / "svc").start()
    with httpx.Client() as client:
        answer = client.post(server.operations_url, json={"operation": "login", **CREDENTIALS})
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
    tokens = server.operate("create_authentication_tokens").json()
    server.kill()  # what was answered is on the disk
    server.start()
    try:
        for headers in ({"Cookie": cookie}, {"Authorization": f"Bearer {tokens['operation_token']}"}):
            host = {**headers, "Host": httpx.URL(server.operations_url).netloc.decode()}
            assert httpx.post(server.operations_url, json={"operation": "user_info"}, headers=host).json()["username"] == "admin"
        body = {"operation": "refresh_operation_token", "refresh_token": tokens["refresh_token"]}
        assert httpx.post(server.operations_url, json=body).status_code == 200
    finally:
        server.stop()


def test_inactive_at_once(server: Process) -> None:
    """Acceptance example 7."""
    server.operate("add_role", role="reader", permission={})
    server.operate("add_user", username="ann", password="s3cret-word", role="reader", active=True)
    tokens = server.operate("create_authentication_tokens", auth=None, username="ann", password="s3cret-word").json()
    basic, bearer = httpx.BasicAuth("ann", "s3cret-word"), {"Authorization": f"Bearer {tokens['operation_token']}"}
    body = {"operation": "user_info"}
    assert httpx.post(server.operations_url, json=body, auth=basic).status_code == 200
    assert httpx.post(server.operations_url, json=body, headers=bearer).status_code == 200
    server.operate("alter_user", username="ann", active=False)
    for response in (
        httpx.post(server.operations_url, json=body, auth=basic),
        httpx.post(server.operations_url, json=body, headers=bearer),
    ):
        assert (response.status_code, response.json()["error"]) == (401, "Cannot complete request: User is inactive")


def test_the_login_that_changes_the_own_password_stays(server: Process) -> None:
    """security §3: all others of the account end. The user has no right on anything."""
    server.operate("add_role", role="nothing", permission={"operations": []})
    server.operate("add_user", username="own", password="blue-heron-17", role="nothing", active=True)

    def token(password: str) -> str:
        asked = server.operate("create_authentication_tokens", auth=None, username="own", password=password)
        return str(asked.json()["operation_token"])

    def status(client: httpx.Client) -> int:
        return client.get(f"{server.url}/plant/").status_code  # the role allows nothing: 403 as long as the login counts

    def change(client: httpx.Client, current: str, password: str) -> httpx.Response:
        body = {"operation": "alter_user", "username": "own", "password": password, "current_password": current}
        return client.post(server.operations_url, json=body)

    with httpx.Client() as browser, httpx.Client() as other, httpx.Client() as program:
        for client in (browser, other):
            client.post(
                server.operations_url, json={"operation": "login", "username": "own", "password": "blue-heron-17"}
            ).raise_for_status()
        program.headers["Authorization"] = f"Bearer {token('blue-heron-17')}"
        assert [status(client) for client in (browser, other, program)] == [403] * 3
        wrong = change(browser, "grey-heron-17", "grey-heron-18")
        assert (wrong.status_code, wrong.json()["error"]) == (403, "current_password is wrong")
        assert [status(client) for client in (browser, other, program)] == [403] * 3
        assert change(browser, "blue-heron-17", "grey-heron-18").status_code == 200
        assert [status(client) for client in (browser, other, program)] == [403, 401, 401]
        program.headers["Authorization"] = f"Bearer {token('grey-heron-18')}"
        assert change(program, "grey-heron-18", "white-heron-19").status_code == 200
        assert [status(client) for client in (browser, program)] == [401, 403]


def test_a_change_of_accounts_by_another_process_of_the_directory(tmp_path: Path) -> None:
    """It keeps what it read of users, and hears of the commits of others."""
    first = Process(tmp_path / "svc").start()
    second = Process(tmp_path / "other", env={"STORAGE_PATH": str(first.root / "database")})
    shutil.copytree(first.root / "keys", second.root / "keys")
    try:
        second.start()
        first.operate("add_role", role="reader", permission={"data": {"tables": {}}})
        first.operate("add_user", username="ann", password="s3cret-word", role="reader", active=True)
        tokens = first.operate("create_authentication_tokens", auth=None, username="ann", password="s3cret-word").json()
        headers = {"Authorization": f"Bearer {tokens['operation_token']}"}

        def status() -> int:
            return httpx.post(second.operations_url, json={"operation": "user_info"}, headers=headers, timeout=60).status_code

        wait_until(lambda: status() == 200)
        assert status() == 200  # remembered by now
        assert first.operate("alter_user", username="ann", active=False).status_code == 200
        wait_until(lambda: status() == 401)
    finally:
        first.kill()
        second.kill()
