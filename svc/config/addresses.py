"""Addresses in the configuration: those that ports are opened at, and networks of trusted proxies (spec: configuration §2.2).

Names other than `localhost` are refused: what they resolve to changes, and then ports would be opened somewhere else, and others would be trusted.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from itertools import permutations

from svc.config.hosts import Network, parse_network

EVERY_ADDRESS = "*"
"""All addresses of the machine, IPv4 and IPv6."""

MAX_ADDRESSES = 64
MAX_NETWORKS = 1000

LOCALHOST = "localhost"
"""127.0.0.1, and ::1 where the machine has IPv6."""


def parse_listen_addresses(value: object) -> tuple[str, ...]:
    """The addresses of a setting: a string, which may hold several with commas between them, or a list. Raises ValueError with a predicate.

    >>> parse_listen_addresses("127.0.0.1, [::1]")
    ('127.0.0.1', '::1')
    >>> parse_listen_addresses(["*"])
    ('*',)
    """
    found = tuple(dict.fromkeys(_listen_address(text) for text in split_list(value, "an address", MAX_ADDRESSES)))
    for each, other in permutations(found, 2):
        if _includes(each, other):
            raise ValueError(f"has '{each}' beside '{other}', which it includes; leave that out")
    return found


def parse_networks(value: object) -> tuple[Network, ...]:
    """The addresses and networks of a setting, as networks: a list, or a string with commas between them. Raises ValueError with a predicate.

    >>> parse_networks("10.0.0.0/8, ::1")
    (IPv4Network('10.0.0.0/8'), IPv6Network('::1/128'))
    """
    return tuple(dict.fromkeys(map(_network, split_list(value, "an address or network", MAX_NETWORKS, may_be_empty=True))))


def _network(text: str) -> Network:
    try:
        return parse_network(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    except ValueError:
        pass
    try:
        wider = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"has '{text}', which is not an address or network such as 10.0.0.7 or 10.0.0.0/8") from None
    raise ValueError(f"has '{text}', which is an address in a network; write that as {wider}")


def split_list(value: object, what: str, limit: int, *, may_be_empty: bool = False) -> list[str]:
    """The strings of a list, or those between the commas of a string, without spaces around them; at most `limit`. Raises ValueError."""
    items = value.split(",") if isinstance(value, str) and (value.strip() or not may_be_empty) else value or []
    if not isinstance(items, list) or not (items or may_be_empty) or not all(isinstance(item, str) for item in items):
        raise ValueError(f"must be {what}, or a list of them")
    if len(items) > limit:
        raise ValueError(f"must not have more than {limit} entries")
    return [item.strip() for item in items]


def _listen_address(text: str) -> str:
    if text == EVERY_ADDRESS or text.lower() == LOCALHOST:
        return text.lower()
    try:
        address = ip_address(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    except ValueError:
        raise ValueError(
            f"has '{text}', which is not an address to listen on: * (all), localhost, or an IPv4 or IPv6 address such as 127.0.0.1"
        ) from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def _includes(one: str, other: str) -> bool:
    """Whether a port that is open at `one` cannot be opened at `other`, too."""
    if one == EVERY_ADDRESS:
        return True
    if one == LOCALHOST or other == EVERY_ADDRESS or not ip_address(one).is_unspecified:
        return False
    return other == LOCALHOST or ip_address(one).version == ip_address(other).version
