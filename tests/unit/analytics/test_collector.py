"""From events to rows in the store, by a clock that the test turns (spec: analytics §1, §2, §6, §9)."""

from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from svc.analytics import Analytics, AnalyticsSettings
from svc.analytics.metric_tables import ID_STEP
from svc.clock import FakeClock
from svc.store import Store
from svc.store.system import ANALYTICS_TABLE, RAW_ANALYTICS_TABLE, SYSTEM, ensure_system
from svc.store.values.records import decode


class ImmediateExecutor(Executor):
    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments, **named))
        return future


class Fixture:
    """A store, its analytics, and a loop that is 25 % active."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.clock = FakeClock()
        self.store = Store(path, clock=self.clock)
        ensure_system(self.store)
        self.options = options
        self.analytics = self.start()
        self.idle = self.active = 0.0

    def start(self) -> Analytics:
        settings = AnalyticsSettings(**{name: value for name, value in self.options.items() if name in AnalyticsSettings._fields})
        others = {name: value for name, value in self.options.items() if name not in AnalyticsSettings._fields}
        self.analytics = Analytics(self.store, settings, clock=self.clock, executor=ImmediateExecutor(), **others)
        return self.analytics

    def second(self) -> None:
        """A second passes, the loop ticks and commits."""
        self.clock.advance(1)
        self.idle += 0.75
        self.active += 0.25
        more = self.analytics.tick(self.idle, self.active)
        self.store.commit_turn()
        while more:
            more = self.analytics.work(0.005)
            self.store.commit_turn()

    def rows(self, table: str) -> list[dict[str, Any]]:
        found = self.store.databases[SYSTEM].tables[table]
        rows = [decode(raw) for _, raw in found.scan(found.database.snapshot())]
        self.store.end_turn()
        return rows

    def raw(self) -> list[dict[str, Any]]:
        return self.rows(RAW_ANALYTICS_TABLE)

    def aggregates(self, metric: str) -> list[dict[str, Any]]:
        return [row for row in self.rows(ANALYTICS_TABLE) if row["metric"] == metric]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Fixture]:
    fixture = Fixture(tmp_path)
    yield fixture
    fixture.store.close()


def serve_the_example(analytics: Analytics) -> None:
    for duration, status, size in ((2.0, 200, 100), (4.0, 404, 120), (9.0, 200, 30)):
        analytics.recorder.request_done("Seat", "GET", duration, status, size, 0.25)


def entry(row: dict[str, Any], metric: str) -> dict[str, Any]:
    return next(found for found in row["metrics"] if found["metric"] == metric)


def test_worked_example(world: Fixture) -> None:
    serve_the_example(world.analytics)
    world.second()
    (row,) = world.raw()
    assert row["threadId"] == 0 and row["period"] == 1000 and row["totalBytesProcessed"] == 250
    duration = entry(row, "duration")
    assert [duration[name] for name in ("path", "method", "mean", "median", "p90", "p95", "count")] == ["Seat", "GET", 5, 4, 9, 9, 3]
    success = entry(row, "success")
    assert (success["total"], success["count"], round(success["mean"], 3)) == (2, 3, 0.667)
    sent = entry(row, "bytes-sent")
    assert (round(sent["mean"], 2), sent["median"], sent["p90"], sent["p95"], sent["count"]) == (83.33, 100, 120, 120, 3)
    transfer = entry(row, "transfer")
    assert (transfer["type"], transfer["count"]) == ("operation", 3)
    assert entry(row, "memory")["rss"] > 0
    assert entry(row, "utilization") == {"metric": "utilization", "idle": 750, "active": 250, "utilization": 0.25}

    for _ in range(70):
        world.second()
    (duration,) = world.aggregates("duration")
    assert [duration[name] for name in ("path", "method", "period", "count", "mean", "median")] == ["Seat", "GET", 60000, 3, 5, 4]
    assert (round(duration["p90"], 9), round(duration["p95"], 9)) == (8, 8.5)
    assert duration["time"] == row["time"] and duration["node"] == "localhost"
    (success,) = world.aggregates("success")
    assert (success["count"], success["total"], round(success["ratio"], 3)) == (3, 2, 0.667)
    assert "p95" not in success and "median" not in success


def test_no_event_no_row(world: Fixture) -> None:
    for _ in range(5):
        world.second()
    assert world.raw() == []


def test_ids_increase_also_when_the_clock_steps_back(world: Fixture) -> None:
    for _ in range(3):
        world.analytics.recorder.record(1, "size")
        world.second()
        world.clock.step(-5)
    ids = [row["id"] for row in world.raw()]
    assert ids == sorted(set(ids)) and len(ids) == 3
    world.start()
    world.analytics.recorder.record(1, "size")
    world.second()
    assert len({row["id"] for row in world.raw()}) == 4


def test_instances_have_ids_of_their_own(tmp_path: Path) -> None:
    world = Fixture(tmp_path, thread_id=3, leads=False)
    world.analytics.recorder.record(1, "size")
    world.second()
    (row,) = world.raw()
    assert row["threadId"] == 3 and row["id"] % 1 == 3 * ID_STEP
    for _ in range(100):
        world.second()
    assert world.rows(ANALYTICS_TABLE) == []  # another one aggregates
    world.store.close()


def test_another_instance_goes_on_where_the_first_has_resigned(tmp_path: Path) -> None:
    world = Fixture(tmp_path)
    other = Analytics(world.store, clock=world.clock, thread_id=1, leads=False)
    for second in range(400):
        if second == 95:  # in the middle of a minute
            world.analytics.resign()
            other.lead()
        for each in (world.analytics, other):
            each.recorder.record(1, "size")
        world.second()
        while other.tick(0.0, 0.0):
            pass
        world.store.commit_turn()
    counts = [row["count"] for row in world.aggregates("size")]
    newest = max(row["time"] for row in world.aggregates("size"))
    assert sum(counts) == len([row for row in world.raw() if row["time"] <= newest]) > 600
    world.store.close()


def test_bytes_processed_run_on(world: Fixture) -> None:
    for _ in range(2):
        serve_the_example(world.analytics)
        world.second()
    assert [row["totalBytesProcessed"] for row in world.raw()] == [250, 500]


def test_minutes_follow_each_other_without_gap_or_overlap(world: Fixture) -> None:
    for _ in range(400):
        world.analytics.recorder.record(1, "size")
        world.second()
    found = world.aggregates("size")
    assert len(found) >= 4
    covered = found[-1]["time"]
    assert sum(row["count"] for row in found) == len([row for row in world.raw() if row["time"] <= covered])
    assert all(row["count"] <= 61 for row in found)


def test_a_period_of_a_stopped_server_is_aggregated_later(world: Fixture) -> None:
    for _ in range(10):
        world.analytics.recorder.record(1, "size")
        world.second()
    world.clock.advance(1000)
    world.start()
    for _ in range(62):
        world.second()
    (row,) = world.aggregates("size")
    assert row["count"] == 10
    world.start()  # and not again
    for _ in range(62):
        world.second()
    assert len(world.aggregates("size")) == 1


def test_resource_rows(world: Fixture) -> None:
    for _ in range(70):
        world.analytics.recorder.record(1, "size")
        world.second()
    (loop,) = world.aggregates("main-thread-utilization")
    assert loop["taskQueueLatency"] == 0 and loop["rss"] > 0 and loop["idle"] > 0
    (usage,) = world.aggregates("resource-usage")
    assert usage["period"] == 60000 and "cpuUtilization" in usage and "node" in usage
    (size,) = world.aggregates("database-size")
    assert size["database"] == "system" and size["size"] == size["used"] + size["free"] and size["audit"] >= 0
    assert {row["table"] for row in world.aggregates("table-size")} >= {"svc_user", RAW_ANALYTICS_TABLE}
    assert world.aggregates("storage-volume")[0]["size"] > 0


def test_storage_is_measured_every_nth_time(tmp_path: Path) -> None:
    world = Fixture(tmp_path, storage_interval=3, aggregate_period=2)
    for _ in range(20):
        world.second()
    usages = world.aggregates("resource-usage")
    assert len(usages) > 3
    assert len(world.aggregates("database-size")) == -(-len(usages) // 3)
    world.store.close()


def test_period_of_one_second_keeps_up(tmp_path: Path) -> None:
    world = Fixture(tmp_path, aggregate_period=1, storage_interval=0)
    for _ in range(30):
        world.analytics.recorder.record(1, "size")
        world.second()
    assert sum(row["count"] for row in world.aggregates("size")) >= 24
    world.store.close()


def test_raw_only_and_off(tmp_path: Path) -> None:
    for period, expected in ((0, 1), (-1, 0)):
        world = Fixture(tmp_path / str(period), aggregate_period=period)
        world.analytics.recorder.record(1, "size")
        for _ in range(100):
            world.second()
        assert len(world.raw()) == expected
        assert world.rows(ANALYTICS_TABLE) == []
        world.store.close()


def test_old_raw_rows_go(world: Fixture) -> None:
    for _ in range(3):
        world.analytics.recorder.record(1, "size")
        world.second()
    world.clock.advance(3600 - 2)
    for _ in range(62):
        world.second()
    assert world.raw() == []
    assert world.aggregates("size") != []


def test_work_is_sliced(world: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that makes each step cost the whole budget, a tick does one step and the rest follows."""
    for number in range(50):
        world.analytics.recorder.record(1, f"size{number}")
    monkeypatch.setattr("svc.analytics.collector.TICK_BUDGET", 0.0)
    world.clock.advance(1)
    assert world.analytics.tick(0, 0) is True
    assert world.raw() == []
    world.analytics.recorder.record(1, "meanwhile")
    assert world.analytics.tick(0, 0) is True
    while world.analytics.work(0.0):
        pass
    world.store.commit_turn()
    (row,) = world.raw()
    assert len(row["metrics"]) == 52


