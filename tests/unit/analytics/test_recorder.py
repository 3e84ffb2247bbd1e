"""What is recorded comes out of the closed period, once (spec: analytics §2)."""

from typing import Any

import pytest

from svc.analytics import recorder as module
from svc.analytics.recorder import FRAMEWORK_ROUTE, IdleRecorder, Recorder


def entries(recorder: Recorder) -> dict[tuple[Any, ...], dict[str, Any]]:
    period = recorder.close()
    if period is None:
        return {}
    return {(e["metric"], e.get("path"), e.get("method"), e.get("type")): e for e in period.iter_entries() if e is not None}


def test_nothing_recorded_is_no_period() -> None:
    recorder = Recorder()
    recorder.gauge(lambda: {"connections": 1}, "ws-connections")
    assert recorder.close() is None


def test_value_kinds() -> None:
    recorder = Recorder()
    recorder.record(3, "size", "a")
    recorder.record(5.0, "size", "a")
    recorder.record(True, "hit", "a")
    recorder.record(False, "hit", "a")
    recorder.record(lambda: {"connections": 4.0}, "open")
    found = entries(recorder)
    assert found["size", "a", None, None]["mean"] == 4
    assert found["hit", "a", None, None] == {"metric": "hit", "path": "a", "total": 1, "count": 2, "mean": 0.5}
    assert found["open", None, None, None] == {"metric": "open", "connections": 4}
    assert entries(recorder) == {}


@pytest.mark.parametrize("value", ["1", None, [1], {}])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(TypeError):
        Recorder().record(value, "size")


def test_subclasses_of_numbers_count() -> None:
    class Bytes(int):
        pass

    recorder = Recorder()
    recorder.record(Bytes(3), "size")
    assert entries(recorder)["size", None, None, None]["mean"] == 3


def test_requests() -> None:
    recorder = Recorder()
    for duration, status, size in ((2, 200, 100), (4, 404, 120), (9, 200, 30)):
        recorder.request_done("Seat", "GET", duration, status, size, 0.5)
    found = entries(recorder)
    assert found["duration", "Seat", "GET", None]["median"] == 4
    assert found["success", "Seat", "GET", None]["total"] == 2
    assert found["bytes-sent", "Seat", "GET", None]["median"] == 100
    assert found["transfer", "Seat", "GET", "operation"]["count"] == 3


def test_a_bucket_of_requests_records_the_same() -> None:
    whole, handles = Recorder(), Recorder()
    done = handles.request_bucket("Seat", "GET")
    for period in range(3):
        for duration, status, size in ((2, 200, 100), (4, 404, 120), (9, 200, 0))[period:]:
            whole.request_done("Seat", "GET", duration, status, size, 0.5)
            done(duration, status, size, 0.5)
        assert entries(whole) == entries(handles) != {}
    assert entries(handles) == {}


def test_a_bucket_of_requests_keeps_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_GROUPS", 0)
    recorder = Recorder()
    recorder.request_bucket("Seat", "GET")(2, 200, 100, 0.5)
    assert recorder.close() is None
    IdleRecorder().request_bucket("Seat", "GET")(2, 200, 100, 0.5)


def test_requests_without_body_have_neither_bytes_nor_transfer() -> None:
    recorder = Recorder()
    recorder.request_done("Seat", "HEAD", 1.0, 200, 0, 0.1)
    assert {key[0] for key in entries(recorder)} == {"duration", "success", "response_200"}


def test_requests_that_no_resource_took_have_no_path() -> None:
    recorder = Recorder()
    recorder.request_done("", "GET", 1.0, 404, 10, 0.1)
    assert ("duration", None, "GET", None) in entries(recorder)


def test_operations_have_a_method_of_their_own() -> None:
    recorder = Recorder()
    recorder.request_done("describe_all", "operation", 1.0, 200, 10, 0.1)
    assert set(entries(recorder)) == {
        (metric, "describe_all", "operation", None) for metric in ("duration", "success", "response_200", "bytes-sent", "transfer")
    }


def test_invented_methods_are_one_group() -> None:
    recorder = Recorder()
    for number in range(100):
        recorder.request_done("Seat", f"M{number}", 1.0, 404, 10, 0.1)
    assert entries(recorder)["duration", "Seat", "unknown", None]["count"] == 100


def test_requests_and_own_records_of_one_group_mix() -> None:
    recorder = Recorder()
    recorder.request_done("Seat", "GET", 1.0, 200, 0, 0.1)
    recorder.record(3.0, "duration", "Seat", "GET")
    recorder.record(False, "success", "Seat", "GET")
    found = entries(recorder)
    assert found["duration", "Seat", "GET", None]["mean"] == 2
    assert (found["success", "Seat", "GET", None]["total"], found["success", "Seat", "GET", None]["count"]) == (1, 2)


