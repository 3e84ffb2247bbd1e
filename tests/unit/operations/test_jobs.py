"""Jobs: their way through the states, what their records keep, cancelling, interruption, retention."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from svc.auth.users import User
from svc.errors import ClientError, NoSpace, NotFound, Overloaded, Problem, Refusal
from svc.operations import job_records
from svc.operations import job_runs as module
from svc.operations.call import Call
from svc.operations.fields import Field
from svc.operations.job import COMPLETE, CREATED, ERROR, IN_PROGRESS, TRANSITIONS, Job, JobFailed
from svc.operations.node import Node
from svc.operations.operation import SUPER_USER, Operation
from svc.store.system import JOB_TABLE
from svc.store.values.records import decode
from tests.support.operations import OperationsNode
from tests.support.sibling_world import FakeSiblings, SiblingWorld

ROW = Operation("work", "jobs", "", SUPER_USER, lambda call: None, fields=(Field("key", "string", "", secret=True),))
Work = Callable[[Job], Awaitable[Any]]


@pytest.fixture
def world() -> SiblingWorld:
    return SiblingWorld()


@pytest.fixture
def node(tmp_path: Path, world: SiblingWorld) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path, world=world) as node:
        yield node


def join(node: OperationsNode, world: SiblingWorld, number: int = 0) -> Node:
    """Another process over the same store."""
    other = replace(node.node, siblings=world.start(number))
    other.answer_siblings()
    return other


def call_of(node: OperationsNode, user: Any = None, **body: Any) -> Call:
    return Call(node.node, ROW, "work", {"operation": "work", **body}, {}, node.admin if user is None else user)


def start(node: OperationsNode, work: Work, user: Any = None, **body: Any) -> str:
    """The id of a job that has been answered."""

    async def begin() -> Any:
        return await node.node.jobs.start(call_of(node, user, **body), work)

    answer = node.wait(begin)
    assert answer == {"message": f"Starting job with id {answer['job_id']}", "job_id": answer["job_id"]}
    return str(answer["job_id"])


def stored(node: OperationsNode, job_id: str) -> dict[str, Any]:
    raw = node.store.databases["system"].tables[JOB_TABLE].get_raw(job_id)
    assert raw is not None
    return decode(raw)


def shown(node: OperationsNode, job_id: str) -> dict[str, Any]:
    [record] = node.run("get_job", id=job_id)
    return record  # type: ignore[no-any-return]


async def until(condition: Callable[[], bool]) -> None:
    """Let turns of the loop pass."""
    while not condition():  # noqa: ASYNC110 - what it waits for is no event
        await asyncio.sleep(0)


def end(node: OperationsNode) -> None:
    """Let all jobs come to their end."""

    node.wait(lambda: until(lambda: not node.node.jobs))


def run(node: OperationsNode, work: Work) -> dict[str, Any]:
    job_id = start(node, work)
    end(node)
    return shown(node, job_id)


async def forever(_: Job) -> None:
    await asyncio.get_running_loop().create_future()


# --- states ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", TRANSITIONS)
@pytest.mark.parametrize("after", TRANSITIONS)
def test_only_the_transitions_of_the_table_are_possible(node: OperationsNode, before: str, after: str) -> None:
    job = Job(node.node.jobs, {"id": "1", "type": "work", "status": before})
    if after in TRANSITIONS[before]:
        job.enter(after)
        assert job.status == after
    else:
        with pytest.raises(AssertionError):
            job.enter(after)


def test_the_answer_comes_with_the_record_on_disk_before_the_work(node: OperationsNode) -> None:
    async def work(job: Job) -> str:
        seen.append(stored(node, job.id)["status"])
        return "done"

    seen: list[str] = []
    job_id = start(node, work)
    assert stored(node, job_id)["status"] in (CREATED, IN_PROGRESS)
    end(node)
    assert seen == [IN_PROGRESS]
    assert shown(node, job_id) == {
        "id": job_id,
        "type": "work",
        "status": COMPLETE,
        "user": "admin",
        "created_datetime": 1767225600000,
        "start_datetime": 1767225600000,
        "end_datetime": 1767225600000,
        "start_datetime_converted": "2026-01-01T00:00:00.000Z",
        "end_datetime_converted": "2026-01-01T00:00:00.000Z",
        "message": "done",
    }


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (JobFailed("no"), "no"),
        (JobFailed({"error": "no", "unauthorized_access": []}), {"error": "no", "unauthorized_access": []}),
        (ClientError("bad"), "bad"),
        (Refusal({"error": "may not", "unauthorized_access": ["x"]}), {"error": "may not", "unauthorized_access": ["x"]}),
        (ZeroDivisionError("secret detail"), module.UNEXPECTED),
    ],
)
def test_a_failure_is_the_message_of_an_error(node: OperationsNode, failure: Exception, message: object) -> None:
    async def work(_: Job) -> None:
        raise failure

    record = run(node, work)
    assert (record["status"], record["message"]) == (ERROR, message)


def test_what_work_returns(node: OperationsNode) -> None:
    async def pair(_: Job) -> tuple[str, dict[str, int]]:
        return "fine", {"n": 1}

    async def nothing(job: Job) -> None:
        job.result = [1]

    record = run(node, pair)
    assert (record["message"], record["result"]) == ("fine", {"n": 1})
    record = run(node, nothing)
    assert (record["message"], record["result"]) == (f"Successfully completed job: {record['id']}", [1])


def test_a_message_that_cannot_be_stored_does_not_keep_the_job_from_ending(node: OperationsNode) -> None:
    async def work(_: Job) -> tuple[str, object]:
        return "\ud800", {"a": "\ud800"}

    record = run(node, work)
    assert (record["status"], record["message"]) == (COMPLETE, module.UNEXPECTED)
    assert "result" not in record


# --- the record ------------------------------------------------------------------------------------------------------------------------


def test_the_request_is_kept_without_secrets_and_bulk_and_never_shown(node: OperationsNode) -> None:
    async def work(_: Job) -> None: ...

    job_id = start(
        node,
        work,
        key="secret",
        data="id\n1",
        records=[{}],
        payload="x",
        table="dog",
        s3={"aws_secret_access_key": "secret", "aws_access_key_id": "secret", "bucket": "b"},
        passthrough_headers={"Authorization": "secret"},
        csv_url="https://user:secret@example.com/a.csv?sig=secret#secret",
        text="x" * 5000,
    )
    request = stored(node, job_id)["request"]
    assert request == {
        "operation": "work",
        "table": "dog",
        "s3": {"bucket": "b"},
        "csv_url": "https://example.com/a.csv",
        "text": "x" * 1000,
    }
    assert "request" not in shown(node, job_id)


def test_a_request_that_cannot_be_stored_is_answered(node: OperationsNode) -> None:
    async def work(_: Job) -> str:
        return "done"

    job_id = start(node, work, table="\ud800")
    end(node)
    assert shown(node, job_id)["message"] == "done"


def test_progress_is_written_once_a_second_and_at_the_end(node: OperationsNode) -> None:
    async def work(job: Job) -> str:
        for done in range(1, 8):
            node.clock.advance(0.3)
            await job.progress(done, 10, f"{done} so far")
            await asyncio.sleep(0)
            written.append(stored(node, job.id).get("progress", {}).get("done"))
            [seen] = await get(job.id)
            assert (seen["progress"], seen["message"]) == ({"done": done, "total": 10}, f"{done} so far")
        return "all"

    async def get(job_id: str) -> Any:
        return node.operations.run(node.operations.prepare({"operation": "get_job", "id": job_id}, node.admin))

    written: list[int | None] = []
    record = run(node, work)
    assert set(written) == {1, 5}, "the first one, and the first after a second"
    assert (record["progress"], record["message"]) == ({"done": 7, "total": 10}, "all")


def test_jobs_are_found_by_their_date(node: OperationsNode) -> None:
    async def work(_: Job) -> None: ...

    ids = []
    for _ in range(3):
        ids.append(start(node, work))
        end(node)
        node.clock.advance(86400)

    def found(first: str, last: str) -> list[int]:
        return [ids.index(record["id"]) for record in node.run("search_jobs_by_start_date", from_date=first, to_date=last)]

    assert found("2026-01-01", "2026-01-31") == [0, 1, 2]
    assert found("2026-01-02", "2026-01-02") == [1], "a day is the whole day"
    assert found("2026-01-02T00:00:00.000Z", "2026-01-02T23:59:59Z") == [1]
    assert found("2026-01-01T00:00:00.001Z", "2026-01-02T00:00:00.000+0000") == [1]
    assert found("2026-01-04", "2026-01-01") == []
    assert found("0001-01-01", "9999-12-31") == [0, 1, 2]
    assert "start_datetime_converted" in node.run("search_jobs_by_start_date", from_date="2026-01-01", to_date="2026-01-31")[0]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"from_date": "soon", "to_date": "2026-01-01"}, "Invalid 'from' date, must be in ISO-8601 format (YYYY-MM-DD)."),
        ({"from_date": "2026-01-01", "to_date": "2026-13-01"}, "Invalid 'to' date, must be in ISO-8601 format (YYYY-MM-DD)."),
        ({"to_date": "2026-01-01"}, "'from_date' is required"),
        ({"from_date": 5, "to_date": "2026-01-01"}, "'from_date' must be a string"),
    ],
)
def test_bad_dates_are_refused(node: OperationsNode, fields: dict[str, Any], text: str) -> None:
    with pytest.raises(Problem) as caught:
        node.run("search_jobs_by_start_date", **fields)
    assert (caught.value.status_code, caught.value.message) == (400, text)


def test_an_unknown_job_is_an_empty_list(node: OperationsNode) -> None:
    assert node.run("get_job", id="nobody") == []
    assert node.run("get_job", id="x" * 5000) == []
    with pytest.raises(Problem, match="'id' is required"):
        node.run("get_job")


# --- how many ------------------------------------------------------------------------------------------------------------------------------


def test_few_run_at_once_and_the_others_wait_in_order(node: OperationsNode) -> None:
    running: list[str] = []
    go_on = node.loop.create_future()

    async def work(job: Job) -> str:
        running.append(job.id)
        await go_on
        return "done"

    ids = [start(node, work) for _ in range(module.RUNNING + 2)]
    node.wait(lambda: asyncio.sleep(0))
    assert running == ids[: module.RUNNING]
    assert {shown(node, job_id)["status"] for job_id in ids[module.RUNNING :]} == {CREATED}
    go_on.set_result(None)
    end(node)
    assert running == ids
    assert {shown(node, job_id)["status"] for job_id in ids} == {COMPLETE}


def test_too_many_are_refused(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING", 1)
    for _ in range(module.RUNNING + 1):
        start(node, forever)
    with pytest.raises(Overloaded):
        start(node, forever)


# --- ends before their time ------------------------------------------------------------------------------------------------------------------


def test_ones_own_job_can_be_cancelled(node: OperationsNode) -> None:
    carl = node.user("carl", {"super_user": False})
    job_id = start(node, forever, carl)
    waiting = [start(node, forever, carl) for _ in range(module.RUNNING)][-1]
    other = node.user("other", {"super_user": False})
    with pytest.raises(NotFound, match="does not exist"):
        node.run("cancel_job", other, id=job_id)
    node.run("cancel_job", id=waiting)
    assert node.run("cancel_job", carl, id=job_id) == {"message": f"Cancelling job with id {job_id}"}
    node.wait(lambda: settle(node, job_id, waiting))
    record = shown(node, job_id)
    assert (record["status"], record["message"]) == (ERROR, "cancelled by carl")
    record = shown(node, waiting)
    assert (record["status"], record["message"]) == (ERROR, "cancelled by admin")
    assert "start_datetime" not in record
    with pytest.raises(Problem, match="has ended already"):
        node.run("cancel_job", id=job_id)
    with pytest.raises(Problem, match="does not exist"):
        node.run("cancel_job", id="nobody")


async def settle(node: OperationsNode, *ids: str) -> None:
    await until(lambda: not any(stored(node, job_id)["status"] in (CREATED, IN_PROGRESS) for job_id in ids))


def test_a_job_is_shown_to_its_user_and_to_super_users(node: OperationsNode) -> None:
    carl = node.user("carl", {"super_user": False})
    job_id = start(node, forever, carl)
    for user in (carl, node.admin):
        assert [job["id"] for job in node.run("get_job", user, id=job_id)] == [job_id]
    for other in (node.user("other", {"super_user": False}), node.user("granted", {"operations": ["get_job"]})):
        assert node.run("get_job", other, id=job_id) == []
        assert node.run("get_job", other, id="nothing") == []
    end_of_admin = start(node, forever)
    assert node.run("get_job", carl, id=end_of_admin) == []


def test_a_new_user_of_the_same_name_has_no_right_to_the_jobs_of_the_old_one(node: OperationsNode) -> None:
    def carl() -> User:
        node.run("add_user", username="carl", password="x", role="clerk", active=True)
        user = node.directory.get_user("carl")
        assert user is not None
        return user

    node.run("add_role", role="clerk", permission={})
    old = carl()
    job_id = start(node, forever, old)
    assert [job["id"] for job in node.run("get_job", old, id=job_id)] == [job_id]
    node.clock.advance(10)
    node.run("drop_user", username="carl")
    new = carl()
    assert node.run("get_job", new, id=job_id) == []
    with pytest.raises(NotFound, match="does not exist"):
        node.run("cancel_job", new, id=job_id)
    own = start(node, forever, new)
    assert [job["id"] for job in node.run("get_job", new, id=own)] == [own]


def test_work_hears_of_it_at_its_next_report(node: OperationsNode) -> None:
    async def work(job: Job) -> str:
        job.cancelled_by = "admin"
        await job.progress(1)
        return "not reached"

    assert run(node, work)["message"] == "cancelled by admin"


def test_a_job_of_another_process_is_cancelled(node: OperationsNode, world: SiblingWorld) -> None:
    job_id = start(node, forever)
    node.wait(lambda: asyncio.sleep(0))
    join(node, world)
    other = join(node, world)
    assert node.wait(lambda: other.jobs.cancel(job_id, "eve")) is True
    node.wait(lambda: settle(node, job_id))
    record = shown(node, job_id)
    assert (record["status"], record["message"]) == (ERROR, "cancelled by eve")
    assert "owner" not in record
    assert node.wait(lambda: other.jobs.cancel(job_id, "eve")) is False
    with pytest.raises(NotFound):
        node.wait(lambda: other.jobs.cancel("nobody", "eve"))


def test_a_job_of_a_process_that_hangs_or_has_ended_cannot_be_cancelled(node: OperationsNode, world: SiblingWorld) -> None:
    other = join(node, world)
    job_id = start(node, forever)
    assert isinstance(node.node.siblings, FakeSiblings)
    node.node.siblings.hangs = True
    with pytest.raises(Overloaded, match="does not answer"):
        node.wait(lambda: other.jobs.cancel(job_id, "eve"))
    assert stored(node, job_id)["status"] == IN_PROGRESS
    world.kill(node.node.siblings)
    assert node.wait(lambda: other.jobs.cancel(job_id, "eve")) is False
    assert stored(node, job_id)["message"] == "interrupted by restart"


def test_the_end_of_the_server_interrupts(node: OperationsNode) -> None:
    job_id = start(node, forever)
    node.wait(node.node.jobs.stop)
    record = shown(node, job_id)
    assert (record["status"], record["message"]) == (ERROR, "interrupted by restart")


def test_jobs_of_processes_that_have_ended_are_reported_and_no_others(node: OperationsNode, world: SiblingWorld) -> None:
    table = node.store.databases["system"].tables[JOB_TABLE]
    alive, dead = world.start(), world.start()
    world.kill(dead)
    owners = [
        (CREATED, dead.identity),
        (IN_PROGRESS, dead.identity),
        (COMPLETE, dead.identity),
        (IN_PROGRESS, alive.identity),
        (IN_PROGRESS, ""),
    ]

    async def leave() -> None:
        transaction = node.store.begin()
        for number, (status, owner) in enumerate(owners):
            record = {"status": status, "type": "work", "created_datetime": 1}
            transaction.put(table, str(number), record | ({"owner": owner} if owner else {}))
        await transaction.apply_in_turn()

    node.wait(leave)
    own = start(node, forever)
    assert node.wait(node.node.jobs.records.recover) == 3
    statuses = {number: shown(node, str(number))["status"] for number in range(5)}
    assert statuses == {0: ERROR, 1: ERROR, 2: COMPLETE, 3: IN_PROGRESS, 4: ERROR}
    assert shown(node, "1")["message"] == "interrupted by restart"
    assert shown(node, own)["status"] == IN_PROGRESS
    assert node.wait(node.node.jobs.records.recover) == 0


def test_what_a_process_has_written_before_it_ended_stays(node: OperationsNode, world: SiblingWorld) -> None:
    """Another process has looked at the record before that."""
    job_id = start(node, forever)
    left = node.node.jobs.records._unfinished()
    other = join(node, world)
    other.jobs.records._unfinished = lambda: left  # type: ignore[method-assign]
    node.run("cancel_job", id=job_id)
    node.wait(lambda: settle(node, job_id))
    assert isinstance(node.node.siblings, FakeSiblings)
    world.kill(node.node.siblings)
    node.wait(other.jobs.records.recover)
    assert shown(node, job_id)["message"] == "cancelled by admin"


def test_those_that_live_look_for_jobs_of_others_now_and_then(node: OperationsNode, world: SiblingWorld) -> None:
    job_id = start(node, forever)
    records = join(node, world).jobs.records
    assert isinstance(node.node.siblings, FakeSiblings)
    world.kill(node.node.siblings)
    [other] = world.processes.values()

    def look() -> str:
        async def look() -> None:
            records.sweep(node.clock.monotonic())
            if records.recovery is not None:
                await records.recovery

        node.wait(look)
        return str(stored(node, job_id)["status"])

    assert look() == IN_PROGRESS
    node.clock.advance(job_records.RECOVER_PAUSE)
    assert look() == IN_PROGRESS, "that is for the process that leads"
    other.is_leader = True
    assert look() == ERROR


def test_the_end_is_written_once_the_store_takes_it(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_PAUSE", 0)
    jobs = node.node.jobs
    patch, failures = jobs._patch, [NoSpace(), NoSpace()]

    async def failing(job: Job, changes: dict[str, Any]) -> None:
        if changes["status"] == COMPLETE and failures:
            raise failures.pop()
        await patch(job, changes)

    monkeypatch.setattr(jobs, "_patch", failing)

    async def work(_: Job) -> str:
        return "done"

    assert run(node, work)["message"] == "done"
    assert not failures


def test_without_a_record_there_is_no_job(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(_: Job) -> None:
        raise AssertionError

    async def full(*_: Any) -> None:
        raise NoSpace

    monkeypatch.setattr(node.node.jobs.records, "write", full)
    with pytest.raises(NoSpace):
        start(node, work)
    assert not node.node.jobs


# --- old records ---------------------------------------------------------------------------------------------------------------------------------


def test_old_records_and_those_of_too_many_jobs_are_removed(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(_: Job) -> None: ...

    old = start(node, work)
    end(node)
    running = start(node, forever)
    node.clock.advance(job_records.KEPT_SECONDS + 1)
    young = [start(node, work) for _ in range(3)]
    node.wait(lambda: settle(node, *young))
    node.wait(lambda: removed(node, old))
    assert shown(node, running)["status"] == IN_PROGRESS
    assert all(node.run("get_job", id=job_id) for job_id in young)
    monkeypatch.setattr(job_records, "KEPT_JOBS", 3)
    monkeypatch.setattr(job_records, "_BATCH", 1)
    more = []
    for _ in range(3):
        node.clock.advance(1)
        more.append(start(node, work))
    node.wait(lambda: settle(node, *more))
    node.wait(node.node.jobs.records.remove_old)
    assert [bool(node.run("get_job", id=job_id)) for job_id in (running, *young, *more)] == [True, *[False] * 4, True, True]


async def removed(node: OperationsNode, *ids: str) -> None:
    table = node.store.databases["system"].tables[JOB_TABLE]
    await until(lambda: not any(table.get_raw(job_id) for job_id in ids))
