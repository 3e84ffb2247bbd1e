"""The scripts complete in the shells they are for, as far as these are installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from svc.cli import COMMANDS, main
from svc.cli.completion import HOW, script
from svc.operations.registry import all_operations
from tests.support.cli import ROW

pytestmark = pytest.mark.programs


def bash(*words: str, rows: tuple[object, ...] = (ROW,)) -> list[str]:
    """What bash offers for the last word. `name=value` are three words to it."""
    assert shutil.which("bash")
    quoted = " ".join(f"'{word}'" for word in words)
    program = f"""
{script("bash", COMMANDS, rows)}
compopt() {{ :; }}
COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
_svc
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_and_operations() -> None:
    assert bash("svc", "pai") == ["paint"]
    assert bash("svc", "re") == ["restart", "revoke", "renew-certs"]
    assert {command.name for command in COMMANDS} | {"paint", "coat"} == set(bash("svc", ""))
    assert bash("svc", "help", "pai") == ["paint"]
    assert bash("svc", "config", "") == ["check", "show", "set", "unset"]
    assert bash("svc", "completion", "z") == ["zsh"]
    assert bash("svc", "paint", "--in") == ["--insecure"]


def test_bash_completes_fields_and_what_they_may_be() -> None:
    assert bash("svc", "paint", "w") == ["wall=", "windows=", "wait="]
    assert bash("svc", "coat", "co") == ["colour=", "coats="]
    assert bash("svc", "paint", "colour", "=") == ["red", "blue"]
    assert bash("svc", "paint", "colour", "=", "b") == ["blue"]
    assert bash("svc", "paint", "colour=r") == ["red"]
    assert bash("svc", "paint", "dry", "=", "") == ["true", "false"]
    assert bash("svc", "paint", "wall", "=", "x") == []
    assert bash("svc", "paint", "json", "=", "f") == ["false"]


def test_bash_completes_folders_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "apps").mkdir()
    (tmp_path / "apple.tar").touch()
    monkeypatch.chdir(tmp_path)
    for command in ("run", "dev", "types", "deploy", "package"):
        assert bash("svc", command, "ap") == ["apps"]
    assert set(bash("svc", "paint", "out", "=", "ap")) == {"apps", "apple.tar"}


def test_bash_completes_the_fields_that_a_command_takes() -> None:
    rows = all_operations()
    assert {"project=", "package=", "restart=", "target="} <= set(bash("svc", "deploy", "", rows=rows))
    assert "payload=" not in bash("svc", "deploy", "", rows=rows)
    assert "skip_symlinks=" in bash("svc", "package", "skip", rows=rows)
    assert bash("svc", "types", "o") == ["out="]


@pytest.mark.parametrize("shell", HOW)
def test_every_script_is_understood_by_its_shell(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert text == script(shell, COMMANDS, all_operations())
    for row in all_operations():
        assert row.name in text
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(text)
    assert subprocess.run([shell, "-n", str(file)], capture_output=True, text=True, check=False).stderr == ""


@pytest.mark.parametrize("line", [["completion"], ["completion", "tcsh"], ["completion", "bash", "zsh"]])
def test_other_shells_are_refused_with_the_way_to_switch_it_on(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert 'eval "$(svc completion bash)"' in captured.err
