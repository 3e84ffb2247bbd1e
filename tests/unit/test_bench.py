"""What the benchmark promises of its requests, and how it turns samples into figures."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import applications, instructions, machine, mqtt, records, reload, rules, static
from bench.compare import ratio_table
from bench.measure import Sample
from bench.report import TITLES, cpu_table, insert
from bench.rows import DRAWS, PASSES, VARIETY, kind_of, make_requests
from bench.rows import ROWS as ROW_NAMES
from bench.servers import Svc
from bench.stepped import CONNECTIONS, COUNTED, READY, ROWS, WARM_UP, numbers_of
from svc.protocol.mqtt_topics import covers

SAMPLE = Sample(requests=100, cpu=10.0, rate=1.0, p50=1.0, p99=1.0, worst=1.0, errors=0, utilisation=1.0)


@pytest.mark.parametrize("row", ["get", "equality", "range", "sort", "join", "count"])
def test_every_request_of_a_row_is_another(row: str, tmp_path: Path) -> None:
    requests = make_requests(row, Svc(tmp_path).requests()[row], 0, 1)
    assert len({request.target for request in requests}) == len(requests) == VARIETY


@pytest.mark.parametrize("row", ["get hot", "equality hot"])
def test_a_hot_row_asks_the_same_but_some_far_more_often(row: str, tmp_path: Path) -> None:
    maker = Svc(tmp_path).requests()[kind_of(row)]
    requests = Counter(request.target for request in make_requests(row, maker, 0, 1))
    evenly = [request.target for request in make_requests(kind_of(row), maker, 0, 1)]
    assert requests.total() == DRAWS and requests.keys() < set(evenly)
    assert [target for target, _ in requests.most_common(3)] == evenly[:3]
    assert sum(requests[target] for target in evenly[: VARIETY // 10]) == pytest.approx(0.77 * DRAWS, rel=0.01)


def test_hot_rows_have_titles_and_a_row_to_repeat() -> None:
    assert {row for row in ROW_NAMES if row != kind_of(row)} == {"get hot", "equality hot"}
    assert {kind_of(row) for row in ROW_NAMES} <= set(ROW_NAMES) == TITLES.keys()


def test_servers_start_from_cached_bytecode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    commands: list[list[str]] = []
    status = 0

    def run(command: list[str], check: bool) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(returncode=status)

    monkeypatch.setattr(machine.subprocess, "run", run)
    monkeypatch.setenv(machine.NO_BYTECODE, "1")
    machine.use_bytecode(tmp_path, "python3.12")
    assert machine.NO_BYTECODE not in os.environ and machine.NO_BYTECODE in capsys.readouterr().out
    machine.use_bytecode(tmp_path, "python3.12")
    assert machine.NO_BYTECODE not in capsys.readouterr().out
    assert commands == [["python3.12", "-m", "compileall", "-q", f"{tmp_path}/svc"]] * 2
    status = 1
    machine.use_bytecode(tmp_path, "python3.12")  # a tree that may not be written
    assert capsys.readouterr().err.startswith("Warning: ")


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


DUMP = """\
# callgrind format
version: 1
part: 2

positions: line
events: Ir
summary: 999

ob=(1) /opt/python/lib/libpython3.11.so.1.0
fl=(4) ceval.c
fn=(10) _PyEval_EvalFrameDefault
12 100
cob=(2) /opt/python/lib/python3.11/site-packages/msgspec/_core.cpython-311-x86_64-linux-gnu.so
cfi=(5) _core.c
cfn=(11) encode
calls=3 7
+2 5000
+1 20
* 3

ob=(2)
fl=(5)
fn=(11)
-4 40
cob=(3) /usr/lib/x86_64-linux-gnu/libc.so.6
cfn=(12) memcpy
calls=1 0
* 900

ob=(3)
fn=(12)
0 900

ob=(4) ???
fn=(13) 0x1
0 1