def test_failed_write_loses_only_the_row(world: Fixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from svc.errors import NoSpace
    from svc.store import Transaction

    def fail(self: Transaction) -> None:
        raise NoSpace

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "apply", fail)
        world.analytics.recorder.record(1, "size")
        world.second()
    assert "could not be stored" in caplog.text
    world.analytics.recorder.record(1, "size")
    world.second()
    assert len(world.raw()) == 1


def test_close_stores_what_is_left(world: Fixture) -> None:
    serve_the_example(world.analytics)
    world.analytics.close()
    assert len(world.raw()) == 1


def test_functions_may_give_fields_of_any_name(world: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    world.analytics.recorder.record(lambda: {"distribution": 5, "count": "x", "total": [1]}, "odd")
    for _ in range(65):
        world.analytics.recorder.record(1, "size")
        world.second()
    assert entry(world.raw()[0], "odd")["distribution"] == 5
    assert world.aggregates("size") and "analytics failed" not in caplog.text


def test_a_busy_second_is_several_rows(world: Fixture) -> None:
    for number in range(1000):
        world.analytics.recorder.record(number, f"size{number}")
    world.second()
    rows = world.raw()
    assert len(rows) == len({row["id"] for row in rows}) == 5
    assert {(row["time"], row["period"], row["threadId"], row["totalBytesProcessed"]) for row in rows} == {(rows[0]["time"], 1000, 0, 0)}
    found = [found["metric"] for row in rows for found in row["metrics"]]
    assert len(found) == len(set(found)) == 1002
    for _ in range(65):
        world.second()
    for number in (0, 500, 999):
        (aggregate,) = world.aggregates(f"size{number}")
        assert aggregate["mean"] == number and aggregate["count"] == 1


# --- the clock jumps ---------------------------------------------------------------------------------------------------------------


def run(world: Fixture, seconds: int) -> None:
    for _ in range(seconds):
        world.analytics.recorder.record(1, "size")
        world.second()


HOUR, DAY, YEAR = 3600, 86400, 365 * 86400


@pytest.mark.parametrize("jump", [-10 * YEAR, -HOUR, -1.5, 40, 3 * DAY, 10 * YEAR])
@pytest.mark.parametrize("restarts", [False, True])
def test_each_second_is_aggregated_once_whatever_the_clock_does(world: Fixture, jump: float, restarts: bool) -> None:
    run(world, 90)
    world.clock.step(jump)
    if restarts:
        world.start()
    run(world, 150)
    found = world.aggregates("size")
    raw = world.raw()
    is_stop = restarts and jump == 3 * DAY  # nothing tells it from a server that was not running: the rows are old
    assert len(raw) == (150 if is_stop else 240) and [row["id"] for row in raw] == sorted({row["id"] for row in raw})
    aggregated = sum(row["count"] for row in found)
    assert 240 - 62 - 30 <= aggregated <= 240 and all(row["period"] == 60000 for row in found)
    assert len(world.aggregates("resource-usage")) <= 5, "not more often than the period, but for the first after a start"
    times = {row["time"] for row in raw}
    assert is_stop or all(row["time"] in times for row in found)
    assert all(row["period"] == 1000 for row in raw)
    ids = [row["id"] for row in world.rows(ANALYTICS_TABLE)]
    assert ids == sorted(set(ids))
    # And it goes on as ever: each row of the last minute but that of the minute that runs is counted, none twice.
    run(world, 120)
    now = sum(row["count"] for row in world.aggregates("size"))
    assert now <= 360 and now - aggregated >= 60


def test_the_clock_goes_forth_and_back(world: Fixture) -> None:
    run(world, 10)
    world.clock.step(4 * YEAR)
    run(world, 10)
    world.clock.step(-4 * YEAR)
    run(world, 150)
    assert 170 - 92 <= sum(row["count"] for row in world.aggregates("size")) <= 170
    assert sum(row["count"] == 10 for row in world.aggregates("size")) == 2, "rows of different times are not one period"


def test_nothing_is_removed_soon_after_the_clock_has_jumped(world: Fixture) -> None:
    """A clock that is years ahead for half an hour does not cost the aggregates of the last year."""
    run(world, 130)
    raw, aggregates = world.raw(), world.rows(ANALYTICS_TABLE)
    world.clock.step(2 * YEAR)
    for _ in range(1800):
        world.second()
    world.clock.step(-2 * YEAR)
    for _ in range(1000):
        world.second()
    kept = {row["id"] for row in world.rows(ANALYTICS_TABLE)}
    assert kept >= {row["id"] for row in aggregates}
    assert {row["id"] for row in world.raw()} >= {row["id"] for row in raw}
    # After an hour of a clock that stays as it is, the raw rows are old.
    world.clock.advance(2 * HOUR)
    for _ in range(125):
        world.second()
    assert world.raw() == []
    assert {row["id"] for row in world.rows(ANALYTICS_TABLE)} >= {row["id"] for row in aggregates}


def test_rows_of_a_future_that_did_not_come_go(world: Fixture) -> None:
    world.clock.step(3 * YEAR)
    world.start()
    run(world, 130)
    wrong = {row["id"] for row in world.rows(ANALYTICS_TABLE)}
    world.clock.step(-3 * YEAR)
    world.start()
    run(world, 70)
    world.clock.advance(HOUR)
    run(world, 125)
    assert not wrong & {row["id"] for row in world.rows(ANALYTICS_TABLE)}
    now_ms = world.clock.wall() * 1000
    assert all(row["time"] <= now_ms for row in world.raw())
    assert world.aggregates("size") != []


def test_killed_in_the_middle_of_a_minute(world: Fixture) -> None:
    run(world, 100)  # no `close`: whatever was not committed is lost
    aggregated = sum(row["count"] for row in world.aggregates("size"))
    world.clock.advance(30)
    world.start()
    for _ in range(95):
        world.second()
    assert aggregated < 100 and sum(row["count"] for row in world.aggregates("size")) == 100


def test_rows_that_a_super_user_has_written_do_not_stop_it(world: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    now_ms = int(world.clock.wall() * 1000)
    table = world.store.databases[SYSTEM].tables[RAW_ANALYTICS_TABLE]
    odd: list[dict[str, Any]] = [
        {},
        {"time": now_ms},
        {"time": now_ms, "metrics": ["x", None, 5, {"metric": "size"}, {"metric": "size", "count": "x"}, {"metric": ["x"]}]},
        {"time": now_ms, "metrics": [{"metric": "size", "mean": 1, "count": 1, "distribution": ["x"]}, {"metric": "hit", "total": "x"}]},
    ]
    transaction = world.store.begin()
    for index, row in enumerate(odd):
        transaction.put(table, now_ms + index, {"id": now_ms + index, **row})
    transaction.put(table, 1e300, {"id": 1e300, "metrics": []})
    transaction.apply()
    world.store.commit_turn()
    world.start()
    run(world, 70)
    ours = [row for row in world.raw() if row.get("threadId") == 0]
    assert len(ours) == 70 and all(row["id"] < 2**43 for row in ours)
    assert sum(row["count"] for row in world.aggregates("size")) >= 30
    assert "is invalid" in caplog.text and "analytics failed" not in caplog.text


def test_processes_with_one_number_write_rows_of_their_own(world: Fixture) -> None:
    """While one is put in the place of the other, both write: in the same millisecond, and each not knowing of the other's rows."""
    serve_the_example(world.analytics)
    old, new = world.analytics, world.start()
    serve_the_example(new)
    world.clock.advance(1)
    for each in (old, new, old):
        serve_the_example(each)
        while each.tick(1.0, 1.0):
            pass
    world.store.commit_turn()
    ids = [row["id"] for row in world.raw()]
    assert len(ids) == 3 and len(set(ids)) == 3
