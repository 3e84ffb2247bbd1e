"""`package` of a deployment: archives of web servers, repositories, the index of pip (spec: deployment §5). All of them on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from svc.deploying import commands
from svc.errors import Problem
from svc.operations import package_downloads
from tests.integration.test_deploying import make_wheel
from tests.support.archives import tar_of
from tests.support.forked import fork_server
from tests.support.forked_trials import SUBPROCESS
from tests.support.operations import OperationsNode

pytestmark = pytest.mark.programs

APP = {"config.yaml": "rest: true\n", "notes.txt": "one"}


class Host:
    """A web server. `paths`: path -> (status, header fields, body). `seen`: (path, header fields)."""

    def __init__(self) -> None:
        self.paths: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                status, fields, body = host.paths.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **fields}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture(autouse=True)
def forked_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each deployment loads its application on trial, which is not what these tests are about."""
    monkeypatch.setenv("SVC_TEST_FORKS", fork_server())
    monkeypatch.setattr(commands, "subprocess", SUBPROCESS)


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path / "root", settings={"operationsApi": {"importHosts": ["127.0.0.1"]}}) as made:
        yield made


def deploy(node: OperationsNode, **fields: Any) -> Path:
    """The directory that is served then."""
    node.run("deploy_component", project="shop", **fields)
    return (node.root / "components" / "shop").resolve()


def refused(node: OperationsNode, **fields: Any) -> tuple[int, str]:
    node.clock.advance(1)
    with pytest.raises(Problem) as caught:
        deploy(node, **fields)
    area = node.root / "components" / ".deployments"
    assert not area.exists() or sorted(os.listdir(area)) == ["payloads"], "nothing is left"
    record = node.run("list_deployments", project="shop", limit=1)["deployments"][0]
    assert record["status"] == "failed"
    return caught.value.status_code, record["error"]


def test_an_archive_of_a_web_server(node: OperationsNode, host: Host) -> None:
    host.paths["/shop-1.tar.gz"] = (200, {}, tar_of(APP, top="shop-1"))
    assert (deploy(node, package=f"{host.url}/shop-1.tar.gz") / "notes.txt").read_text() == "one"
    assert "authorization" not in host.seen[0][1]


def test_credentials_go_to_the_host_itself_only(node: OperationsNode, host: Host) -> None:
    other = Host()
    try:
        other.paths["/b.tar.gz"] = (200, {}, tar_of(APP))
        host.paths["/a.tar.gz"] = (302, {"Location": f"{other.url}/b.tar.gz"}, b"")
        deploy(node, package=f"{host.url}/a.tar.gz", credentials={"username": "ann", "password": "word"})
        assert host.seen[0][1]["authorization"].startswith("Basic ")
        assert "authorization" not in other.seen[0][1]
    finally:
        other.close()
    stored = str(node.run("list_deployments"))
    assert "word" not in stored


def test_archives_that_cannot_be_fetched(node: OperationsNode, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tar_of(APP)
    host.paths["/cut.tar.gz"] = (200, {"Content-Length": str(len(archive) + 5)}, archive)
    host.paths["/loop.tar.gz"] = (302, {"Location": "/loop.tar.gz"}, b"")
    host.paths["/file.tar.gz"] = (302, {"Location": "file:///etc/passwd"}, b"")
    host.paths["/page.tar.gz"] = (200, {}, b"<html>" * 200)
    assert refused(node, package=f"{host.url}/none.tar.gz")[1].endswith("/none.tar.gz cannot be fetched: status 404 Not Found")
    assert "the connection was closed before the end" in refused(node, package=f"{host.url}/cut.tar.gz")[1]
    assert "redirects more than 5 times" in refused(node, package=f"{host.url}/loop.tar.gz")[1]
    assert "neither http nor https" in refused(node, package=f"{host.url}/file.tar.gz")[1]
    assert "archive cannot be read" in refused(node, package=f"{host.url}/page.tar.gz")[1]
    monkeypatch.setattr(package_downloads, "LARGEST", 20)
    host.paths["/large.tar.gz"] = (200, {}, archive)
    assert refused(node, package=f"{host.url}/large.tar.gz")[0] == 413


def test_hosts_that_are_not_permitted(tmp_path: Path, host: Host) -> None:
    with OperationsNode(tmp_path / "root") as node:
        for package in (
            f"{host.url}/a.tar.gz",
            f"{host.url}/acme/shop",
            f"git+http://127.0.0.1:{host.port}/a/b",
            "git+ssh://git@127.0.0.1/a/b",
        ):
            status, message = refused(node, package=package)
            assert (status, "has no public address" in message) == (403, True), (package, message)
    assert host.seen == []


# --- repositories


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    path = tmp_path / "work"
    path.mkdir()
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]

    def git(*words: str) -> None:
        subprocess.run(
            ["git", *identity, *words], cwd=path, check=True, capture_output=True, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        )

    git("init", "-b", "main")
    for number, text in enumerate(("one", "two")):
        for name, content in APP.items():
            (path / name).write_text(content if name != "notes.txt" else text)
        git("add", "-A")
        git("commit", "-m", text)
        git("tag", f"v{number + 1}")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    return path


@pytest.mark.parametrize(("ref", "text"), [("", "two"), ("#main", "two"), ("#v1", "one"), ("#semver:v1", "one")])
def test_a_version_of_a_repository(node: OperationsNode, repository: Path, ref: str, text: str) -> None:
    served = deploy(node, package=f"git+file://{repository}{ref}")
    assert (served / "notes.txt").read_text() == text
    assert not (served / ".git").exists()


def test_a_commit_of_a_repository(node: OperationsNode, repository: Path) -> None:
    commit = subprocess.run(["git", "rev-parse", "v1"], cwd=repository, capture_output=True, text=True, check=True).stdout.strip()
    assert (deploy(node, package=f"git+file://{repository}#{commit}") / "notes.txt").read_text() == "one"


def test_repositories_that_cannot_be_fetched(node: OperationsNode, repository: Path, host: Host) -> None:
    assert "cannot be fetched" in refused(node, package=f"git+file://{repository}#nothing")[1]
    assert "cannot be fetched" in refused(node, package=f"git+file://{repository}-nowhere")[1]
    status, message = refused(node, package=f"git+http://ann:word@127.0.0.1:{host.port}/acme/shop.git#v1")
    assert (status, "word" in message) == (400, False)
    asked = [fields for path, fields in host.seen if path.startswith("/acme/shop.git/info/refs")]
    assert asked and asked[0]["authorization"].startswith("Basic ")


def test_a_repository_with_a_link_that_leads_out_is_refused(node: OperationsNode, repository: Path) -> None:
    (repository / "out").symlink_to("/etc/passwd")
    subprocess.run(["git", "add", "-A"], cwd=repository, check=True)
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"], cwd=repository, check=True)
    assert "leads out of the repository" in refused(node, package=f"git+file://{repository}")[1]


# --- the index


def test_a_package_of_the_index(node: OperationsNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(tmp_path, "svc_test_shop", "2.0", "X = 1\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    served = deploy(node, package="pypi:svc-test-shop==2.0")
    assert (served / "svc_test_shop.py").exists()
    assert not list(served.glob("*.dist-info"))
    with pytest.raises(Problem, match="svc-test-shop==3 cannot be fetched"):
        deploy(node, package="pypi:svc-test-shop==3")
    assert (node.root / "components" / "shop").resolve() == served
