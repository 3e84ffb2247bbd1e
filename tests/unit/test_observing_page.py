"""docs/observing.md and its dashboard name metrics that exist, and its application records them. Its commands: tests/integration/test_observing_page.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import promql_parser
import pytest
import yaml

from svc.analytics import Analytics
from svc.analytics.exposed import NUMBERS, OPEN_CONNECTIONS, RESPONSES, YES_NO
from svc.analytics.exposition import COUNTER, GAUGE, HISTOGRAM, INFO, SUMMARY, Family, iter_text
from svc.analytics.process_figures import measure
from svc.analytics.totals import Totals
from svc.cluster.figures import replication_families
from svc.cluster.positions import Lag
from svc.operations.instance_metrics import instance_families, process_families, store_families
from svc.scheduler import Scheduler
from svc.store.writing.remote_write import MergeFigures
from tests.support.node import Node
from tests.support.operations import OperationsNode

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "observing.md").read_text("utf-8")
DASHBOARD = json.loads((DOCS / "observing" / "grafana-dashboard.json").read_text("utf-8"))
SUFFIXES = {GAUGE: ("",), COUNTER: ("_total",), HISTOGRAM: ("_bucket", "_count", "_sum"), SUMMARY: ("_count", "_sum"), INFO: ("_info",)}
ALWAYS = {"instance", "job"}  # labels that Prometheus adds
LABELLED = {"svc_application_healthy": {"application"}}  # of families that have no series here


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Name of each sample that there can be -> its labels."""
    found: dict[str, set[str]] = {"up": set(ALWAYS)}

    def add(name: str, kind: str, labels: set[str]) -> None:
        for suffix in SUFFIXES[kind]:
            found[name + suffix] = labels | ALWAYS | ({"le"} if suffix == "_bucket" else set())

    with OperationsNode(tmp_path_factory.mktemp("observing")) as made:
        node = made.node
        node.scheduler = Scheduler(node.store, node.clock, node.loop, "this", {"this"}.__contains__, report=lambda *_: None)
        node.analytics = Analytics(node.store, clock=node.clock)
        steps = store_families(node.store, 100)
        families: list[Family] = []
        while not families:
            try:
                next(steps)
            except StopIteration as done:
                families = done.value
        families += [
            *instance_families(node, is_ready=True),
            *process_families(measure(node.store.path, 0)),
            *Totals(lambda: 0.0).families(),
            *families_of_replication(node.store),
        ]
        for family in families:
            labels = {label for series in family.series for label in re.findall(r'(\w+)="', series.text(family.name, False))}
            add(family.name, family.kind, labels or LABELLED.get(family.name, set()))
    for row in [*NUMBERS.values(), *YES_NO.values(), *RESPONSES.values(), *OPEN_CONNECTIONS.values()]:
        add(row.name, row.kind, {name for name in (*row.labels, row.yes) if name})
    return found


def families_of_replication(store: Any) -> list[Family]:
    """Of a node that has one other."""
    database = store.databases["system"]
    log: Any = SimpleNamespace(database=database, published=0, sent=0, incarnation=b"", reason="")
    other: Any = SimpleNamespace(
        is_connected=True, inboxes={"data": SimpleNamespace(reason="", needs_copy=False, figures=MergeFigures(found=[]))}
    )
    lags: Any = SimpleNamespace(lag=lambda node, database: (Lag(1, 2.0), Lag(0, 0.0)))
    return replication_families({"system": log}, {"b": other}, lags, 0)


def check_expression(expression: str, samples: dict[str, set[str]]) -> None:
    """Its metrics exist, and what it selects and groups by are labels of theirs."""
    for variable, value in (("$__rate_interval", "5m"), ("$instance", ".*")):
        expression = expression.replace(variable, value)
    known: set[str] = set()
    grouped: set[str] = set()

    def visit(part: Any) -> None:
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            grouped.update(part.modifier.labels)
        if isinstance(part, promql_parser.MatrixSelector):
            part = part.vector_selector
        if isinstance(part, promql_parser.VectorSelector):
            assert part.name in samples, f"{part.name} in {expression}"
            known.update(samples[part.name])
            for matcher in part.matchers.matchers:
                assert matcher.name in samples[part.name], f"{matcher.name} in {expression}"

    promql_parser.walk(promql_parser.parse(expression), visit)
    assert known, expression
    assert grouped <= known, expression


