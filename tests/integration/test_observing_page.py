"""docs/observing.md: its commands against the real server. What it names: tests/unit/test_observing_page.py."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.integration.conftest import PASSWORD, Process
from tests.integration.test_readme import OPERATIONS_ADDRESS, ROOT, examples

pytestmark = pytest.mark.programs

PAGE = ROOT / "docs" / "observing.md"
LIMIT = 60.0
FORMATS = {"text/plain": parse_text, "application/openmetrics-text": parse_openmetrics}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def run(server: Process, command: str) -> str:
    command = command.replace(OPERATIONS_ADDRESS, f"{server.operations_url}/")
    environment = {"PATH": os.environ["PATH"], "LOGIN": f"admin:{PASSWORD}"}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_examples_answer_as_written(server: Process) -> None:
    found = examples(PAGE)
    assert len(found) == 4
    for command, expected in found:
        assert run(server, command).rstrip("\n") == expected.rstrip("\n"), command


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_queries_answer_rows(server: Process) -> None:
    with server.client() as client:
        client.get("/Product/none")
    queries = [script for script in blocks("sh") if "curl" in script]
    assert len(queries) == 3
    deadline = time.monotonic() + LIMIT
    for query in queries:
        answer: Any = json.loads(run(server, query))
        assert isinstance(answer, list), answer
        while not answer and "svc_raw_analytics" in query:  # a row is written once a second
            assert time.monotonic() < deadline
            answer = json.loads(run(server, query))
        assert all("metrics" in row for row in answer if "svc_raw_analytics" in query)


def test_a_scrape_as_the_page_configures_it(server: Process) -> None:
    (commands,) = [script for script in blocks("sh") if script.startswith("svc ")]
    (config,) = [document for document in map(yaml.safe_load, blocks("yaml")) if "scrape_configs" in document]
    (job,) = config["scrape_configs"]
    fields: dict[str, str] = {}
    try:
        for command in commands.splitlines():
            _, operation, *words = shlex.split(command)
            if operation == "grant":
                assert server.operate("grant", role=words[0], rights=words[1].split(","), on=words[2]).status_code == 200
                continue
            fields = dict(word.split("=", 1) for word in words)
            body = {name: json.loads(value) if value[0] == "{" or value == "true" else value for name, value in fields.items()}
            assert server.operate(operation, **body).status_code == 200
        assert job["basic_auth"]["username"] == fields["username"]
        login = (fields["username"], fields["password"])
        url = f"{job.get('scheme', 'http')}://127.0.0.1:{server.operations_port}{job['metrics_path']}"
        with server.client() as client:
            client.get("/Product/none")
        counts: list[float] = []
        deadline = time.monotonic() + LIMIT
        while len(counts) < 2:
            for kind, parse in FORMATS.items():
                answer = httpx.get(url, auth=login, headers={"Accept": kind, "Accept-Encoding": "gzip"})
                assert (answer.status_code, answer.headers["Content-Type"].partition(";")[0]) == (200, kind), answer.text
                values = {
                    (sample.name, *sample.labels.values()): sample.value for family in parse(answer.text) for sample in family.samples
                }
                assert values["process_open_fds",] > 3
                assert ("svc_table_records", "data", "Product") in values, "what the role has a right on"
                assert not [labels for labels in values if "system" in labels]
                count = values.get(("svc_requests_total", "Product", "GET", "false"), 0)
                if count and kind == "text/plain" and (not counts or count > counts[-1]):
                    counts.append(count)
                    with server.client() as client:
                        client.get("/Product/none")
            assert time.monotonic() < deadline  # the totals are taken once a second
            time.sleep(0.1)
        head = httpx.head(url, auth=login)
        assert (head.status_code, head.content) == (200, b"")
        assert httpx.post(url, auth=login, json={}).status_code == 405
        assert server.operate("describe_all", auth=login).status_code == 403
        assert server.operate("get_analytics", auth=login, metric="duration").status_code == 200
    finally:
        server.operate("drop_user", username="prometheus")
        server.operate("drop_role", id="monitoring")
