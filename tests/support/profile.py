"""How much is tried: the default, the same at every run, or HYPOTHESIS_PROFILE=nightly, random and ten times as much."""

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "svc")
NIGHTLY = PROFILE == "nightly"
FACTOR = int(os.environ.get("NIGHTLY_FACTOR", "10")) if NIGHTLY else 1


def examples(default: int) -> int:
    """The `max_examples` of a test that needs another number than the profile's 100."""
    return default * FACTOR


def half_by_day(default: int) -> int:
    """That of the tests that take longest: half as many by default, the tenfold by night as all others."""
    return examples(default) if NIGHTLY else default // 2
