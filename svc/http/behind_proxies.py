"""Requests that come over trusted proxies, as the clients of these made them (`http.trustedProxies`; spec: http §14.1)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address

from svc.connection.exchange import Application, Decision, Exchange
from svc.errors import Problem
from svc.http.forwarded import read_forwarded
from svc.messages import HeaderBlock, Request, Response

_KNOWN_ADDRESSES = 4096
_MEMO = "http.forwarded"


class TrustedProxies:
    """Proxies whose `Forwarded` and `X-Forwarded-*` count."""

    def __init__(self, networks: Sequence[IPv4Network | IPv6Network]) -> None:
        self._networks = tuple(networks)
        self.include = lru_cache(_KNOWN_ADDRESSES)(self._include)

    def _include(self, peer: str) -> bool:
        """Whether a trusted proxy has this address. Peers on a Unix socket have no address and are never trusted."""
        try:
            address = ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        return any(address in network for network in self._networks)

    def apply(self, request: Request) -> None:
        """Give a request of a trusted proxy the address, scheme, host and prefix that its client used; others stay as they are. Raises ClientError.

        What the fields say does not depend on which of the proxies has sent them, so it is in the memo of the header block.
        """
        if request.proxy or not self.include(request.peer):
            return
        request.proxy = request.peer
        block = request.block
        known = block.memo.get(_MEMO)
        if known is None:
            forwarded = read_forwarded(block.fields, self.include)
            known = block.memo[_MEMO] = (forwarded, block if forwarded.host is None else _with_host(block, forwarded.host))
        forwarded, request.block = known
        request.peer = forwarded.client or request.peer
        request.scheme = forwarded.scheme or request.scheme
        request.prefix = forwarded.prefix


def _with_host(block: HeaderBlock, host: str) -> HeaderBlock:
    return HeaderBlock([("host", host), *(pair for pair in block.pairs if pair[0] != "host")])


class BehindProxies:
    """An `Application` that gets its requests as the clients of trusted proxies made them."""

    def __init__(self, application: Application, proxies: TrustedProxies) -> None:
        self.application = application
        self._proxies = proxies
        self.decode_content = application.decode_content
        self.sent = application.sent
        self.cancelled = application.cancelled

    def receive(self, exchange: Exchange) -> Decision | Awaitable[Decision]:
        return self._refusal(exchange) or self.application.receive(exchange)

    def error_response(self, error: BaseException, request: Request | None) -> Response:
        """Also to requests that the application has not been asked about."""
        if request is not None:
            with suppress(Problem):
                self._proxies.apply(request)
        return self.application.error_response(error, request)

    def handle(self, exchange: Exchange) -> Response | None:
        return self._refusal(exchange) or self.application.handle(exchange)

    def upgrade(self, exchange: Exchange) -> Response | None:
        return self._refusal(exchange) or self.application.upgrade(exchange)

    def _refusal(self, exchange: Exchange) -> Response | None:
        """Why the request is not taken; None: it is, and describes its client."""
        try:
            self._proxies.apply(exchange.request)
        except Problem as problem:
            return self.application.error_response(problem, exchange.request)
        return None
