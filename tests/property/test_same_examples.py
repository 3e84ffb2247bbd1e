"""The default profile tries the same at every run, whatever has been imported before."""

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.profile import NIGHTLY


def drawn() -> list[tuple[int, str]]:
    seen: list[tuple[int, str]] = []

    @given(st.integers(), st.text())
    def see(number: int, text: str) -> None:
        seen.append((number, text))

    see()
    return seen


@pytest.mark.skipif(NIGHTLY, reason="draws at random")
def test_constants_of_loaded_modules_are_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "tests" in tmp_path.parts, "another directory was chosen with --basetemp"
    before = drawn()
    path = tmp_path / "constants.py"
    path.write_text("".join(f"C{number} = {123456789 + number}, 'text {number}'\n" for number in range(100)))
    spec = importlib.util.spec_from_file_location("constants_of_a_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "constants_of_a_test", module)
    spec.loader.exec_module(module)
    assert drawn() == before
