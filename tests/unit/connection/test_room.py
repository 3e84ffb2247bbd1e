"""Who gives way when there is no more room."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from svc.auth.users import User
from svc.connection.room import heaviest
from svc.messages import HeaderBlock, Request


@dataclass(frozen=True)
class Holder:
    name: str
    peer: str
    user: str | None
    size: int

    @property
    def request(self) -> Request:
        request = Request("POST", "/", HeaderBlock([]))
        request.peer = self.peer
        request.user = None if self.user is None else User(self.user)
        return request


@pytest.mark.parametrize(
    ("holders", "expected"),
    [
        ([("a", "1", None, 5), ("b", "2", None, 9), ("c", "3", None, 7)], "b"),
        ([("a", "1", None, 0), ("b", "2", None, 1)], "b"),
        ([("many1", "1", "m", 4), ("many2", "2", "m", 5), ("one", "3", "o", 8)], "many2"),  # one user from several addresses
        ([("many1", "1", "m", 4), ("many2", "1", "n", 5), ("one", "3", "o", 8)], "many2"),  # several users from one address
        ([("attack1", "p", "m", 4), ("attack2", "p", "m", 3), ("other", "p", "o", 5)], "attack1"),  # all behind one proxy
        ([("known", "1", "k", 5), ("unknown1", "1", None, 3), ("unknown2", "2", None, 9)], "unknown2"),
    ],
)
def test_the_largest_of_the_caller_who_holds_most(holders: list[tuple[str, str, str | None, int]], expected: str) -> None:
    made = [Holder(*each) for each in holders]
    for order in (made, made[::-1]):
        assert heaviest(order, lambda holder: holder.request, lambda holder: holder.size).name == expected
