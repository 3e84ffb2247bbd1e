"""The typed attributes agree with the table of settings."""

import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from svc.config import SETTINGS, Config, Setting
from svc.config.hosts import HostPattern, Network
from svc.config.sections import Fields, Section, Switch
from svc.config.settings import attribute_name

TYPES: Mapping[str, Any] = {
    "bool": bool, "number": float, "integer": int, "size": int, "rotation size": int, "rotation interval": int, "port": int, "string": str,
    "choice": str, "level": str, "list": tuple[Any, ...], "strings": tuple[str | None, ...], "path": Path, "paths": tuple[Path, ...],
    "hosts": tuple[HostPattern, ...], "addresses": tuple[str, ...], "networks": tuple[Network, ...],
    "duration": float, "mapping": Fields, "switch": Switch, "any": Any,
}  # fmt: skip

ROWS = [row for row in SETTINGS if "." in row.name and "<" not in row.name]


def section_type(row: Setting) -> type[Section]:
    hints = typing.get_type_hints(Config)
    first, *parts = [attribute_name(part) for part in row.name.split(".")[:-1]]
    found = next(kind for kind in (typing.get_args(hints[first]) or (hints[first],)) if kind is not types.NoneType)
    for part in parts:
        found = found.__annotations__[part]
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_setting_has_an_attribute_of_the_type_of_its_kind(row: Setting) -> None:
    declared = section_type(row).__annotations__[attribute_name(row.name.rpartition(".")[2])]
    expected = TYPES[row.kind]
    assert declared in (expected, expected if expected is Any else expected | None)
    if row.null:
        assert declared is Any or types.NoneType in typing.get_args(declared)


def iter_leaves(section: Section, path: str) -> Iterator[tuple[str, Any]]:
    for name, value in vars(section).items():
        if isinstance(value, Section):
            yield from iter_leaves(value, f"{path}.{name}")
        else:
            yield f"{path}.{name}", value


def test_the_attributes_are_the_settings_and_hold_their_values(tmp_path: Path) -> None:
    config = Config.from_document({"replication": {"hostname": "a"}, "http": {"port": 1}}, tmp_path)
    found = dict(leaf for name, value in vars(config).items() if isinstance(value, Section) for leaf in iter_leaves(value, name))
    expected = {".".join(map(attribute_name, row.name.split("."))): config.values[row.name] for row in ROWS}
    assert found == expected


def test_a_section_is_read_only_and_shows_its_values(tmp_path: Path) -> None:
    query = Config.from_document({}, tmp_path).query
    with pytest.raises(AttributeError, match="read-only"):
        query.max_bytes = 1
    assert repr(query) == f"QuerySection(max_related_rows={query.max_related_rows}, max_bytes={query.max_bytes}, max_time={query.max_time})"
