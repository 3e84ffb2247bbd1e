"""Which hosts operations may read from or write to, and connections to nothing but the address that was checked (spec: security §10).

    who asks            host in `operationsApi.importHosts`        any other host
    super user          yes                                        only at a public address
    everybody else      yes                                        no

The list matches the host's name, or the addresses that it resolves to. A name is resolved once and the connection goes to one of the addresses that
were checked, so an answer of the name server that changes in between leads nowhere else.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult

from svc.config.hosts import HostPattern, canonical, is_public, read_address
from svc.errors import ClientError
from svc.operations.call import Call
from svc.operations.refusals import refused
from svc.store.values.conversion import printable

PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ResolvedAddress:
    """A resolved address: what `socket.connect` takes."""

    family: socket.AddressFamily
    address: tuple[str, int] | tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class HostRules:
    """`hosts`: those of `operationsApi.importHosts`. `public`: whether every public host is permitted beside them."""

    hosts: Sequence[HostPattern]
    public: bool

    def permitted(self, host: str, port: int) -> list[ResolvedAddress]:
        """The addresses of `host` that may be connected to, at least one. Resolves the name: blocks.

        Raises 403 if there is none, 400 if the host has no address.
        """
        name = canonical(host)
        named = any(pattern.matches_name(name, port) for pattern in self.hosts)
        if not named and not self.public and not any(pattern.network is not None or pattern.name == "*" for pattern in self.hosts):
            raise _refused(host)  # without asking a name server in the name of the caller
        try:
            found = resolve(host, port)
        except OSError:
            if not named and not self.public:
                raise _refused(host) from None
            raise ClientError(f"The host '{printable(host)}' could not be found") from None
        permitted = [resolved for resolved in found if named or self._is_permitted(resolved, port)]
        if not permitted:
            raise _not_public(host) if self.public else _refused(host)
        return permitted

    def _is_permitted(self, resolved: ResolvedAddress, port: int) -> bool:
        address = read_address(resolved.address[0])
        return (self.public and is_public(address)) or any(pattern.matches_address(address, port) for pattern in self.hosts)


def rules_for(call: Call) -> HostRules:
    return HostRules(call.node.config.operations_api.import_hosts, call.is_super_user)


def resolve(host: str, port: int) -> list[ResolvedAddress]:
    """The addresses of a host, best first. Blocks. Raises OSError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that is empty or too long
        raise OSError(str(error)) from None
    return [ResolvedAddress(family, address) for family, _, _, _, address in found if family in (socket.AF_INET, socket.AF_INET6)]  # type: ignore[arg-type]


def connect(parts: SplitResult, addresses: Sequence[ResolvedAddress], timeout: float) -> http.client.HTTPConnection:
    """For requests to the host of a URL, at one of these addresses. Not yet connected. Certificates are verified."""
    return _CheckedConnection(parts, addresses, timeout)


class _CheckedConnection(http.client.HTTPConnection):
    def __init__(self, parts: SplitResult, addresses: Sequence[ResolvedAddress], timeout: float) -> None:
        assert parts.hostname is not None
        self.default_port = PORTS[parts.scheme]  # the `Host` header leaves it out
        super().__init__(parts.hostname, parts.port, timeout=timeout)
        self._addresses = addresses
        self._seconds = timeout
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None

    def connect(self) -> None:
        connected = self._connected()
        try:
            self.sock = connected if self._tls is None else self._tls.wrap_socket(connected, server_hostname=self.host)
        except BaseException:
            connected.close()
            raise

    def _connected(self) -> socket.socket:
        failure: OSError | None = None
        for resolved in self._addresses:
            connecting = socket.socket(resolved.family, socket.SOCK_STREAM)
            try:
                connecting.settimeout(self._seconds)
                connecting.connect(resolved.address)
                return connecting
            except OSError as error:
                connecting.close()
                failure = error
        assert failure is not None
        raise failure


def _refused(host: str) -> Exception:
    return refused(f"The host '{printable(host)}' is not in 'operationsApi.importHosts'")


def _not_public(host: str) -> Exception:
    return refused(f"The host '{printable(host)}' has no public address, and is not in 'operationsApi.importHosts'")
