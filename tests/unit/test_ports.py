"""Ports for servers that tests start."""

import socket
from contextlib import ExitStack

import pytest

from tests.support.ports import free_port


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6")
def test_a_port_is_given_to_no_other_address() -> None:
    """Either way: of 14,000 ports a few hundred would meet."""
    with ExitStack() as stack:

        def listen() -> int:
            return int(stack.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6)).getsockname()[1])

        taken = {listen() for _ in range(300)}
        ports = {free_port() for _ in range(200)}
        assert not taken & ports
        assert not ports & {listen() for _ in range(300)}


def test_servers_get_it_at_any_address_and_others_are_refused() -> None:
    port = free_port()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    for host in ("127.0.0.1", "0.0.0.0"):
        socket.create_server((host, port)).close()
    if socket.has_dualstack_ipv6():
        socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True).close()
