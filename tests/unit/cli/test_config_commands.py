"""`svc config check` and `show`: what a start would see, without writing."""

import json
import os
from pathlib import Path

import pytest

from svc.cli import main
from svc.config.document import write_document


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.upper().startswith(("SVC_", "HTTP_", "LOGGING_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ROOTPATH", str(tmp_path))
    write_document(tmp_path / "svc-config.yaml", {"http": {"port": 8080}})
    return tmp_path


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, tuple[object, str]]:
    assert main(["config", "show", *words]) == 0
    return {row["name"]: (row["value"], row["source"]) for row in json.loads(capsys.readouterr().out)}


def test_what_cannot_be_started_is_a_fault(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_document(root / "svc-config.yaml", {"instances": 0})
    assert main(["config", "check"]) == 1
    assert capsys.readouterr().err.startswith("error: 'instances' must be")


def test_a_good_file(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert main(["config", "check"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (f"{root / 'svc-config.yaml'}: fine\n", "")
    assert main(["config", "check", "--HTTP_PORT", "1234"]) == 0
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_faults_have_a_place_and_all_are_told(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "svc-config.yaml").write_text("http:\n  port: x\nlogging:\n  level: loud\n")
    assert main(["config", "check"]) == 1
    captured = capsys.readouterr()
    first, second = captured.err.splitlines()
    assert first.startswith("error: 'http.port' must be a port") and first.endswith("(svc-config.yaml line 2)")
    assert second.startswith("error: 'logging.level' must be one of") and second.endswith("(svc-config.yaml line 4)")
    assert captured.out == ""
    (root / "svc-config.yaml").write_text("{}\n")
    monkeypatch.setenv("HTTP_PORT", "x")
    assert main(["config", "check"]) == 1
    assert "(environment variable HTTP_PORT)" in capsys.readouterr().err


def test_misspelt_settings_are_warned_of(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "svc-config.yaml").write_text("http:\n  prot: 1\n")
    assert main(["config", "check"]) == 0
    assert (
        capsys.readouterr().err == "warning: Unknown setting 'http.prot' is ignored, did you mean 'http.port'? (svc-config.yaml line 2)\n"
    )


@pytest.mark.parametrize("text", ["http: [", "- 1\n", "a: b: c\n"])
def test_a_file_that_is_no_mapping(root: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "svc-config.yaml").write_text(text)
    assert main(["config", "check"]) == 1
    assert capsys.readouterr().err.startswith("error: ")
    assert main(["config", "show"]) == 1
    assert capsys.readouterr().err.startswith("svc config file validation error: ")


def test_another_file(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = root / "other.yaml"
    other.write_text("http:\n  port: x\n")
    assert main(["config", "check", str(other)]) == 1
    assert "(other.yaml line 2)" in capsys.readouterr().err
    assert main(["config", "check", str(root / "nowhere.yaml")]) == 1
    assert "does not exist" in capsys.readouterr().err


def test_values_and_their_sources(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_TIMEOUT", "5000")
    monkeypatch.setenv("SVC_SET_CONFIG", '{"mqtt": {"network": {"port": 1884}}}')
    found = rows(capsys, "--LOGGING_LEVEL=debug")
    assert found["http.port"] == (8080, "svc-config.yaml line 2")
    assert found["http.timeout"] == (5000, "environment variable HTTP_TIMEOUT")
    assert found["logging.level"] == ("debug", "option --LOGGING_LEVEL")
    assert found["mqtt.network.port"] == (1884, "SVC_SET_CONFIG")
    assert found["http.securePort"] == (9927, "default")
    assert found["logging.auditRetention"] == ("3d", "default")
    assert found["operationsApi.network.timeout"] == (5000, "default: http.timeout")
    assert found["storage.path"] == (str(root / "database"), "default")
    assert set(rows(capsys, "http.p")) == {"http.port"}
    assert set(rows(capsys, "http_port")) == {"http.port"}
    assert main(["config", "show", "colour"]) == 1
    assert 'No setting begins with "colour"' in capsys.readouterr().err


def test_secrets_of_components_are_not_shown(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "svc-config.yaml").write_text("shop:\n  package: x\n  apiKey: hush\n  nested:\n    password: hush\n")
    assert rows(capsys, "shop") == {"shop": ({"package": "x", "apiKey": "***", "nested": {"password": "***"}}, "svc-config.yaml line 1")}


@pytest.mark.parametrize("line", [["config"], ["config", "chek"], ["config", "check", "a", "b"], ["config", "show", "a", "b"]])
def test_other_words_are_refused(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 1
    assert "svc config" in capsys.readouterr().err


def test_without_an_installation(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOTPATH", str(tmp_path / "empty"))
    for line in (["config", "check"], ["config", "show"], ["renew-certs"], ["copy-db", "data", "x"], ["upgrade"]):
        assert main(line) == 1
        assert "svc is not installed" in capsys.readouterr().err
