"""How far shared subscriptions have got: a row of `$mqtt` for each, which all processes over the data directory read and change (spec: mqtt §7).

Its key is `g`, then 16 bytes of a hash of the name. It is changed by functions of what is stored, which run in the write transaction: so two processes never
take the same message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

import msgspec

GROUP = b"g"
ENTER = "mqtt.shared.enter"
"""What processes ask each other: the name of a group that begins in one of them. Answered when it is on the disk how far it has got in the other."""
FREE = "mqtt.shared.free"
"""What they tell each other: the name of a group of which something is open."""


class GroupRow(msgspec.Struct, gc=False, array_like=True):
    """`name`: `$share/<group>/<filter>`. `given`: LSN up to which each message was taken by a process, but those in `open`. `members`: numbers of the sessions
    that last, by client id. `taken`: LSNs of those that a process has taken, and that are not acknowledged, by its identity. `weights`: of the processes with
    connected members, how many of them can take messages, as far as is known. `refused`: the identities of the processes none of whose members may read a
    message, by LSN: of those in `open` and `taken`.
    """

    name: str
    given: int
    open: list[int]
    members: dict[str, bytes]
    taken: dict[str, list[int]] = {}
    weights: dict[str, int] = {}
    refused: dict[int, list[str]] = {}

    @property
    def is_needed(self) -> bool:
        """Whether it has members."""
        return bool(self.members or self.weights)

    def release(self, identity: str) -> None:
        """A process has no member any more: others are to have what it has taken."""
        self.weights.pop(identity, None)
        self.open = sorted({*self.open, *self.taken.pop(identity, ())})

    def release_dead(self, is_alive: Callable[[str], bool]) -> None:
        for identity in {*self.taken, *self.weights}:
            if not is_alive(identity):
                self.release(identity)

    def refuse(self, lsns: Iterable[int], identity: str) -> None:
        """No member of a process may read these. What none of all may read is not `open` any more."""
        opened = set(self.open)
        for lsn in opened.intersection(lsns):
            self.refused[lsn] = [*(each for each in self.refused.get(lsn, ()) if each != identity), identity]
        known = opened.union(*self.taken.values())
        self.refused = {lsn: by for lsn, by in self.refused.items() if lsn in known}
        for lsn, by in list(self.refused.items()):
            if lsn in opened and self.weights.keys() <= set(by):
                del self.refused[lsn]
                opened.discard(lsn)
        self.open = sorted(opened)

    def has_refused(self, lsn: int, identity: str) -> bool:
        return identity in self.refused.get(lsn, ())

    def is_for(self, lsn: int, identity: str) -> bool:
        """Whether a message is meant for this process: each of those with members has its share. It is no more than an advice."""
        total = sum(self.weights.values())
        if not self.weights.get(identity):
            return True  # what is known of the weights is out of date
        place = (lsn * 0x9E3779B97F4A7C15 >> 32) % total  # neighbours are not alike
        for each, weight in sorted(self.weights.items()):
            place -= weight
            if place < 0:
                return each == identity
        return False


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(GroupRow).decode


def group_key(name: str) -> bytes:
    return GROUP + sha256(name.encode()).digest()[:16]


def decode_group(data: bytes) -> GroupRow:
    return _decode(data)


def encode_group(row: GroupRow) -> bytes | None:
    """None: it need not be stored."""
    return _encode(row) if row.is_needed else None
