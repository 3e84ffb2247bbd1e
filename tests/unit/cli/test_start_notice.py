"""What a start says."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svc import __version__
from svc.apps import App, EntryStatus
from svc.cli.start_notice import browser_line, findings, is_json_shown, notice, print_lines, remarks
from svc.config import Config


def server(tmp_path: Path, *, applications: list[str], operations: list[str], apps: list[App], **logging: Any) -> Any:
    mqtt = SimpleNamespace(addresses=["mqtt://*:1883"]) if apps else None
    return SimpleNamespace(
        config=Config.from_document({"logging": logging}, tmp_path),
        application_port=SimpleNamespace(addresses=applications),
        application_ports=SimpleNamespace(others=[SimpleNamespace(addresses=["http://*:9000"]), mqtt] if apps else []),
        mqtt_port=mqtt,
        operations_port=SimpleNamespace(addresses=operations),
        applications=apps,
    )


def test_addresses_are_those_that_are_bound(tmp_path: Path) -> None:
    apps = [App("shop", tmp_path / "shop"), App("other", tmp_path / "other\x1b")]
    found = server(tmp_path, applications=["http://127.0.0.1:1", "https://10.0.0.5:2"], operations=["http://[::1]:3"], apps=apps)
    assert notice(found) == [
        f"svc {__version__}  http://localhost:1/  https://10.0.0.5:2/  http://localhost:9000/  (all addresses of this machine)",
        "  operations   http://localhost:3/  (this machine only)",
        "  mqtt         mqtt://localhost:1883/",
        f"  application  shop ({tmp_path}/shop), 0 tables",
        f"  application  other ({tmp_path}/other\\x1b), 0 tables",
        f"  root         {tmp_path}",
        f"  log          {tmp_path}/log/svc.log",
    ]


def test_without_ports_and_applications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = server(tmp_path, applications=[], operations=[], apps=[], file=False)
    monkeypatch.chdir(tmp_path)
    assert notice(found, near=True)[:2] == [f"svc {__version__}  no port for applications", "  application  none in components"]
    assert notice(found)[-1] == "  log          here"
    monkeypatch.setenv("SVC_SAFE_MODE", "1")
    assert "  application  SVC_SAFE_MODE is set" in notice(found)


def test_where_a_browser_finds_the_tables(tmp_path: Path) -> None:
    shop = App("shop", tmp_path / "shop")
    found = server(tmp_path, applications=["http://127.0.0.1:1"], operations=["http://127.0.0.1:2"], apps=[shop])
    assert browser_line(found) == "Open http://localhost:1/ in a browser for the tables, http://localhost:2/ for the console"
    shop._loaded["static"] = SimpleNamespace(has_root_page=True)  # type: ignore[assignment]
    found.config = Config.from_document({"localStudio": {"enabled": False}}, tmp_path)
    assert browser_line(found) == "Open http://localhost:1/_pages/ in a browser for the tables"
    assert browser_line(server(tmp_path, applications=[], operations=[], apps=[])) == ""


def test_errors_are_counted_and_warnings_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    entries = {"graphqlSchema": EntryStatus(), "roles": EntryStatus()}
    entries["graphqlSchema"].warn("schema.graphql:1:2: odd")
    entries["roles"].fail("roles.yaml:3: wrong")
    entries["roles"].fail("wrong, too\x1b[2J")
    count, lines = findings([App("shop", tmp_path / "shop", entries=entries)])
    assert count == 2
    assert lines == [
        "shop/schema.graphql:1:2: warning: odd",
        "shop/roles.yaml:3: error: wrong",
        "shop: error: roles: wrong, too\\x1b[2J",
        *remarks([App("shop", tmp_path / "shop")]),
    ]
    assert lines[-1].startswith("shop: warning: config: there is nothing to load")


@pytest.mark.parametrize(
    ("logging", "expected"),
    [
        ({}, False),
        ({"format": "json"}, False),
        ({"format": "json", "stdStreams": True}, True),
        ({"format": "json", "file": False}, True),
        ({"stdStreams": True}, False),
    ],
)
def test_json_on_the_standard_streams_stays_json(logging: dict[str, Any], expected: bool, tmp_path: Path) -> None:
    assert is_json_shown(Config.from_document({"logging": logging}, tmp_path)) is expected


def test_a_stream_that_nothing_reads_ends_no_start() -> None:
    stream = io.StringIO()
    stream.close()
    print_lines(["a"], stream)

    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    print_lines(["a"], Broken())
