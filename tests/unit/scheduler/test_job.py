"""The entry `scheduler` of a config.yaml (spec: components §3.2)."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from svc.scheduler import JobRun, bind_handler, read_jobs


def faults_of(*jobs: Any) -> list[str]:
    return read_jobs({"jobs": list(jobs)})[1]


def test_jobs_are_read() -> None:
    jobs, faults = read_jobs(
        {
            "jobs": [
                {"name": "nightly", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "handler": "./jobs.py#clean_up"},
                {"name": "poll it", "interval": "90s", "handler": "shop.feeds:Feeds.poll"},
            ]
        }
    )
    assert faults == []
    assert [(job.name, job.file, job.module, job.function, job.handler) for job in jobs] == [
        ("nightly", "jobs.py", "", "clean_up", "jobs.py#clean_up"),
        ("poll it", "", "shop.feeds", "Feeds.poll", "shop.feeds:Feeds.poll"),
    ]
    assert jobs[0].schedule.text == "30 2 * * * Europe/Berlin" and jobs[1].schedule.text == "every 90000 ms"


GOOD = {"name": "a", "interval": 5, "handler": "jobs.py#run"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("run", "job number 1: it must be a mapping"),
        ({**GOOD, "name": ""}, "job number 1: name must be"),
        ({**GOOD, "name": 5}, "job number 1: name must be"),
        ({**GOOD, "name": "a:b"}, "job number 1: name must be"),
        ({**GOOD, "cron": "* * * * *"}, "job a: it needs cron or interval"),
        ({"name": "a", "handler": "jobs.py#run"}, "job a: it needs cron or interval"),
        ({**GOOD, "timezone": "UTC"}, "job a: timezone belongs to cron"),
        ({**GOOD, "every": 5}, "job a: 'every' is not one of name, cron"),
        ({**GOOD, "interval": "soon"}, "job a: interval must be"),
        ({**GOOD, "handler": None}, "job a: handler must be"),
        ({**GOOD, "handler": "jobs.py"}, "job a: handler must be"),
        ({**GOOD, "handler": "jobs.txt#run"}, "job a: handler must be"),
        ({**GOOD, "handler": "jobs.py#"}, "job a: handler must be"),
        ({**GOOD, "handler": "jobs.py#a b"}, "job a: handler must be"),
        ({**GOOD, "handler": "../jobs.py#run"}, "job a: handler: '../jobs.py' leads out"),
        ({**GOOD, "handler": "/jobs.py#run"}, "job a: handler: '/jobs.py' leads out"),
        ({**GOOD, "handler": "os.path:join:x"}, "job a: handler must be"),
    ],
)
def test_a_job_that_is_wrong_is_named_and_the_others_stay(given: Any, words: str) -> None:
    jobs, faults = read_jobs({"jobs": [given, {**GOOD, "name": "other"}]})
    assert [job.name for job in jobs] == ["other"]
    assert len(faults) == 1 and faults[0].startswith(words)


@pytest.mark.parametrize("options", [{}, {"jobs": None}, {"jobs": {}}, {"jobs": "x"}, {"jobs": [GOOD] * 1001}])
def test_what_is_no_list_of_jobs_is_a_fault(options: dict[str, Any]) -> None:
    jobs, faults = read_jobs(options)
    assert jobs == [] and len(faults) == 1


def test_two_jobs_of_one_name_and_unknown_options_are_faults() -> None:
    assert faults_of(GOOD, GOOD) == ["job a: an earlier job has the same name"]
    assert read_jobs({"jobs": [GOOD], "job": 1})[1] == ["'job' is not an option of scheduler; there is jobs"]


def bound(code: str, function: str = "run") -> Any:
    module = ModuleType("jobs")
    exec(code, module.__dict__)
    (spec,), _ = read_jobs({"jobs": [{**GOOD, "handler": f"jobs.py#{function}"}]})
    return bind_handler(module, spec)


def test_a_handler_is_called_with_the_run_or_without() -> None:
    run: Any = JobRun("a", None, False)  # type: ignore[arg-type]
    assert bound("def run(run): return run")(run) is run
    assert bound("def run(): return 5")(run) == 5
    assert bound("def run(*all): return all")(run) == (run,)
    assert bound("class Jobs:\n @staticmethod\n def run(run): return run", "Jobs.run")(run) is run


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("", "jobs.py has no run"),
        ("run = 5", "is no function"),
        ("def run(a, b): pass", "must take one argument"),
        ("class run2: pass", "has no run"),
        ("def run(run): yield", "is a generator"),
        ("async def run(run): yield", "is a generator"),
    ],
)
def test_what_cannot_be_called_is_a_fault(code: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bound(code)
