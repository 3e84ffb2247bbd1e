"""GET /metrics of the operations port (spec: analytics §10)."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from svc.analytics import Analytics, AnalyticsSettings
from svc.errors import AccessViolation, MethodNotAllowed, NotAcceptable, NotFound, Problem
from svc.http.compression import Compression
from svc.http.decoding import RequestDecoder
from svc.messages import HeaderBlock, Request, Response
from svc.operations.endpoint import OperationsEndpoint
from svc.operations.instance_metrics import store_families
from svc.operations.metrics import PIECE, TOPIC
from svc.resources import Resource
from svc.store.schema import Attribute, TableDefinition
from tests.support.operations import OperationsNode
from tests.support.siblings import HANGS, FakeSiblings, answer

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


class Port:
    """The operations port without sockets."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.node = OperationsNode(path, settings={"operationsApi": {"metrics": settings}})
        self.node.node.analytics = Analytics(self.node.store, clock=self.node.clock)
        self.endpoint = OperationsEndpoint(
            self.node.operations, compression=Compression(1200), decoder=RequestDecoder(1 << 20, 1 << 20), report=print
        )

    def ask(self, user: Any = "admin", method: str = "GET", path: str = "/metrics", **fields: str) -> Response:
        return self.node.wait(lambda: self._ask(user, method, path, fields))

    async def _ask(self, user: Any, method: str, path: str, fields: dict[str, str]) -> Response:
        request = Request(method, path, HeaderBlock([(name.replace("_", "-"), value) for name, value in fields.items()]))
        request.user = self.node.admin if user == "admin" else user
        answer = self.endpoint.handle(request)
        return answer if isinstance(answer, Response) else await answer


@pytest.fixture
def port(tmp_path: Path) -> Iterator[Port]:
    made = Port(tmp_path)
    yield made
    made.node.close()


def body_of(response: Response) -> str:
    body = response.body
    return (body if isinstance(body, bytes) else b"".join(body)).decode()


def samples(text: str, parse: Any = parse_text) -> dict[tuple[str, tuple[str, ...]], float]:
    """(name, values of the labels in the order of their names) -> value."""
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def test_both_formats_have_what_is_recorded_and_what_is_measured(port: Port) -> None:
    node = port.node
    analytics = node.node.analytics
    assert analytics is not None
    node.run("create_table", database="garden", table="plant")
    node.run("insert", database="garden", table="plant", records=[{"id": "1"}, {"id": "2"}])
    analytics.recorder.request_done("Plant", "GET", 3.0, 200, 100, 1.0)
    node.clock.advance(1)
    while analytics.tick(3.0, 1.0):
        pass
    node.store.commit_turn()
    for accept, parse, kind in ((OPENMETRICS, parse_openmetrics, "application/openmetrics-text"), ("x", parse_text, "text/plain")):
        response = port.ask(accept=accept)
        assert dict(response.pairs)["Content-Type"].startswith(kind)
        found = samples(body_of(response), parse)
        assert found["svc_request_duration_seconds_count", ("GET", "Plant")] == 1
        assert found["svc_requests_total", ("GET", "Plant", "true")] == 1
        assert found["svc_event_loop_seconds_total", ("idle",)] == 3
        assert found["svc_event_loop_seconds_total", ("active",)] == 1
        assert found["svc_table_records", ("garden", "plant")] == 2
        assert found["svc_database_file_bytes", ("garden",)] >= found["svc_database_used_bytes", ("garden",)] > 0
        assert found["svc_database_log_entries", ("garden",)] >= 1
        assert min(found["svc_store_transactions_total", ()], found["svc_store_commits_total", ()]) >= 1
        assert found["process_resident_memory_bytes", ()] > found["svc_memory_heap_used_bytes", ()] > 0
        assert found["process_open_fds", ()] > 3
        assert found["svc_ready", ()] == 1


