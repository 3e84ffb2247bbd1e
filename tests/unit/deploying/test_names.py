"""Names of projects and paths of files never lead out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.deploying.names import check_project, file_in
from svc.errors import ClientError, ValidationError

PARTS = st.sampled_from(["..", ".", "", "a", "b", "link", "out", "up", "\\", "x" * 300, "\0", "a\n", "~", "..."])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("root") / "shop"
    (path / "a").mkdir(parents=True)
    (path / "link").symlink_to("a")
    (path / "out").symlink_to("/etc")
    (path / "up").symlink_to("..")
    return path.resolve()


@given(st.lists(PARTS, max_size=6), st.booleans())
def test_a_path_is_inside_or_refused(project: Path, parts: list[str], absolute: bool) -> None:
    name = ("/" if absolute else "") + "/".join(parts)
    try:
        found = file_in(project, name)
    except ClientError as error:
        assert error.message == "Invalid file path"
    else:
        assert os.path.realpath(found).startswith(f"{project}{os.sep}")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "out/passwd", "up/other", "a/../../x", "", ".", "a\\b", "up"])
def test_paths_that_lead_out_are_refused(project: Path, name: str) -> None:
    with pytest.raises(ClientError):
        file_in(project, name)


@pytest.mark.parametrize("name", ["link/x", "a/b/c", "./a", "new"])
def test_paths_inside_are_fine(project: Path, name: str) -> None:
    assert file_in(project, name)


@given(st.text(max_size=120))
def test_names_of_projects_are_plain(name: str) -> None:
    try:
        check_project(name)
    except ValidationError:
        return
    assert name.isascii() and name and name.replace("-", "").replace("_", "").isalnum() | (not name.strip("-_")) and len(name) <= 100
