"""The trial load of an application, in its process (spec: deployment §6)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from svc.apps.findings import findings_of
from svc.apps.packages import import_ahead
from svc.deploying import trying
from svc.deploying.commands import Outcome
from svc.deploying.trying import LoadFailed, TrialRequest, TrialResult, examine, try_load
from svc.store.backup.watch import CopyStopped, Watch

pytestmark = pytest.mark.programs

CONFIG = "rest: true\nresources: resources.py\n"


last: list[TrialResult] = []


def tried(place: Path, files: dict[str, str], seconds: float = 40, watch: Watch | None = None) -> tuple[list[str], list[str]]:
    """(warnings, lines that it has printed)."""
    app = place / "shop-1"
    for name, text in files.items():
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text(text)
    said: list[str] = []
    try:
        found = try_load(TrialRequest(app, "shop"), place / "trial", watch or Watch(), said.append, seconds)
        last.append(found)
        return found.warnings, said
    finally:
        assert os.listdir(place) == ["shop-1"], "nothing is left"


def test_warnings_and_output(tmp_path: Path) -> None:
    warnings, said = tried(
        tmp_path,
        {"config.yaml": CONFIG + "graphqlSchema: none.graphql\n", "resources.py": "import os\nprint('at home', os.environ['SVC_TRIAL'])\n"},
    )
    assert any("none.graphql" in warning for warning in warnings)
    assert "at home 1" in said


def test_an_environment_file_is_read_before_the_code(tmp_path: Path) -> None:
    files = {
        "config.yaml": f"loadEnv: {{files: .env}}\n{CONFIG}",
        ".env": "SHOP_NAME=Blue\n",
        "resources.py": "import os\nassert os.environ['SHOP_NAME'] == 'Blue'\n",
    }
    assert tried(tmp_path, files)[0] == []


def test_what_the_application_imports_is_told(tmp_path: Path) -> None:
    files = {
        "config.yaml": CONFIG,
        "resources.py": "import helpers.inner\nimport antigravity_of_this_app, xmlrpc.client\n",
        "helpers/inner.py": "value = 1\n",
        ".packages/antigravity_of_this_app.py": "import wave\n",
    }
    assert tried(tmp_path, files)[0] == []
    assert {"antigravity_of_this_app", "wave", "xmlrpc", "xmlrpc.client"} <= set(last[-1].modules)
    assert not [name for name in last[-1].modules if name.startswith("svc")]
    assert sorted(last[-1].files) == ["helpers/inner.py", "resources.py"]


def test_modules_are_imported_ahead(tmp_path: Path) -> None:
    packages = tmp_path / ".packages"
    packages.mkdir()
    (packages / "ahead_of_this_app.py").write_text("value = 1\n")
    (packages / "ahead_and_ends.py").write_text("raise SystemExit\n")
    before = list(sys.path)
    import_ahead(tmp_path, ["ahead_and_ends", "no_such_module", "ahead_of_this_app"], ["none.py"])
    assert sys.path == before
    assert sys.modules.pop("ahead_of_this_app").value == 1
    assert "ahead_and_ends" not in sys.modules


def test_a_load_without_an_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="The application shop has not ended loading within 4 s"):
        tried(tmp_path, {"config.yaml": CONFIG, "resources.py": "while True:\n    pass\n"}, 4)


def test_data_that_take_longer_are_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is ended when its time is over, and has said before that the version itself is loaded."""
    statuses: dict[str, dict[str, object]] = {"rest": {"status": "warning", "messages": ["odd"], "faults": [], "unknown": []}}

    def run(command: list[str], place: Path, *arguments: object, **options: object) -> Outcome:
        (place / "loaded").write_text(json.dumps({"entries": statuses}))
        return Outcome(None, ())

    monkeypatch.setattr(trying, "run_command", run)
    assert tried(tmp_path, {"resources.py": ""})[0] == ["rest: odd", "what it starts with has not ended within 40 s"]
    statuses["rest"]["status"] = "error"
    with pytest.raises(LoadFailed, match="rest: odd"):
        tried(tmp_path, {})


