"""docs/types.md, done as it says: the commands print what is shown, and the code is right to the checkers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from svc.cli import main
from tests.integration.test_types import mypy, pyright
from tests.integration.test_typescript import compiled, compiler  # noqa: F401 - a fixture

pytestmark = pytest.mark.programs

PAGE = (Path(__file__).parents[2] / "docs" / "types.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "shop"]) == 0
    return tmp_path / "shop"


def test_commands_print_what_is_shown(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, *others = [part for block in blocks("console") for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    command, _, shown = made.partition("\n")
    assert command == "svc new shop >/dev/null; ls shop"
    assert sorted(path.name for path in shop.iterdir() if not path.name.startswith(".")) == sorted(shown.split())
    capsys.readouterr()
    for example in others:
        command, _, shown = example.partition("\n")
        program, *words = command.split()
        assert program == "svc"
        assert main(words) == 0
        assert capsys.readouterr().out.strip() == shown.strip()
    assert len(others) == 2


@pytest.mark.parametrize("check", [mypy, pyright])
def test_the_code_is_right(shop: Path, check: object) -> None:
    (code,) = blocks("py")
    (shop / "page.py").write_text(code)
    marked: dict[str, set[int]] = {}
    for number, (right, wrong) in enumerate((("[task.title ", "[task.titel "), ('"done", "value"', '"don", "value"'))):
        faulty = code.replace(right, wrong)
        (shop / f"wrong{number}.py").write_text(faulty)
        marked[f"wrong{number}.py"] = {at for at, line in enumerate(faulty.splitlines(), 1) if wrong in line}
    found = check(shop, "page.py", *marked)  # type: ignore[operator]
    assert found.keys() == marked.keys(), found
    assert all(marked[name] and found[name] >= marked[name] for name in marked), (found, marked)


def test_the_code_of_typescript_is_right(shop: Path, compiler: list[str]) -> None:  # noqa: F811
    assert main(["types", "--typescript", "shop", "out=shop/client.ts"]) == 0
    (shop / "page.ts").write_text(blocks("ts")[0])
    (shop / "package.json").write_text('{"type": "module"}')
    (shop / "node.d.ts").write_text("")
    assert compiled(compiler, shop, "page.ts") == {}
