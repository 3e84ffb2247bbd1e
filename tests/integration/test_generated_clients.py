"""Clients that are generated from `/openapi?json`: they compile, and do all that they have functions for with the real server.

`generated/use.py` and `generated/use.ts` are the programs that use them. They end at the first thing that is not so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.npm import LIMIT, NODE, needs_node, node_packages

pytestmark = pytest.mark.programs

GENERATED = Path(__file__).parent / "generated"
GENERATOR = Path(sys.executable).with_name("openapi-python-client")
STRICT = [
    *("--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.iterable"),
    *(
        "--noUncheckedIndexedAccess",
        "--exactOptionalPropertyTypes",
        "--verbatimModuleSyntax",
        "--allowImportingTsExtensions",
        "--skipLibCheck",
    ),
]


def run(directory: Path, *command: str, **environment: str) -> str:
    """What a command has written. It must succeed."""
    given = {**os.environ, **environment}
    done = subprocess.run(command, cwd=directory, env=given, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(tmp_path_factory.mktemp("generated") / "root", GENERATED).start()
    yield process
    assert process.stop() == 0, process.output()


@pytest.fixture(scope="module")
def document(process: Process, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the document."""
    path = tmp_path_factory.mktemp("document") / "shop.json"
    with process.client() as http:
        response = http.get("/openapi?json")
    assert response.status_code == 200, response.text
    path.write_bytes(response.content)
    return path


@pytest.fixture(scope="module")
def operations_file(process: Process, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the document of the operations."""
    path = tmp_path_factory.mktemp("operations") / "operations.json"
    response = httpx.get(f"{process.operations_url}/api/openapi/operations", auth=("admin", PASSWORD))
    assert response.status_code == 200, response.text
    path.write_bytes(response.content)
    return path


@pytest.fixture
def empty(process: Process) -> Process:
    """The server without records."""
    with process.client() as http:
        for table in ("Product", "Brand", "shop/orders"):
            assert http.delete(f"/{table}/").status_code == 204
    return process


@pytest.mark.skipif(not GENERATOR.exists(), reason="openapi-python-client is not installed")
def test_openapi_python_client(empty: Process, document: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("post_hooks: []\n")  # it would be formatted
    generate = [
        "generate",
        "--path",
        str(document),
        "--output-path",
        str(tmp_path / "shop_client"),
        "--meta",
        "none",
        "--config",
        str(config),
    ]
    said = run(tmp_path, str(GENERATOR), *generate)
    assert "Warning" not in said and "Error" not in said, said
    shutil.copy(GENERATED / "use.py", tmp_path)
    run(tmp_path, sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache"), "use.py")
    run(tmp_path, sys.executable, "use.py", empty.url, PASSWORD)


@needs_node
def test_openapi_typescript_and_openapi_fetch(
    empty: Process, document: Path, operations_file: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    packages = node_packages(tmp_path_factory) / "node_modules"
    (tmp_path / "node_modules").symlink_to(packages)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(GENERATED / "use.ts", tmp_path)
    node = NODE or ""
    generator = str(packages / "openapi-typescript" / "bin" / "cli.js")
    run(tmp_path, node, generator, str(document), "-o", "shop.ts")
    run(tmp_path, node, generator, str(operations_file), "-o", "operations.ts")
    run(tmp_path, node, str(packages / "typescript" / "bin" / "tsc"), *STRICT, "use.ts")
    run(tmp_path, node, "--no-warnings", "use.ts", empty.url, empty.operations_url, PASSWORD)
