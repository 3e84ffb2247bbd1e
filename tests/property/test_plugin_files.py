"""Whatever happens to the files of an application, what a plugin has been told of them is what is there."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.application import application
from tests.support.profile import half_by_day

CODE = """
import files_seen

def handle_application(scope):
    def on(event):
        here = files_seen.here
        name = event.url_path.strip("/")
        if event.event_type in ("add", "addDir"):
            assert name not in here, event
            assert "/" not in name or here[name.rpartition("/")[0]] is None, "a directory comes before what is in it"
            here[name] = event.contents
        elif event.event_type == "change":
            assert here[name] is not None
            here[name] = event.contents
        else:
            assert (here.pop(name) is None) == (event.event_type == "unlinkDir")
            assert not any(each.startswith(name + "/") for each in here), "what is in a directory goes before it"
    scope.handle_entry(on)
"""
CONFIG = "plugin: {package: ./plugin.py, files: {source: 'words/**', ignore: ['words/c', 'words/c/**']}}\n"

names = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
steps = st.lists(st.tuples(st.sampled_from(("write", "remove", "directory")), names, st.binary(max_size=3)), max_size=6)


def there(directory: Path) -> dict[str, bytes | None]:
    found = {}
    for path in directory.rglob("*"):
        name = path.relative_to(directory).as_posix()
        if not name.startswith("c"):
            found[name] = None if path.is_dir() else path.read_bytes()
    return found


def apply(directory: Path, step: tuple[str, str, bytes]) -> None:
    what, name, contents = step
    path = directory / name
    if any(parent.is_file() for parent in path.parents if parent.is_relative_to(directory)):
        return
    if what == "remove":
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    elif what == "directory" and not path.exists():
        path.mkdir(parents=True)
    elif what == "write" and not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents)


@settings(max_examples=half_by_day(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=st.lists(steps, max_size=5))
def test_events_say_what_is_there(tmp_path_factory: Any, rounds: list[list[tuple[str, str, bytes]]]) -> None:
    module: Any = type(sys)("files_seen")
    module.here = {}
    sys.modules["files_seen"] = module
    path = tmp_path_factory.mktemp("plugin")
    with application(path, "", files={"plugin.py": CODE, "words/a": "first", "config.yaml": CONFIG}) as app:
        directory = app.node.app.directory / "words"
        assert module.here == there(directory)
        for round in rounds:
            before = set(there(directory))
            for step in round:
                apply(directory, step)
            changed = {f"words/{name}" for name in before | set(there(directory))}
            app.node.run(app.node.applications.change("app", sorted(changed), reloads_code=False))
            assert app.node.app.status == "healthy", app.node.app.entries
            assert module.here == there(directory)
    shutil.rmtree(path)
    del sys.modules["files_seen"]