def test_handles_stay_valid() -> None:
    recorder = Recorder()
    number, flag = recorder.bucket("size"), recorder.yes_no("hit")
    for _ in range(3):
        number(7)
        flag(True)
        found = entries(recorder)
        assert found["size", None, None, None]["count"] == 1
        assert found["hit", None, None, None]["count"] == 1
        assert entries(recorder) == {}


def test_closed_period_is_on_its_own() -> None:
    recorder = Recorder()
    recorder.record(1, "size")
    period = recorder.close()
    recorder.record(2, "size")
    assert period is not None and [e["mean"] for e in period.iter_entries() if e is not None] == [1]


def test_unused_groups_are_forgotten() -> None:
    recorder = Recorder()
    recorder.record(1, "size")
    recorder.record(True, "hit")
    recorder.close()
    recorder.close()
    assert not recorder._numbers and not recorder._flags


def test_gauges_join_an_active_period() -> None:
    recorder = Recorder()
    recorder.gauge(lambda: {"connections": 2}, "ws-connections")
    recorder.gauge(lambda: None, "mqtt-connections")
    recorder.record(1, "size")
    found = entries(recorder)
    assert found["ws-connections", None, None, None]["connections"] == 2
    assert ("mqtt-connections", None, None, None) not in found


def test_gauge_that_fails_costs_only_its_entry(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    recorder.gauge(lambda: {"x": 1 // 0}, "broken")
    recorder.record(1, "size")
    assert [key[0] for key in entries(recorder)] == ["size"]
    assert "broken" in caplog.text


@pytest.mark.parametrize("result", [5, {"x": object()}, {"x": "\ud800"}, [("x", 1)]])
def test_function_that_gives_what_cannot_be_stored_costs_only_its_entry(result: Any, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    recorder.record(lambda: result, "odd")
    recorder.record(1, "size")
    assert [key[0] for key in entries(recorder)] == ["size"]
    assert "odd" in caplog.text


def test_a_function_does_not_name_its_entry() -> None:
    recorder = Recorder()
    recorder.record(lambda: {"metric": "duration", "path": ["x"], "depth": 3, 5: 5}, "queue", "mail")
    assert entries(recorder) == {("queue", "mail", None, None): {"metric": "queue", "path": "mail", "depth": 3}}


def test_answers_are_counted_by_status() -> None:
    recorder = Recorder()
    for status in (200, 200, 404):
        recorder.request_done("Seat", "GET", 1.0, status, 0, 0.1)
    recorder.request_done("app/{id}", "GET", 1.0, 500, 0, 0.1, FRAMEWORK_ROUTE)
    found = entries(recorder)
    assert found["response_200", "Seat", "GET", None] | {"total": 2, "count": 2, "mean": 1} == found["response_200", "Seat", "GET", None]
    assert found["response_404", "Seat", "GET", None]["count"] == 1
    assert found["response_500", "app/{id}", "GET", FRAMEWORK_ROUTE]["count"] == 1


def test_statuses_count_as_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_GROUPS", 10)
    recorder = Recorder()
    for status in range(100, 600):
        recorder.request_done("Seat", "GET", 1.0, status, 0, 0.1)
    found = entries(recorder)
    assert len([key for key in found if key[0].startswith("response_")]) == 6
    assert found["success", "Seat", "GET", None]["count"] == 500 and found["success", "Seat", "GET", None]["total"] == 300
    recorder.request_done("Seat", "GET", 1.0, 500, 0, 0.1)  # there is room again
    assert ("response_500", "Seat", "GET", None) in entries(recorder)


def test_a_period_of_very_many_groups_is_put_together_in_steps() -> None:
    recorder = Recorder()
    for number in range(1000):
        recorder.record(number, f"size{number}")
        recorder.request_done(f"P{number}", "GET", 1.0, 200, 5, 0.1)
    period = recorder.close()
    assert period is not None and not period.numbers
    steps = list(period.iter_entries())
    assert steps.count(None) > 10 and len(steps) - steps.count(None) == 1000 * (1 + 5)
    assert len(list(period.iter_release())) > 10 and not period.numbers and not period.flags


def test_limit_of_groups(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "MAX_GROUPS", 5)
    recorder = Recorder()
    for number in range(20):
        recorder.record(1, f"size{number}")
        recorder.record(True, f"hit{number}")
        recorder.record(dict, f"field{number}")
    recorder.request_done("Seat", "GET", 1.0, 200, 0, 0.1)
    recorder.record(1, "size0")  # a known group has room
    found = entries(recorder)
    assert len(found) == 5 and found["size0", None, None, None]["count"] == 2
    assert len(caplog.records) == 1 and "56 events" in caplog.text


def test_switched_off() -> None:
    recorder = IdleRecorder()
    recorder.record(1, "size")
    recorder.request_done("Seat", "GET", 1.0, 200, 5, 0.1)
    recorder.bucket("x")(1)
    recorder.yes_no("y")(True)
    assert recorder.close() is None
