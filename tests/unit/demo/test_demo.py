from __future__ import annotations

from pathlib import Path

import pytest

from svc.demo import default_directory, introduction, main
from svc.root.administrator import PASSWORD_FILE
from svc.root.lock import RootLock


def test_introduction_holds_the_password_that_was_made_up(tmp_path: Path) -> None:
    (tmp_path / PASSWORD_FILE).write_text("s3cret\n")
    text = introduction(tmp_path, 8080)
    assert "User admin, password s3cret\n" in text
    assert "curl -gu 'admin:s3cret' 'http://localhost:8080/Airline/UA'" in text


def test_introduction_says_what_a_browser_opens(tmp_path: Path) -> None:
    lines = introduction(tmp_path, 8080, [8081]).splitlines()
    assert "Open http://localhost:8080/ in a browser for the tables, http://localhost:8081/ for the console" in lines
    assert "Open http://localhost:8080/ in a browser for the tables" in introduction(tmp_path, 8080, [8081], has_console=False).splitlines()


def test_introduction_without_a_known_password(tmp_path: Path) -> None:
    text = introduction(tmp_path, 8080)
    assert "curl -gu 'admin:PASSWORD' 'http://localhost:8080/Airline/UA'" in text


def test_default_directory_is_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_directory() == Path("/caches/svc/demo")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert default_directory() == Path("/home/ann/.cache/svc/demo")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--http.prot", "1"], 'The option "--http.prot" is not understood. Did you mean --HTTP_PORT?'),
        (["--http.port"], "The option --http.port needs a value"),
        (["shop"], 'The command "demo" takes no argument "shop".'),
        (["--json"], 'The command "run" takes no option --json.'),
    ],
)
def test_options_that_are_no_settings_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["--dir", str(tmp_path / "data"), *options]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_it_takes_the_settings_of_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, str]] = []
    monkeypatch.setattr("svc.demo._serve", lambda root, settings: given.append(settings) or 0)
    monkeypatch.setattr("svc.demo.is_filled", lambda root: True)
    assert main(["--dir", str(tmp_path), "--http.port", "1", "--LOGGING_LEVEL=debug", "--http_host", "::1"]) == 0
    names = {"http_port": "1", "LOGGING_LEVEL": "debug", "http_host": "::1"}
    assert given == [{**names, "OPERATIONSAPI_NETWORK_HOST": "127.0.0.1", "HTTP_SECUREPORT": "null"}]


def test_a_demo_that_runs_already_says_how_another_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("svc.demo.is_filled", lambda root: True)
    with RootLock(tmp_path):
        assert main(["--dir", str(tmp_path)]) == 4
    assert "--dir DIRECTORY --port 8080" in capsys.readouterr().err


def test_other_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ann")
    assert main(["--dir", str(tmp_path)]) == 1
    assert "Error: " in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
