"""What the package `svc` exports, and that it does so without loading what is not asked for."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import svc
from svc.api import reference
from svc.api.instances import Instance
from svc.api.records import Record
from svc.api.results import Results
from svc.api.table import Table
from svc.api.transactions import Transaction
from tests.support.application import application

pytestmark = pytest.mark.programs

SPEC = Path(__file__).parents[2] / "docs" / "spec"
EXPORTS = {
    *("tables", "databases", "Resource", "auth", "logger", "server", "contentTypes"),
    *("sql", "mail", "content_types", "resources", "config", "transaction", "RequestTarget", "Response", "Blob", "create_blob"),
    *("get_context", "get_user", "get_response", "run_in_thread", "is_main_thread", "worker_index"),
    *("Abort", "ClientError", "ServerError", "AccessViolation", "ValidationError"),
}


def test_the_exports_are_these() -> None:
    assert set(svc.__all__) == EXPORTS
    assert len(svc.__all__) == len(EXPORTS)
    assert set(dir(svc)) == EXPORTS | {"__version__"}


def test_the_package_alone_holds_nothing_but_what_python_puts_there() -> None:
    program = (
        "import svc, sys; print(*[n for n in vars(svc) if not n.startswith('_')]); print(*[m for m in sys.modules if m.startswith('svc.')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    held, loaded = done.stdout.split("\n")[:2]
    assert set(held.split()) == {"Any", "OF_INSTANCE", "import_module"}
    assert loaded == ""


def test_every_export_can_be_imported_by_an_application(tmp_path: Path) -> None:
    with application(tmp_path, f"from svc import {', '.join(sorted(EXPORTS))}\nfrom svc import *\n") as app:
        for name in EXPORTS:
            assert getattr(app.module, name) is not None or name == "logger", name  # a node without sockets has no log


def test_what_is_not_exported_is_said_to_be_missing() -> None:
    assert not hasattr(svc, "Product")


@pytest.mark.parametrize("kind", [Table, Record, Instance, Results, Transaction, svc.RequestTarget], ids=lambda kind: kind.__name__)
def test_what_is_exported_and_what_it_gives_is_specified(kind: type) -> None:
    text = "".join((SPEC / f"{name}.md").read_text("utf-8") for name in ("applications", "caching", "realtime", "http"))
    names = {*svc.__all__, *(re.split(r"\W", shown.removeprefix("await "))[0] for shown, _ in reference._members(kind))}
    missing = [name for name in sorted(names) if not re.search(rf"\b{name}\b", text)]
    assert not missing
