"""svc.operations.scheduled_jobs: what is known of the jobs of applications."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from svc.errors import Problem
from svc.scheduler import JobRun, Scheduler
from tests.support.operations import OperationsNode
from tests.support.scheduling import specs


def test_jobs_are_listed_with_their_last_runs(tmp_path: Path) -> None:
    with OperationsNode(tmp_path) as node:
        assert node.run("list_scheduled_jobs") == []
        scheduler = node.node.scheduler = Scheduler(node.store, node.clock, node.loop, "this", {"this"}.__contains__)
        (job,) = specs({"name": "a", "interval": 60})
        scheduler.set("shop", [(job, lambda run: None)])
        scheduler.set("other", [(job, lambda run: None)])
        (found,) = node.run("list_scheduled_jobs", application="shop")
        assert (found["status"], found["next"], found["number"]) == ("waiting", None, 0)
        scheduler.start()
        for seconds in (0, 60):
            node.clock.advance(seconds)
            scheduler.tick()
            node.wait(lambda: asyncio.sleep(0))
            node.wait(scheduler.settle)
        found, other = sorted(node.run("list_scheduled_jobs"), key=lambda each: each["application"], reverse=True)
        assert (found["application"], found["job"], found["handler"], found["schedule"]) == ("shop", "a", "jobs.py#run", "every 60000 ms")
        assert (found["status"], found["number"], found["error"]) == ("succeeded", 1, None)
        assert found["next"] == found["scheduled_at"] + 60_000
        assert other["application"] == "other"
        scheduler._is_stopped = True


def test_a_job_is_run_by_hand(tmp_path: Path) -> None:
    with OperationsNode(tmp_path) as node:
        with pytest.raises(Problem, match="There is no job 'a'"):
            node.run("run_scheduled_job", job="a")
        runs: list[JobRun] = []
        scheduler = node.node.scheduler = Scheduler(node.store, node.clock, node.loop, "this", {"this"}.__contains__)
        (job,) = specs({"name": "a", "interval": 60})

        def handle(run: JobRun) -> None:
            runs.append(run)
            if len(runs) == 2:
                raise ValueError("the second time")

        scheduler.set("shop", [(job, handle)])
        done = node.finished(node.run("run_scheduled_job", job="a"))
        assert (done["status"], done["message"]) == ("COMPLETE", "The job 'a' has run") and done["result"]["number"] == 1
        assert runs[0].scheduled_at.timestamp() == node.clock.wall() and not runs[0].catch_up
        failed = node.finished(node.run("run_scheduled_job", job="a", application="shop"))
        assert failed["status"] == "ERROR" and "ValueError: the second time" in failed["message"]
        with pytest.raises(Problem, match="There is no job 'b'; there is a") as unknown:
            node.run("run_scheduled_job", job="b")
        assert unknown.value.status_code == 404
        scheduler._is_stopped = True


def test_it_is_for_super_users(tmp_path: Path) -> None:
    with OperationsNode(tmp_path) as node, pytest.raises(Exception, match="not authorized"):
        node.run("list_scheduled_jobs", user=node.user("ann", {}))
    with OperationsNode(tmp_path) as node, pytest.raises(Exception, match="not authorized"):
        node.run("run_scheduled_job", job="a", user=node.user("ann", {}))
