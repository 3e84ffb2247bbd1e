"""What is kept of files."""

from __future__ import annotations

from svc.clock import FakeClock
from svc.static.file_cache import OVERHEAD, SETTLED_SECONDS, FileCache
from svc.static.opening import Version

OLD = Version(1, 1, 10, 1, 1)


def test_what_was_put_is_there_for_its_version() -> None:
    cache = FileCache()
    cache.put((1, "a", ""), OLD, "content", 10)
    assert cache.get((1, "a", ""), OLD) == "content"
    assert cache.get((1, "a", "br"), OLD) is None
    assert cache.get((2, "a", ""), OLD) is None
    for number in range(5):
        cache.put((1, "a", ""), OLD, "content", 10)
        other = OLD._replace(**{OLD._fields[number]: 99})
        assert cache.get((1, "a", ""), other) is None
        assert cache.used == 0, "what was kept is of no use any more"


def test_the_least_used_goes_when_the_memory_is_full() -> None:
    cache = FileCache(3 * (100 + OVERHEAD))
    for name in "abc":
        cache.put((1, name, ""), OLD, name, 100)
    assert cache.get((1, "a", ""), OLD) == "a"
    cache.put((1, "d", ""), OLD, "d", 100)
    assert [cache.get((1, name, ""), OLD) for name in "abcd"] == ["a", None, "c", "d"]
    assert cache.used == 3 * (100 + OVERHEAD)
    cache.put((1, "large", ""), OLD, "", 4 * 1100)
    assert len(cache) == 3, "what is larger than all of it replaces nothing"


def test_a_set_that_goes_leaves_nothing() -> None:
    cache = FileCache()
    first, second = cache.new_set(), cache.new_set()
    cache.put((first, "a", ""), OLD, "1", 1)
    cache.put((second, "a", ""), OLD, "2", 1)
    cache.forget(first)
    assert cache.get((first, "a", ""), OLD) is None
    assert cache.get((second, "a", ""), OLD) == "2"
    cache.forget(second)
    assert cache.used == 0


def test_what_has_just_been_changed_is_not_kept() -> None:
    clock = FakeClock()
    cache = FileCache(clock=clock)
    version = OLD._replace(changed_ns=int(clock.wall() * 1e9))
    cache.put((1, "a", ""), version, "x", 1)
    assert cache.get((1, "a", ""), version) is None
    clock.advance(SETTLED_SECONDS + 1)
    cache.put((1, "a", ""), version, "x", 1)
    assert cache.get((1, "a", ""), version) == "x"