def test_the_dashboard_is_a_model_of_grafana(samples: dict[str, set[str]]) -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24 and taken.isdisjoint(cells), panel["title"]
        taken |= cells
    shown = [panel for panel in panels if panel["type"] != "row"]
    assert len(shown) > 30
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "instance"}
    for panel in shown:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert [target["refId"] for target in panel["targets"]] == [chr(65 + index) for index in range(len(panel["targets"]))]
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables | {"__rate_interval"}
            assert 'instance=~"$instance"' in target["expr"], panel["title"]
            check_expression(target["expr"], samples)
    for annotation in DASHBOARD["annotations"]["list"]:
        check_expression(annotation["expr"], samples)
    for variable in DASHBOARD["templating"]["list"]:
        for name, label in re.findall(r"label_values\((\w+), (\w+)\)", variable.get("definition", "")):
            assert label in samples[name]


def test_the_dashboard_shows_what_the_page_says() -> None:
    text = json.dumps(DASHBOARD)
    wanted = ["svc_requests_total", "success", "0.5", "0.95", "0.99", "svc_sent_bytes_total", "svc_event_loop_seconds_total"]
    for word in [*wanted, "process_resident_memory_bytes", "svc_database_file_bytes", "svc_table_bytes"]:
        assert word in text


def test_alerts(samples: dict[str, set[str]]) -> None:
    found = [document for document in map(yaml.safe_load, blocks("yaml")) if "groups" in document]
    assert len(found) == 1
    (group,) = found[0]["groups"]
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"]) >= 8
    for rule in group["rules"]:
        assert rule.keys() <= {"alert", "expr", "for", "annotations"}
        check_expression(rule["expr"], samples)
        promql_parser.parse_duration(rule.get("for", "1m"))
        grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])
        for label in re.findall(r"\$labels\.(\w+)", str(rule.get("annotations"))):
            assert all(label in labels for labels in grouped) if grouped else any(label in labels for labels in samples.values())


def test_expressions(samples: dict[str, set[str]]) -> None:
    (lines,) = blocks("promql")
    for line in lines.splitlines():
        check_expression(line, samples)


def test_every_metric_that_is_named_exists(samples: dict[str, set[str]]) -> None:
    words = set(re.findall(r"\b((?:svc|process)_\w+)\b", re.sub(r"```python.*?```", "", PAGE, flags=re.DOTALL)))
    tables = {"svc_raw_analytics", "svc_analytics"}
    own = {word for word in words if word.startswith("svc_custom_")}
    bases = {name.removesuffix("_bucket") for name in samples if name.endswith("_bucket")}
    assert len(own) == 4
    several = {"svc_instance_up"}
    assert words - tables - own - several <= samples.keys() | bases


def test_the_application_records_what_the_page_says(tmp_path: Path) -> None:
    code = blocks("python")[0]  # that of the other one: tests/unit/tracing/test_page.py
    app = tmp_path / "shop"
    app.mkdir()
    (app / "resources.py").write_text(code)
    node = Node(tmp_path / "store", app)
    assert node.app.status == "healthy", node.app.entries
    totals = Totals(lambda: 0.0)
    assert node.connect().ask("POST", "/Quote", b'{"pieces": 4}')[0] == 200
    period = node.recorder.close()
    assert period is not None
    list(period.iter_entries())
    list(totals.iter_add(period))
    text = b"".join(iter_text(totals.families(), False)).decode()
    for name in set(re.findall(r"svc_custom_\w+", PAGE)):
        assert re.search(rf"^{name}\b", text, re.MULTILINE), name
    assert 'svc_custom_cheap_total{path="Quote",value="true"} 1\n' in text
    assert "svc_custom_last_quote_pieces 4\n" in text
    node.close()
