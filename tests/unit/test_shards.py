"""Which worker runs which test files."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from tests.support.shards import FILE_SECONDS, ROOT, Controller, Selection, asked_files, assign, read_times, starts_programs

TIMES = {"a": 1.0, "b": 3.0, "c": 1.0, "d": 2.0, "e": 0.5}
TEST_FILES = sorted((ROOT / "tests").rglob("test_*.py"))


def test_each_file_is_in_one_shard_and_shards_are_in_order() -> None:
    for workers in range(1, 8):
        shards = assign(TIMES, TIMES, workers)
        assert sorted(file for shard in shards for file in shard) == sorted(TIMES)
        assert all(shard == sorted(shard) for shard in shards)


def test_shards_are_balanced() -> None:
    assert assign(TIMES, TIMES, 2) == [["b", "c"], ["a", "d", "e"]]
    assert assign(reversed(TIMES), TIMES, 2) == assign(TIMES, TIMES, 2)


def test_a_file_without_a_time_has_the_median() -> None:
    assert assign(["b", "new"], {"b": 0.1, "x": 1, "y": 2}, 2) == [["new"], ["b"]]
    assert assign(["one", "two"], {}, 2) == [["one"], ["two"]]


def test_the_table_balances_all_files() -> None:
    times = read_times()
    names = [str(path.relative_to(ROOT)) for path in TEST_FILES]
    loads = [sum(times.get(name, 0) + FILE_SECONDS for name in shard) for shard in assign(names, times, 3)]
    assert max(loads) - min(loads) < max(times.values())
    assert len([name for name in names if name in times]) > 0.8 * len(names), "measure again: pytest --write-times"


def fake_config(*arguments: str, markexpr: str = "") -> Any:
    return SimpleNamespace(
        args=list(arguments),
        option=SimpleNamespace(markexpr=markexpr),
        invocation_params=SimpleNamespace(dir=ROOT),
        getini=lambda name: ["test_*.py"],
    )


def test_a_stage_has_the_files_of_its_mark() -> None:
    every = asked_files(fake_config("tests"))
    first, second = (asked_files(fake_config("tests", markexpr=marked)) for marked in ("not programs", "programs"))
    assert set(every) >= set(TEST_FILES) and sorted(first + second) == every
    assert ROOT / "tests/integration/test_cli.py" in second and ROOT / "tests/unit/test_shards.py" in first


def test_modules_count_if_they_have_doctests() -> None:
    found = asked_files(fake_config("svc"))
    assert ROOT / "svc/store/values/keys.py" in found and ROOT / "svc/__init__.py" not in found


def test_a_worker_looks_at_its_files_only() -> None:
    own, other = ROOT / "tests/unit/test_shards.py", ROOT / "tests/unit/test_spec.py"
    config = fake_config("tests", "tests/unit/test_shards.py::test_x", "tests/unit/test_spec.py", "svc")
    selection = Selection(config, [own], None)
    assert config.args == ["tests", "tests/unit/test_shards.py::test_x"]
    assert selection.pytest_ignore_collect(own) is None and selection.pytest_ignore_collect(own.parent) is None
    assert selection.pytest_ignore_collect(other) is True and selection.pytest_ignore_collect(ROOT / "tests/crash") is True


def test_a_worker_that_replaces_another_has_its_files() -> None:
    controller = Controller(fake_config("tests/unit/test_shards.py", "tests/unit/test_spec.py"), None)
    nodes = []
    first, second = object(), object()
    for specification in (first, second, first):
        node = SimpleNamespace(gateway=SimpleNamespace(spec=specification), workerinput={"workercount": 2})
        controller.pytest_configure_node(node)
        nodes.append(node.workerinput)
    assert nodes[0] == nodes[2] and sorted(nodes[0]["files"] + nodes[1]["files"]) == [
        "tests/unit/test_shards.py",
        "tests/unit/test_spec.py",
    ]


def test_the_mark_is_that_of_whole_files() -> None:
    """Where it is looked for, without an import."""
    others = [
        path.name for path in TEST_FILES if re.search(r"^@pytest\.mark\.programs|marks=.*mark\.programs", path.read_text(), re.MULTILINE)
    ]
    assert not others
    assert all(starts_programs(path) for path in TEST_FILES if path.is_relative_to(ROOT / "tests" / "crash"))


def test_what_uses_multiprocessing_is_marked() -> None:
    """Its processes are no event that the guard could see."""
    using = re.compile(
        r"^ *(?:import multiprocessing|from multiprocessing|from tests\.support\.(?:crash|forks) import|from tests\.support import .*\b(?:crash|forks)\b)",
        re.MULTILINE,
    )
    assert all(starts_programs(path) for path in TEST_FILES if using.search(path.read_text()))
