"""Figures of the machine and the node, and restarts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from svc.clock import SYSTEM_CLOCK, FakeClock
from svc.config import Config
from svc.content.json_type import encode_json
from svc.errors import Problem
from svc.operations.job import Job
from svc.operations.system import ALL_PARTS, OF_EACH, RESTARTING, TOPIC, answer_sibling
from svc.operations.system_information import CACHE_SECONDS, PARTS, Machine, shown_arguments
from svc.store.schema import Attribute, TableDefinition
from tests.support.operations import OperationsNode
from tests.support.siblings import HANGS, FakeSiblings, answer


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path, clock=FakeClock(SYSTEM_CLOCK.wall())) as node:
        yield node


def refused(node: OperationsNode, operation: str, **fields: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        node.run(operation, **fields)
    return caught.value.status_code, caught.value.message


# --- system_information -------------------------------------------------------------------------------------------------------------------


def test_everything_by_default(node: OperationsNode) -> None:
    found = node.run("system_information")
    assert list(found) == list(ALL_PARTS)
    assert encode_json(found)
    assert node.run("system_information", attributes=[]).keys() == found.keys()


def test_only_what_was_asked_for(node: OperationsNode) -> None:
    assert list(node.run("system_information", attributes=["time", "nonsense", "memory", "time", "__class__"])) == ["time", "memory"]
    assert node.run("system_information", attributes=["nonsense", ""]) == {}
    assert "data" not in node.run("system_information", attributes=["database_metrics"])["database_metrics"]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("time", "'attributes' must be an array"),
        ({"time": 1}, "'attributes' must be an array"),
        (5, "'attributes' must be an array"),
        ([5], "'attributes' must be an array of strings"),
        ([["time"]], "'attributes' must be an array of strings"),
        ([None], "'attributes' must be an array of strings"),
    ],
)
def test_attributes_of_a_wrong_type(node: OperationsNode, attributes: Any, message: str) -> None:
    assert refused(node, "system_information", attributes=attributes) == (400, message)


def test_the_machine(node: OperationsNode) -> None:
    found = node.run("system_information", attributes=list(PARTS))
    assert {"platform", "arch", "kernel", "python_version", "python_compiler"} <= found["system"].keys()
    assert found["time"]["current"] == int(node.clock.wall() * 1000)
    assert found["time"]["timezone"].startswith("GMT")
    cpu = found["cpu"]
    assert cpu["cores"] == len(cpu["current_load"]["cpus"]) == psutil.cpu_count()
    for name in ("currentLoad", "currentLoadUser", "currentLoadSystem", "currentLoadNice", "currentLoadIdle", "currentLoadIrq"):
        assert 0 <= cpu["current_load"][name] <= 100
    memory = found["memory"]
    assert memory["total"] >= memory["available"] > 0
    assert memory["rss"] > 0
    assert {"heapTotal", "heapUsed", "external", "arrayBuffers"} <= memory.keys()
    assert all({"fs", "type", "size", "used", "available", "use", "mount"} == volume.keys() for volume in found["disk"]["size"])
    assert found["network"]["latency"] == {}
    assert {"interfaces", "stats", "connections"} <= found["network"].keys()
    (own,) = found["svc_processes"]["core"]
    assert own["pid"] == os.getpid()
    assert {"parentPid", "name", "cpu", "mem", "memRss", "memVsz", "started", "state", "command", "params", "user"} <= own.keys()


def test_switched_off_parts_are_empty(tmp_path: Path) -> None:
    settings = {"operationsApi": {"sysInfo": {"disk": False, "network": False}}}
    with OperationsNode(tmp_path, settings=settings) as node:
        assert node.run("system_information", attributes=["disk", "network"]) == {"disk": {}, "network": {}}


def test_parts_are_remembered_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    machine = Machine(clock, tmp_path)
    asked: list[int] = []
    monkeypatch.setitem(PARTS, "memory", lambda _: asked.append(1) or len(asked))
    assert machine.collect(["memory"]) == {"memory": 1}
    clock.advance(CACHE_SECONDS / 2)
    assert machine.collect(["memory"]) == {"memory": 1}
    clock.advance(CACHE_SECONDS)
    assert machine.collect(["memory"]) == {"memory": 2}
    assert machine.collect(["time"])["time"]["current"] == int(clock.wall() * 1000)


@pytest.mark.parametrize("error", [OSError(), psutil.AccessDenied(1), NotImplementedError(), RuntimeError(), AttributeError()])
def test_what_the_platform_does_not_tell_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    functions = [
        "boot_time", "cpu_freq", "swap_memory", "disk_io_counters", "disk_partitions", "net_if_addrs", "net_if_stats", "net_io_counters", "Process",
    ]  # fmt: skip
    for name in functions:
        monkeypatch.setattr(psutil, name, fail)
    found = Machine(FakeClock(), tmp_path).collect(PARTS)
    assert "uptime" not in found["time"]
    assert "speed" not in found["cpu"] and "cpu_speed" not in found["cpu"]
    assert "swaptotal" not in found["memory"]
    assert [volume["fs"] for volume in found["disk"]["size"]] == [""]  # our own, of which the system says how full it is
    assert found["network"]["interfaces"] == found["network"]["stats"] == found["network"]["connections"] == []
    assert found["svc_processes"] == {"core": []}
    monkeypatch.setattr(psutil, "cpu_times", fail)
    monkeypatch.setattr(psutil, "virtual_memory", fail)
    monkeypatch.setattr(psutil, "disk_usage", fail)
    found = Machine(FakeClock(), tmp_path).collect(["cpu", "memory", "disk"])
    assert "current_load" not in found["cpu"]
    assert found["memory"] == {}
    assert found["disk"] == {"size": []}


def test_a_process_that_has_ended_is_left_out(tmp_path: Path) -> None:
    machine = Machine(FakeClock(), tmp_path, pids=lambda: (os.getpid(), 2**22 + 1))
    assert [one["pid"] for one in machine.collect(["svc_processes"])["svc_processes"]["core"]] == [os.getpid()]


def test_arguments_are_shown_without_secrets() -> None:
    given = ["svc", "--svc_admin_password", "S3CRET", "--REPLICATION_CREDENTIALS={S3CRET}", "token=S3CRET", "--HTTP_PORT", "80", "x" * 5000]
    shown = " ".join(shown_arguments(given))
    assert "S3CRET" not in shown
    assert "--HTTP_PORT 80" in shown
    assert len(shown) < 600


def test_tables(node: OperationsNode) -> None:
    database = node.store.open_database("garden")
    database.define_table(TableDefinition("plant", "garden", attributes=(Attribute("id", primary_key=True),), primary_key="id"))
    database.define_table(TableDefinition("bed", "garden", attributes=(Attribute("id", primary_key=True),), primary_key="id"))
    transaction = node.store.begin()
    for number in range(3):
        transaction.put(database.tables["plant"], str(number), {})
    transaction.apply()
    node.store.commit_turn()
    rows = {row["table"]: row for row in node.run("system_information", attributes=["table_size"])["table_size"]}
    assert rows.keys() == {"plant", "bed"}
    assert rows["plant"]["schema"] == "garden"
    assert rows["plant"]["record_count"] == rows["plant"]["transaction_log_record_count"] == 3
    assert rows["plant"]["table_size"] > 0
    assert rows["plant"]["transaction_log_size"] > 0
    assert rows["bed"]["record_count"] == rows["bed"]["transaction_log_size"] == 0
    metrics = node.run("system_information", attributes=["metrics"])["metrics"]
    assert metrics["garden"]["audit"]["entryCount"] == 3
    assert metrics["garden"]["tables"]["plant"]["entryCount"] == 3
    assert metrics["garden"]["readers"] == []


def test_this_instance(node: OperationsNode) -> None:
    (thread,) = node.run("system_information", attributes=["threads"])["threads"]
    assert thread["threadId"] == 0
    assert {"name", "heapTotal", "heapUsed", "external", "arrayBuffers", "sinceLastUpdate"} <= thread.keys()
    assert node.run("system_information", attributes=["replication"]) == {"replication": {}}


# --- restart ------------------------------------------------------------------------------------------------------------------------------


def test_a_restart_renews_the_process(node: OperationsNode) -> None:
    calls: list[bool] = []
    node.node.restart = calls.append
    assert node.run("restart") == {"message": RESTARTING}
    assert calls == [False]


@pytest.mark.parametrize("service", ["svc", "http", "http_workers", "custom_functions", "custom functions"])
@pytest.mark.parametrize("failed", [[], ["shop: resources.py:1: SyntaxError: invalid syntax", "blog: config.yaml: must be a mapping"]])
def test_a_service_is_restarted_in_place_by_a_job(node: OperationsNode, service: str, failed: list[str]) -> None:
    calls: list[list[str]] = []

    async def reload() -> list[str]:
        calls.append(failed)
        return failed

    node.node.reload = reload
    answer = node.run("restart_service", service=service)
    assert answer["message"] == f"Restarting {service}"

    def job() -> Any:
        return node.run("get_job", id=answer["job_id"])[0]

    while job()["status"] in ("CREATED", "IN_PROGRESS"):
        pass
    assert calls == [failed]
    expected = ("ERROR", "; ".join(failed)) if failed else ("COMPLETE", f"Restarted {service}")
    assert (job()["status"], job()["message"]) == expected


def test_a_job_that_restarts_the_process_ends_when_the_next_one_answers(node: OperationsNode) -> None:
    calls: list[str] = []

    async def work(job: Job) -> None:
        await job.restart(lambda: calls.append("restart"), "Restarted")

    call = node.operations.prepare({"operation": "restart_service", "service": "http"}, None, authorized=False)
    answer = node.wait(lambda: node.node.jobs.start(call, work))

    def job() -> Any:
        return node.run("get_job", id=answer["job_id"])[0]

    while not calls:
        job()
    assert job()["status"] == "IN_PROGRESS"
    node.wait(node.node.jobs.stop)  # the end of this process
    world = node.world
    other_root = replace(node.node, siblings=world.start(), config=Config.from_document({}, node.root / "other"))
    neighbour = replace(node.node, siblings=world.start(1), config=Config.from_document({"instances": 2}, node.root))
    following = replace(node.node, siblings=world.start())
    world.kill(node.node.siblings)
    node.wait(following.jobs.records.recover)  # the beginning of the next one, which does not answer yet
    node.wait(other_root.jobs.records.end_restarts)
    node.wait(neighbour.jobs.records.end_restarts)
    assert job()["status"] == "IN_PROGRESS"
    node.wait(following.jobs.records.end_restarts)
    done = job()
    assert (done["status"], done["message"]) == ("COMPLETE", "Restarted")
    assert done["end_datetime"] >= done["start_datetime"] and not {"after_restart", "root"} & done.keys()
    node.wait(following.jobs.records.end_restarts)
    assert job() == done


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "'service' is required"),
        ({"service": "nginx"}, "Invalid service"),
        ({"service": "HTTP"}, "Invalid service"),
        ({"service": 5}, "'service' must be a string"),
        ({"service": ""}, "'service' is not allowed to be empty"),
        ({"service": "http", "replicated": "x"}, "'replicated' must be a boolean"),
    ],
)
def test_no_such_service(node: OperationsNode, fields: dict[str, Any], message: str) -> None:
    calls: list[bool] = []
    node.node.restart = calls.append
    assert refused(node, "restart_service", **fields) == (400, message)
    assert calls == []


@pytest.mark.parametrize("operation", ["system_information", "restart", "restart_service"])
def test_only_super_users(node: OperationsNode, operation: str) -> None:
    with pytest.raises(Problem) as caught:
        node.run(operation, node.user("ann", {"super_user": False}), service="http")
    assert caught.value.status_code == 403


# --- several instances ------------------------------------------------------------------------------------------------------------------


def test_rows_of_all_instances(node: OperationsNode) -> None:
    wanted = list(OF_EACH)
    told = node.wait(lambda: answer_sibling(node.node, wanted))
    assert [row["pid"] for row in told["svc_processes"]] == [os.getpid()] and len(told["threads"]) == 1
    told["threads"][0]["threadId"] = 1
    told["svc_processes"][0]["pid"] = 1
    told["connections"] = [{"pid": 1}]
    siblings = FakeSiblings(system_information=[answer(1, told), answer(2, error=HANGS)])
    node.node.siblings = siblings  # type: ignore[assignment]
    for _ in range(2):  # what is remembered for some seconds is not added to
        found = node.run("system_information", attributes=["time", *wanted])
        assert siblings.asked.pop() == (TOPIC, wanted)
        assert [row["threadId"] for row in found["threads"]] == [0, 1, 2]
        assert found["threads"][2]["error"] == HANGS
        assert [(row["pid"], row.get("error")) for row in found["svc_processes"]["core"]] == [(os.getpid(), None), (1, None), (1002, HANGS)]
        assert {"pid": 1} in found["network"]["connections"]
    node.run("system_information", attributes=["time", "memory"])
    assert siblings.asked == []
