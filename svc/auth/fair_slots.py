"""A few slots for expensive work, shared fairly: the waiting requests take turns by network, so that a flood from one delays only itself.

    networks    a: 1 2 3 4 5        b: 6        c: 7 8
    order       1 6 7 2 8 3 4 5

Round robin over the networks with waiting requests, first come first served within one. A released slot goes straight to the next in the
order, so a request that arrives meanwhile cannot overtake. Everything is O(1) but `network_of`, whose answers are remembered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

IPV6_PREFIX = 64  # bits that belong to one subscriber, as networks are assigned (RFC 6177)


@lru_cache(4096)
def network_of(address: str) -> str:
    """The network that an address of a peer counts for: an IPv4 address itself, the /64 of an IPv6 address; any other text itself.

    >>> network_of("198.51.100.7"), network_of("::ffff:198.51.100.7"), network_of("2001:db8:1:2:3:4:5:6"), network_of("unix")
    ('198.51.100.7', '198.51.100.7', '2001:db8:1:2::/64', 'unix')
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network((parsed, IPV6_PREFIX), strict=False))


class FairSlots:
    """`slots` holders at a time. Used on one loop's thread."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, slots: int) -> None:
        self._free = slots
        # By network, none is empty; the next one to be served is the first.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def acquire(self, network: str) -> None:
        """Wait for a slot; the caller has to call `release` once. If cancelled, it has no slot."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(network, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # it has just been given one
            else:
                self._forget(network, turn)
            raise

    def release(self) -> None:
        """Hand a slot on."""
        while self._waiting:
            network, line = next(iter(self._waiting.items()))
            turn = line.popleft()
            del self._waiting[network]
            if line:
                self._waiting[network] = line  # behind the others
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _forget(self, network: str, turn: asyncio.Future[None]) -> None:
        line = self._waiting.get(network)
        if line is not None and turn in line:
            line.remove(turn)
            if not line:
                del self._waiting[network]

    def __len__(self) -> int:
        """Number of waiting requests."""
        return sum(len(line) for line in self._waiting.values())
