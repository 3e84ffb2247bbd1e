"""What is imported before the first answer: a start takes as long as its imports, and what is loaded stays in memory."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.support.ports import free_port
from tests.support.prepared import place_token_keys
from tests.support.waiting import LIMIT

pytestmark = pytest.mark.programs

LATE = (
    "svc.console", "svc.pages.views", "svc.pages.sent_form",
    "svc.graphql.endpoint", "svc.graphql.execution", "graphql.execution", "graphql.validation", "graphql.utilities",
    "svc.operations.endpoint", "svc.operations.service", "svc.operations.deployments", "svc.operations.job_runs",
    "svc.deploying.deployment", "svc.deploying.fetching", "svc.stubs", "svc.tls.certificates", "svc.tracing.provider",
    "svc.connection.http2", "h2", "wsproto", "cryptography", "jwt", "packaging", "psutil", "watchfiles", "jinja2", "opentelemetry",
    "multiprocessing", "importlib.metadata", "urllib.request", "http.client", "svc.sql", "apsw", "pyarrow",
    "svc.mail", "svc.config.mail", "aiosmtplib", "smtplib", "svc.accounts", "svc.apps.accounts_entry", "svc.server.account_parts",
)  # fmt: skip
"""What the first answer of a plain application does not need."""
MOST_OURS, MOST = 608, 952  # modules of svc, and all of them; more than these take noticeably longer


def test_a_plain_application_is_served_with_few_modules(tmp_path: Path) -> None:
    app = tmp_path / "shop"
    app.mkdir()
    (app / "schema.graphql").write_text("type Product @table @export { id: ID @primaryKey name: String @indexed }\n")
    port, operations = free_port(), free_port()
    options = {"ROOTPATH": tmp_path / "root", "HTTP_PORT": port, "HTTP_SECUREPORT": "null", "OPERATIONSAPI_NETWORK_PORT": operations}
    options["MQTT_NETWORK_PORT"] = free_port()
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    place_token_keys(tmp_path / "root")  # the first start of a root makes keys and certificates, and needs more for it
    served(tmp_path, [sys.executable, "-m", "svc", "run", *words, str(app)], port)
    loaded = served(tmp_path, [sys.executable, "-X", "importtime", "-m", "svc", "run", *words, str(app)], port)
    early = [name for name in loaded if any(name == late or name.startswith(f"{late}.") for late in LATE)]
    assert early == []
    ours = [name for name in loaded if name == "svc" or name.startswith("svc.")]
    assert 200 < len(ours) <= MOST_OURS and len(loaded) <= MOST, (len(ours), len(loaded))


def test_accounts_without_providers_know_nothing_of_them() -> None:
    """And with providers the libraries for them are imported by the first login."""
    program = "import sys, svc.apps.accounts_entry, svc.server.account_parts{}; print(*sys.modules)"
    for more, absent in (
        ("", ("svc.accounts.openid", "httpx", "jwt")),
        (", svc.accounts.openid.member_logins, svc.accounts.openid.logins", ("httpx", "jwt")),
    ):
        done = subprocess.run([sys.executable, "-c", program.format(more)], capture_output=True, text=True, timeout=LIMIT)
        loaded = done.stdout.split()
        assert done.returncode == 0, done.stderr
        assert "svc.accounts.directory" in loaded and [name for name in loaded if name.startswith(absent)] == []


def served(place: Path, command: list[str], port: int) -> list[str]:
    """The modules that a server says it has imported until its first answer."""
    with open(place / "imports", "w+b") as said:
        server = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=said)
        try:
            ask(port, server)
            return re.findall(r"^import time:.*\|\s+(\S+)$", (place / "imports").read_text(), re.MULTILINE)
        finally:
            server.terminate()
            server.wait(LIMIT)


def ask(port: int, server: subprocess.Popen[bytes]) -> None:
    """Until it answers."""
    while True:
        assert server.poll() is None
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/Product/1", timeout=LIMIT).close()
        except HTTPError as error:
            assert error.code in (401, 403, 404)
            return
        except OSError:
            continue
