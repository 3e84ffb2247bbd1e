"""Everything that is random in a process, from a seed."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SYSTEM = os.urandom


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """`os.urandom`, `secrets`, `uuid4` and `random` give what follows from `seed`. What OpenSSL draws, keys for example, does not."""
    source = random.Random(seed)
    state = random.getstate()
    homes: list[Any] = [(module, "urandom") for module in list(sys.modules.values()) if getattr(module, "urandom", None) is _SYSTEM]
    homes.append((random, "_urandom"))  # of SystemRandom, which is that of `secrets`
    for module, name in homes:
        setattr(module, name, source.randbytes)
    random.seed(seed)
    try:
        yield
    finally:
        for module, name in homes:
            setattr(module, name, _SYSTEM)
        random.setstate(state)
