"""What the parent knows, for the program that it executes in its own place: JSON in a variable of the environment, with the descriptors that stay open.

Another version of svc reads it: fields may be added with a default, and are left out of what an older one reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec


class MemberState(msgspec.Struct, frozen=True):
    """A `member.Member`. `channel`: the descriptor. `lived`: seconds."""

    place: int
    generation: int
    pid: int
    channel: int
    slot: int
    lived: float
    state: Literal["starting", "ready", "retiring"]


class PortState(msgspec.Struct, frozen=True):
    """A `kept_sockets.KeptPort`, with descriptors."""

    name: str
    port: int
    hosts: tuple[str, ...]
    path: str
    occurrence: int
    sockets: list[list[int]]


class ParentState(msgspec.Struct, frozen=True):
    """`numbers`: by place. `beats`, `lock`, `given` (sockets of the supervisor, some of them in `ports`): descriptors."""

    generation: int
    numbers: dict[int, int]
    beats: int
    lock: int
    members: list[MemberState]
    ports: list[PortState]
    given: list[int] = []

    @property
    def descriptors(self) -> Iterator[int]:
        yield self.beats
        yield self.lock
        yield from self.given
        yield from (member.channel for member in self.members)
        yield from (number for port in self.ports for group in port.sockets for number in group)


encode_state = msgspec.json.Encoder().encode
decode_state = msgspec.json.Decoder(ParentState).decode
"""Raises msgspec.DecodeError for what another version has written that this one cannot read."""
