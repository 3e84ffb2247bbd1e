"""What clients have called and were answered: a history for each register, and what the log must have."""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

from tests.support.linearizability import Action, Call, State

ERA = 300  # calls after which clients take other keys, so that histories stay short
KEYS = 8  # records of a table in an era
GROUPS = 3
TORN = -1  # `n` of what was read of a list that was there in parts, or of a unique value that was there twice: no write has it

Register = tuple[str, str]
"""(table, key), of records; else what is like one: ("list", name), ("code", value), ("table", name), ("release", "")."""
RELEASE = "release", ""
Told = Mapping[Register, "bool | State"]


class NotDone(Exception):
    """The call was refused, or has not reached a server: it has no effect."""


class NoOutcome(Exception):
    """The connection was lost, or there was no answer in time: it may have an effect, at once or later, or none."""


WRITES_ALWAYS = frozenset(("put", "add", "patch"))
WRITES_IF_TOLD = frozenset(("insert", "update", "swap", "bump"))


class Recorder:
    """`histories`: by register. `written`, `refused`: (table, key, n) of writes that were acknowledged, that must have no effect.

    `faults`: what no client may ever be answered.
    """

    def __init__(self) -> None:
        self.histories: dict[Register, list[Call]] = defaultdict(list)
        self.written: set[tuple[str, str, int]] = set()
        self.refused: set[tuple[str, str, int]] = set()
        self.faults: list[str] = []
        self.acknowledged: Counter[str] = Counter()  # writes, by kind of client
        self.answers = 0
        self.without_outcome = 0
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """For a new write: larger than those before, about."""
        return next(self._numbers)

    @property
    def era(self) -> int:
        return self.answers // ERA

    def attempt(self, caller: str, effects: Mapping[Register, Action], send: Callable[[], Told | None]) -> bool:
        """Call `send` and record its effects. It returns what it was told of each register. Returns whether there was an answer."""
        begin = time.monotonic()
        try:
            told = send()
        except NotDone:
            self.refused.update((*register, action.value.n) for register, action in effects.items() if action.value and is_write(action))
            return False
        except NoOutcome:
            self.without_outcome += 1
            for register, action in effects.items():
                if action.kind not in ("get", "find"):
                    self.histories[register].append(Call(action, begin, inf, caller))
            return False
        end = time.monotonic()
        writes = False
        for register, action in effects.items():
            if told is not None and register in told:
                action = replace(action, told=told[register], is_told=True)
            self.histories[register].append(Call(action, begin, end, caller))
            writes = writes or action.kind not in ("get", "find")
            if action.value and is_write(action):
                has_written = action.kind in WRITES_ALWAYS or action.told
                (self.written if has_written else self.refused).add((*register, action.value.n))
        self.answers += 1
        if writes:
            self.acknowledged[caller.rstrip("0123456789-")] += 1
        return True

    def observe(self, register: Register, found: State) -> None:
        """What is there in the end."""
        now = time.monotonic()
        self.histories[register].append(Call(Action("get", told=found, is_told=True), now, now, "end"))


def is_write(action: Action) -> bool:
    return action.kind in WRITES_ALWAYS or action.kind in WRITES_IF_TOLD
