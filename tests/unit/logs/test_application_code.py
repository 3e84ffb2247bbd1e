"""Which application a file or a frame belongs to."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import svc
from svc.logs.application_code import ApplicationCode, Place
from tests.support.application_file import run_as_file


def test_files_below_a_directory_belong_to_its_application(tmp_path: Path) -> None:
    code = ApplicationCode()
    assert not code
    code.add(tmp_path / "shop")
    code.add(tmp_path / "other", "another")
    assert code
    assert code.find(str(tmp_path / "shop" / "routes" / "a.py")) == ("shop", "routes/a.py")
    assert code.find(str(tmp_path / "other" / "b.py")) == ("another", "b.py")
    assert code.find(str(tmp_path / "shopping" / "a.py")) is None
    assert code.find("<string>") is None


def test_an_application_inside_another_has_its_own_files(tmp_path: Path) -> None:
    code = ApplicationCode()
    code.add(tmp_path, "outer")
    code.add(tmp_path / "inner")
    assert code.find(str(tmp_path / "inner" / "a.py")) == ("inner", "a.py")
    assert code.find(str(tmp_path / "a.py")) == ("outer", "a.py")


def test_installed_packages_and_svc_itself_are_no_application_code(tmp_path: Path) -> None:
    own = os.path.dirname(svc.__file__)
    code = ApplicationCode()
    code.add(tmp_path, "shop")
    code.add(Path(own).parent, "checkout")
    assert code.find(str(tmp_path / ".venv/lib/python3/site-packages/x.py")) is None
    assert code.find(f"{own}/loop.py") is None
    code.add(Path(own) / "demo" / "app", "demo")
    assert code.find(f"{own}/demo/app/resources.py") == ("demo", "resources.py")


def test_a_directory_may_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    code = ApplicationCode()
    code.add(tmp_path / "link", "shop")
    assert code.find(str(tmp_path / "real" / "a.py")) == code.find(str(tmp_path / "link" / "a.py")) == ("shop", "a.py")


def test_names_that_are_made_at_run_time_do_not_pile_up(tmp_path: Path) -> None:
    code = ApplicationCode()
    code.add(tmp_path, "shop")
    for number in range(20_005):
        assert code.find(f"<made {number}>") is None
    assert len(code._found) <= 10_000


def test_the_frames_of_an_application_on_a_stack(tmp_path: Path) -> None:
    code = ApplicationCode()
    code.add(tmp_path, "shop")
    found = []

    def look() -> None:
        frames = code.frames(sys._getframe())
        assert frames is not None
        found.extend(code.place_of(frame) for frame in frames)

    source = "def outer(f):\n    f(inner)\n\ndef inner():\n    look()\n"
    run_as_file(tmp_path / "a.py", source, look=look)["outer"](lambda function: function())
    assert found == [Place("shop", "a.py", 2, "outer"), Place("shop", "a.py", 5, "inner")]
    assert str(found[1]) == "inner (a.py, line 5)"
    assert code.frames(sys._getframe()) is None
    assert code.place_of(sys._getframe()) is None


def test_the_innermost_place_of_an_error(tmp_path: Path) -> None:
    code = ApplicationCode()
    code.add(tmp_path, "shop")
    parse = run_as_file(tmp_path / "a.py", "def parse(text):\n    return number(text)\n", number=int)["parse"]
    try:
        parse("x")
    except ValueError as error:
        assert code.place_of_error(error) == Place("shop", "a.py", 2, "parse")
    assert code.place_of_error(ValueError()) is None