def test_the_text_is_made_once_a_second_for_all(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    real = "svc.operations.metrics.store_families"
    monkeypatch.setattr(real, lambda *arguments: made.append(arguments) or store_families(*arguments))

    async def ask_together() -> list[Response]:
        return await asyncio.gather(*[port._ask(port.node.admin, "GET", "/metrics", {}) for _ in range(5)])

    assert len({response.body for response in port.node.wait(ask_together)}) == 1
    assert len(made) == 1
    port.ask()
    assert len(made) == 1
    port.ask(accept=OPENMETRICS)
    assert len(made) == 2
    port.node.clock.advance(1)
    port.ask()
    assert len(made) == 3


def test_a_client_that_leaves_takes_nothing_from_the_others(port: Port) -> None:
    async def ask_and_leave() -> Response:
        first, second = (asyncio.ensure_future(port._ask(port.node.admin, "GET", "/metrics", {})) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert port.node.wait(ask_and_leave).status == 200


def test_a_fault_is_told_and_the_next_request_tries_again(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("svc.operations.metrics.measure", fail)
        with pytest.raises(ZeroDivisionError):
            port.ask()
    assert port.ask().status == 200


def test_who_may_read(port: Port) -> None:
    node = port.node
    for name, permission in (("none", {}), ("reader", {"operations": ["read_only"]}), ("metrics", {"operations": ["get_analytics"]})):
        node.run("add_role", role=name, permission={"super_user": False, **permission})
        node.run("add_user", username=name, password="x", role=name, active=True)
    with pytest.raises(AccessViolation) as refused:
        port.ask(None)
    assert refused.value.status_code == 401
    with pytest.raises(Problem) as forbidden:
        port.ask(node.directory.get_user("none"))
    assert forbidden.value.status_code == 403
    for name in ("reader", "metrics"):
        assert port.ask(node.directory.get_user(name)).status == 200


RIGHTS = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}


def test_only_tables_that_the_reader_may_see_are_named(port: Port) -> None:
    node = port.node
    attributes = (Attribute("id", primary_key=True),)
    for database, name in (("data", "plant"), ("data", "payroll"), ("vault", 'we"ird\\')):
        node.store.open_database(database).define_table(TableDefinition(name, attributes=attributes))
    analytics = node.node.analytics
    assert analytics is not None
    recorder = analytics.recorder
    for name in ("plant", "payroll"):
        recorder.yes_no("cache-hit", name)(True)
        recorder.request_done(name, "GET", 1.0, 200, 10, 1.0)
        node.node.resources.set(name, type(name, (Resource,), {"table": node.store.databases["data"].tables[name]}))
    node.clock.advance(1)
    while analytics.tick(0.0, 0.0):
        pass
    node.store.commit_turn()
    permission = {"operations": ["get_analytics"], "data": {"tables": {"plant": RIGHTS}}}
    node.run("add_role", role="metrics", permission=permission)
    node.run("add_user", username="mona", password="x", role="metrics", active=True)
    for accept in ("text/plain", OPENMETRICS):
        all_of_them = body_of(port.ask(accept=accept))
        assert "payroll" in all_of_them and "vault" in all_of_them and 'database="system"' in all_of_them
        text = body_of(port.ask(node.directory.get_user("mona"), accept=accept))
        assert 'svc_table_records{database="data",table="plant"}' in text and 'svc_database_used_bytes{database="data"}' in text
        for hidden in ('"payroll', '"vault', '"we', '"system'):
            assert hidden not in text
        assert len(list((parse_openmetrics if accept == OPENMETRICS else parse_text)(text))) > 10
        assert "svc_ready" in text and body_of(port.ask(accept=accept)) == all_of_them


def test_it_may_be_open_or_not_there(tmp_path: Path) -> None:
    port = Port(tmp_path / "open", access="open")
    assert port.ask(None).status == 200
    port.node.close()
    port = Port(tmp_path / "none", access="none")
    with pytest.raises(NotFound):
        port.ask()
    port.node.close()


def test_methods(port: Port) -> None:
    assert port.ask(method="HEAD").status == 200
    for method in ("POST", "PUT", "DELETE", "QUERY"):
        with pytest.raises(MethodNotAllowed) as refused:
            port.ask(method=method)
        assert ("Allow", "GET, HEAD, OPTIONS") in refused.value.headers


def test_codings(port: Port) -> None:
    response = port.ask(accept_encoding="gzip")
    assert dict(response.pairs)["Content-Encoding"] == "gzip"
    assert dict(response.pairs)["Vary"] == "Accept, Accept-Encoding, Authorization, Cookie"
    assert isinstance(response.body, bytes)
    assert gzip.decompress(response.body) == port.ask().body
    with pytest.raises(NotAcceptable):
        port.ask(accept_encoding="identity;q=0, *;q=0")


def test_a_long_text_is_sent_in_pieces(port: Port) -> None:
    analytics = port.node.node.analytics
    assert analytics is not None
    for index in range(1000):
        analytics.recorder.record(1.0, "own", f"{'x' * 200}-{index}")
    port.node.clock.advance(1)
    while analytics.tick(0.0, 0.0):
        pass
    port.node.store.commit_turn()
    plain = port.ask()
    assert not isinstance(plain.body, bytes)
    pieces = list(plain.body)
    assert max(map(len, pieces)) == PIECE
    assert dict(plain.pairs)["Content-Length"] == str(sum(map(len, pieces)))
    packed = port.ask(accept_encoding="gzip")
    assert "Content-Length" not in dict(packed.pairs)
    assert gzip.decompress(b"".join(packed.body)) == b"".join(pieces)
    assert len(samples(b"".join(pieces).decode())) > 2000


def test_tables_beyond_the_limit_count_as_one(port: Port) -> None:
    node = port.node
    for index in range(4):
        node.run("create_table", database="many", table=f"t{index}")
        node.run("insert", database="many", table=f"t{index}", records=[{"id": 1}])
    steps = store_families(node.store, 2)
    shown: list[Any] = []
    while not shown:
        try:
            next(steps)
        except StopIteration as done:
            shown = done.value
    records = next(family for family in shown if family.name == "svc_table_records")
    assert len(records.series) == 3
    assert records.series[-1].labels == 'database="other",table="other"'


def test_expired_records_count_until_they_are_removed(port: Port) -> None:
    node = port.node
    node.run("create_table", database="short", table="t", expiration=1)
    node.run("insert", database="short", table="t", records=[{"id": 1}])
    node.clock.advance(5)
    assert node.run("describe_table", database="short", table="t")["record_count"] == 0
    assert samples(body_of(port.ask()))["svc_table_records", ("short", "t")] == 1


def test_a_database_that_is_dropped_meanwhile_is_left_out(port: Port) -> None:
    node = port.node
    node.run("create_table", database="gone", table="t")
    steps = store_families(node.store, 100)
    next(steps)
    node.run("drop_database", database="gone")
    with pytest.raises(StopIteration) as done:
        while True:
            next(steps)
    assert not [series for family in done.value.value for series in family.series if "gone" in series.labels]


def test_ready_is_what_the_address_of_that_name_says(port: Port) -> None:
    for status in ("Unavailable", "Available"):
        port.node.run("set_status", id="availability", status=status)
        port.node.clock.advance(1)
        assert samples(body_of(port.ask()))["svc_ready", ()] == (port.ask(path="/ready").status == 200) == (status == "Available")


def test_a_database_that_was_lost_is_left_out(port: Port) -> None:
    node = port.node
    node.run("create_table", database="lost", table="t")
    node.store.databases["lost"].env.has_stopped = True
    text = body_of(port.ask())
    assert "lost" not in text
    assert "svc_ready 0" in text
    assert 'svc_table_records{database="system",table="svc_user"} 1' in text
    node.store.databases["lost"].env.has_stopped = False


def test_the_limit_of_label_sets_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    port = Port(tmp_path)
    analytics = port.node.node.analytics = Analytics(port.node.store, AnalyticsSettings(max_label_sets=5), clock=port.node.clock)
    with caplog.at_level(logging.WARNING):
        for second in range(3):
            for index in range(10):
                analytics.recorder.record(1.0, "own", f"{second}-{index}")
            port.node.clock.advance(1)
            while analytics.tick(0.0, 0.0):
                pass
    port.node.store.commit_turn()
    found = samples(body_of(port.ask()))
    assert found["svc_metrics_overflow_total", ()] == 25
    assert found["svc_custom_own_count", ("other", "other", "other")] == 25
    assert sum("label sets" in record.message for record in caplog.records) == 1
    port.node.close()


# --- several instances ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("accept", "parse"), [(OPENMETRICS, parse_openmetrics), ("x", parse_text)])
def test_whoever_is_asked_shows_the_figures_of_all(port: Port, tmp_path: Path, accept: str, parse: Any) -> None:
    openmetrics = accept == OPENMETRICS
    port.node.run("create_table", database="garden", table="plant")
    other = Port(tmp_path / "other")
    try:
        told = other.node.wait(lambda: other.endpoint.metrics.answer_sibling(openmetrics))
    finally:
        other.node.close()
    siblings = FakeSiblings(metrics=[answer(1, told), answer(2, error=HANGS)])
    port.node.node.siblings = siblings  # type: ignore[assignment]
    text = body_of(port.ask(accept=accept))
    assert siblings.asked == [(TOPIC, openmetrics)]
    found = samples(text, parse)
    assert {number: found["svc_instance_up", (number,)] for number in "012"} == {"0": 1, "1": 1, "2": 0}
    assert found["process_open_fds", ("0",)] > 3 and found["process_open_fds", ("1",)] > 3
    assert ("process_open_fds", ("2",)) not in found
    assert found["svc_event_loop_seconds_total", ("1", "idle")] == 0
    assert found["svc_table_records", ("garden", "plant")] == 0, "what is of all has no number"
    assert len([name for name, _ in found if name == "svc_volume_size_bytes"]) == 1
    assert text.count("# TYPE process_open_fds ") == 1


def test_metrics_alone_name_no_instance(port: Port) -> None:
    port.node.node.siblings = FakeSiblings()  # type: ignore[assignment]
    assert "instance=" not in body_of(port.ask())


def test_metrics_of_a_hidden_table_are_hidden_for_all_instances(port: Port) -> None:
    line = b'svc_cache_lookups_total{table="hidden"} 1\n'
    shown = b'svc_cache_lookups_total{table="other"} 1\n'
    told = [(b"# HELP svc_cache_lookups_total x\n# TYPE svc_cache_lookups_total counter\n", line + shown)]
    port.node.node.siblings = FakeSiblings(metrics=[answer(1, told)])  # type: ignore[assignment]
    port.node.run("add_role", role="monitor", permission={"operations": ["get_analytics"]})
    port.node.run("add_user", username="monitor", password="p" * 12, role="monitor", active=True)
    text = body_of(port.ask(port.node.directory.get_user("monitor")))
    assert 'table="hidden"' not in text and 'svc_cache_lookups_total{instance="1",table="other"} 1\n' in text
