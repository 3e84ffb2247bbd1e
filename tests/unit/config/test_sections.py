"""svc.config.sections: what is declared of each setting, and what the configuration holds."""

import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from svc.config import SETTINGS, Config, Setting
from svc.config.hosts import HostPattern, Network
from svc.config.sections import Fields, Section, Settings, Switch, _section_in, declared

TYPES: Mapping[str, Any] = {
    "bool": bool, "number": float, "integer": int, "size": int, "rotation size": int, "rotation interval": int, "port": int, "string": str, "table": str,
    "choice": str, "level": str, "list": tuple[Any, ...], "strings": tuple[str | None, ...], "path": Path, "paths": tuple[Path, ...],
    "hosts": tuple[HostPattern, ...], "addresses": tuple[str, ...], "networks": tuple[Network, ...],
    "duration": float, "mapping": Fields, "switch": Switch, "any": Any,
    "mailbox": tuple[str, str],
}  # fmt: skip


def lines(kind: type[Section], path: str = "") -> Iterator[tuple[str, Setting, Any]]:
    """Path of the attribute, the setting that is declared there, and its type."""
    for name, annotation in kind.__annotations__.items():
        inner = _section_in(annotation)
        if inner is not None:
            yield from lines(inner, f"{path}{name}.")
        else:
            yield f"{path}{name}", vars(kind)[name], annotation


LINES = list(lines(Settings))


@pytest.mark.parametrize(("row", "declared"), [line[1:] for line in LINES], ids=[path for path, _, _ in LINES])
def test_the_type_is_that_of_the_kind(row: Setting, declared: Any) -> None:
    expected = TYPES[row.kind]
    assert declared in (expected, expected if expected is Any else expected | None)
    if row.null:
        assert declared is Any or types.NoneType in typing.get_args(declared)


def iter_leaves(section: Section, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in vars(section).items():
        if isinstance(value, Section):
            yield from iter_leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def test_the_attributes_are_the_settings_and_hold_their_values(tmp_path: Path) -> None:
    mail = {"host": "smtp.example.org", "from": "shop@example.org"}
    config = Config.from_document({"replication": {"hostname": "a"}, "http": {"port": 1}, "mail": mail}, tmp_path)
    found = {name: value for name, value in iter_leaves(config) if name in dict.fromkeys(path for path, _, _ in LINES)}
    names = [row.name for row in declared(Settings)]
    assert found == {path: config.values[name] for (path, _, _), name in zip(LINES, names, strict=True)}
    assert {"http.port": 1, "replication.hostname": "a"}.items() <= found.items()


def test_names_of_the_file_follow_from_those_of_the_attributes() -> None:
    names = [row.name for row in declared(Settings)]
    assert {"http.corsAccessList", "authentication.cacheTTL", "operationsApi.network.http2", "replication.enableRootCAs"} <= set(names)
    assert [row.name for row in SETTINGS] == [*names, "databases.<db>.path"]


def test_a_section_is_read_only_and_shows_its_values(tmp_path: Path) -> None:
    query = Config.from_document({}, tmp_path).query
    with pytest.raises(AttributeError, match="read-only"):
        query.max_bytes = 1
    assert repr(query) == f"QuerySection(max_related_rows={query.max_related_rows}, max_bytes={query.max_bytes}, max_time={query.max_time})"
