"""`svc config set` and `unset`: what they change, what they say, and what they refuse."""

import os
from pathlib import Path

import pytest

from svc.cli import main
from svc.config.document import read_document

FILE = """\
# of the shop
rootPath: /elsewhere
http:
  port: 9926 # behind the proxy
log_level: info
logging:
  file: true
"""


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.upper().startswith(("SVC_", "HTTP_", "LOGGING_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ROOTPATH", str(tmp_path))
    file = tmp_path / "svc-config.yaml"
    file.write_text(FILE)
    return file


def copies(file: Path) -> list[str]:
    return [copy.read_text() for copy in (file.parent / "backup").glob("*.bak")]


def test_values_are_set_and_comments_kept(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "set", "http.port", "8080", "logging_file=false", "ANALYTICS.aggregatePeriod=-1"]) == 0
    captured = capsys.readouterr()
    assert captured.out == (
        "http.port: 9926 -> 8080\nlogging.file: true -> false\nanalytics.aggregatePeriod: default -> -1\nIt counts from the next start on.\n"
    )
    assert captured.err == ""
    assert file.read_text() == FILE.replace("9926", "8080").replace("true", "false") + "analytics:\n  aggregatePeriod: -1\n"
    assert copies(file) == [FILE]


def test_values_go(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "unset", "http_port", "logging.level", "mqtt.network.port"]) == 0
    assert capsys.readouterr().out == 'http.port: 9926 -> default\nlog_level: "info" -> default\nIt counts from the next start on.\n'
    assert read_document(file) == {"rootPath": "/elsewhere", "logging": {"file": True}}
    assert file.read_text() == "# of the shop\nrootPath: /elsewhere\nlogging:\n  file: true\n"


def test_nothing_to_change(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "set", "http.port", "9926"]) == 0
    assert main(["config", "unset", "http.cors"]) == 0
    assert capsys.readouterr().out == f"{file}: nothing to change\n" * 2
    assert not copies(file)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["set"], "svc config set takes names and values"),
        (["set", "http.port"], "http.port needs a value"),
        (["set", "http.port", "1", "logging.level", "loud"], "'logging.level' must be one of"),
        (["set", "http.port=9927"], "http.port and http.securePort cannot be the same value"),
        (["set", "http.prot", "1"], "did you mean"),
        (["set", "rootPath", "/x"], "'rootPath' cannot be changed"),
        (["set", "--HTTP_PORT", "1", "http.port", "2"], "--HTTP_PORT is for starting the server"),
        (["set", "--json", "http.port", "2"], "takes no option --json"),
        (["unset"], "svc config unset takes the names"),
        (["unset", "http.prot"], "unknown setting http.prot, did you mean 'http.port'?"),
    ],
)
def test_what_is_wrong_changes_nothing(words: list[str], text: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", *words]) == 1
    assert text in capsys.readouterr().err
    assert file.read_text() == FILE and not copies(file)


def test_a_variable_that_beats_the_file_is_named(file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PORT", "7")
    assert main(["config", "set", "http.port", "8080"]) == 0
    assert capsys.readouterr().err == "Warning: the environment variable HTTP_PORT beats the file for what is started with it\n"
    assert read_document(file)["http"]["port"] == 8080


def test_a_running_server_is_told_apart(file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.root.lock.running_pid", lambda root: 1)
    assert main(["config", "set", "http.port", "8080", "logging.file", "false"]) == 0
    assert capsys.readouterr().out.endswith("\nThe server goes on with its present values until svc restart: http.port\n")
    assert main(["config", "set", "logging.file", "true"]) == 0
    assert capsys.readouterr().out.endswith("\nThe server takes it over within 5 seconds.\n")


def test_a_file_that_cannot_be_read(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("http: [\n")
    assert main(["config", "set", "http.port", "8080"]) == 1
    assert capsys.readouterr().err.startswith(f"svc config file validation error: {file} line 2")
    assert file.read_text() == "http: [\n"
