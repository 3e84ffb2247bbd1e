"""Who asks on a WebSocket (spec: graphql §7.4): by the handshake, by `connection_init` after that; asked again for each operation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from svc.auth.identify import Identifier, PendingVerification
from svc.auth.users import User, user_of
from svc.errors import AccessViolation, Problem
from svc.messages import HeaderBlock, Request


class SocketCaller:
    """The caller of one WebSocket. Tokens expire and sessions end, so credentials are looked at again each time; a user that a listener of the handshake has
    set stays while the account does."""

    def __init__(
        self, handshake: Request, identifier: Identifier, loop: asyncio.AbstractEventLoop, executor: Executor, now: Callable[[], float]
    ) -> None:
        """`executor`: verifies passwords. `now`: of `Request.arrived`."""
        self._handshake = handshake
        self._block = handshake.block
        self._identifier = identifier
        self._loop = loop
        self._executor = executor
        self._now = now
        self._user = user_of(handshake)
        self._is_set_by_code = self._find_who_has_decided()

    def _find_who_has_decided(self) -> bool | None:
        """Whether a listener has, and not credentials. None: it is not known yet, for a password has to be verified first."""
        if self._user is None:
            return False
        try:
            found = self._identifier.identify(self._new_request())
        except Problem:
            return True
        if isinstance(found, PendingVerification):
            found.abandon()
            return None
        return not _is_same(found, self._user)

    async def identify(self, authorization: str) -> Request:
        """From now on the caller has these credentials, in place of those of the handshake. Returns a request with them. Raises Problem for wrong ones."""
        self._block = HeaderBlock([*[pair for pair in self._block.pairs if pair[0] != "authorization"], ("authorization", authorization)])
        request = self._new_request()
        request.user = self._user = await self._identified(request)
        self._is_set_by_code = False
        return request

    async def request(self) -> Request:
        """A request of its own for an operation, with the user as it is now. Raises Problem if the login has ended."""
        request = self._new_request()
        request.user = await self._current_user(request)
        return request

    def _new_request(self) -> Request:
        handshake = self._handshake
        request = Request("POST", handshake.target, self._block, http_version=handshake.http_version)
        request.scheme, request.peer, request.peer_certificate = handshake.scheme, handshake.peer, handshake.peer_certificate
        request.proxy = handshake.proxy
        request.exchange, request.sessions = handshake.exchange, handshake.sessions
        request.handler_path = handshake.handler_path
        request.arrived = self._now()
        return request

    async def _current_user(self, request: Request) -> User | None:
        if self._is_set_by_code is None:
            try:
                self._is_set_by_code = not _is_same(await self._identified(request), self._user)
            except Problem:
                self._is_set_by_code = True
        if not self._is_set_by_code:
            return await self._identified(request)
        assert self._user is not None
        user = self._identifier.current(self._user)
        if user is None:
            raise AccessViolation
        self._user = user
        return user

    async def _identified(self, request: Request) -> User | None:
        """Who a request is from, by its credentials. Raises Problem for wrong ones."""
        found = self._identifier.identify(request)
        return await found.wait(self._loop, self._executor) if isinstance(found, PendingVerification) else found


def _is_same(found: User | None, user: User | None) -> bool:
    return found is not None and user is not None and found.username == user.username
