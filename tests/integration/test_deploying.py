"""Deployments against the real server: what is served before, while and after them (spec: deployment)."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cbor2
import httpx
import pytest

from tests.integration.conftest import LIMIT, PASSWORD, Process
from tests.support.archives import tar_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

CONFIG = "rest: true\ngraphqlSchema: '*.graphql'\nresources: resources.py\n"
AUTH = ("admin", PASSWORD)


def version(number: int, name: str = "Version", **files: str) -> dict[str, str]:
    """An application that answers with its number."""
    code = f"class {name}(Resource):\n    def get(self, target=None):\n        return {{'version': {number}}}\n"
    return {"config.yaml": CONFIG, "resources.py": code, **files}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(tmp_path_factory.mktemp("node") / "root", None).start()
    yield process
    assert process.stop() == 0, process.output()
    assert "Traceback" not in process.logged(), process.logged()


@pytest.fixture(autouse=True)
def nothing_is_left(server: Process) -> Iterator[None]:
    yield
    for component in server.operate("get_components").json()["entries"]:
        assert server.operate("drop_component", project=component["name"], restart=True).status_code == 200
    place = server.root / "components" / ".deployments"
    assert [name for name in area(server) if not (place / name / ".packages").is_dir()] == ["payloads"], "packages may be imported"


def area(server: Process) -> list[str]:
    path = server.root / "components" / ".deployments"
    return sorted(entry.name for entry in path.iterdir()) if path.exists() else ["payloads"]


def deploy(server: Process, files: dict[str, str], **fields: Any) -> httpx.Response:
    payload = base64.b64encode(tar_of(files, top="shop")).decode()
    return server.operate("deploy_component", **{"project": "shop", "payload": payload, "restart": True, **fields})


def served(server: Process, path: str = "Version") -> Any:
    return httpx.get(f"{server.url}/{path}", auth=AUTH, timeout=LIMIT).json().get("version")


def test_a_version_takes_the_place_of_the_one_before(server: Process) -> None:
    for number in (1, 2):
        answer = deploy(server, version(number))
        assert answer.status_code == 200, answer.text
        assert answer.json()["message"] == "Successfully deployed: shop, restarting svc"
        assert served(server) == number
        assert f"shop-{answer.json()['deployment_id']}" in area(server)


UNLOADABLE = [
    ({"resources.py": "def f(:\n"}, "resources.py:1: SyntaxError"),
    ({"resources.py": "import nothing_of_this_name\n"}, "resources.py:1: ModuleNotFoundError"),
    ({"resources.py": "\n\nraise RuntimeError('at import')\n"}, "resources.py:3: RuntimeError: at import"),
    ({"resources.py": "import sys\nsys.exit(3)\n"}, "resources.py:2: SystemExit"),
    ({"resources.py": "import os\nos._exit(3)\n"}, "ended the process with status 3"),
    ({"resources.py": "import ctypes\nctypes.string_at(0)\n"}, "resources.py:2: the process that loaded it was ended by SIGSEGV"),
    ({"resources.py": "x = bytearray(1 << 34)\n"}, "resources.py:1: MemoryError"),
    ({"schema.graphql": "type A @table {"}, "schema.graphql"),
    ({"config.yaml": "a: [\n"}, "config.yaml"),
]


def test_a_version_that_cannot_be_loaded_changes_nothing(server: Process) -> None:
    """Version 1 is deployed once for all of them: each must leave it as it is."""
    assert deploy(server, version(1)).status_code == 200
    before = area(server)
    found, expected = [], []
    for files, text in UNLOADABLE:
        answer = deploy(server, {**version(2), **files})
        problem = answer.json()
        error = text if text in problem.get("error", "") else problem
        record = server.operate("list_deployments", limit=1).json()["deployments"][0]
        recorded = text if text in (record["error"] or "") else record["error"]
        found.append(
            (answer.status_code, problem.get("code"), error, served(server), area(server), record["status"], record["phase"], recorded)
        )
        expected.append((400, "LOAD_FAILED", text, 1, before, "failed", "load", text))
    assert found == expected


def test_the_trial_does_not_show_what_only_the_running_service_has(server: Process) -> None:
    """Two applications at one address: found when the version is loaded, and taken back."""
    assert deploy(server, version(1)).status_code == 200
    answer = deploy(server, version(7), project="other")
    assert answer.status_code == 400
    assert "Version" in answer.json()["error"]
    assert served(server) == 1
    assert [entry["name"] for entry in server.operate("get_components").json()["entries"]] == ["shop"]
    assert server.operate("list_deployments", limit=1).json()["deployments"][0]["status"] == "rolled_back"


def test_a_version_that_fails_where_the_trial_did_not_leaves_the_one_before(server: Process) -> None:
    assert deploy(server, version(1)).status_code == 200
    answer = deploy(
        server, version(2, **{"resources.py": "import os\nif 'SVC_TRIAL' not in os.environ:\n    raise RuntimeError('only here')\n"})
    )
    assert answer.status_code == 400
    assert "resources.py:3: RuntimeError: only here" in answer.json()["error"]
    assert served(server) == 1
    status = server.operate("get_status").json()
    assert "error" not in {entry["status"] for entry in status["componentStatus"]}
    # The watch of files may have seen the version that failed, and sees a moment later that it is gone.
    wait_until(lambda: server.operate("get_status").json()["restartRequired"] is False)


def test_without_a_restart_the_running_version_stays(server: Process) -> None:
    page = {"config.yaml": CONFIG + "static:\n  files: web/**\n"}
    assert deploy(server, {**version(1), **page, "web/page.txt": "one"}).status_code == 200
    answer = deploy(server, {**version(2), **page, "web/page.txt": "two"}, restart=False)
    assert answer.json()["message"] == "Successfully deployed: shop"
    assert served(server) == 1
    assert httpx.get(f"{server.url}/page.txt", auth=AUTH).text == "one", "static files are of the same version as the code"
    status = server.operate("get_status").json()
    assert status["restartRequired"] is True
    assert status["restartReasons"] in (["component shop"], ["component shop: deployed"]), "the latter once the watch of files has seen it"
    assert deploy(server, {**version(3), **page, "web/page.txt": "three"}).status_code == 200
    assert served(server) == 3
    assert httpx.get(f"{server.url}/page.txt", auth=AUTH).text == "three"
    assert server.operate("get_status").json()["restartRequired"] is False


def test_rolling_is_a_job(server: Process) -> None:
    assert deploy(server, version(1)).status_code == 200
    answer = deploy(server, version(2), restart="rolling").json()

    def ended() -> str:
        status: str = server.operate("get_job", id=answer["restartJobId"]).json()[0]["status"]
        return status if status in ("COMPLETE", "ERROR") else ""

    assert wait_until(ended) == "COMPLETE"
    assert served(server) == 2


def test_tables_of_others_and_of_the_store_are_known_to_the_trial(server: Process) -> None:
    assert server.operate("create_table", table="made", primary_key="id").status_code == 200
    schema = "type Maker @table @export { id: ID @primaryKey  name: String }"
    assert deploy(server, {"config.yaml": CONFIG, "schema.graphql": schema, "resources.py": ""}, project="makers").status_code == 200
    files = version(
        1,
        **{
            "schema.graphql": 'type Thing @table @export { id: ID @primaryKey  makerId: ID @indexed  maker: Maker @relationship(from: "makerId") }'
        },
    )
    files["resources.py"] += "assert tables.made is not None and tables.Maker is not None\n"
    answer = deploy(server, files)
    assert answer.status_code == 200, answer.text


def test_a_second_deployment_of_a_project_is_refused_meanwhile(server: Process, tmp_path: Path) -> None:
    flag = tmp_path / "go on"
    slow = version(1, **{"resources.py": f"import os, time\nwhile not os.path.exists({str(flag)!r}):\n    time.sleep(0.02)\n"})
    answers: list[httpx.Response] = []
    first = threading.Thread(target=lambda: answers.append(deploy(server, slow)))
    first.start()
    wait_until(lambda: server.operate("list_deployments", status="pending").json()["total"])
    for answer in (deploy(server, version(2)), server.operate("drop_component", project="shop")):
        assert answer.status_code == 409
        assert answer.json()["error"] == "shop is being deployed"
    flag.touch()
    first.join()
    assert answers[0].status_code == 200


def test_events_can_be_followed(server: Process) -> None:
    deployment_id = deploy(server, version(1)).json()["deployment_id"]
    answer = httpx.post(
        server.operations_url,
        auth=AUTH,
        json={"operation": "get_deployment", "deployment_id": deployment_id},
        headers={"Accept": "text/event-stream"},
    )
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    assert [lines[0] for lines in events] == ["event: progress"] * (len(events) - 1) + ["event: end"]
    assert [json.loads(lines[1][6:])["phase"] for lines in events[:3]] == ["prepare", "load", "load"]
    assert json.loads(events[-1][1].removeprefix("data: "))["status"] == "success"


def test_the_payload_can_be_had_back_and_removed(server: Process) -> None:
    archive = tar_of(version(1))
    body = {"operation": "deploy_component", "project": "shop", "payload": archive}
    answer = httpx.post(
        server.operations_url, auth=AUTH, content=cbor2.dumps(body), headers={"Content-Type": "application/cbor"}, timeout=LIMIT
    )
    deployment_id = answer.json()["deployment_id"]
    assert server.operate("get_deployment_payload", deployment_id=deployment_id).content == archive
    assert server.operate("delete_deployment_payload", deployment_id=deployment_id).json()["freed_bytes"] == len(archive)
    assert server.operate("delete_deployment_payload", deployment_id=deployment_id).json()["freed_bytes"] == 0
    assert server.operate("get_deployment_payload", deployment_id=deployment_id).status_code == 404


def test_what_is_packed_can_be_deployed(server: Process) -> None:
    assert deploy(server, version(1, **{"web/a.txt": "a"})).status_code == 200
    packed = server.operate("package_component", project="shop").json()
    assert server.operate("deploy_component", project="shop", payload=packed["payload"], restart=True).status_code == 200
    binary = httpx.post(
        server.operations_url, auth=AUTH, json={"operation": "package_component", "project": "shop"}, headers={"Accept": "application/cbor"}
    )
    assert cbor2.loads(binary.content)["payload"][:2] == b"\x1f\x8b"
    assert served(server) == 1


def test_a_large_archive_is_deployed(server: Process) -> None:
    archive = tar_of({**version(1), "web/blob": os.urandom(40 << 20)}, mode="w")
    for content, media_type in (
        (cbor2.dumps({"operation": "deploy_component", "project": "shop", "payload": archive}), "application/cbor"),
        (
            json.dumps({"operation": "deploy_component", "project": "shop", "payload": base64.b64encode(archive).decode()}).encode(),
            "application/json",
        ),
    ):
        answer = httpx.post(server.operations_url, auth=AUTH, content=content, headers={"Content-Type": media_type}, timeout=LIMIT)
        assert answer.status_code == 200, answer.text
        assert (server.root / "components" / "shop" / "web" / "blob").stat().st_size == 40 << 20


# --- packages


def test_a_directory_is_linked(server: Process, tmp_path: Path) -> None:
    for name, text in version(1).items():
        (tmp_path / name).write_text(text)
    answer = server.operate("deploy_component", project="shop", package=f"file:{tmp_path}", restart=True, urlPath="/linked")
    assert answer.status_code == 200, answer.text
    assert (server.root / "components" / "shop").resolve() == tmp_path.resolve()
    assert f"package: file:{tmp_path}" in (server.root / "svc-config.yaml").read_text()
    assert server.operate("get_components").json()["entries"][0]["package"] == f"file:{tmp_path}"
    assert server.operate("get_status").json().get("restartReasons", []) == []
    assert server.operate("drop_component", project="shop", restart=True).status_code == 200
    assert (tmp_path / "resources.py").exists()
    assert str(tmp_path) not in (server.root / "svc-config.yaml").read_text()


def test_the_trial_has_the_address_that_is_wished_for(server: Process, tmp_path: Path) -> None:
    for name, text in version(1).items():
        (tmp_path / name).write_text(text)
    for restart in (False, True):
        answer = server.operate("deploy_component", project="shop", package=f"file:{tmp_path}", urlPath="a/../b", restart=restart)
        assert answer.status_code == 400, answer.text
        assert "urlPath" in answer.json()["error"]
        assert server.operate("list_deployments", limit=1).json()["deployments"][0]["phase"] == "load"
    assert server.operate("deploy_component", project="shop", package=f"file:{tmp_path}", urlPath="/deep", restart=True).status_code == 200
    assert served(server) == 1, "resources keep their addresses"


def test_a_version_that_waits_for_a_restart_waits_on_when_the_next_one_fails(server: Process) -> None:
    assert deploy(server, version(1)).status_code == 200
    assert deploy(server, version(2), restart=False).status_code == 200
    code = "import os\nif 'SVC_TRIAL' not in os.environ:\n    raise RuntimeError('only here')\n"
    assert deploy(server, version(3, **{"resources.py": code})).status_code == 400
    assert served(server) == 1
    assert server.operate("get_status").json()["restartRequired"] is True
    assert server.operate("set_component_file", project="shop", file="note.txt", payload="x").status_code == 200


def test_requirements_are_installed_into_the_version(server: Process, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "svc_test_tickets", "1.5", "PRICE = 12\n")
    files = version(1, **{"requirements.txt": f"--no-index\n{wheel}\n"})
    files["resources.py"] = "import svc_test_tickets\n" + files["resources.py"].replace("1}", "svc_test_tickets.PRICE}")
    answer = deploy(server, files)
    assert answer.status_code == 200, answer.text
    assert served(server) == 12
    assert (server.root / "components" / "shop" / ".packages" / "svc_test_tickets.py").exists()
    events = [
        event["message"] for event in server.operate("get_deployment", deployment_id=answer.json()["deployment_id"]).json()["event_log"]
    ]
    assert any("svc_test_tickets" in event for event in events)


def test_a_package_that_is_imported_already_waits_for_a_restart(server: Process, tmp_path: Path) -> None:
    for number, waits in (("1.0", False), ("1.1", True)):
        wheel = make_wheel(tmp_path, "svc_test_clock", number, f"V = '{number}'\n")
        files = version(1, **{"requirements.txt": f"--no-index\n{wheel}\n"})
        files["resources.py"] = "import svc_test_clock\n" + files["resources.py"].replace("1}", "svc_test_clock.V}")
        answer = deploy(server, files)
        assert answer.status_code == 200, answer.text
        assert served(server) == "1.0"
        events = server.operate("get_deployment", deployment_id=answer.json()["deployment_id"]).json()["event_log"]
        text = "warning: svc_test_clock 1.1 takes effect at the next restart: 1.0 is imported already"
        assert (text in [event["message"] for event in events]) == waits
        assert server.operate("get_status").json()["restartRequired"] == waits
    kept = list((server.root / "components" / ".deployments").glob("shop-*/.packages/svc_test_clock.py"))
    assert len(kept) == 2, "what is imported from is kept"
    assert server.operate("drop_component", project="shop", restart=True).status_code == 200
    assert server.stop() == 0
    server.start()


def test_requirements_that_are_not_to_be_had_are_the_fault(server: Process) -> None:
    assert deploy(server, version(1)).status_code == 200
    answer = deploy(server, version(2, **{"requirements.txt": "--no-index\nsvc-nothing-of-this-name==9\n"}))
    assert answer.status_code == 400
    assert "svc-nothing-of-this-name" in answer.json()["error"]
    assert served(server) == 1


def test_an_install_command_has_an_end_and_no_secrets(server: Process) -> None:
    answer = deploy(server, version(1), install_command="sleep 1000", install_timeout=200)
    assert answer.status_code == 400
    assert "The install command has not ended within 200 ms" in answer.json()["error"]
    answer = deploy(server, version(1), install_command="env; exit 3")
    assert answer.status_code == 400
    assert "PIP_TARGET=" in answer.json()["error"]
    assert PASSWORD not in answer.json()["error"] and "ROOTPATH" not in answer.json()["error"]
    assert deploy(server, version(1), install_command="mkdir .packages && echo 'X = 1' > .packages/of_command.py").status_code == 200
    assert (server.root / "components" / "shop" / ".packages" / "of_command.py").exists()


def make_wheel(directory: Path, name: str, number: str, code: str) -> Path:
    import zipfile

    path = directory / f"{name}-{number}-py3-none-any.whl"
    about = f"{name}-{number}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", code)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", f"{name}.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return path
