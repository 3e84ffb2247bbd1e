"""Simulations by the thousand: they begin in a copy of a process that has a server running already.

The *template* is a simulation that has run for a while, so that everything is imported and the server has met each kind of request. A *round* goes on from
there in a fork of it: ROUND seeds, one after the other, each with new clients; then the fork ends without a word. So what a seed does follows from the seeds of
its round up to it, whichever of them is asked for.

All rounds write into the databases that the template has open, one round at a time; behind each, the files get back the content they had. LMDB and flock(2)
would mind two processes that do this at one time, or one that goes on in both: neither is so.
"""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import traceback
from collections.abc import Container, Iterator
from pathlib import Path

from fuzz.simulation.entropy import seeded
from fuzz.simulation.run import Result, Simulation
from fuzz.simulation.server import BEGINNING
from svc.testing.prepared import make_directory, prepare_root

WARM_STEPS = 400
WARM_SEEDS = (-3, -2, -1)
ROUND = 10  # seeds: the first is a multiple of it


class Failure(Exception):
    """`seed` has failed. `text`: how; `trace`: what was done."""

    def __init__(self, seed: int, text: str, trace: list[str]) -> None:
        super().__init__(seed, text, trace)
        self.seed = seed
        self.text = text
        self.trace = trace


def rounds(first: int, count: int) -> Iterator[range]:
    """The seeds from `first` on in their rounds: each begins with the first of its round, even if that is not asked for."""
    end = first + count
    for start in range(first - first % ROUND, end, ROUND):
        yield range(start, min(start + ROUND, end))


class Template:
    def __init__(self) -> None:
        prepare_root(BEGINNING)
        self._base = make_directory("svc-simulation-")
        with seeded(0):
            self._simulation = Simulation(self._base)
            for seed in WARM_SEEDS:
                self._simulation.begin(seed)
                self._simulation.run(WARM_STEPS)
        self._simulation.server.stay_in_forks()
        self._names = set(os.listdir(self._base))
        self._kept = [_KeptFile(file) for file in self._base.rglob("*") if file.is_file() and file.name != "reserve"]
        gc.collect()
        gc.freeze()

    def run(self, seeds: range, steps: int, left_out: Container[int] = ()) -> list[Result]:
        """A round. `left_out`: of the last of the seeds. Raises Failure."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            with open(writing, "wb") as pipe:
                pickle.dump(self._in_fork(seeds, steps, left_out), pipe)
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        self._restore()
        results: list[Result] | Failure = pickle.loads(answer) if answer else Failure(seeds[-1], "the process has died", [])
        if isinstance(results, Failure):
            raise results
        return results

    def _in_fork(self, seeds: range, steps: int, left_out: Container[int]) -> list[Result] | Failure:
        simulation = self._simulation
        simulation.server.go_on_in_fork(os.getppid())
        results = []
        for seed in seeds:
            try:
                with seeded(seed):
                    simulation.begin(seed)
                    results.append(simulation.run(steps, left_out if seed == seeds[-1] else ()))
            except Exception as error:
                text = "".join(traceback.format_exception(error, limit=-6, chain=False))
                return Failure(seed, text, simulation.trace)
        return results

    def _restore(self) -> None:
        """What the fork has written into files that the template has open, and left beside them."""
        for name in set(os.listdir(self._base)) - self._names:
            shutil.rmtree(self._base / name)
        for file in self._kept:
            file.restore()

    def close(self) -> None:
        self._simulation.server.close()
        shutil.rmtree(self._base, ignore_errors=True)


class _KeptFile:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR)
        self._copy = os.memfd_create(path.name)
        self._size = os.write(self._copy, path.read_bytes())

    def restore(self) -> None:
        os.lseek(self._file, 0, os.SEEK_SET)
        os.sendfile(self._file, self._copy, 0, self._size)
        os.ftruncate(self._file, self._size)
