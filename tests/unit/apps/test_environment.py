"""The entry `loadEnv` (spec: components §2)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.apps.env_entry import read_variables
from svc.apps.environment import PROCESS, Environment, EnvironmentLayer
from tests.support.application import application
from tests.support.node import Node

NAMES = ("TEST_ENV_A", "TEST_ENV_B", "TEST_ENV_C")
CONFIG = "loadEnv: {files: ['*.env']%s}\nrest: true\nresources: {files: resources.py}\n"
CODE = "import os\nat_load = {name: value for name, value in os.environ.items() if name.startswith('TEST_ENV_')}\n"


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    before = dict(os.environ)
    yield
    assert not PROCESS._said and not PROCESS._values
    os.environ.clear()
    os.environ.update(before)


def read(tmp_path: Path, text: str | bytes) -> tuple[dict[str, str], list[tuple[int, str]]]:
    path = tmp_path / ".env"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_variables(path)


def test_files_have_quotes_comments_and_values_of_several_lines(tmp_path: Path) -> None:
    text = """
    # a comment
    A=1
    export B = 'single \\n ${A}'  # a comment
    C="two
lines\\t"
    D=
    E=a # b
    F=a#b
    A=2
    """
    assert read(tmp_path, text) == (
        {"A": "2", "B": "single \\n ${A}", "C": "two\nlines\t", "D": "", "E": "a", "F": "a#b"},
        [],
    )
    assert read(tmp_path, b"\xef\xbb\xbfA=1\r\nB=2\r\n") == ({"A": "1", "B": "2"}, [])
    assert read(tmp_path, "") == ({}, [])


def test_faults_have_a_line_and_no_value(tmp_path: Path) -> None:
    variables, faults = read(tmp_path, "A=1\n\n=secret\nB\nC='secret\nD=2\nE=a\0secret\n")
    assert variables == {"A": "1", "D": "2"}
    assert [line for line, _ in faults] == [3, 4, 5, 7]
    assert "secret" not in repr(faults) and "B has no value" in faults[1][1]


@pytest.mark.parametrize(("content", "words"), [(b"A=\xff", "not UTF-8: byte 2"), (b"A=" + b"x" * (1 << 18), "larger than")])
def test_what_is_no_such_file_is_an_error(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(tmp_path, content)


def test_variables_are_there_before_modules_are_loaded_and_go_with_the_application(tmp_path: Path) -> None:
    os.environ["TEST_ENV_A"] = "outside"
    with application(tmp_path, CODE, "", files={"a.env": "TEST_ENV_A=1\nTEST_ENV_B=2\n", "config.yaml": CONFIG % ""}) as app:
        assert app.module.at_load == {"TEST_ENV_A": "outside", "TEST_ENV_B": "2"}
    assert os.environ["TEST_ENV_A"] == "outside" and "TEST_ENV_B" not in os.environ


def test_override_wins_over_what_is_there(tmp_path: Path) -> None:
    os.environ["TEST_ENV_A"] = "outside"
    with application(tmp_path, CODE, "", files={"a.env": "TEST_ENV_A=1\n", "config.yaml": CONFIG % ", override: true"}) as app:
        assert app.module.at_load["TEST_ENV_A"] == "1"
        assert PROCESS.original()["TEST_ENV_A"] == "outside"
    assert os.environ["TEST_ENV_A"] == "outside"
    del os.environ["TEST_ENV_A"]


def test_a_reload_takes_back_what_is_gone_and_a_broken_version_changes_nothing(tmp_path: Path) -> None:
    with application(tmp_path, CODE, "", files={"a.env": "TEST_ENV_A=1\nTEST_ENV_B=2\n", "config.yaml": CONFIG % ""}) as app:
        directory = app.node.app.directory

        def change(name: str, text: str) -> None:
            (directory / name).write_text(text)
            app.node.run(app.node.applications.change("app", [name], reloads_code=True))

        change("a.env", "TEST_ENV_A=3\nTEST_ENV_C=4\n")
        assert {name: os.environ.get(name) for name in NAMES} == {"TEST_ENV_A": "3", "TEST_ENV_B": None, "TEST_ENV_C": "4"}
        change("a.env", "TEST_ENV_A=5\nTEST_ENV_B\n")
        assert app.node.app.entries["loadEnv"].status == "error"
        assert app.node.app.entries["loadEnv"].messages[0] == "a.env, line 2: TEST_ENV_B has no value: write TEST_ENV_B= for an empty one"
        assert {name: os.environ.get(name) for name in NAMES} == {"TEST_ENV_A": "3", "TEST_ENV_B": None, "TEST_ENV_C": "4"}
        change("a.env", "TEST_ENV_A=6\n")
        (directory / "resources.py").write_text("import os\nraise ValueError(os.environ['TEST_ENV_A'])\n")
        change("a.env", "TEST_ENV_A=7\n")
        assert "ValueError: 7" in app.node.app.entries["resources"].messages[0], "the new version sees its own"
        assert os.environ["TEST_ENV_A"] == "6"
        os.environ["TEST_ENV_A"] = "by the application"
    assert os.environ.pop("TEST_ENV_A") == "by the application"


def test_it_stands_first_or_a_warning_says_so(tmp_path: Path) -> None:
    config = "roles: {files: roles.yaml}\nloadEnv: {files: a.env}\nresources: {files: resources.py}\n"
    with application(tmp_path, CODE, "", healthy=False, files={"a.env": "TEST_ENV_A=1\n", "config.yaml": config}) as app:
        status = app.node.app.entries["loadEnv"]
        assert status.status == "warning" and "must be the first entry" in status.messages[0]
        assert app.module.at_load == {"TEST_ENV_A": "1"}


@pytest.mark.parametrize(
    ("entry", "status", "words"),
    [
        ("{files: none.env}", "warning", "no file matches 'none.env'"),
        ("{files: ../a.env}", "error", "leads out of the application"),
        ("{files: a.env, override: 'yes'}", "error", "override must be true or false"),
        ("{file: a.env}", "warning", "'file' is not an option of loadEnv; there is files, override"),
        ("{files: 5}", "error", "is not a pattern"),
    ],
)
def test_what_is_wrong_is_the_status(tmp_path: Path, entry: str, status: str, words: str) -> None:
    with application(tmp_path, CODE, "", healthy=False, files={"a.env": "", "config.yaml": f"loadEnv: {entry}\nresources: true\n"}) as app:
        found = app.node.app.entries["loadEnv"]
        assert found.status == status and words in found.messages[0]


def test_values_are_never_logged(tmp_path: Path) -> None:
    text = "TEST_ENV_A=s3cret\nTEST_ENV_B s3cret\n'TEST=s3cret\n"
    with application(tmp_path, CODE, "", healthy=False, files={"a.env": text, "config.yaml": CONFIG % ""}) as app:
        assert app.node.reports and "s3cret" not in repr(app.node.reports)


def test_the_variables_of_all_applications_are_there_before_the_first_is_loaded(tmp_path: Path) -> None:
    for name, env in (("first", ""), ("second", "TEST_ENV_C=5\n")):
        directory = tmp_path / "components" / name
        directory.mkdir(parents=True)
        (directory / "config.yaml").write_text(CONFIG % "")
        (directory / "a.env").write_text(env)
        (directory / "resources.py").write_text(CODE)
    (tmp_path / "app").mkdir()
    node = Node(tmp_path / "data", app=tmp_path / "app")
    try:
        node.run(node.applications.load_all(tmp_path / "components"))
        first = node.applications.get("first")
        assert first is not None and first.modules is not None
        assert first.modules.loaded[0].at_load == {"TEST_ENV_C": "5"}
    finally:
        node.close()


ENTRIES = st.sampled_from(["a", "b", "c"])
SAID = st.dictionaries(st.sampled_from("XYZ"), st.sampled_from("123"), max_size=3)


@given(
    st.dictionaries(st.sampled_from("XYZ"), st.sampled_from("123")),
    st.lists(st.tuples(ENTRIES, st.none() | st.tuples(SAID, st.booleans()))),
)
def test_variables_follow_from_what_is_said_and_go_back(
    before: dict[str, str], steps: list[tuple[str, tuple[dict[str, str], bool] | None]]
) -> None:
    environ = dict(before)
    environment = Environment(environ)
    said: dict[str, tuple[dict[str, str], bool]] = {}
    for entry, given_ in steps:
        environment.set(entry, None if given_ is None else EnvironmentLayer(*given_))
        if given_ is None:
            said.pop(entry, None)
        else:
            said[entry] = given_
        expected = dict(before)
        for variables, override in said.values():
            expected = {**expected, **variables} if override else {**variables, **expected}
        assert environ == expected
        assert environment.original() == before
    for entry in list(said):
        environment.set(entry, None)
    assert environ == before and not environment._values
