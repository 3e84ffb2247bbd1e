"""Components and their files, and what of deployments needs no server."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.deploying import deployment, files
from svc.deploying.switching import begin, finish, go_back
from svc.deploying.trying import TrialResult
from svc.errors import Problem
from svc.messages import HeaderBlock, Request
from svc.operations.deployment_records import MAX_EVENTS
from svc.operations.deployments import Run
from tests.support.archives import tar_of
from tests.support.operations import OperationsNode

pytestmark = pytest.mark.programs

OPERATIONS = (
    "get_components", "get_component_file", "set_component_file", "add_component", "drop_component", "deploy_component", "package_component",
    "list_deployments",
    "get_deployment", "get_deployment_payload", "delete_deployment_payload", "custom_functions_status", "get_custom_functions", "get_custom_function",
    "set_custom_function", "drop_custom_function", "add_custom_function_project", "drop_custom_function_project", "package_custom_function_project",
    "deploy_custom_function_project",
)  # fmt: skip


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    (tmp_path / "secret.txt").write_text("secret")
    shop = tmp_path / "components" / "shop"
    (shop / "web").mkdir(parents=True)
    (shop / "helpers").mkdir()
    (shop / "config.yaml").write_text("rest: true\n")
    (shop / "web" / "a.txt").write_text("a")
    (shop / "helpers" / "prices.py").write_text("VAT = 1\n")
    (shop / ".env").write_text("A=1")
    (shop / "__pycache__").mkdir()
    (shop / "out").symlink_to("../../secret.txt")
    with OperationsNode(tmp_path) as made:
        yield made


def refused(node: OperationsNode, operation: str, **fields: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        node.run(operation, **fields)
    return caught.value.status_code, caught.value.message


async def until(holds: Callable[[], bool]) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(0.001)


def test_the_tree(node: OperationsNode) -> None:
    found = node.run("get_components")
    assert found["name"] == "components"
    (shop,) = found["entries"]
    assert [entry["name"] for entry in shop["entries"]] == ["config.yaml", "helpers", "out", "web"]
    assert shop["entries"][0]["size"] == 11
    assert shop["entries"][3]["entries"][0]["name"] == "a.txt"
    assert shop["status"] == {"status": "unknown", "message": "The component has not been loaded", "lastChecked": {"workers": {}}}


def test_a_tree_has_an_end(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = node.root / "components" / "deep"
    (deep / "/".join(["d"] * 200)).mkdir(parents=True)
    wide = node.root / "components" / "wide"
    wide.mkdir()
    for number in range(30):
        (wide / f"f{number:02}").touch()
    monkeypatch.setattr(files, "MOST_ENTRIES", 90)
    listed = {component["name"]: component["entries"] for component in node.run("get_components")["entries"]}
    assert json.dumps(listed["deep"]).count('"d"') == files.DEEPEST + 1
    assert len(listed["wide"]) < 30


def test_a_file_is_read_and_written(node: OperationsNode) -> None:
    assert node.run("set_component_file", project="shop", file="web/deep/b.txt", payload="ä") == {
        "message": "Successfully set component: web/deep/b.txt"
    }
    found = node.run("get_component_file", project="shop", file="web/deep/b.txt")
    assert (found["message"], found["size"]) == ("ä", 2)
    assert found["mtime"].endswith("Z")
    assert (
        node.run("get_component_file", project="shop", file="web/deep/b.txt", encoding="base64")["message"]
        == base64.b64encode("ä".encode()).decode()
    )
    node.run("set_component_file", project="shop", file="raw", payload="00ff", encoding="hex")
    assert (node.root / "components/shop/raw").read_bytes() == b"\x00\xff"
    node.run("set_component_file", project="shop", file="folder")
    assert (node.root / "components/shop/folder").is_dir()
    assert not list((node.root / "components/shop").rglob("*.part"))
    assert node.run("get_status")["restartReasons"] == ["component shop"]


def test_a_file_keeps_its_mode(node: OperationsNode) -> None:
    path = node.root / "components/shop/config.yaml"
    path.chmod(0o700)
    node.run("set_component_file", project="shop", file="config.yaml", payload="x")
    assert path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("operation", ["get_component_file", "set_component_file", "drop_component"])
@pytest.mark.parametrize("file", ["../x", "/etc/passwd", "out", "web/../../../secret.txt", "a\\b", ".", "a\0b", "x" * 2000])
def test_no_path_leads_out(node: OperationsNode, operation: str, file: str) -> None:
    fields = {"payload": "x"} if operation.startswith("set") else {}
    assert refused(node, operation, project="shop", file=file, **fields) == (400, "Invalid file path")
    assert (node.root / "secret.txt").read_text() == "secret"


@pytest.mark.parametrize("operation", ["get_component_file", "set_component_file", "drop_component", "add_component", "package_component"])
@pytest.mark.parametrize("project", ["..", "a/b", ".hidden", "a b", "ä"])
def test_names_of_projects_are_checked(node: OperationsNode, operation: str, project: str) -> None:
    assert refused(node, operation, project=project, file="x") == (
        400,
        "Project name can only contain alphanumeric, dash and underscores characters",
    )


def test_files_that_are_not_there(node: OperationsNode) -> None:
    assert refused(node, "get_component_file", project="shop", file="nothing") == (404, "Component file not found 'shop/nothing'")
    assert refused(node, "get_component_file", project="shop", file="web") == (404, "Component file not found 'shop/web'")
    assert refused(node, "get_component_file", project="none", file="x") == (404, "Component file not found 'none/x'")


def test_files_that_are_too_large(tmp_path: Path) -> None:
    with OperationsNode(tmp_path, settings={"operationsApi": {"componentFile": {"maxSize": 10}}}) as node:
        assert refused(node, "set_component_file", project="p", file="a", payload="x" * 11)[0] == 413
        node.run("set_component_file", project="p", file="a", payload="x" * 10)
        (tmp_path / "components/p/a").write_text("x" * 11)
        assert refused(node, "get_component_file", project="p", file="a")[0] == 413


@pytest.mark.parametrize("project", ["shop", "none"])
def test_a_path_that_is_refused_makes_nothing_and_is_refused_everywhere(node: OperationsNode, project: str) -> None:
    for operation, fields in (("set_component_file", {"payload": "x"}), ("drop_component", {}), ("get_component_file", {})):
        assert refused(node, operation, project=project, file="../x", **fields) == (400, "Invalid file path")
    assert not (node.root / "components" / "none").exists()


def test_links_in_a_circle_are_no_files(node: OperationsNode) -> None:
    (node.root / "components/shop/circle").symlink_to("circle")
    assert refused(node, "get_component_file", project="shop", file="circle")[0] == 404
    assert refused(node, "get_component_file", project="shop", file="circle/x")[0] == 404
    assert refused(node, "set_component_file", project="shop", file="circle/x", payload="x")[0] == 400
    node.run("set_component_file", project="shop", file="circle", payload="x")
    assert (node.root / "components/shop/circle").read_text() == "x"
    (node.root / "components/shop/other").symlink_to("other")
    node.run("drop_component", project="shop", file="other")
    assert not (node.root / "components/shop/other").is_symlink()


def test_files_of_a_project_are_written_at_the_same_time(node: OperationsNode) -> None:
    async def write() -> list[Any]:
        bodies = [{"operation": "set_component_file", "project": "shop", "file": f"f{number}", "payload": "x"} for number in range(5)]
        calls = [node.operations.run(node.operations.prepare(body, node.admin, None)) for body in bodies]
        return list(await asyncio.gather(*calls))

    node.wait(write)
    assert all((node.root / f"components/shop/f{number}").is_file() for number in range(5))


def test_a_file_is_not_changed_while_its_project_is_and_the_other_way_round(node: OperationsNode) -> None:
    deployments = node.node.deployments
    with deployments.changing("shop"):
        assert refused(node, "set_component_file", project="shop", file="a", payload="x") == (409, "shop is being deployed")
    with deployments.changing_files("shop"), deployments.changing_files("shop"):
        assert refused(node, "drop_component", project="shop")[0] == 409
    node.run("drop_component", project="shop")


def test_a_pipe_is_no_file_and_is_not_waited_for(node: OperationsNode) -> None:
    os.mkfifo(node.root / "components/shop/pipe")
    assert refused(node, "get_component_file", project="shop", file="pipe")[0] == 404


def test_a_project_is_begun_and_removed(node: OperationsNode) -> None:
    assert node.run("add_component", project="new") == {"message": "Successfully added project: new"}
    assert (node.root / "components/new/config.yaml").exists()
    assert refused(node, "add_component", project="new") == (400, "Project already exists")
    assert node.run("drop_component", project="new") == {"message": "Successfully dropped: new"}
    assert not (node.root / "components/new").exists()
    assert node.run("drop_component", project="new", restart=True) == {"message": "Successfully dropped: new, restarting svc"}
    assert node.run("drop_component", project="shop", file="web") == {"message": "Successfully dropped: shop/web"}
    assert not (node.root / "components/shop/web").exists()
    assert os.listdir(node.root / "components" / ".deployments") == ["payloads"]


def test_what_another_project_is_made_of_is_not_cleared_away(node: OperationsNode, tmp_path: Path) -> None:
    """A project that is being added, and the directory made by hand of one whose new version is being loaded."""
    flag, begun = tmp_path / "go on", tmp_path / "begun"
    layout = node.node.deployments.layout

    async def both() -> None:
        command = f"touch {begun}; while [ ! -e {flag} ]; do sleep 0.02; done"
        body = {"operation": "add_component", "project": "new", "install_command": command}
        adding = asyncio.ensure_future(node.operations.run(node.operations.prepare(body, node.admin, None)))
        await until(begun.exists)
        with node.node.deployments.changing("shop"):
            journal = begin(layout, "shop", None)
            finish(layout, journal, lambda project, entry: None)
            await node.node.deployments.clean()
            assert (layout.area / journal["aside"] / "config.yaml").exists()
            go_back(layout, journal, lambda project, entry: None)
        flag.touch()
        await adding

    node.wait(both)
    assert (node.root / "components/new/config.yaml").exists()
    assert (node.root / "components/shop/config.yaml").exists()
    node.wait(node.node.deployments.clean)
    assert os.listdir(layout.area) == ["payloads"]


def test_a_project_begins_with_a_directory(node: OperationsNode) -> None:
    node.run("add_component", project="copy", template=str(node.root / "components" / "shop" / "web"))
    assert (node.root / "components/copy/a.txt").read_text() == "a"
    assert not (node.root / "components/copy").is_symlink()


def test_a_package(node: OperationsNode) -> None:
    assert "out is a link to ../../secret.txt" in refused(node, "package_component", project="shop")[1]
    found = node.run("package_component", project="shop", skip_symlinks=True)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(found["payload"]))) as archive:
        assert sorted(archive.getnames()) == [".", ".env", "config.yaml", "helpers", "helpers/prices.py", "web", "web/a.txt"]
    assert refused(node, "package_component", project="none")[0] == 404


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"project": "x"}, "Either payload or package must be provided"),
        ({"project": "x", "payload": "eA==", "package": "a/b"}, "Both payload and package cannot be provided"),
        ({"payload": "eA=="}, "'project' is required"),
        ({"project": "../x", "payload": "eA=="}, "Project name can only contain"),
        ({"project": "rest", "payload": "eA=="}, "'force' must be true"),
        ({"project": "x", "payload": "eA==", "urlPath": "/y"}, "with 'package' only"),
        ({"project": "x", "payload": 7}, "'payload' must be a string"),
        ({"project": "x", "payload": "eA==", "restart": "maybe"}, "'restart' must be a boolean"),
        ({"project": "x", "payload": "eA==", "install_timeout": 0}, "'install_timeout' must be greater than or equal to 1"),
        ({"project": "x", "package": "left-pad"}, "Package reference not supported: left-pad"),
        ({"project": "x", "package": "a/b", "credentials": [1]}, "'credentials' must be"),
        ({"project": "x", "payload": "eA=="}, "The archive cannot be read"),
        ({"project": "x", "payload": "%%"}, "'payload' must be an archive"),
        ({"project": "x", "package": "/nothing/there"}, "The package /nothing/there does not exist on the server"),
    ],
)
def test_deployments_that_are_refused(node: OperationsNode, fields: dict[str, Any], text: str) -> None:
    status, message = refused(node, "deploy_component", **fields)
    assert status == 400
    assert text in message
    area = node.root / "components" / ".deployments"
    assert not area.exists() or (os.listdir(area), os.listdir(area / "payloads")) == (["payloads"], [])


def test_records(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the processes that load a version first, of which the other tests have enough."""
    monkeypatch.setattr(deployment, "try_load", lambda *arguments: TrialResult())
    good = base64.b64encode(tar_of({"config.yaml": "rest: true\n"})).decode()
    for number in range(7):
        node.clock.advance(10)
        node.run("deploy_component", project="a" if number % 2 else "b", payload=good)
    node.clock.advance(10)
    refused(node, "deploy_component", project="c", payload="eA==")
    found = node.run("list_deployments")
    assert found["total"] == 8
    assert [record["project"] for record in found["deployments"]] == ["c", "b", "a", "b", "a", "b", "a", "b"]
    assert node.run("list_deployments", status="failed")["total"] == 1
    assert node.run("list_deployments", project="a", limit=1, offset=1)["total"] == 3
    middle = found["deployments"][3]["started_at"]
    assert node.run("list_deployments", since=middle, until=middle)["total"] == 1
    record = node.run("get_deployment", deployment_id=found["deployments"][1]["deployment_id"])
    assert (record["status"], record["user"], record["phase"]) == ("success", "admin", "load")
    assert len(record["event_log"]) <= MAX_EVENTS
    assert refused(node, "get_deployment", deployment_id="none")[0] == 404
    assert refused(node, "get_deployment", deployment_id="../x")[0] == 400
    assert (
        node.root / "components" / "a"
    ).resolve().name == f"a-{node.run('list_deployments', project='a')['deployments'][0]['deployment_id']}"
    json.dumps(found)


