"""svc.apps.data_lines: on which line each record of a file begins, however the file is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from svc.apps import data_lines
from svc.apps.data_lines import record_lines

values = st.recursive(
    st.none() | st.integers() | st.text("a\n\"'{}[]:,- #ä", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["records", "b", "c"]), inner, max_size=3),
    max_leaves=6,
)
files = st.fixed_dictionaries({"a": values, "records": st.lists(values, max_size=5), "z": values})


def lines_of(tmp_path: Path, name: str, text: str) -> list[int]:
    path = tmp_path / name
    path.write_text(text, newline="")
    return record_lines(path)


@given(files, st.sampled_from([None, 0, 3]))
def test_json(tmp_path_factory: pytest.TempPathFactory, found: dict[str, Any], indent: int | None) -> None:
    found = found | {"records": [f"mark{number}" for number in range(len(found["records"]))]}
    text = json.dumps(found, indent=indent)
    expected = [text[: text.index(f'"{mark}"')].count("\n") + 1 for mark in found["records"]]
    assert lines_of(tmp_path_factory.getbasetemp(), "t.json", text) == expected


@given(files, st.booleans())
def test_json_and_yaml_agree_on_the_number(tmp_path_factory: pytest.TempPathFactory, found: dict[str, Any], flow: bool) -> None:
    base = tmp_path_factory.getbasetemp()
    assert len(lines_of(base, "t.json", json.dumps(found))) == len(found["records"])
    text = yaml.safe_dump(found, default_flow_style=flow, sort_keys=False)
    if "&" not in text:
        lines = lines_of(base, "t.yaml", text)
        assert len(lines) == len(found["records"]) and lines == sorted(lines)


def test_forms(tmp_path: Path) -> None:
    assert lines_of(tmp_path, "a.json", '\ufeff{\n"records": [\n\n {"records": [1]},\r\n 2\n ,3]\n}') == [4, 5, 6]
    assert lines_of(tmp_path, "a.json", '{"records": [1],\n"records":\n[2\n,3]}') == [3, 4]
    text = "# records\nrecords:\n  # first\n  - id: 1\n    records: [a, b]\n  -\n    id: 2\n  - &x\n    id: 3\n  - *x\ntable: t\nx: [records]\n"
    assert lines_of(tmp_path, "a.yml", text) == [4, 7, 8, 10]
    assert lines_of(tmp_path, "a.yaml", "{table: [1, 2], records: [{id: 1},\n {id: 2}], z: [3]}") == [1, 2]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"records": {"a": 1}}', '{"records": [1', '{"records"', '{"a": 1 "records": []}', "[" * 100_000, "\x00"]
)
def test_what_has_no_records_has_no_lines(tmp_path: Path, text: str) -> None:
    assert lines_of(tmp_path, "a.json", text) == []
    if "[1" not in text:
        assert lines_of(tmp_path, "a.yaml", text) == []


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert record_lines(tmp_path / "none.json") == []
    (tmp_path / "b.json").write_bytes(b'{"records": ["\xff"]}')
    assert record_lines(tmp_path / "b.json") == []
    monkeypatch.setattr(data_lines, "LARGEST", 20)
    assert lines_of(tmp_path, "c.json", '{"records": [1, 2]}') == [1, 1]
    assert lines_of(tmp_path, "c.json", '{"records": [1, 2]}  ') == []
