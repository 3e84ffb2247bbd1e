"""kill -9 at every step of a deployment: the old or the new version is served afterwards, never a mixture, and nothing else is left.

The child is killed by an audit hook, at the n-th call that opens, makes, renames or removes something below its directory.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from svc.config.document import write_private
from svc.deploying import deployment
from svc.deploying.deployment import Deployment, DeploymentRequest, entry_of
from svc.deploying.fetching import Fetcher
from svc.deploying.layout import Layout
from svc.deploying.payloads import Payload
from svc.deploying.switching import begin, clean, finish, go_back, recover
from svc.deploying.trying import TrialResult
from svc.store.backup.watch import Watch
from tests.integration.conftest import Process
from tests.support.archives import tar_of
from tests.support.crash import Child, say

pytestmark = pytest.mark.programs

FILES = ("config.yaml", "resources.py", "web/a.txt", "web/deep/b.txt")
CHANGES = frozenset(
    ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.utime", "shutil.rmtree")
)


def files_of(version: str) -> dict[str, str]:
    return dict.fromkeys(FILES, version)


def set_entry(root: Path) -> Any:
    """As of the configuration: a file that is replaced in one step."""

    def write(project: str, entry: Mapping[str, Any] | None) -> None:
        if read_entry(root) != entry:
            write_private(root / "configuration", json.dumps(entry).encode())

    return write


def read_entry(root: Path) -> Any:
    return json.loads((root / "configuration").read_text())


def prepare(root: Path, former: str) -> None:
    """Serve the version "old", by a link, from a directory made by hand, or not at all."""
    root.mkdir()
    layout = Layout(root / "components")
    layout.make()
    write_private(root / "configuration", b'{"package": "old"}' if former != "nothing" else b"null")
    place = {"link": layout.version("shop", "0"), "directory": layout.project("shop"), "nothing": None}[former]
    if place is None:
        return
    for name, text in files_of("old").items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    if former == "link":
        layout.project("shop").symlink_to(".deployments/shop-0")


def deploy(root: Path, stop_at: int, goes_back: bool) -> None:
    """In a child. Says how many steps there were, unless it is killed."""
    steps = 0

    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal steps
        if event in CHANGES and any(str(root) in str(each) for each in arguments[:2]):
            steps += 1
            if steps == stop_at:
                os.kill(os.getpid(), signal.SIGKILL)

    deployment.try_load = lambda *arguments: TrialResult()  # type: ignore[assignment]
    layout, write = Layout(root / "components"), set_entry(root)
    wish = DeploymentRequest("shop", "1", Payload.of(tar_of(files_of("new"), top="shop")))
    made = Deployment(layout, wish, Watch(), lambda phase, text: None)
    say("begins")
    sys.addaudithook(on_event)
    made.store()
    made.prepare(Fetcher(lambda *arguments: None, lambda *arguments: [], root, Watch()))
    former = read_entry(root)
    journal = begin(layout, "shop", made.target, deployment_id="1", entry=entry_of(former, "new", {}))
    finish(layout, journal, write)
    if goes_back:
        go_back(layout, journal, write, former)
    clean(layout)
    say(str(steps))


def served(root: Path) -> str:
    """The version of all files and of the configuration."""
    place = root / "components" / "shop"
    entry = read_entry(root)
    if not os.path.lexists(place):
        assert entry is None
        return "nothing"
    found = {(place / name).read_text() for name in FILES} | {entry["package"]}
    assert len(found) == 1, f"a mixture is served: {found}"
    assert sorted(path.relative_to(place.resolve()).as_posix() for path in place.resolve().rglob("*") if path.is_file()) == sorted(FILES)
    return found.pop()


@pytest.mark.parametrize("goes_back", [False, True])
@pytest.mark.parametrize("former", ["link", "directory", "nothing"])
def test_a_kill_at_any_step_leaves_one_version(former: str, goes_back: bool, tmp_path: Path) -> None:
    before = "nothing" if former == "nothing" else "old"
    expected = ["old" if former != "nothing" else "nothing", "new"]
    seen: list[str] = []
    step = 1
    while True:
        root = tmp_path / f"n{step}"
        prepare(root, former)
        child = Child(deploy, root, step, goes_back)
        status = child.wait()
        assert status in (0, -signal.SIGKILL), child.errors
        layout = Layout(root / "components")
        recover(layout, set_entry(root), lambda text: pytest.fail(text))
        clean(layout)
        seen.append(served(root))
        left = sorted(path.name for path in layout.area.iterdir())
        version = {"new": ["shop-1"], "old": ["shop-0"] if former == "link" else []}.get(seen[-1], [])
        assert left == ["payloads", *version], (step, left)
        recover(layout, set_entry(root), lambda text: pytest.fail(text))
        assert served(root) == seen[-1], "once more changes nothing"
        if status == 0:
            break
        step += 1
    assert step > 20
    turns = [one for one, other in zip(seen, [None, *seen], strict=False) if one != other]
    assert turns == ([before, "new", before] if goes_back else expected), turns


# --- the real server

HOOK = """
import os, signal, sys
_at, _seen = os.environ.get("KILL_AT", "::").split("::")

def _hook(event, arguments):
    if _at and event == _at and any(_seen in str(each) for each in arguments[:2]):
        os.kill(os.getppid(), signal.SIGKILL)  # or that would start another one
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(_hook)
"""

POINTS = {
    "open::.deployments/payloads/": 1,
    "os.rename::shop.json": 1,  # the journal is about to get its name
    "os.symlink::.deployments/shop-": 2,
    "os.remove::shop.json": 2,
}


def test_a_server_that_is_killed_serves_one_version(tmp_path: Path) -> None:
    import base64

    hook = tmp_path / "hook.py"
    hook.write_text(HOOK)
    server = Process(tmp_path / "root", None, env={"SVC_TEST_HOOK": str(hook)})

    def app(number: int) -> str:
        code = f"class Version(Resource):\n    def get(self, target=None):\n        return {{'version': {number}}}\n"
        return base64.b64encode(tar_of({"config.yaml": "rest: true\nresources: true\n", "resources.py": code})).decode()

    try:
        server.start()
        assert server.operate("deploy_component", project="shop", payload=app(1), restart=True).status_code == 200
        assert server.stop() == 0
        for number, (point, expected) in enumerate(POINTS.items()):
            server.env["KILL_AT"] = point
            server.start()
            with pytest.raises(httpx.HTTPError):
                server.operate("deploy_component", project="shop", payload=app(2), restart=True)
            assert server.process is not None and server.process.wait() == -signal.SIGKILL
            server.env["KILL_AT"] = "::"
            server.start()
            with server.client() as client:
                assert client.get("/Version").json() == {"version": expected}, point
            area = [entry.name for entry in (server.root / "components" / ".deployments").iterdir()]
            assert len([name for name in area if name.startswith("shop")]) == 1, (number, area)
            record = server.operate("list_deployments", limit=1).json()["deployments"][0]
            assert record["status"] == ("success" if expected == 2 else "failed"), point
            if expected == 2:
                assert server.operate("deploy_component", project="shop", payload=app(1), restart=True).status_code == 200
            assert server.stop() == 0
    finally:
        server.kill()
