"""Figures of this very process (spec: analytics §6.1, §7)."""

from pathlib import Path

from svc.analytics.process import ResourceUsage, memory, volume


def test_memory_keeps_its_invariants() -> None:
    found = memory(12345)
    assert set(found) == {"rss", "heapTotal", "heapUsed", "external", "arrayBuffers"}
    assert all(type(value) is int and value >= 0 for value in found.values())
    assert found["heapUsed"] <= found["heapTotal"] <= found["rss"]
    assert 12345 == found["arrayBuffers"] <= found["external"]


def test_resource_usage_counts_since_the_last_row() -> None:
    usage = ResourceUsage()
    first = usage.fields(60_000)
    second = usage.fields(1000)
    assert first.keys() == second.keys()
    assert {"userCPUTime", "systemCPUTime", "maxRSS", "fsRead", "voluntaryContextSwitches", "cpuUtilization"} <= first.keys()
    assert second["userCPUTime"] >= 0 and second["maxRSS"] > 0
    assert usage.fields(0)["cpuUtilization"] == 0


def test_volume(tmp_path: Path) -> None:
    found = volume(tmp_path)
    assert found["size"] > 0 and found["available"] <= found["free"] <= found["size"]
