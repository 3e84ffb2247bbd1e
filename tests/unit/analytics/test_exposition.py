"""The text formats of /metrics, read back by the parsers of prometheus-client (spec: analytics §10)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from svc.analytics.exposition import (
    BOUNDS,
    COUNTER,
    GAUGE,
    HISTOGRAM,
    INFO,
    SUMMARY,
    Counter,
    Family,
    Gauge,
    Histogram,
    Info,
    Series,
    Summary,
    YesNoCounters,
    accepts_openmetrics,
    encodable,
    iter_text,
    label_text,
)
from tests.support.profile import examples

PARSERS = {True: parse_openmetrics, False: parse_text}
HOSTILE = [
    'a"b',
    "a\\b",
    "a\nb",
    "a\\nb",
    'a\\"b',
    "a,b=c",
    "}",
    "{",
    "ü€😀",
    "\x00\x01",
    "\r",
    "\u2028",
    " ",
    "#",
    "\\",
    '"',
    "le",
    "a\x85b",
]


def parsed(families: list[Family], openmetrics: bool) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(name of a sample, its labels) -> value."""
    body = b"".join(iter_text(families, openmetrics)).decode()
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in PARSERS[openmetrics](body):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found


def histogram(*values: float, labels: str = "") -> Histogram:
    made = Histogram(labels, 5.0)
    made.add(values, 0.001)
    return made


@pytest.mark.parametrize("openmetrics", [False, True])
@pytest.mark.parametrize("value", HOSTILE)
def test_label_values_come_back_as_they_are(value: str, openmetrics: bool) -> None:
    series: list[Series] = [Counter(label_text([("path", value), ("method", "GET")]), 1.0, 3)]
    found = parsed([Family("svc_x", COUNTER, value, series)], openmetrics)
    assert found["svc_x_total", (("method", "GET"), ("path", value))] == 3


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.text(min_size=1), unique_by=encodable, max_size=5), st.text(), st.booleans())
def test_any_labels_and_help(values: list[str], help: str, openmetrics: bool) -> None:
    families = [
        Family("svc_a", GAUGE, help, [Gauge(label_text([("path", value)]), 1.5) for value in values]),
        Family("svc_b_seconds", HISTOGRAM, help, [histogram(1, labels=label_text([("path", value)])) for value in values], "seconds"),
    ]
    found = parsed(families, openmetrics)
    for value in values:
        assert found["svc_a", (("path", encodable(value)),)] == 1.5
        assert found["svc_b_seconds_count", (("path", encodable(value)),)] == 1


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_histogram(openmetrics: bool) -> None:
    made = histogram(0.5, 0.51, 3, 10_000, 10_001, -4)
    family = Family("svc_d_seconds", HISTOGRAM, "Time.", [made], "seconds")
    found = parsed([family], openmetrics)
    buckets = {float(dict(labels)["le"]): value for (name, labels), value in found.items() if name == "svc_d_seconds_bucket"}
    assert buckets == {
        **{bound: 2 for bound in BOUNDS if bound < 0.001},
        **{bound: 3 for bound in BOUNDS if 0.001 <= bound < 0.005},
        **{bound: 4 for bound in BOUNDS if 0.005 <= bound < 10},
        10.0: 5,
        math.inf: 6,
    }
    assert found["svc_d_seconds_count", ()] == 6
    assert found["svc_d_seconds_sum", ()] == pytest.approx(20.00501)
    assert (("svc_d_seconds_created", ()) in found) is openmetrics


def test_the_same_values_in_parts_make_the_same_histogram() -> None:
    values = [0.3 * index for index in range(100)]
    whole, parts = histogram(*values), Histogram("", 5.0)
    for start in range(0, 100, 7):
        parts.add(values[start : start + 7][::-1], 0.001)
    assert parts.counts == whole.counts


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan, 10**400])
def test_what_is_not_finite_does_not_count(bad: Any) -> None:
    made, summary = histogram(1, bad, 2), Summary("", 0.0)
    summary.add([1, bad, 2], 1)
    assert (sum(made.counts), summary.count, summary.total) == (2, 2, 3)


