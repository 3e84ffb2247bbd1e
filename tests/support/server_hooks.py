"""Files that servers of tests run first, named in SVC_TEST_HOOK. They change modules of svc for their whole process: each refuses to be imported by a test."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent
LONG_DRAIN = str(_HERE / "long_drain.py")
SHORT_DRAIN = str(_HERE / "short_drain.py")
QUICK_HANG = str(_HERE / "quick_hang.py")
SEEN_QUEUE = str(_HERE / "seen_queue.py")
SKEWED_CLOCK = str(_HERE / "skewed_clock.py")
