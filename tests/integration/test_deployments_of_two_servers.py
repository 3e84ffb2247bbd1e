"""Two servers over the same databases and the same applications: a version serves at both or at neither."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import LIMIT, Process
from tests.integration.test_deploying import AUTH, area, deploy, served, version
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

NOT_THERE = {
    "resources.py": "import os\nif 'SECOND' in os.environ and 'SVC_TRIAL' not in os.environ:\n    raise RuntimeError('not here')\n"
}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Process]]:
    made = [start(tmp_path, "first"), start(tmp_path, "second", SECOND="1")]
    yield made
    for process in made:
        process.stop()
        assert "Traceback" not in process.logged().replace('Traceback (most recent call last):\n  File "/tmp', ""), process.logged()


def start(path: Path, name: str, **env: str) -> Process:
    shared = {"STORAGE_PATH": str(path / "databases"), "COMPONENTSROOT": str(path / "first" / "components")}
    return Process(path / name, None, env={**shared, **env}).start()


def test_deployments(servers: list[Process], tmp_path: Path) -> None:
    first, second = servers

    def versions() -> list[object]:
        return [served(process) for process in servers]

    answer = deploy(second, version(1))
    assert answer.status_code == 200, answer.text
    assert versions() == [1, 1]
    assert deploy(first, version(2)).status_code == 200
    assert versions() == [2, 2]

    before = area(first)
    answer = deploy(first, {**version(3), **NOT_THERE})
    assert (
        answer.status_code == 400 and "process 1: resources: resources.py: resources.py:3: RuntimeError: not here" in answer.json()["error"]
    ), answer.text
    assert versions() == [2, 2] and area(first) == before
    record = second.operate("list_deployments", limit=1).json()["deployments"][0]
    assert record["status"] == "rolled_back" and record.keys().isdisjoint({"owner", "root", "loads"})
    # Files that had changed and are as before: the watching has to look at them once more.
    wait_until(lambda: [process.operate("get_status").json()["restartRequired"] for process in servers] == [False, False])

    answer = deploy(second, version(4), restart=False)
    assert answer.status_code == 200 and versions() == [2, 2]
    wait_until(lambda: [process.operate("get_status").json()["restartRequired"] for process in servers] == [True, True])
    job = first.operate("restart_service", service="http").json()["job_id"]
    wait_until(lambda: second.operate("get_job", id=job).json()[0]["status"] == "COMPLETE")
    assert versions() == [4, 4]
    assert [process.operate("get_status").json()["restartRequired"] for process in servers] == [False, False]

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda process: deploy(process, version(5)), servers))
    assert sorted(each.status_code for each in answers) in ([200, 200], [200, 409]), [each.text for each in answers]
    assert versions() == [5, 5]

    servers.append(start(tmp_path, "third"))
    assert versions() == [5, 5, 5]
    assert servers[2].operate("drop_component", project="shop", restart=True).status_code == 200
    assert versions() == [None, None, None]


def test_a_start_undoes_nothing_of_a_deployment_under_way(servers: list[Process], tmp_path: Path) -> None:
    """It installs packages, and stands there; then its process ends, and the others end its record."""
    assert deploy(servers[0], version(1)).status_code == 200
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with ThreadPoolExecutor(1) as pool:
        deploying = pool.submit(
            lambda: deploy(
                servers[0], version(2), payload=None, package=f"file:{write(tmp_path / 'new', version(2))}", install_command=f"cat {fifo}"
            )
        )
        wait_until(lambda: [record["project"] for record in pending(servers[1])] == ["shop"])
        servers.append(start(tmp_path, "third"))
        assert [record["project"] for record in pending(servers[2])] == ["shop"]
        assert deploy(servers[2], version(3)).status_code == 409
        deployment_id = pending(servers[1])[0]["deployment_id"]
        url, accept = servers[1].operations_url, {"Accept": "text/event-stream"}
        body = {"operation": "get_deployment", "deployment_id": deployment_id}
        with httpx.stream("POST", url, json=body, auth=AUTH, headers=accept, timeout=LIMIT) as events:
            lines = events.iter_lines()
            assert next(lines) == "event: progress"
            fifo.write_text("")
            assert "event: end" in lines
        answer = deploying.result()
    assert answer.status_code == 200, answer.text
    assert [served(process) for process in servers] == [2, 2, 2]


def test_the_others_end_the_deployment_of_a_process_that_was_killed(servers: list[Process], tmp_path: Path) -> None:
    assert deploy(servers[0], version(1)).status_code == 200
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with ThreadPoolExecutor(1) as pool:
        deploying = pool.submit(lambda: deploy(servers[0], version(2), install_command=f"cat {fifo}"))
        wait_until(lambda: [record["project"] for record in pending(servers[1])] == ["shop"])
        servers.pop(0).kill()
        wait_until(lambda: not pending(servers[0]))
        assert deploying.exception() is not None
    record = servers[0].operate("list_deployments", limit=1).json()["deployments"][0]
    assert (record["status"], record["error"]) == ("failed", "interrupted by restart")
    assert served(servers[0]) == 1
    assert deploy(servers[0], version(3)).status_code == 200
    assert served(servers[0]) == 3


def test_a_process_is_killed_while_all_load_a_version(servers: list[Process], tmp_path: Path) -> None:
    """The new version is there by then: the others load it, as the next start would."""
    assert deploy(servers[0], version(1)).status_code == 200
    servers.append(start(tmp_path, "third", SECOND="2"))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    stands = f"import os\nif 'SECOND' not in os.environ and 'SVC_TRIAL' not in os.environ:\n    open({str(fifo)!r}).read()\n"
    new = version(2)
    with ThreadPoolExecutor(1) as pool:
        deploying = pool.submit(lambda: deploy(servers[0], {**new, "resources.py": stands + new["resources.py"]}))
        with fifo.open("w"):  # it loads the version now
            assert [served(process) for process in servers[1:]] == [1, 1]
            killed = servers.pop(0)
            killed.kill()
        assert deploying.exception() is not None
    wait_until(lambda: [served(process) for process in servers] == [2, 2])
    record = servers[0].operate("list_deployments", limit=1).json()["deployments"][0]
    assert record["status"] == "success"
    assert servers[0].operate("drop_component", project="shop", restart=True).status_code == 200
    assert [served(process) for process in servers] == [None, None]


def test_files_configuration_and_statuses(servers: list[Process], tmp_path: Path) -> None:
    first, second = servers
    assert deploy(first, version(1)).status_code == 200
    schema = "type Plant @table @export { id: ID @primaryKey }\n"
    assert first.operate("set_component_file", project="shop", file="schema.graphql", payload=schema).status_code == 200
    assert [httpx.get(f"{process.url}/Plant/", auth=AUTH, timeout=LIMIT).status_code for process in servers] == [200, 200]
    assert second.operate("set_component_file", project="shop", file="resources.py", payload="x = 1\n").status_code == 200
    for process in servers:
        wait_until(lambda process=process: "component shop: resources.py" in reasons(process))  # type: ignore[misc]

    assert first.operate("set_status", id="primary", status="busy").status_code == 200
    wait_until(lambda: second.operate("get_status", id="primary").json().get("status") == "busy")
    servers.append(start(tmp_path, "third"))
    assert servers[2].operate("get_status", id="primary").json()["status"] == "busy"
    assert second.operate("clear_status", id="primary").status_code == 200
    wait_until(lambda: first.operate("get_status", id="primary").status_code == 404)


def reasons(process: Process) -> list[str]:
    found: list[str] = process.operate("get_status").json().get("restartReasons", [])
    return found


def pending(process: Process) -> list[dict[str, object]]:
    found: list[dict[str, object]] = process.operate("list_deployments", status="pending").json()["deployments"]
    return found


def write(directory: Path, files: dict[str, str]) -> Path:
    directory.mkdir()
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory
