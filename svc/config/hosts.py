"""Hosts in the configuration: names, names below a domain, addresses and networks, each with a port or without.

    files.example.com   files.example.com:8443   *.example.com   192.0.2.7   10.1.0.0/16   [fd00::7]:8080   fd00::/8   *

`*` matches every host with a public address. Hosts inside the network have to be named: that is what such a list is for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*", re.ASCII)
_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class HostPattern:
    """`name`: exactly this one, or `*.` and a domain, or `*`; empty if `network` is given. `port` None: every port."""

    name: str = ""
    network: Network | None = None
    port: int | None = None

    def matches_name(self, name: str, port: int) -> bool:
        """Whether it names this host. `name`: as `canonical` gives it."""
        if not self.name or self.name == "*" or self.port not in (None, port):
            return False
        return name.endswith(self.name[1:]) if self.name.startswith("*.") else name == self.name

    def matches_address(self, address: Address, port: int) -> bool:
        """Whether the address is in its network, or public if the pattern is `*`."""
        if self.port not in (None, port):
            return False
        return is_public(address) if self.name == "*" else self.network is not None and embedded(address) in self.network


def parse_host_pattern(text: str) -> HostPattern:
    """Raises ValueError.

    >>> parse_host_pattern("*.Example.com:8443")
    HostPattern(name='*.example.com', network=None, port=8443)
    >>> parse_host_pattern("fd00::/8").network
    IPv6Network('fd00::/8')
    """
    try:
        return HostPattern(network=parse_network(text))
    except ValueError:
        pass
    host, colon, port_text = text.rpartition(":")
    port: int | None = None
    if colon:
        if not (port_text.isascii() and port_text.isdigit() and 0 < int(port_text[:6]) < 65536):
            raise ValueError
        port = int(port_text)
    else:
        host = text
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        network = parse_network(host[1:-1] if bracketed else host)
        if network.version == 6 and not bracketed:
            raise ValueError
        return HostPattern(network=network, port=port)
    except ValueError:
        if bracketed:
            raise
    name = canonical(host)
    if host != "*" and _NAME.fullmatch(name.removeprefix("*.")) is None:
        raise ValueError
    return HostPattern(name, port=port)


def parse_network(text: str) -> Network:
    """An address is a network of its own; IPv4 in IPv6 is IPv4. Raises ValueError."""
    network = ip_network(text)
    if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped is not None and network.prefixlen >= 96:
        return IPv4Network((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - 96))
    return network


def canonical(name: str) -> str:
    """Lower case, without the dot of the root."""
    return name.lower().removesuffix(".")


def parse_hosts(values: Iterable[object]) -> tuple[HostPattern, ...]:
    """Raises ValueError with the predicate of the sentence."""
    found = []
    for value in values:
        try:
            if not isinstance(value, str):
                raise ValueError
            found.append(parse_host_pattern(value.strip()))
        except ValueError:
            raise ValueError(
                f"has '{value}', which is not a host: a name, *.domain, an address, a network such as 10.1.0.0/16, or *; each may have a port"
            ) from None
    return tuple(found)


def is_public(address: Address) -> bool:
    """Whether the address is one of the public Internet: no loopback, link-local, private, shared, multicast or reserved one, however written.

    >>> [is_public(ip_address(text)) for text in ("198.41.0.4", "127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "64:ff9b::a00:1")]
    [True, False, False, False, False]
    """
    address = embedded(address)
    if isinstance(address, IPv6Address) and address.is_site_local:
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def embedded(address: Address) -> Address:
    """The IPv4 address that packets for an IPv6 address are delivered to, where it only carries one (RFC 4291, 3056, 6052)."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def read_address(text: str) -> Address:
    """Parse the address of a socket, perhaps with a zone. Raises ValueError."""
    return ip_address(text.partition("%")[0])
