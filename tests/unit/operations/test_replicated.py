"""Operations on all nodes, the way to the instance that leads replication, and restarts of one node after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.deploying.payloads import Payload
from svc.errors import Problem
from svc.operations import replication_control, rolling
from svc.operations.registry import all_operations
from svc.operations.replicated import _sent, run_for_node, runs_elsewhere
from svc.operations.replication_control import ReplicationControl
from svc.store.system import NODE_TABLE, SYSTEM
from tests.support.operations import OperationsNode
from tests.support.sibling_world import SiblingWorld


class Others:
    """The leading instance's part, which asks `b` and `c`. `answers`: by node and operation, a value or a Problem."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answers: dict[tuple[str, str], Any] = {}
        self.caught_up = True

    async def run_on_others(self, value: Any) -> Any:
        body, user = value
        self.asked.append((body, user))
        found = []
        for node in "bc":
            answer = self.answers.get((node, body["operation"]), {"message": "done"})
            found.append({"node": node, "error": answer.message} if isinstance(answer, Problem) else {"node": node, "result": answer})
        return found

    async def run_on(self, value: Any) -> Any:
        node, body, _ = value
        self.asked.append((node, body["operation"]))
        answer = self.answers.get((node, body["operation"]))
        if isinstance(answer, Problem):
            raise answer
        if answer is not None:
            return answer
        return {"job_id": "5"} if body["operation"] == "restart_service" else [{"status": "COMPLETE"}]

    async def purge(self, value: Any) -> None:
        self.asked.append(tuple(value))

    async def has_caught_up(self, node: str) -> bool:
        self.asked.append((node, "caught up"))
        return self.caught_up

    def functions(self) -> Mapping[str, Any]:
        return {"purge": self.purge, "run_on_others": self.run_on_others, "run_on": self.run_on, "has_caught_up": self.has_caught_up}


class ReplicatingNode(OperationsNode):
    def __init__(self, path: Path) -> None:
        super().__init__(path, settings={"replication": {"hostname": "a", "securePort": 9933}})
        self.others = Others()
        self.node.replication = ReplicationControl(self.node.siblings, path / "replication")
        self.node.replication.lead(self.others.functions())
        transaction = self.store.begin()
        for name in "abc":
            transaction.put(self.store.databases[SYSTEM].tables[NODE_TABLE], name, {"name": name})
        transaction.apply()
        self.store.commit_turn()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ReplicatingNode]:
    with ReplicatingNode(tmp_path) as node:
        yield node


def test_which_operations_run_elsewhere() -> None:
    found = {row.name for row in all_operations() if runs_elsewhere(row)}
    assert {
        "create_table",
        "drop_table",
        "add_user",
        "set_configuration",
        "restart_service",
        "deploy_component",
        "read_log",
        "add_ssh_key",
    } <= found
    refused = {
        "insert",
        "sql",
        "search_by_id",
        "add_node",
        "cluster_status",
        "add_certificate",
        "create_authentication_tokens",
        "restore_backup",
        "get_job",
    }
    assert not refused & found


def test_the_others_run_it_after_this_node(node: ReplicatingNode) -> None:
    node.others.answers["c", "add_role"] = Problem("it has one", 409)
    answer = node.run("add_role", role="editor", permission={}, replicated=True)
    assert answer["role"] == "editor"
    assert answer["replicated"] == [
        {"node": "b", "status": "success", "message": "done"},
        {"node": "c", "status": "failed", "error": "it has one"},
    ]
    assert node.others.asked == [({"operation": "add_role", "role": "editor", "permission": {}}, "admin")]


def test_a_failure_here_ends_it(node: ReplicatingNode) -> None:
    with pytest.raises(Problem):
        node.run("drop_role", id="none", replicated=True)
    assert node.others.asked == []


def test_lists_have_the_elements_of_all(node: ReplicatingNode) -> None:
    node.others.answers["b", "read_log"] = [{"message": "x"}, 5]
    answer = node.run("read_log", replicated=True)
    assert answer[-3:] == [{"message": "x", "node": "b"}, 5, {"node": "c", "error": "it has not answered with a list"}]


def test_what_does_not_run_elsewhere(node: ReplicatingNode) -> None:
    with pytest.raises(Problem, match="'list_users' does not run on other nodes"):
        node.run("list_users", replicated=True)
    node.run("create_table", table="plant", primary_key="id")
    assert node.run("insert", table="plant", records=[{"id": 1}], replicated=True)["replicated"] == []
    assert node.others.asked == []


def test_only_super_users_ask_for_it(node: ReplicatingNode) -> None:
    builder = User("ann", role=Role("builder", "builder", {"structure_user": True}))
    with pytest.raises(Problem) as caught:
        node.run("create_table", builder, table="plant", primary_key="id", replicated=True)
    assert caught.value.status_code == 403 and node.others.asked == []


def test_an_archive_goes_along() -> None:
    assert _sent({"payload": Payload.of("aGk="), "replicated": True, "impersonate": "x"}) == {"payload": "aGk="}
    assert _sent({"payload": Payload.of(b"\0\1")}) == {"payload": b"\0\1"}


