"""The entry `scheduler` of an application (spec: components §3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.support.application import Application, application

CONFIG = "rest: true\ngraphqlSchema: {files: schema.graphql}\nresources: {files: resources.py}\nscheduler:\n  jobs:\n"
RESOURCES = """
import jobs
ran = jobs.ran
"""
JOBS = """
ran = []

async def note(run):
    ran.append((run.job_name, run.catch_up))
    await tables.Plain.put({"id": run.job_name, "stock": len(ran)})

def fail(run):
    inner()

def inner():
    raise ValueError("no more stock")

class Jobs:
    @staticmethod
    def count():
        ran.append("counted")
"""


def job(name: str, handler: str, when: str = "interval: 60") -> str:
    return f"    - {{name: {name}, {when}, handler: '{handler}'}}\n"


@contextmanager
def scheduled(path: Path, *jobs: str, healthy: bool = True, **files: str) -> Iterator[Application]:
    found = {
        "config.yaml": CONFIG + "".join(jobs),
        "jobs.py": JOBS,
        **{name.replace("__", "/") + ".py": text for name, text in files.items()},
    }
    with application(path, RESOURCES, healthy=healthy, files=found) as app:
        app.node.scheduler.start()
        look(app)
        yield app
        app.run(app.node.scheduler.stop())


def look(app: Application, seconds: float = 0) -> None:
    app.node.clock.advance(seconds)
    for _ in range(3):
        app.node.scheduler.tick()
        app.run(app.node.scheduler.settle())


def states(app: Application) -> dict[str, Any]:
    return {each["job"]: each["status"] for each in app.node.scheduler.jobs()}


def change(app: Application, name: str, text: str) -> None:
    (app.node.app.directory / name).write_text(dedent(text))
    app.node.run(app.node.applications.change("app", [name], reloads_code=True))


def test_jobs_run_with_the_modules_of_the_application(tmp_path: Path) -> None:
    handlers = [job("a", "jobs.py#note"), job("b", "jobs:Jobs.count"), job("c", "tools.daily:run"), job("d", "tools/daily.py#run")]
    daily = "from jobs import ran\ndef run(run):\n    ran.append(run.job_name)\n"
    with scheduled(tmp_path, *handlers, tools__daily=daily) as app:
        look(app, 60)
        assert sorted(map(str, app.module.ran)) == ["('a', False)", "c", "counted", "d"]
        assert app.ask("GET", "/Plain/a")[1]["id"] == "a"
        assert set(states(app).values()) == {"succeeded"}


def test_a_function_of_an_installed_package_is_found(tmp_path: Path) -> None:
    with scheduled(tmp_path, job("a", "gc:collect")) as app:
        look(app, 60)
        assert states(app) == {"a": "failed"}, "it takes no run"


def test_an_error_is_logged_from_the_code_of_the_application_on(tmp_path: Path) -> None:
    with scheduled(tmp_path, job("a", "jobs.py#fail")) as app:
        look(app, 60)
        (text,) = [text for level, text in app.node.reports if level == "error"]
        assert text.startswith("scheduler: job a has failed: Traceback (most recent call last):\n")
        assert "in fail" in text and "in inner" in text and text.endswith("ValueError: no more stock")
        assert text.count('File "') == 2
        assert app.node.scheduler.jobs()[0]["error"] in text


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        ("nope.py#run", "job bad: handler: there is no file nope.py"),
        ("jobs.py#nope", "job bad: handler: jobs.py has no nope"),
        ("jobs.py#ran", "job bad: handler: ran of jobs.py is no function"),
        ("nope.module:run", "job bad: handler: there is no module nope.module"),
        ("os.nope:run", "job bad: handler: there is no module os.nope"),
        ("broken.py#run", "job bad: broken.py:2: NameError"),
        ("wrong.py#run", "job bad: wrong.py:1: SyntaxError"),
        ("linked.py#run", "job bad: handler: 'linked.py' leads out of the application"),
    ],
)
def test_a_handler_that_cannot_be_called_is_an_error_and_the_other_jobs_run(tmp_path: Path, handler: str, words: str) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "outside.py").write_text("def run(run): pass\n")
    files = {"broken": "\nnope\n", "wrong": "def run(:\n"}
    try:
        (tmp_path / "app" / "linked.py").symlink_to(tmp_path / "outside.py")
        (tmp_path / "app").rename(tmp_path / "link")
        with scheduled(tmp_path, job("bad", handler), job("good", "jobs.py#note"), healthy=False, **files) as app:
            (tmp_path / "link" / "linked.py").rename(app.node.app.directory / "linked.py")
            app.node.run(app.node.applications.reload("app"))
            status = app.node.app.entries["scheduler"]
            assert status.status == "error" and status.messages[0].startswith(words), status.messages
            look(app, 60)
            assert app.module.ran == [("good", False)]
    finally:
        (tmp_path / "link").rmdir()


def test_a_newer_version_goes_on_with_new_functions_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    with scheduled(tmp_path, job("a", "jobs.py#note")) as app:
        look(app, 59)
        change(app, "jobs.py", JOBS.replace("run.catch_up", "'new'"))
        look(app, 1)
        module: Any = app.node.app.modules
        assert module.loaded[0].ran == [("a", "new")]
        change(app, "jobs.py", "async def other(run): pass\n")
        assert "jobs.py has no note" in app.node.app.entries["scheduler"].messages[0]
        look(app, 60)
        assert module.loaded[0].ran == [("a", "new"), ("a", "new")]
        change(app, "config.yaml", CONFIG.replace("scheduler:\n  jobs:\n", "").replace("{files: resources.py}", "false"))
        look(app, 600)
        assert app.node.scheduler.jobs() == []


def test_a_job_has_the_time_that_comes_while_a_newer_version_is_loaded(tmp_path: Path) -> None:
    with scheduled(tmp_path, job("a", "jobs.py#note")) as app:
        app.node.clock.advance(60)
        change(app, "jobs.py", JOBS)
        look(app)
        look(app)
        module: Any = app.node.app.modules
        assert module.loaded[0].ran == [("a", False)]