@pytest.mark.parametrize("restart", [False, True, "rolling"])
def test_a_deployment_that_is_not_waited_for(node: OperationsNode, monkeypatch: pytest.MonkeyPatch, restart: Any) -> None:
    monkeypatch.setattr(deployment, "try_load", lambda *arguments: TrialResult())
    deployments = node.node.deployments

    async def start(payload: str) -> tuple[str, str]:
        body = {"operation": "deploy_component", "project": "a", "payload": payload, "restart": restart, "wait": False}
        started = await node.operations.run(node.operations.prepare(body, node.admin, None))
        record = deployments.records.get(started["deployment_id"])
        assert started["message"] == "Deploying: a" and record is not None
        await until(lambda: not deployments.running)
        ended = deployments.records.get(started["deployment_id"])
        assert ended is not None
        return record["status"], ended["status"]

    good = base64.b64encode(tar_of({"config.yaml": "rest: true\n"})).decode()
    assert node.wait(lambda: start(good)) == ("pending", "success")
    assert node.wait(lambda: start("eA==")) == ("pending", "failed")
    assert not deployments.changing_here


def test_records_of_an_ended_process_are_ended(node: OperationsNode) -> None:
    records = node.node.deployments.records
    table = records.table
    transaction = node.store.begin()
    base = {"project": "shop", "status": "pending", "phase": "prepare", "event_log": [], "started_at": 1, "user": None}
    transaction.put(table, "lost", {**base, "deployment_id": "lost"})
    node.store.commit_now(transaction)
    node.wait(node.node.deployments.recover)
    record = node.run("get_deployment", deployment_id="lost")
    assert (record["status"], record["error"]) == ("failed", "interrupted by restart")


