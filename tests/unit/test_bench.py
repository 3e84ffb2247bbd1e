"""What the benchmark promises of its requests, and how it turns samples into figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import applications, mqtt, records, reload, static
from bench.compare import ratio_table
from bench.measure import Sample
from bench.report import cpu_table, insert
from bench.rows import PASSES, VARIETY, make_requests
from bench.servers import Svc
from svc.protocol.mqtt_topics import covers

SAMPLE = Sample(requests=100, cpu=10.0, rate=1.0, p50=1.0, p99=1.0, worst=1.0, errors=0, utilisation=1.0)


@pytest.mark.parametrize("row", ["get", "equality", "range", "sort", "join", "count"])
def test_every_request_of_a_row_is_another(row: str, tmp_path: Path) -> None:
    requests = make_requests(row, Svc(tmp_path).requests()[row], 0, 1)
    assert len({request.target for request in requests}) == len(requests) == VARIETY


def test_each_put_changes_an_indexed_value(tmp_path: Path) -> None:
    requests = make_requests("put", Svc(tmp_path).requests()["put"], 0, 1)
    assert len(requests) == PASSES * VARIETY
    stored: dict[str, int] = {}
    for request in [*requests, *requests[:VARIETY]]:  # the passes, and the first one again
        record = json.loads(request.body)
        assert record["rank"] != stored.get(record["id"])
        stored[record["id"]] = record["rank"]
    assert all(records.item(int(key.removeprefix("item")))["rank"] != rank for key, rank in stored.items())


def test_each_delete_has_a_record_of_its_own(tmp_path: Path) -> None:
    maker = Svc(tmp_path).requests()["delete"]
    targets = [request.target for round_ in range(3) for request in make_requests("delete", maker, round_, 3)]
    assert len(set(targets)) == len(targets) == records.SPARES // 3 * 3


def test_a_comparison_tells_the_median_of_neighbours_and_the_minima() -> None:
    other = [replace(SAMPLE, cpu=cpu) for cpu in (10.0, 40.0, 20.0)]
    this = [replace(SAMPLE, cpu=cpu) for cpu in (9.0, 20.0, 18.0)]
    (line,) = ratio_table({"get": [other, this]}).splitlines()[2:]
    assert line == "| GET one record | 20.0 (10.0) | 18.0 (9.0) | 0.900 | 0.900 |"


def test_durability_stands_beside_the_figure_of_a_write() -> None:
    samples = {row: {name: [{"cpu": cpu}] for name, cpu in (("svc", 10.0), ("pocketbase", 50.0))} for row in ("get", "put")}
    facts = {"durability": {"svc": "flushed", "pocketbase": "not flushed"}}
    get, put = cpu_table({"samples": samples, "facts": facts}).splitlines()[2:]
    assert get == "| GET one record | – | 10.0 ±0% | 50.0 ±0% | – | 5.0 |"
    assert put == "| PUT one record | – | 10.0 ±0%, flushed | 50.0 ±0%, not flushed | – | 5.0 |"


def test_the_ratio_of_a_handler_is_that_of_neighbouring_measurements() -> None:
    lines = applications.table({"plain": [10.0, 40.0, 20.0], "class": [15.0, 48.0, 30.0]}).splitlines()[2:]
    assert lines == [
        "| GET of an exported table | 20.0 µs | 1.00 |",
        "| `get` in the class style | 30.0 µs | 1.50 |",
    ]


def test_every_row_of_the_handlers_has_requests(tmp_path: Path) -> None:
    made = applications.Application(tmp_path).requests() | applications.OneRoute(tmp_path).requests()
    assert made.keys() - {"mounted"} == applications.ROWS.keys() - {"mounted"}
    for row, make in made.items():
        assert make(3).target == applications.ROWS[row][1] + records.item_id(3)


def test_the_ratio_of_a_file_is_that_of_its_round() -> None:
    lines = static.table({"record": [10.0, 40.0, 20.0], "small": [12.0, 44.0, 24.0], "nginx-large": [1000.0, 1000.0, 1000.0]}).splitlines()[
        2:
    ]
    assert lines == [
        "| GET of a record, no static files | 20.0 µs | – |  |",
        "| file of 10 KB | 24.0 µs | 1.20 | GET of a record, no static files |",
        "| nginx: file of 10 MB | 1,000.0 µs | – |  |",
    ]


def test_every_row_of_files_has_a_server_and_something_to_compare_with() -> None:
    assert {row.server for row in static.ROWS.values()} == {*static.CONFIGS, "nginx"}
    assert all(row.base in ("", *static.ROWS) for row in static.ROWS.values())


def test_only_measured_sections_are_replaced(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("<!-- requests -->\nkept\n<!-- end of requests -->\n<!-- properties -->\nold\n<!-- end of properties -->\n")
    insert(readme, {"samples": {}, "properties": {"memory": "43 MiB"}})
    text = readme.read_text()
    assert "kept" in text
    assert "| memory | 43 MiB |" in text
    assert "old" not in text


def test_the_application_that_is_reloaded_has_thirty_files_and_each_save_is_seen(tmp_path: Path) -> None:
    assert reload.write_application(tmp_path) == 30 == sum(1 for path in tmp_path.rglob("*") if path.is_file())
    kinds = set()
    for number in range(1, 9):
        kind, path, text, _, expected = reload.changes(tmp_path, number)
        assert path.is_file() and path.read_text() != text
        assert str(number).encode() in expected or kind == "the schema"
        kinds.add(kind)
    assert len(kinds) == 4
    assert reload.percentile([0.001 * number for number in range(101)], 0.95) == pytest.approx(0.095)
    assert reload.table({"x": [0.001, 0.002, 0.004]}).splitlines()[-1] == "| all | 2 ms | 4 ms | 4 ms |"


def test_a_message_of_mqtt_has_its_size_and_a_record_of_its_own_comes_with_each() -> None:
    payloads = [mqtt.payload(number) for number in range(2 * mqtt.RECORDS)]
    assert {len(data) for data in payloads} == {mqtt.SIZE}
    assert len(set(payloads)) == len(payloads)
    assert {json.loads(data).keys() == {"sensor", "value", "text"} for data in payloads} == {True}
    assert len({mqtt.record_topic(number) for number in range(2 * mqtt.RECORDS)}) == mqtt.RECORDS


def test_each_message_matches_one_filter_of_one_receiver() -> None:
    filters = {receiver: mqtt.filters_of(receiver) for receiver in (0, 1, 17)}
    for receiver, own in filters.items():
        assert len(set(own)) == mqtt.FILTERS
        for number in range(receiver, 1000, mqtt.RECEIVERS):
            topic = mqtt.matching_topic(receiver, number)
            assert [other for other, texts in filters.items() for text in texts if is_covered(topic, text)] == [receiver], topic
            assert is_covered(topic, f"Reading/g{receiver}/#")


def is_covered(topic: str, text: str) -> bool:
    return covers(tuple(text.split("/")), tuple(topic.split("/")))


def test_a_figure_of_mqtt_is_held_against_its_target_within_the_rounds() -> None:
    row = mqtt.ROWS["fan-out-0"]
    lines = mqtt.lines_of(row, {mqtt.SVC: [22.0, 40.0, 21.0], mqtt.WEBSOCKET: [20.0, 20.0, 20.0], mqtt.MOSQUITTO: [10.0, 16.0, 10.0]})
    assert [line[1:5] for line in lines] == [
        ["svc", "22.0 ±43%", "", ""],
        ["svc, WebSocket", "20.0 ±0%", "1.10 ×", "≤ 1.1 × ✓"],
        ["mosquitto", "10.0 ±30%", "2.20 ×", "≤ 2 × ✗"],
    ]
    assert [line[3:5] for line in mqtt.lines_of(mqtt.ROWS["pages"], {"svc": [20.0], "svc, QoS 1": [15.0]})][1] == ["+5.0", "≤ +4 ✗"]
    assert mqtt.lines_of(mqtt.ROWS["idle"], {"svc": [2.5]})[0][2:5] == ["2.5", "", "≤ 3 ✓"]
    for row in mqtt.ROWS.values():
        assert next(iter(row.contestants)) == mqtt.SVC
        assert row.targets.keys() < row.contestants.keys()