totals: 1064
"""


def test_what_a_function_has_called_is_not_counted_twice() -> None:
    costs = instructions.read_costs(DUMP.splitlines(keepends=True))
    assert list(costs.values()) == [123, 40, 900, 1]
    assert costs.total() == 1064, "as the dump says itself"
    assert instructions.by_part(costs) == {"interpreter": 123, "msgspec": 40, "lmdb": 0, "libc": 900, "other": 1}


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/usr/bin/python3.11", "interpreter"),
        ("/usr/lib/python3.11/lib-dynload/_asyncio.cpython-311-x86_64-linux-gnu.so", "interpreter"),
        ("/x/site-packages/lmdb/cpython.cpython-311-x86_64-linux-gnu.so", "lmdb"),
        ("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "libc"),
        ("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "other"),
    ],
)
def test_the_modules_of_python_are_of_the_interpreter(path: str, part: str) -> None:
    assert instructions.part_of(path) == part


def test_a_turn_that_is_unlike_the_others_does_not_move_the_figure() -> None:
    quiet = {"interpreter": 3000, "msgspec": 100, "lmdb": 50, "libc": 40, "other": 10}
    found = instructions.summarise([quiet, quiet | {"libc": 4840}, quiet], 32)
    assert found["total"] == 100
    assert found["spread"] == 0.75
    assert found["parts"] == {"interpreter": 94, "msgspec": 3, "lmdb": 2, "libc": 1, "other": 0}


def counted(**totals: int) -> dict[str, dict[str, object]]:
    parts = dict.fromkeys(instructions.PARTS, 0)
    return {row: {"total": total, "spread": 0.001, "parts": parts | {"interpreter": total}} for row, total in totals.items()}


def test_a_row_is_worse_beyond_the_tolerance_and_not_within_it() -> None:
    text, worse = instructions.compare(counted(get=1000, put=1000, post=2000), counted(get=1030, put=1031, post=1000, delete=5), 3)
    assert worse == ["put"]
    assert text.splitlines()[2:] == [
        "| GET one record | 1,000 | 1,030 | 1.030 | +30 interpreter |",
        "| PUT one record | 1,000 | 1,031 | 1.031 worse | +31 interpreter |",
        "| POST one record | 2,000 | 1,000 | 0.500 | -1,000 interpreter |",
        "| DELETE one record | – | 5 | – |  |",
    ]


@pytest.mark.parametrize(("tolerance", "status"), [("3", 1), ("6", 0)])
def test_the_exit_status_says_that_a_row_has_become_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tolerance: str, status: int
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text(json.dumps({"facts": {"python": "3.11"}, "rows": counted(get=1000)}))
    after.write_text(json.dumps({"facts": {"python": "3.12"}, "rows": counted(get=1050)}))
    assert instructions.main(["--read", str(after), "--compare", str(before), "--tolerance", tolerance]) == status
    told = capsys.readouterr()
    assert "| GET one record | 1,000 | 1,050 |" in told.out
    assert "python was 3.11 before" in told.err
    assert ("worse: get" in told.err) == bool(status)


def test_records_of_rules_have_one_owner_in_a_category_and_different_brands() -> None:
    owners: dict[str, set[str]] = {}
    brands: dict[str, set[str]] = {}
    for n in range(rules.COUNT):
        found = rules.item(n)
        owners.setdefault(found["category"], set()).add(found["owner"])
        brands.setdefault(found["category"], set()).add(found["brandId"])
    assert len(owners) == rules.CATEGORIES and all(len(each) == 1 for each in owners.values())
    assert all(len(each) == records.ROWS for each in brands.values())
    owner_of = {found["id"]: found["owner"] for found in map(rules.brand, range(rules.BRANDS))}
    assert all(owner_of[each["brandId"]] == each["owner"] for each in map(rules.item, range(0, rules.COUNT, 97)))
    numbers = rules.numbers_of(rules.COUNT // 2)
    assert len(set(numbers)) == len(numbers) and {rules.owner(n) for n in numbers} == {rules.MEMBER}


def test_what_a_rule_costs_is_shown_beside_what_is_asked_for() -> None:
    assert rules.PAIRS.keys() <= rules.ROWS.keys() >= {base for base, _ in rules.PAIRS.values()}
    assert rules.requests().keys() == rules.ROWS.keys()
    assert rules.instruction_table(counted(get=1000)) == ""
    shown = rules.instruction_table({"member get": {"total": 1000}, "ruled get": {"total": 1100}, "ruled join": {"total": 7}})
    assert shown.splitlines()[2:] == [
        "| GET one record of a role's table | 1,000 |  |  |",
        "| … with a rule on its attributes | 1,100 | 1.10 | ≤ 1.15 |",
        "| … with this condition as a rule | 7 |  | ≤ 1 |",
    ]


def test_every_row_that_is_counted_has_a_title_and_records_of_its_own() -> None:
    assert instructions.ROW_TITLES.keys() >= set(ROWS)
    count = (WARM_UP + READY + COUNTED) * CONNECTIONS + 1
    for row in ROWS:
        assert len(set(numbers_of(row, count))) == count
    assert max(numbers_of("delete", count)) < instructions.SPARES
