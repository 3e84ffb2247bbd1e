"""What all fuzz targets share: arguments, the corpus, the time loop, seeds, and running a failing input again.

A target is two functions: `generate(random, corpus) -> bytes` makes an input up, or mutates one of the corpus; `check(data)` asserts the
target's invariant for it. Everything that happens must follow from `data`: what else is random is drawn from `random.Random(data)`.

    python fuzz/fuzz_x.py                   the corpus, then made-up inputs for some seconds
    python fuzz/fuzz_x.py --seconds 3600    for as long as asked
    python fuzz/fuzz_x.py --seed 7          the same inputs again
    python fuzz/fuzz_x.py FILE ...          these inputs only

An input that fails is stored in the corpus as `failed-...`: it is the first to be tried from then on, and stays when it is mended.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

SECONDS = 5.0
BATCH = 50  # inputs between two looks at the clock

Generate = Callable[[random.Random, Sequence[bytes]], bytes]
Check = Callable[[bytes], None]


def run(name: str, generate: Generate, check: Check, corpus: Path, arguments: Sequence[str] | None = None) -> int:
    """Run a target; returns the exit status. `corpus`: a directory, which need not exist."""
    parser = argparse.ArgumentParser(prog=f"fuzz_{name}", description=f"Fuzz {name}.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="inputs to run again, and nothing else")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="N", help=f"how long (default {SECONDS:g})")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="seed of the made-up inputs (default: another each time)")
    options = parser.parse_args(arguments)

    files = options.files or (sorted(corpus.iterdir()) if corpus.is_dir() else [])
    files.sort(key=lambda path: not path.name.startswith("failed-"))
    known = []
    for path in files:
        data = path.read_bytes()
        if not _passes(check, data):
            print(f"{name}: {path} fails", file=sys.stderr)
            return 1
        known.append(data)
    print(f"{name}: {len(files)} inputs from files pass")
    if options.files:
        return 0

    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    print(f"{name}: --seed {seed}", flush=True)
    source = random.Random(seed)
    end = time.monotonic() + options.seconds
    count = 0
    while time.monotonic() < end:
        for _ in range(BATCH):
            data = generate(source, known)
            count += 1
            if not _passes(check, data):
                path = corpus / f"failed-{hashlib.sha256(data).hexdigest()[:12]}"
                corpus.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                print(
                    f"{name}: input {count} of --seed {seed} fails: {data[:200]!r}\nagain: python fuzz/fuzz_{name}.py {path}",
                    file=sys.stderr,
                )
                return 1
    print(f"{name}: {count} made-up inputs pass")
    return 0


def _passes(check: Check, data: bytes) -> bool:
    try:
        check(data)
    except Exception:
        traceback.print_exc(limit=-8)
        return False
    return True


def mutate(source: random.Random, data: bytes, tokens: Sequence[bytes] = (), most: int = 4) -> bytes:
    """`data` after up to `most` small changes: bytes replaced, removed, doubled, tokens put in."""
    changed = bytearray(data)
    for _ in range(source.randint(0, most)):
        place = source.randrange(len(changed) + 1)
        match source.randrange(5):
            case 0 if tokens:
                changed[place:place] = source.choice(tokens)
            case 1:
                del changed[place : place + source.randint(1, 8)]
            case 2:
                changed[place : place + 1] = bytes((source.randrange(256),))
            case 3:
                changed[place:place] = changed[place : place + source.randint(1, 40)]
            case _:
                changed[place:place] = source.randbytes(source.randint(1, 4))
    return bytes(changed)