def test_sums_that_grow_beyond_a_float_are_infinite() -> None:
    summary = Summary("", 0.0)
    summary.add([1e308, 1e308], 1)
    for openmetrics in PARSERS:
        assert parsed([Family("svc_x", SUMMARY, "x", [summary])], openmetrics)["svc_x_sum", ()] == math.inf


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_summary_with_a_negative_value_has_no_sum_any_more(openmetrics: bool) -> None:
    summary = Summary("", 0.0)
    summary.add([2, 3], 1)
    family = Family("svc_x", SUMMARY, "x", [summary])
    assert parsed([family], openmetrics)["svc_x_sum", ()] == 5
    summary.add([-1], 1)
    summary.add([10], 1)
    found = parsed([family], openmetrics)
    assert found["svc_x_count", ()] == 4
    assert ("svc_x_sum", ()) not in found


def test_both_formats_to_the_letter() -> None:
    yes_no = YesNoCounters('path="a"', "success", 2.5)
    yes_no.add(2, 3)
    families = [
        Family("svc_requests", COUNTER, 'Say "x"\n.', [yes_no]),
        Family("svc_build", INFO, "Versions.", [Info('version="1"')]),
        Family("svc_none", GAUGE, "No series.", []),
        Family("svc_size_bytes", GAUGE, "Size.", [Gauge("", 7)], "bytes"),
    ]
    assert b"".join(iter_text(families, False)).decode() == (
        '# HELP svc_requests_total Say "x"\\n.\n'
        "# TYPE svc_requests_total counter\n"
        'svc_requests_total{path="a",success="true"} 2\n'
        'svc_requests_total{path="a",success="false"} 1\n'
        "# HELP svc_build_info Versions.\n"
        "# TYPE svc_build_info gauge\n"
        'svc_build_info{version="1"} 1\n'
        "# HELP svc_size_bytes Size.\n"
        "# TYPE svc_size_bytes gauge\n"
        "svc_size_bytes 7\n"
    )
    assert b"".join(iter_text(families, True)).decode() == (
        "# TYPE svc_requests counter\n"
        '# HELP svc_requests Say \\"x\\"\\n.\n'
        'svc_requests_total{path="a",success="true"} 2\n'
        'svc_requests_created{path="a",success="true"} 2.5\n'
        'svc_requests_total{path="a",success="false"} 1\n'
        'svc_requests_created{path="a",success="false"} 2.5\n'
        "# TYPE svc_build info\n"
        "# HELP svc_build Versions.\n"
        'svc_build_info{version="1"} 1\n'
        "# TYPE svc_size_bytes gauge\n"
        "# UNIT svc_size_bytes bytes\n"
        "# HELP svc_size_bytes Size.\n"
        "svc_size_bytes 7\n"
        "# EOF\n"
    )


@pytest.mark.parametrize("openmetrics", [False, True])
def test_it_is_rendered_in_short_steps(openmetrics: bool) -> None:
    family = Family("svc_d", HISTOGRAM, "Time.", [histogram(1, labels=f'path="{index}"') for index in range(500)])
    pieces = list(iter_text([family], openmetrics))
    assert max(len(piece) for piece in pieces) < 30_000
    assert len(parsed([family], openmetrics)) == 500 * (len(BOUNDS) + (4 if openmetrics else 3))


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        (None, False),
        ("", False),
        ("*/*", False),
        ("text/html, */*;q=0.1", False),
        ("nonsense", False),
        (";;,,=;q=x", False),
        ("application/openmetrics-text", True),
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            True,
        ),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,*/*;q=0.2",
            True,
        ),
        ('APPLICATION/OpenMetrics-Text; Version="1.0.0"', True),
        ("application/openmetrics-text; version=2.0.0", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=nan", True),
        ("text/plain;version=0.0.4,application/openmetrics-text;q=0.9", False),
        ("text/plain;q=0.2,application/openmetrics-text;q=0.9", True),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,text/plain;q=0.5", False),
    ],
)
def test_negotiation(accept: str | None, openmetrics: bool) -> None:
    assert accepts_openmetrics(accept) is openmetrics