def test_a_package_of_the_configuration_that_is_not_there_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "components" / "there").mkdir(parents=True)
    settings = {name: {"package": f"git+https://ann:word@example.com/acme/{name}"} for name in ("there", "missing")}
    with OperationsNode(tmp_path, settings=settings) as node:
        node.wait(node.node.deployments.recover)
    told = capfd.readouterr().out
    assert "the package git+https://example.com/acme/missing of missing is not deployed" in told
    assert "of there" not in told


def test_operations_of_older_programs(node: OperationsNode) -> None:
    status = node.run("custom_functions_status")
    assert (status["is_enabled"], status["directory"]) == (True, str(node.root / "components"))
    assert node.run("get_custom_functions") == {"shop": {"routes": [], "helpers": ["prices"]}}
    place = {"project": "shop", "type": "helpers", "file": "prices"}
    assert node.run("get_custom_function", **place) == {"message": "VAT = 1\n"}
    assert node.run("set_custom_function", **place, function_content="VAT = 2\n") == {
        "message": "Successfully updated custom function: prices.py"
    }
    assert node.run("get_custom_function", **{**place, "file": "prices.py"}) == {"message": "VAT = 2\n"}
    assert node.run("drop_custom_function", **place) == {"message": "Successfully deleted custom function: prices.py"}
    assert refused(node, "drop_custom_function", **place) == (400, "File does not exist")
    assert refused(node, "get_custom_function", **place) == (400, "File does not exist")
    assert refused(node, "get_custom_function", **{**place, "file": "../config"})[0] == 400
    (node.root / "components/shop/routes").mkdir()
    (Path(os.fsdecode(bytes(node.root / "components/shop/routes") + b"/\xff.py"))).touch()
    json.dumps(node.run("get_custom_functions"), ensure_ascii=False).encode()
    no_project = (400, "Project does not exist. Create one using 'add_custom_function_project'")
    assert refused(node, "get_custom_function", **{**place, "project": "none"}) == no_project
    assert refused(node, "drop_custom_function_project", project="none") == no_project
    assert node.run("drop_custom_function_project", project="shop") == {"message": "Successfully deleted project: shop"}


