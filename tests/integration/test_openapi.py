"""The OpenAPI document is true: whatever a request that it allows, or forbids, is answered as it says.

schemathesis makes the requests and judges the answers, in a process of its own. It draws the same at every run, so that none fails by chance; with
`OPENAPI_SEED` it draws something else, with `OPENAPI_EXAMPLES` more.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from svc.demo import define_tables
from svc.demo.data import APP as DEMO
from svc.demo.data import TABLES, iter_records
from svc.store import Store
from svc.store.writing.bulk_write import load_records
from tests.integration.conftest import PASSWORD, Process
from tests.support.profile import NIGHTLY, examples

pytestmark = pytest.mark.programs

DESCRIBED = Path(__file__).parent / "described"
HOOKS = Path(__file__).parent / "openapi_hooks.py"
# Every table of the demo has addresses that are described by the same code, and each address costs its seconds: by default these are tried, which
# have all kinds of relationships. `described` has every type.
SOME = () if NIGHTLY else ("Airline", "Plane")
RECORDS = 40  # of each table of the demo: answers are checked record by record
TIME_LIMIT = 600.0  # seconds
SEED = os.environ.get("OPENAPI_SEED", "")
EXAMPLES = os.environ.get(
    "OPENAPI_EXAMPLES", str(examples(2))
)  # of each operation, after those that try the limits of each of its parameters

CONFIG = """
hooks = '{hooks}'

[auth.basic]
username = "admin"
password = "{password}"

[phases.coverage]
unexpected-methods = ["get", "put", "post", "delete", "options", "patch", "trace"]  # QUERY has no place in OpenAPI 3.0

[phases.fuzzing.extra-data-sources]
responses = false  # they have keys and times that differ from run to run

# The state of a record is not a matter of the request: 304, 404, 409, 412.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "404", "409", "412"]

[checks.negative_data_rejection]
enabled = false  # the hooks have one that knows the types
expected-statuses = ["400", "404", "405", "406", "409", "412", "415"]

[checks.response_schema_conformance]
enabled = false  # the hooks have one that knows keys with dots

[checks.allow_header_conformance]
enabled = false  # `Allow` names QUERY

[[operations]]
include-method = "PATCH"
checks.positive_data_acceptance.enabled = false  # the hooks have one that knows it

[[operations]]
include-method = "OPTIONS"
checks.use_after_free.enabled = false  # a record need not exist to be asked about
"""

KNOWN = """
[dictionaries.{name}]
values = {values}

[[operations]]
include-path-regex = "^/{name}/\\\\{{"
parameters."path.{key}" = {{ dictionary = "{name}", probability = 0.5 }}
"""


def check(process: Process, directory: Path, config: str = "", only: Sequence[str] = ()) -> None:
    """Run schemathesis against `process`, all tables or those named; it must find nothing."""
    file = directory / "schemathesis.toml"
    file.write_text(CONFIG.format(hooks=HOOKS, password=PASSWORD) + config)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(file), "run", f"{process.url}/openapi"]
    command += ["--auth", f"admin:{PASSWORD}", "--max-examples", EXAMPLES, "--no-color"]
    if only:
        command += ["--include-path-regex", f"^/({'|'.join(only)})/"]
    if SEED:
        command += ["--seed", SEED]  # and sequences of requests that build on answers, which differ from run to run
    else:
        command += ["--generation-deterministic", "--phases", "examples,coverage,fuzzing"]
    environment = {**os.environ, "PYTHONPATH": str(HOOKS.parents[2])}  # the hooks import from tests.support
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Process]:
    """The demo with fewer records."""
    store = Store(tmp_path / "root" / "database")
    tables = define_tables(store)
    for name in TABLES:
        for _ in load_records(tables[name], islice(iter_records(name), RECORDS)):
            pass
    store.close()
    yield from served(tmp_path, DEMO)


@pytest.fixture
def described(tmp_path: Path) -> Iterator[Process]:
    """An application that has every type, key and directive."""
    yield from served(tmp_path, DESCRIBED)


def served(directory: Path, app: Path) -> Iterator[Process]:
    process = Process(directory / "root", app, env={"AUTHENTICATION_FAILUREDELAY": "false"}).start()
    yield process
    assert process.stop() == 0, process.output()
    unexpected = [line for line in process.logged().splitlines() if "[error]" in line or "Traceback" in line]
    assert not unexpected, unexpected


def document_of(process: Process) -> dict[str, Any]:
    with process.client() as client:
        response = client.get("/openapi")
        assert response.status_code == 200
        return response.json()  # type: ignore[no-any-return]


def test_demo_answers_as_described(demo: Process, tmp_path: Path) -> None:
    known = []
    with demo.client() as client:
        for name in SOME or TABLES:
            key = next(a["name"] for a in client.get(f"/{name}").json()["attributes"] if a.get("isPrimaryKey"))
            keys = client.get(f"/{name}/?select({key})&limit(5)").json()
            known.append(KNOWN.format(name=name, key=key, values=keys))
    check(demo, tmp_path, "".join(known), SOME)


def test_every_type_is_described(described: Process, tmp_path: Path) -> None:
    check(described, tmp_path)


def test_allow_is_what_is_described(described: Process) -> None:
    document = document_of(described)
    with httpx.Client(base_url=described.url) as anonymous:
        for path, item in document["paths"].items():
            if "options" not in item:
                continue
            allowed = set(anonymous.options(path.replace("{", "").replace("}", "")).headers["allow"].split(", "))
            assert allowed - {"HEAD", "QUERY"} == {method.upper() for method in item} - {"PARAMETERS"}, path
