"""The code points that UTF-8 can encode, which Hypothesis would find by asking the codec about each of 1.1 million: a second and a half of processor time
in each process whose directory `.hypothesis` does not have them yet."""

import sys

from hypothesis.internal import charmap
from hypothesis.internal.intervalsets import IntervalSet

UTF8 = ((0, 0xD7FF), (0xE000, sys.maxunicode))  # all but surrogates (RFC 3629, section 3)


def know_utf8() -> None:
    """Tell Hypothesis. Releases that do not ask in this way have nothing to be told."""
    if hasattr(charmap, "intervals_from_codec"):
        ask = charmap.intervals_from_codec
        known = IntervalSet(UTF8), IntervalSet(())  # and those that are decoded to something else
        charmap.intervals_from_codec = lambda name: known if name == "utf-8" else ask(name)
