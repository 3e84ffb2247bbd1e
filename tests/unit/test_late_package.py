"""svc.late_package: a package whose code runs when it is first used, in an interpreter of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from svc.late_package import import_late

pytestmark = pytest.mark.programs

SCRIPT = """
import sys
from svc.late_package import import_late

import_late("graphql")
import_late("graphql")
from graphql.language import parse
assert "graphql.execution" not in sys.modules and "graphql.type" not in sys.modules
assert type(sys.modules["graphql"]).__name__ == "_LatePackage"
import graphql
assert graphql.language.parse is parse and "graphql.execution" not in sys.modules
from graphql import execute
assert "graphql.execution" in sys.modules and graphql.parse is parse and graphql.execute is execute
assert type(graphql).__name__ == "module" and graphql.__version__
try:
    graphql.nothing
except AttributeError as error:
    assert "nothing" in str(error)
else:
    raise AssertionError
import_late("graphql")
assert sys.modules["graphql"] is graphql
"""

THREADS = """
import sys, threading
from svc.late_package import import_late

import_late("graphql")
import graphql
found = []
threads = [threading.Thread(target=lambda: found.append(graphql.validate)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and len(set(found)) == 1
"""


@pytest.mark.parametrize("script", [SCRIPT, THREADS])
def test_its_code_runs_when_it_is_used(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_package_that_is_not_there() -> None:
    with pytest.raises(ModuleNotFoundError, match="svc_no_such_package"):
        import_late("svc_no_such_package")
    assert "svc_no_such_package" not in sys.modules
