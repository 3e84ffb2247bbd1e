"""The order of listeners: by registration, `run_first`, and `before` and `after` named ones (spec: http §12.2).

    first     the listeners of `run_first`, the latest in front
    built-in  the steps that are always there, in their order; behind `routed_after` the listeners of a host or a path, the most particular first
    rest      all others, by registration

Listeners of `before` or `after` are put directly in front of the first, or behind the last, that has the name; several of them as above: those of a host or a
path first, the most particular in front, then all others by registration.
Pure: steps in, a list of them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from svc.listeners.step import Step


def ordered(
    listeners: Sequence[Step], built_in: Sequence[Step] = (), *, routed_after: str = "", warn: Callable[[str], None] = lambda text: None
) -> list[Step]:
    """All of them in the order in which they are asked. `built_in`: in their order. `warn` is told which wishes could not be met."""
    by_rank = sorted(listeners, key=lambda each: each.rank)
    wishes = {
        each: _wish(each, by_rank, built_in, warn) for each in by_rank if each.options.before is not None or each.options.after is not None
    }
    wishes = {each: wish for each, wish in wishes.items() if wish != (None, None)}
    while True:
        unmet = _find_cycle(wishes, by_rank)
        if not unmet:
            placed, unmet = _place(by_rank, built_in, routed_after, wishes)
            if not unmet:
                return placed
        names = ", ".join(sorted({f"'{each.name}'" for each in unmet}))
        warn(f"the listeners {names} cannot be placed before and after each other as they want to; they stay in the order of registration")
        for each in unmet:
            del wishes[each]


def _wish(
    listener: Step, listeners: Sequence[Step], built_in: Sequence[Step], warn: Callable[[str], None]
) -> tuple[str | None, str | None]:
    """(before, after), without names that no other listener has."""
    known = {each.name for each in (*listeners, *built_in) if each is not listener}
    found: list[str | None] = []
    for word, name in (("before", listener.options.before), ("after", listener.options.after)):
        if name is not None and name not in known:
            warn(f"there is no listener '{name}', {word} which '{listener.name}' wants to be")
            name = None
        found.append(name)
    return found[0], found[1]


def _find_cycle(wishes: dict[Step, tuple[str | None, str | None]], by_rank: Sequence[Step]) -> list[Step]:
    """Listeners that wait for each other; empty if there are none."""
    done: set[Step] = set()
    for start in wishes:
        path: list[Step] = []
        if _walk(start, wishes, by_rank, path, done):
            return path
    return []


def _walk(
    listener: Step, wishes: dict[Step, tuple[str | None, str | None]], by_rank: Sequence[Step], path: list[Step], done: set[Step]
) -> bool:
    """Depth first. True: `path` has been cut to a cycle."""
    if listener in done or listener not in wishes:
        return False
    if listener in path:
        del path[: path.index(listener)]
        return True
    path.append(listener)
    names = [name for name in wishes[listener] if name is not None]
    for other in by_rank:
        if other is not listener and other.name in names and _walk(other, wishes, by_rank, path, done):
            return True
    path.pop()
    done.add(listener)
    return False


def _place(
    by_rank: Sequence[Step], built_in: Sequence[Step], routed_after: str, wishes: dict[Step, tuple[str | None, str | None]]
) -> tuple[list[Step], list[Step]]:
    """(the order, []), or (a part of it, the listener whose two wishes exclude each other)."""
    order = _base([each for each in by_rank if each not in wishes], built_in, routed_after)
    waiting = sorted((each for each in by_rank if each in wishes), key=_by_route)
    while waiting:
        # Without cycles there always is one that waits for no other.
        each = next(one for one in waiting if {other.name for other in waiting if other is not one}.isdisjoint(wishes[one]))
        waiting.remove(each)
        position = _position(each, order, *wishes[each], wishes)
        if position is None:
            return order, [each]
        order.insert(position, each)
    return order, []


def _base(listeners: Sequence[Step], built_in: Sequence[Step], routed_after: str) -> list[Step]:
    first = [each for each in listeners if each.options.run_first][::-1]
    routed = sorted((each for each in listeners if each.route.particular and not each.options.run_first), key=_by_route)
    rest = [each for each in listeners if not each.route.particular and not each.options.run_first]
    middle: list[Step] = []
    for step in built_in:
        middle.append(step)
        if step.name == routed_after:
            middle += routed
            routed = []
    return [*first, *routed, *middle, *rest]


def _by_route(listener: Step) -> tuple[bool, tuple[int, ...]]:
    return not listener.route.particular, tuple(-number for number in listener.route.particular)


def _position(
    listener: Step, order: list[Step], before: str | None, after: str | None, wishes: dict[Step, tuple[str | None, str | None]]
) -> int | None:
    """Where it goes. None: it cannot be before the one and after the other."""
    first = next((index for index, each in enumerate(order) if each.name == before), None) if before is not None else None
    if after is None:
        return first if first is not None else len(order)
    last = max((index for index, each in enumerate(order) if each.name == after), default=None)
    if last is None:
        return first if first is not None else len(order)
    if before is not None:
        return None if first is not None and last >= first else first
    position = last + 1
    while position < len(order) and wishes.get(order[position]) == (None, after):
        position += 1
    return position
