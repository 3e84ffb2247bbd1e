"""What proxies say of their clients counts from trusted ones and from no others (spec: http §14.1)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.waiting import LIMIT, wait_until

pytestmark = pytest.mark.programs

TRUSTED, OTHER = "127.0.0.2", "127.0.0.3"
FIELDS = {"X-Forwarded-For": "198.51.100.66, 192.0.2.7", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "shop.example"}
STANDARD = {"Forwarded": 'for=198.51.100.66, for="192.0.2.7:4711";proto=https;host=shop.example'}
SAID = {"ip": "192.0.2.7", "protocol": "https", "host": "shop.example", "url": "https://shop.example/said"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    app = tmp_path_factory.mktemp("app")
    (app / "config.yaml").write_text("graphqlSchema: {files: schema.graphql}\njsResource: {files: resources.py}\nrest: true\n")
    (app / "schema.graphql").write_text("type Item @table @export { id: ID @primaryKey }\n")
    (app / "resources.py").write_text(
        "from svc import server\n"
        "def said(request, next):\n"
        "    if request.pathname != '/said':\n"
        "        return next(request)\n"
        "    return {'ip': request.ip, 'protocol': request.protocol, 'host': request.host, 'url': request.absolute_url}\n"
        "server.http(said, {'before': 'authentication'})\n"
    )
    env = {"HTTP_TRUSTEDPROXIES": TRUSTED, "LOGGING_AUDITAUTHEVENTS_LOGFAILED": "true", "AUTHENTICATION_AUTHORIZELOCAL": "true"}
    env |= {"HTTP_LOGGING": '{"level": "info"}'}
    process = Process(tmp_path_factory.mktemp("node") / "root", app, env=env).start()
    yield process
    assert process.stop() == 0


def client(server: Process, source: str, *, http2: bool = False, operations: bool = False, **options: object) -> httpx.Client:
    """From this address of the loopback network."""
    transport = httpx.HTTPTransport(local_address=source, http2=http2, http1=not http2)
    url = server.operations_url if operations else server.url
    return httpx.Client(base_url=url, transport=transport, timeout=LIMIT, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("fields", [FIELDS, STANDARD])
def test_applications_see_the_client(server: Process, fields: dict[str, str], http2: bool) -> None:
    with client(server, TRUSTED, http2=http2) as proxy, client(server, OTHER, http2=http2) as other:
        for _ in range(2):  # the second finds it in the memo
            assert proxy.get("/said", headers=fields).json() == SAID
            own = f"127.0.0.1:{server.port}"
            expected = {"ip": OTHER, "protocol": "http", "host": own, "url": f"http://{own}/said"}
            assert other.get("/said", headers=fields).json() == expected


def test_the_access_log_names_the_client(server: Process) -> None:
    with client(server, TRUSTED) as proxy, client(server, OTHER) as other:
        proxy.get("/said?behind", headers=FIELDS)
        other.get("/said?pretended", headers=FIELDS)
    wait_until(lambda: "/said?pretended" in server.logged(), server.logged)
    lines = [line for line in server.logged().splitlines() if "/said?behind" in line or "/said?pretended" in line]
    assert ["client: 192.0.2.7 " in lines[0], f"client: {OTHER} " in lines[1]] == [True, True]


def test_sessions_are_those_of_https(server: Process) -> None:
    def cookie_of(source: str, fields: dict[str, str]) -> str:
        with client(server, source, operations=True) as http:
            body = {"operation": "login", "username": "admin", "password": PASSWORD}
            answer = http.post("/", json=body, headers=fields)
            assert answer.status_code == 200, answer.text
            return answer.headers["set-cookie"]

    assert cookie_of(TRUSTED, FIELDS).startswith("__Host-svc-session=") and "Secure" in cookie_of(TRUSTED, FIELDS)
    for source, fields in ((OTHER, FIELDS), (TRUSTED, {})):
        assert cookie_of(source, fields).startswith("svc-session=")
        assert "Secure" not in cookie_of(source, fields)


def test_the_own_origin_is_that_of_the_client(server: Process) -> None:
    """A page of the own origin may use what its browser adds; one of another may not."""
    page = {"Origin": "https://shop.example"}
    with client(server, TRUSTED, auth=("admin", PASSWORD)) as proxy, client(server, OTHER, auth=("admin", PASSWORD)) as other:
        assert proxy.get("/Item/", headers={**FIELDS, **page}).status_code == 200
        assert proxy.get("/Item/", headers=page).status_code == 401
        assert other.get("/Item/", headers={**FIELDS, **page}).status_code == 401


def test_addresses_in_documents_are_those_of_the_client(server: Process) -> None:
    with client(server, TRUSTED, auth=("admin", PASSWORD)) as proxy:
        assert proxy.get("/openapi", headers=FIELDS).json()["servers"][0]["url"].startswith("https://shop.example")


def test_malformed_fields_are_400_from_trusted_proxies_alone(server: Process) -> None:
    faults = ({"X-Forwarded-Proto": "gopher"}, {"Forwarded": 'for="'}, {"X-Forwarded-Host": "a b"}, {**FIELDS, "Forwarded": "for=1.1.1.1"})
    with client(server, TRUSTED) as proxy, client(server, OTHER) as other:
        for fields in faults:
            answer = proxy.get("/said", headers=fields)
            assert answer.status_code == 400 and "Forwarded" in answer.json()["detail"]
            assert proxy.put("/Item/1", json={}, headers=fields).status_code == 400
            assert other.get("/said", headers=fields).status_code == 200
        assert proxy.get("/Item/1", auth=("admin", PASSWORD)).status_code == 404


def test_no_request_becomes_local_by_what_a_proxy_says(server: Process) -> None:
    """`authentication.authorizeLocal` is on: requests of this machine are made as super user."""
    with client(server, OTHER) as local:
        assert local.get("/Item/").status_code == 200
        assert local.get("/Item/", headers={"X-Forwarded-For": "127.0.0.1"}).status_code == 401
    with client(server, TRUSTED) as proxy:
        for fields in ({}, {"X-Forwarded-For": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1;host=localhost"}):
            assert proxy.get("/Item/", headers=fields).status_code == 401


def events_of(server: Process) -> dict[str, dict[str, str]]:
    """By user; lines are written within a second."""
    lines = [line for line in server.logged().splitlines(True) if "[auth-event]" in line and line.endswith("\n")]
    return {event["username"]: event for event in (json.loads(line[line.index("{") :]) for line in lines)}


def test_failed_logins_are_logged_with_the_client(server: Process) -> None:
    with client(server, TRUSTED, auth=("eve", "x")) as proxy, client(server, OTHER, auth=("mallory", "x")) as other:
        assert proxy.get("/Item/", headers=FIELDS).status_code == other.get("/Item/", headers=FIELDS).status_code == 401
    events = wait_until(lambda: {"eve", "mallory"} <= (found := events_of(server)).keys() and found)
    assert (events["eve"]["originating_ip"], events["eve"]["peer_ip"]) == ("192.0.2.7", TRUSTED)
    assert (events["mallory"]["originating_ip"], events["mallory"]["unverified_ip"]) == (OTHER, FIELDS["X-Forwarded-For"])