GOOD = base64.b64encode(tar_of({"config.yaml": "rest: true\n"})).decode()


def test_a_rolling_deployment_whose_client_leaves_is_loaded_all_the_same(node: OperationsNode) -> None:
    deployments = node.node.deployments

    async def leave() -> None:
        body = {"operation": "deploy_component", "project": "a", "payload": GOOD, "restart": "rolling"}
        call = asyncio.ensure_future(node.operations.run(node.operations.prepare(body, node.admin, None)))
        await until(lambda: bool(deployments.running))
        call.cancel()
        await until(lambda: not deployments.running)

    node.wait(leave)
    record = node.run("list_deployments")["deployments"][0]
    assert (record["status"], record["phase"]) == ("success", "restart")
    node.run("drop_component", project="a")


def test_a_load_that_fails_in_an_unforeseen_way_ends_the_deployment(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    async def reload(project: str, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(node.node.deployments, "_reload", reload)
    assert refused(node, "deploy_component", project="a", payload=GOOD, restart=True)[0] == 500
    record = node.run("list_deployments")["deployments"][0]
    assert (record["status"], record["completed_at"] is not None) == ("failed", True)
    assert not node.node.deployments.running
    node.run("drop_component", project="a")


def test_the_archive_of_a_deployment_that_was_killed_is_removed(node: OperationsNode) -> None:
    deployments = node.node.deployments
    deployments.layout.make()
    transaction = node.store.begin()
    base = {"project": "shop", "status": "pending", "phase": "prepare", "event_log": [], "started_at": 1, "user": None}
    for name in ("lost", "decided"):
        transaction.put(deployments.records.table, name, {**base, "deployment_id": name})
        deployments.layout.payload(name).write_bytes(b"archive")
    node.store.commit_now(transaction)
    deployments.layout.payload("of-nothing").write_bytes(b"archive")
    target = deployments.layout.version("shop", "decided")
    target.mkdir()
    begin(deployments.layout, "shop", target, deployment_id="decided")
    node.wait(deployments.recover)
    assert os.listdir(deployments.layout.payload("x").parent) == ["decided"]
    record = node.run("get_deployment", deployment_id="decided")
    assert (record["status"], record["payload_size"]) == ("success", 7)


def test_much_output_of_a_command_does_not_flood_the_loop(node: OperationsNode) -> None:
    deployments = node.node.deployments
    run = Run("a", {"event_log": [], "phase": "prepare"})
    calls = []
    loop = node.node.loop

    class Loop:
        def call_soon_threadsafe(self, function: Any, *arguments: Any) -> None:
            calls.append((function, arguments))

    node.node.loop = Loop()  # type: ignore[assignment]
    try:
        for number in range(10_000):
            deployments.report(run, "prepare", str(number))
    finally:
        node.node.loop = loop
    assert len(calls) == 1
    for function, arguments in calls:
        function(*arguments)
    texts = [event["message"] for event in run.record["event_log"]]
    assert len(texts) <= MAX_EVENTS
    assert (texts[0], texts[-1]) == ("0", "9999")


def test_events_are_followed_beyond_what_the_log_keeps(node: OperationsNode) -> None:
    deployments = node.node.deployments

    async def follow() -> list[str]:
        body = {"operation": "get_deployment", "deployment_id": "long"}
        run = Run("a", {"deployment_id": "long", "status": "pending", "event_log": [], "phase": "prepare", "user": None, "started_at": 1})
        deployments.running["long"] = run
        request = Request("POST", "/", HeaderBlock([("accept", "text/event-stream")]), b"")
        answer = await node.operations.run(node.operations.prepare(body, node.admin, request))
        found = []
        for number in range(2 * MAX_EVENTS):
            deployments._note(run, "prepare", f"line {number}")
            found.append((await anext(answer.body)).decode())
        deployments._note(run, "prepare", "the last line")
        await deployments._end(run, "success", None)
        return [*found, *[piece.decode() async for piece in answer.body]]

    events = node.wait(follow)
    assert [event for event in events if "progress" not in event and "event: end" not in event] == []
    assert all(f'"line {number}"' in event for number, event in enumerate(events[:-2]))
    assert "the last line" in events[-2]
    assert "success" in events[-1]


def test_a_package_is_shown_without_its_password(tmp_path: Path) -> None:
    (tmp_path / "components" / "shop").mkdir(parents=True)
    with OperationsNode(tmp_path, settings={"shop": {"package": "git+https://ann:word@example.com/acme/shop#v1"}}) as node:
        assert node.run("get_components")["entries"][0]["package"] == "git+https://example.com/acme/shop#v1"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_only_super_users_may(node: OperationsNode, operation: str) -> None:
    with pytest.raises(Problem) as caught:
        node.run(operation, node.user("ann", {"data": {"tables": {}}}), project="shop", file="x", deployment_id="x", package="/x")
    assert caught.value.status_code == 403


def test_a_payload_is_for_real_super_users_only(node: OperationsNode) -> None:
    ann = node.user("ann", {"operations": ["get_deployment_payload", "list_deployments"]})
    assert node.run("list_deployments", ann) == {"deployments": [], "total": 0}
    with pytest.raises(Problem) as caught:
        node.run("get_deployment_payload", ann, deployment_id="x")
    assert caught.value.status_code == 403
