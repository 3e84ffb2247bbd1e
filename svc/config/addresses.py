"""Addresses in the configuration that ports are opened at: `*`, `localhost`, IPv4 and IPv6 addresses (spec: configuration §2.2).

Other names are refused: what they resolve to changes, and then a restart would open ports somewhere else.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from itertools import permutations

EVERY_ADDRESS = "*"
"""All addresses of the machine, IPv4 and IPv6."""

LOCALHOST = "localhost"
"""127.0.0.1, and ::1 where the machine has IPv6."""


def parse_listen_addresses(value: object) -> tuple[str, ...]:
    """The addresses of a setting: a string, which may hold several with commas between them, or a list. Raises ValueError with a predicate.

    >>> parse_listen_addresses("127.0.0.1, [::1]")
    ('127.0.0.1', '::1')
    >>> parse_listen_addresses(["*"])
    ('*',)
    """
    found = tuple(dict.fromkeys(_listen_address(text) for text in split_list(value, "an address")))
    for each, other in permutations(found, 2):
        if _includes(each, other):
            raise ValueError(f"has '{each}' beside '{other}', which it includes; leave that out")
    return found


def split_list(value: object, what: str) -> list[str]:
    """The strings of a list, or those between the commas of a string, without spaces around them. Raises ValueError unless there is one."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not items or not all(isinstance(item, str) for item in items):
        raise ValueError(f"must be {what}, or a list of them")
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
