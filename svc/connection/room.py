"""Room that the requests of all callers share, and who gives way when there is no more: the largest of the caller who has most, never who comes last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from svc.messages import Request

T = TypeVar("T")


def heaviest(holders: Iterable[T], request_of: Callable[[T], Request], size_of: Callable[[T], int]) -> T:
    """The one that gives way. At least one of `holders` has a size. O(holders).

    What a user holds counts together, and so does what an address holds: many connections, users or addresses do not get more. Callers who are not known
    are told apart by their address.
    """
    held = [(holder, request_of(holder), size_of(holder)) for holder in holders]
    users: Counter[str] = Counter()
    addresses: Counter[str] = Counter()
    for _, request, size in held:
        addresses[request.peer] += size
        if request.user is not None:
            users[request.user.username] += size

    def weight(entry: tuple[T, Request, int]) -> tuple[int, int, int]:
        _, request, size = entry
        if not size:
            return 0, 0, 0
        of_address = addresses[request.peer]
        of_user = of_address if request.user is None else users[request.user.username]
        return max(of_address, of_user), of_user, size

    return max(held, key=weight)[0]
