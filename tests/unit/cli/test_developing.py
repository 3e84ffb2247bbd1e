"""`svc new` and `svc types`."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc.cli import FAILED, main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_new_application_is_made_and_what_to_do_next_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "shop"]) == 0
    said = capsys.readouterr().out
    assert "  shop/resources.py\n" in said
    assert "svc dev ." in said
    assert said.endswith("svc new NAME --accounts: with people who sign up\n")
    assert (here / "shop" / ".gitignore").exists()
    assert main(["types", "shop"]) == 0
    assert capsys.readouterr().out == "shop/typings/svc is up to date\n2 tables\n"


def test_one_with_accounts_is_made_where_it_is_wanted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "shop", "--accounts"]) == 0
    said = capsys.readouterr().out
    assert "  shop/tests/test_accounts.py\n" in said
    assert "http://localhost:9926/dev/mail" in said
    assert main(["types", "shop"]) == 0
    assert capsys.readouterr().out == "shop/typings/svc is up to date\n3 tables\n"


def test_nothing_is_overwritten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "shop").mkdir()
    (here / "shop" / "config.yaml").write_text("mine")
    assert main(["new", "shop"]) == FAILED
    assert capsys.readouterr().err == "Error: shop exists already; nothing was changed\n"
    assert [path.name for path in (here / "shop").iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    "words", [["new"], ["new", "a", "b"], ["new", "a/b"], ["new", ".."], ["new", "a", "--typescript"], ["new", "a", "--x=y"]]
)
def test_what_is_no_name_is_refused(here: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == FAILED
    assert capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_stubs_are_written_and_mypy_is_told_where(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "schema.graphql").write_text("type A @table { id: ID @primaryKey x: Unknown }")
    assert main(["types"]) == 0
    out, err = capsys.readouterr()
    assert "wrote typings/svc/_schema.pyi" in out
    assert "\n1 table\n" in out
    assert "mypy_path" in out
    assert "Unknown" in err
    (here / "pyproject.toml").write_text('[tool.mypy]\nmypy_path = "typings"\n')
    assert main(["types", "."]) == 0
    assert capsys.readouterr().out == "typings/svc is up to date\n1 table\n"


def test_a_faulty_schema_is_said_with_its_place(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "schema.graphql").write_text("type A @table {\n  id: [\n}")
    assert main(["types"]) == FAILED
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Error: schema.graphql:3:")
    assert not (here / "typings").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["types", "a", "b"],
        ["types", "missing"],
        ["types", "out=x.ts"],
        ["types", "--typescript", "out="],
        ["types", "--https"],
        ["types", "--accounts"],
    ],
)
def test_what_cannot_be_meant_is_refused(here: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == FAILED
    assert capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_types_for_typescript_go_where_they_are_wanted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "schema.graphql").write_text("type A @table @export { id: ID @primaryKey }")
    assert main(["types", "--typescript"]) == 0
    assert (here / "svc-client.ts").exists()
    assert main(["types", ".", "--typescript", "out=web/src/client.ts"]) == 0
    assert "wrote web/src/client.ts" in capsys.readouterr().out
    assert (here / "web/src/client.ts").read_bytes() == (here / "svc-client.ts").read_bytes()
    assert not (here / "typings").exists()