def test_data_that_are_wrong_are_a_fault(tmp_path: Path) -> None:
    files = {"config.yaml": CONFIG + "dataLoader: {files: 'data/*.yaml'}\n", "data/a.yaml": "table: [", "resources.py": ""}
    with pytest.raises(LoadFailed, match=r"data/a\.yaml"):
        tried(tmp_path, files)


def test_threads_of_the_application_keep_nothing_up(tmp_path: Path) -> None:
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n"
    assert tried(tmp_path, {"config.yaml": CONFIG, "resources.py": code})[0] == []


def test_it_can_be_stopped(tmp_path: Path) -> None:
    watch = Watch()
    watch.stop()
    with pytest.raises(CopyStopped):
        tried(tmp_path, {"config.yaml": CONFIG, "resources.py": "import time\ntime.sleep(1000)\n"}, watch=watch)


def test_rules_that_no_index_serves_or_that_are_for_nobody_are_warnings(tmp_path: Path) -> None:
    app = tmp_path / "notes"
    app.mkdir()
    rules = '@allow(read: "owner==$user.username")\n @allow(roles: ["nobody"], read: "true")'
    (app / "schema.graphql").write_text(f"type Note @table @export\n {rules} {{\n id: ID @primaryKey\n owner: ID\n}}\n")
    (app / "config.yaml").write_text("graphqlSchema: true\nrest: true\n")
    found = list(findings_of(examine(TrialRequest(app, "notes"), tmp_path / "trial", Watch(), lambda line: None).entries, app))
    assert [(finding.is_fault, finding.file, finding.line) for finding in found] == [
        (False, "schema.graphql", 2),
        (False, "schema.graphql", 3),
    ]
    assert "no index serves the rule" in found[0].message and "the role nobody, which does not exist" in found[1].message


def test_faults_and_warnings_are_told_apart(tmp_path: Path) -> None:
    """What `svc check-app` prints."""
    app = tmp_path / "shop"
    app.mkdir()
    schema = "type Plant @table @exprot {\n id: ID @primaryKey\n height: Itn\n width: Int @indexed(tpye: 1)\n depth: Int @sealed\n}\n"
    (app / "schema.graphql").write_text(schema)
    (app / "config.yaml").write_text("graphqlSchema: true\nroles: true\nstatci: {files: web}\n")
    (app / "roles.yaml").write_text("reader: {data: {Plnt: {read: true}}}\n")
    found = examine(TrialRequest(app, "shop"), tmp_path / "trial", Watch(), lambda line: None)
    assert [(finding.is_fault, finding.file, finding.line) for finding in findings_of(found.entries, app)] == [
        (False, "schema.graphql", 1),
        (False, "schema.graphql", 4),
        (False, "schema.graphql", 5),
        (False, "schema.graphql", 3),
        (True, "roles.yaml", 1),
        (False, "config.yaml", 3),
    ]
    checked = [finding for finding in findings_of(found.entries, app, checks_names=True) if not finding.is_fault]
    assert [finding.message for finding in checked] == ["the directive @sealed has no effect here"]
    assert os.listdir(tmp_path) == ["shop"]


def test_what_an_application_before_has_claimed_is_a_fault(tmp_path: Path) -> None:
    for name, height in (("shop", "Int"), ("blog", "String")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "schema.graphql").write_text(f"type Plant @table @export {{ id: ID @primaryKey height: {height} }}")
    request = TrialRequest(tmp_path / "blog", "blog", before={"shop": tmp_path / "shop"})
    found = examine(request, tmp_path / "trial", Watch(), lambda line: None)
    messages = [finding.message for finding in findings_of(found.entries, tmp_path / "blog") if finding.is_fault]
    assert messages == ["Plant.height is declared differently by another declaration of the table"]
