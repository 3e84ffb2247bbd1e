"""A failure with fewer steps: what a step does is drawn from its number, so others can be left out."""

from __future__ import annotations

from fuzz.simulation.forks import ROUND, Failure, Template

TRIALS = 120


def shrunk(template: Template, failure: Failure, steps: int, left_out: frozenset[int]) -> tuple[Failure, frozenset[int]]:
    """Leaves out ever smaller pieces while the seed goes on failing, in whatever way."""
    seeds = range(failure.seed - failure.seed % ROUND, failure.seed + 1)
    size, trials = steps // 2, 0
    while size and trials < TRIALS:
        for begin in range(0, steps, size):
            more = left_out | frozenset(range(begin, min(begin + size, steps)))
            if more == left_out:
                continue
            trials += 1
            try:
                template.run(seeds, steps, more)
            except Failure as other:
                if other.seed == failure.seed:
                    failure, left_out = other, more
        size //= 2
    return failure, left_out
