"""`.ci/audit.py`: what it makes of the answers of pip-audit. Nothing is asked of a network."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RELEASES = {"h11": "0.16.0", "jinja2": "3.1.2", "lmdb": "1.6"}


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


audit = load()


class Service:
    """Answers as pip-audit does: None where it ends without a report. `asked`: what it was asked about."""

    def __init__(self, **reports: list[dict[str, Any]] | None) -> None:
        self._reports = reports
        self.asked: list[tuple[str, list[str]]] = []

    def __call__(self, service: str, releases: Mapping[str, str]) -> Any:
        self.asked.append((service, list(releases)))
        found = self._reports.get(service)
        return None if found is None else {"dependencies": found, "fixes": []}


def known(name: str, *vulns: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "version": "1", "vulns": list(vulns)}


def unknown(name: str) -> dict[str, Any]:
    return {"name": name, "skip_reason": f"Dependency not found on PyPI and could not be audited: {name}"}


FAULT = {"id": "PYSEC-1", "aliases": ["CVE-2", "GHSA-3"], "fix_versions": ["3.1.6"], "description": "..."}


@pytest.fixture
def releases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "installed", lambda root: dict(RELEASES))


@pytest.mark.usefixtures("releases")
def test_a_known_fault_fails(capsys: pytest.CaptureFixture[str]) -> None:
    service = Service(pypi=[known("h11"), known("Jinja2", FAULT, {"id": "X", "fix_versions": []}), known("lmdb")])
    assert audit.main([], service) == 1
    assert capsys.readouterr().out.splitlines() == [
        "jinja2 3.1.2: PYSEC-1, CVE-2, GHSA-3; repaired in 3.1.6",
        "jinja2 3.1.2: X; no release repairs it",
        "3 of 3 releases were looked up, and 2 faults found.",
    ]
    assert service.asked == [("pypi", list(RELEASES))]


@pytest.mark.usefixtures("releases")
def test_what_one_service_does_not_know_is_asked_of_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    service = Service(pypi=[known("h11"), unknown("jinja2"), unknown("lmdb")], osv=[known("jinja2", FAULT), known("lmdb")])
    assert audit.main([], service) == 1
    assert service.asked == [("pypi", list(RELEASES)), ("osv", ["jinja2", "lmdb"])]
    assert "3 of 3 releases" in capsys.readouterr().out


@pytest.mark.usefixtures("releases")
@pytest.mark.parametrize("report", [None, [unknown(name) for name in RELEASES]], ids=["no network", "an index without data"])
def test_data_that_cannot_be_reached_fails_nothing_and_is_not_called_a_success(
    report: list[dict[str, Any]] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.main([], Service(pypi=report)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "0 of 3 releases were looked up, and no faults found.",
        "NOT AUDITED, because no data could be reached: h11 0.16.0, jinja2 3.1.2, lmdb 1.6",
    ]
    assert audit.main(["--strict"], Service(pypi=report)) == 2


@pytest.mark.usefixtures("releases")
def test_a_fault_counts_though_the_rest_is_not_known() -> None:
    assert audit.main(["--strict"], Service(pypi=[known("jinja2", FAULT)])) == 1


class Distribution:
    def __init__(self, name: str, version: str, requires: list[str], extras: list[str] | None = None) -> None:
        self.metadata = Metadata({"Name": name}, extras or [])
        self.version, self.requires = version, requires


class Metadata(dict[str, str]):
    def __init__(self, values: dict[str, str], extras: list[str]) -> None:
        super().__init__(values)
        self._extras = extras

    def get_all(self, name: str) -> list[str] | None:
        return self._extras or None


def test_what_an_installation_has(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [
        Distribution(
            "svc", "0", ["A.b>=1", "gone; python_version < '3'", "tool; extra == 'test'", "opt; extra == 'otel'"], ["test", "otel"]
        ),
        Distribution("a-b", "1", ["c", "more; extra == 'x'"], ["x"]),
        Distribution("C", "2", []),
        Distribution("opt", "3", ["c"]),
        Distribution("more", "4", []),
        Distribution("tool", "5", []),
    ]
    monkeypatch.setattr(audit.metadata, "distributions", lambda: iter(there))
    assert audit.installed() == {"a-b": "1", "c": "2", "opt": "3"}
    assert audit.installed(None) == {"a-b": "1", "c": "2", "more": "4", "opt": "3", "tool": "5"}
    del there[0]
    with pytest.raises(SystemExit, match="svc is not installed"):
        audit.installed()


def test_the_report_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    class Done:
        stdout = ""

    def run(command: list[str], **options: Any) -> Done:
        ran.append(command)
        assert Path(command[command.index("--requirement") + 1]).read_text() == "h11==0.16.0\njinja2==3.1.2\nlmdb==1.6\n"
        if len(ran) == 1:
            Path(command[-1]).write_text(json.dumps({"dependencies": []}))
        elif len(ran) == 3:
            Done.stdout = "python: No module named pip_audit"
        return Done()

    monkeypatch.setattr(audit.subprocess, "run", run)
    assert audit.ask_pip_audit("pypi", RELEASES) == {"dependencies": []}
    assert audit.ask_pip_audit("osv", RELEASES) is None
    with pytest.raises(SystemExit, match="pip-audit is missing"):
        audit.ask_pip_audit("pypi", RELEASES)
