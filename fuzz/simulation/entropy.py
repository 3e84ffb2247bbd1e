"""Everything that is random in a process, from a seed."""

from __future__ import annotations

import functools
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SYSTEM = os.urandom


@functools.cache
def _homes() -> list[tuple[Any, str]]:
    """Modules, and under which name they have it. Looked for once, when the server has been imported."""
    found: list[tuple[Any, str]] = [(module, "urandom") for module in list(sys.modules.values()) if vars(module).get("urandom") is _SYSTEM]
    return [*found, (random, "_urandom")]  # of SystemRandom, which is that of `secrets`


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """`os.urandom`, `secrets`, `uuid4` and `random` give what follows from `seed`. What OpenSSL draws, keys for example, does not."""
    source = random.Random(seed)
    state = random.getstate()
    homes = _homes()
    for module, name in homes:
        setattr(module, name, source.randbytes)
    random.seed(seed)
    try:
        yield
    finally:
        for module, name in homes:
            setattr(module, name, _SYSTEM)
        random.setstate(state)
