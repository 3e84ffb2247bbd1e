"""Following a job to its end."""

import io

import pytest
from rich.console import Console

from svc.cli.client import Unreachable
from svc.cli.jobs import FIRST_PAUSE, LONGEST_PAUSE, MAX_FAILURES, JobLost, NoBar, progress_bar, wait_for_job
from tests.support.cli import FakeAnswer, FakeClient


class Bar:
    def __init__(self) -> None:
        self.seen: list[tuple[int | None, int | None, str]] = []

    def update(self, done: int | None, total: int | None, message: str) -> None:
        self.seen.append((done, total, message))


def job(status: str, **more: object) -> FakeAnswer:
    return FakeAnswer([{"id": "1", "status": status, **more}])


def test_it_looks_until_the_job_has_ended_and_shows_how_far_it_is() -> None:
    client = FakeClient(
        job("CREATED"),
        job("IN_PROGRESS", progress={"done": 5, "total": 10}),
        job("IN_PROGRESS", progress={"done": 7, "message": "rows"}),
        job("IN_PROGRESS", progress={"done": "?", "total": True}),
        job("COMPLETE", message="done"),
    )
    bar, pauses = Bar(), []
    assert wait_for_job(client, "1", bar, pauses.append)["message"] == "done"
    assert bar.seen == [(5, 10, ""), (7, None, "rows"), (None, None, "")]
    assert client.sent == [{"operation": "get_job", "id": "1"}] * 5
    assert pauses[0] == FIRST_PAUSE
    assert pauses == sorted(pauses)


def test_it_looks_less_often_after_a_while() -> None:
    pauses: list[float] = []
    wait_for_job(FakeClient(*[job("IN_PROGRESS")] * 30, job("ERROR")), "1", NoBar(), pauses.append)
    assert max(pauses) == pauses[-1] == LONGEST_PAUSE


def test_a_server_that_is_away_for_a_moment_is_waited_for() -> None:
    away = Unreachable("connection refused")
    client = FakeClient(*[away, FakeAnswer({"error": "busy"}, 503)] * (MAX_FAILURES // 2 - 1), job("COMPLETE"))
    assert wait_for_job(client, "1", NoBar(), lambda seconds: None)["status"] == "COMPLETE"
    with pytest.raises(JobLost, match="svc get_job id=1"):
        wait_for_job(FakeClient(*[away] * MAX_FAILURES), "1", NoBar(), lambda seconds: None)


@pytest.mark.parametrize("answer", [FakeAnswer([]), FakeAnswer({"error": "Unauthorized"}, 403), FakeAnswer([1])])
def test_a_job_that_nobody_knows_is_lost(answer: FakeAnswer) -> None:
    with pytest.raises(JobLost):
        wait_for_job(FakeClient(answer), "1", NoBar(), lambda seconds: None)


def test_the_bar_is_for_terminals_and_leaves_nothing_behind() -> None:
    with progress_bar("load") as bar:
        assert isinstance(bar, NoBar)
        bar.update(1, 2, "")
    stream = io.StringIO()
    with progress_bar("load", Console(file=stream, width=80, force_terminal=True)) as bar:
        bar.update(1, 2, "rows")
    assert "load" in stream.getvalue()
    assert "rows 1 of 2" in stream.getvalue()