def test_a_stream_is_shortened(node: ReplicatingNode) -> None:
    node.store.open_database("shop")
    done = {"message": "Successfully purged the stream of database 'shop'"}
    assert node.run("purge_stream", database="shop", options={"keep": 5}) == done
    assert node.run("purge_stream", database="shop", options={"seq": 7}) == node.run("purge_stream", database="shop") == done
    assert node.others.asked == [("shop", 5, None), ("shop", None, 7), ("shop", None, None)]
    wrong: list[dict[str, Any]] = [
        {"options": {"keep": 1, "seq": 1}},
        {"options": {"keep": -1}},
        {"options": {"seq": True}},
        {"table": "x"},
        {"database": "system"},
    ]
    for fields in wrong:
        with pytest.raises(Problem) as caught:
            node.run("purge_stream", **{"database": "shop", **fields})
        assert caught.value.status_code == 400
    with pytest.raises(Problem) as caught:
        node.run("purge_stream", database="none")
    assert caught.value.status_code == 404 and len(node.others.asked) == 3


# --- on the node that is asked ------------------------------------------------------------------------------------------------------------


def ask(node: ReplicatingNode, user: str | None = "ann", **body: Any) -> Any:
    return node.wait(lambda: run_for_node(node.operations, body, "b", user))


def test_a_node_that_is_asked_runs_it_in_the_name_of_the_user(node: ReplicatingNode) -> None:
    assert ask(node, operation="add_role", role="editor", permission={}, replicated=True)["role"] == "editor"
    assert node.others.asked == [], "it is not handed on"
    assert ask(node, operation="get_job", id="5") == []


@pytest.mark.parametrize(
    "body", [{}, {"operation": 5}, {"operation": "nothing"}, {"operation": "insert"}, {"operation": "add_certificate"}]
)
def test_a_node_is_asked_for_nothing_else(node: ReplicatingNode, body: dict[str, Any]) -> None:
    with pytest.raises(Problem) as caught:
        ask(node, **body)
    assert caught.value.status_code in (400, 403)


def test_a_node_checks_what_it_is_asked_for(node: ReplicatingNode) -> None:
    with pytest.raises(Problem, match="'role' is required"):
        ask(node, operation="add_role")


# --- one after the other ------------------------------------------------------------------------------------------------------------------


def restart(node: ReplicatingNode) -> dict[str, Any]:
    """The job that it ends as."""
    answer = node.run("restart_service", service="http_workers", replicated=True)
    assert answer["replicated"] == [{"node": name, "status": "success", "message": f"follows in job {answer['job_id']}"} for name in "bc"]
    while (job := node.run("get_job", id=answer["job_id"])[0])["status"] not in ("COMPLETE", "ERROR"):
        node.wait(lambda: asyncio.sleep(0))
    return job


def test_nodes_restart_one_after_the_other(node: ReplicatingNode) -> None:
    assert restart(node)["status"] == "COMPLETE"
    steps = ["restart_service", "get_job", "caught up"]
    assert node.others.asked == [(name, step) for name in "bc" for step in steps]


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ({("b", "get_job"): [{"status": "ERROR", "message": "broken"}]}, "The node b was not restarted: broken"),
        ({("b", "restart_service"): Problem("away", 503)}, "The node b was not restarted: away"),
    ],
)
def test_those_behind_one_that_fails_are_left_alone(node: ReplicatingNode, answers: dict[Any, Any], text: str) -> None:
    node.others.answers |= answers
    job = restart(node)
    assert job["status"] == "ERROR" and text in str(job["message"])
    assert not [each for each in node.others.asked if each[0] == "c"]


def test_one_that_does_not_come_back(node: ReplicatingNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "NODE_SECONDS", 0.0)
    node.others.caught_up = False
    assert "The node b has not come back" in str(restart(node)["message"])


# --- the way to the instance that leads ---------------------------------------------------------------------------------------------------


def controls(path: Path) -> tuple[ReplicationControl, ReplicationControl]:
    world = SiblingWorld()
    first, second = world.start(), world.start()
    return ReplicationControl(first, path), ReplicationControl(second, path)  # type: ignore[arg-type]


def run(work: Callable[[], Any]) -> Any:
    async def main() -> Any:
        return await work()

    return asyncio.run(main())


def test_another_instance_is_asked(tmp_path: Path) -> None:
    here, leader = controls(tmp_path)
    others = Others()
    leader.lead(others.functions())
    assert run(lambda: here.run_on_others({"operation": "x"}, "ann"))[0] == {"node": "b", "result": {"message": "done"}}
    others.answers["b", "x"] = Problem("no", 409, "CODE")
    with pytest.raises(Problem) as caught:
        run(lambda: here.run_on("b", {"operation": "x"}, None))
    assert (caught.value.status_code, caught.value.message, caught.value.code) == (409, "no", "CODE")


def test_what_is_large_goes_in_a_file(tmp_path: Path) -> None:
    here, leader = controls(tmp_path)
    others = Others()
    leader.lead(others.functions())
    payload = "x" * (replication_control.LARGEST_MESSAGE + 1)
    run(lambda: here.run_on_others({"operation": "x", "payload": payload}, None))
    assert others.asked[0][0]["payload"] == payload
    assert list(tmp_path.iterdir()) == []


def test_what_has_no_form_for_others(tmp_path: Path) -> None:
    here, _ = controls(tmp_path)
    with pytest.raises(Problem, match="cannot be handed"):
        run(lambda: here.run_on_others({"operation": object()}, None))


def test_nobody_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, leader = controls(tmp_path)
    monkeypatch.setattr(replication_control, "LEADER_SECONDS", 0.0)
    leader.lead(Others().functions())
    leader.resign()
    with pytest.raises(Problem) as caught:
        run(lambda: here.has_caught_up("b"))
    assert caught.value.status_code == 503
