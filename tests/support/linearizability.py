"""Whether the history of a register can be explained by calls that took effect one after the other, each between its beginning and its end.

The algorithm is that of Wing and Gong as Lowe has improved it ("Testing for linearizability", 2017), in the form of porcupine: a list of all
beginnings and ends in order of time, from which a call that is put next is lifted, and to which it is returned when that turns out wrong; a state
with the set of the calls before it is tried once, nor with more of those whose outcome is not known. Registers are independent of each other, so each record is
checked by itself.

A call whose outcome is not known has no end (`inf`): it may have taken effect at any time after its beginning, or never. As nothing has to come
after it, "never" is the same as "last of all".

The register is a record, `step` its model. What a call was told narrows down what it may have found; None: it was told nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import NamedTuple

COMPARED = 64  # sets of calls at most


class Record(NamedTuple):
    """What is compared of a record. `n`: different in each write; `count`: what increments add to."""

    n: int
    count: int = 0
    group: str = ""


State = Record | None


@dataclass(frozen=True, slots=True)
class Action:
    """`kind`: see `step`. `value`: what is written. `expected`: `n` of what has to be there. `told`: whether it did something, or what was read."""

    kind: str
    value: State = None
    expected: int = 0
    told: bool | State = None
    is_told: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """`begin`, `end`: seconds of one clock; `end` is inf if the outcome is not known. `caller`: for messages."""

    action: Action
    begin: float
    end: float = inf
    caller: str = ""


class Refuted:
    """No such call can come next."""


REFUTED = Refuted()


def step(state: State, action: Action) -> State | Refuted:
    """The state after the action; REFUTED if it was told what it cannot have found in this state.

    | kind      | does                                                                      | told |
    |-----------|---------------------------------------------------------------------------|------|
    | put       | writes `value`                                                            |      |
    | insert    | writes `value` if there is no record                                      | whether it did |
    | update    | writes `value` if there is a record                                       | whether it did |
    | swap      | writes `value` if `n` of the record is `expected`                         | whether it did |
    | add       | sets `n` of `value` and adds its `count`; without a record writes `value` | |
    | bump      | as `add`, but writes nothing without a record                             | whether there was one |
    | patch     | sets `n` and `group` of `value`; without a record writes `value`          | |
    | delete    | removes the record                                                        | whether there was one |
    | remove    | removes the record if its `n` is `expected`                               | whether it did |
    | sweep     | removes the record if its `group` is that of `value`                      | |
    | get       |                                                                           | the record |
    | find      |                                                                           | the record, if its `group` is that of `value` |
    """
    after, told = _effect(state, action)
    return REFUTED if action.is_told and action.told != told else after


def _effect(state: State, action: Action) -> tuple[State, bool | State]:
    value = action.value
    match action.kind:
        case "get":
            return state, state
        case "find":
            return state, state if _is_in_group(state, value) else None
        case "put":
            return value, None
        case "insert":
            return (value, True) if state is None else (state, False)
        case "update":
            return (state, False) if state is None else (value, True)
        case "swap":
            return (value, True) if state is not None and state.n == action.expected else (state, False)
        case "add":
            assert value is not None
            return value if state is None else Record(value.n, state.count + value.count, state.group), None
        case "bump":
            assert value is not None
            return (state, False) if state is None else (Record(value.n, state.count + value.count, state.group), True)
        case "patch":
            assert value is not None
            return value if state is None else Record(value.n, state.count, value.group), None
        case "delete":
            return None, state is not None
        case "remove":
            return (None, True) if state is not None and state.n == action.expected else (state, False)
        case "sweep":
            return None if _is_in_group(state, value) else state, None
    raise AssertionError(action.kind)


def _is_in_group(state: State, value: State) -> bool:
    return state is not None and value is not None and state.group == value.group


class _Entry:
    """A beginning, or an end, in the list. `end`: of a beginning, its end, which one without outcome does not have."""

    __slots__ = ("call", "end", "next", "number", "previous")

    def __init__(self, call: Call, number: int, end: _Entry | None = None) -> None:
        self.call = call
        self.number = number
        self.end = end
        self.previous: _Entry = self
        self.next: _Entry | None = None

    @property
    def is_end(self) -> bool:
        return self.end is self


def _entries(history: Sequence[Call]) -> _Entry:
    """The entry in front of the first."""
    timed: list[tuple[float, int, int, _Entry]] = []
    for number, call in enumerate(history):
        begin = _Entry(call, number)
        timed.append((call.begin, 0, number, begin))
        if call.end != inf:
            begin.end = end = _Entry(call, number)
            end.end = end
            timed.append((call.end, 1, number, end))  # at the same time they count as concurrent
    timed.sort(key=lambda each: each[:3])
    head = last = _Entry(Call(Action("get"), 0.0), -1)
    for *_, entry in timed:
        last.next, entry.previous = entry, last
        last = entry
    return head


def _lift(entry: _Entry) -> None:
    for each in (entry, entry.end):
        if each is not None:
            each.previous.next = each.next
            if each.next is not None:
                each.next.previous = each.previous


def _unlift(entry: _Entry) -> None:
    for each in (entry.end, entry):
        if each is not None:
            each.previous.next = each
            if each.next is not None:
                each.next.previous = each


class Undecided(Exception):
    """Too many calls without outcome."""


def find_order(history: Sequence[Call], initial: State = None, most: int = 1_000_000) -> list[int] | None:
    """An order that explains the history, as places in it, with those calls of unknown outcome that it needs; None: there is none.

    Raises Undecided after `most` states that led nowhere.
    """
    head = _entries(history)
    known = sum(call.end != inf for call in history)
    state = initial
    done = used = 0  # a bit for each call that was put; with and without an outcome
    tried: defaultdict[tuple[int, State], _Tried] = defaultdict(_Tried)
    tried[done, state].add(used)
    count = 0
    order: list[tuple[_Entry, State]] = []
    entry, left = head.next, known
    unknown_too = False
    while left:
        # First the calls that were answered, in order of their beginning; then, with `unknown_too`, those that were not.
        if entry is None or entry.is_end:
            if not unknown_too:
                unknown_too, entry = True, head.next
                continue
            if not order:
                return None
            if count > most:
                raise Undecided
            last, state = order.pop()
            _unlift(last)
            done &= ~(1 << last.number)
            used &= ~(1 << last.number)
            unknown_too = last.end is None
            left += last.end is not None
            entry = last.next
            continue
        if (entry.end is None) == unknown_too:
            after = step(state, entry.call.action)
            bit = 1 << entry.number
            then = (done, used | bit) if unknown_too else (done | bit, used)
            if not isinstance(after, Refuted) and tried[then[0], after].add(then[1]):
                done, used = then
                count += 1
                order.append((entry, state))
                state = after
                left -= entry.end is not None
                _lift(entry)
                entry, unknown_too = head.next, False
                continue
        entry = entry.next
    return [each.number for each, _ in order]


class _Tried:
    """Sets of calls without outcome that were tried with the same other calls."""

    __slots__ = ("_all", "_smallest")

    def __init__(self) -> None:
        self._all: set[int] = set()
        self._smallest: list[int] = []

    def add(self, used: int) -> bool:
        """Whether it is worth a try: none before was a part of it, as far as those with the fewest members tell."""
        if used in self._all or any(each & used == each for each in self._smallest):
            return False
        self._all.add(used)
        insort(self._smallest, used, key=int.bit_count)
        del self._smallest[COMPARED:]
        return True


def is_explained(history: Sequence[Call], initial: State = None) -> bool:
    """Whether some order of calls explains the history. Raises Undecided, but not for one of reads, and of puts of different values."""
    zones = _zones(history, initial)
    return find_order(history, initial) is not None if zones is None else _are_apart(zones)


Zone = tuple[float, float]
"""(first end, last beginning) of the calls that have to do with one value, in which it was there if the first is before the second."""


def _zones(history: Sequence[Call], initial: State) -> list[Zone] | None:
    """By Gibbons and Korach ("Testing shared memories", 1997). None: the history is not of this kind.

    A value that was read before it was put, or never was, makes
    zones that are not apart.
    """
    begins: dict[State, float] = {initial: -inf}
    zones: dict[State, Zone] = {initial: (-inf, -inf)}
    for call in history:
        if call.action.kind == "put" and not call.action.is_told and call.action.value not in begins:
            begins[call.action.value] = call.begin
            zones[call.action.value] = call.end, call.begin
        elif call.action.kind != "get":
            return None
    was_read = {initial}
    for call in history:
        if call.action.kind != "get" or not call.action.is_told or call.end == inf:
            continue
        value = call.action.told
        assert not isinstance(value, bool)
        if value not in begins or call.end < begins[value]:
            return [(0.0, 1.0), (0.0, 1.0)]
        was_read.add(value)
        zones[value] = min(zones[value][0], call.end), max(zones[value][1], call.begin)
    return [zone for value, zone in zones.items() if zone[0] < inf or value in was_read]


def _are_apart(zones: Sequence[Zone]) -> bool:
    """No value was there while another one was, nor was one put meanwhile."""
    there = sorted(zone for zone in zones if zone[0] < zone[1])
    if any(following[0] < zone[1] for zone, following in pairwise(there)):
        return False
    for end, begin in zones:
        if begin <= end:
            place = bisect_left(there, begin, key=lambda zone: zone[0])
            if place and end < there[place - 1][1]:
                return False
    return True


def refuted_part(history: Sequence[Call], initial: State = None) -> list[Call]:
    """Of a history that nothing explains, what there was up to the first answer that cannot be: later answers had no outcome yet."""

    def up_to(time: float) -> list[Call]:
        found = [call for call in history if call.begin <= time]
        return [
            call if call.end <= time else replace(call, action=replace(call.action, told=None, is_told=False), end=inf) for call in found
        ]

    ends = sorted(call.end for call in history if call.end != inf)
    first = bisect_left(ends, True, key=lambda end: not is_explained(up_to(end), initial))
    return up_to(ends[first])


def show(history: Sequence[Call]) -> str:
    """The history as text, in order of beginnings."""
    lines = []
    for call in sorted(history, key=lambda each: each.begin):
        action = call.action
        told = f" -> {action.told}" if action.is_told else ""
        wanted = f" expected={action.expected}" if action.expected else ""
        lines.append(f"{call.begin:.6f} .. {call.end:.6f} {call.caller} {action.kind} {action.value}{wanted}{told}")
    return "\n".join(lines)
