"""Auth events: successful and failed logins, one JSON object per line (spec: security §8).

    {"username": "ann", "status": "failure", "type": "authentication", "originating_ip": "198.51.100.7", "peer_ip": "10.0.0.2",
     "request_method": "POST", "path": "/", "auth_strategy": "Basic", "origin": "https://console.example"}

A success is logged when a credential is verified, not for each request that repeats it; a failure once per `authentication.cacheTTL` while
everything about it is the same. What comes from the client is cut, and escaped as JSON does; addresses lose their queries, which may hold secrets.
Passwords, tokens, API keys and `Authorization` are not given to this module.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from svc.auth.session_cookie import COOKIE, HOST_COOKIE, SHOWN_ID, cookie_id
from svc.clock import Clock
from svc.config import Config
from svc.errors import Problem
from svc.messages import Request

if TYPE_CHECKING:
    from svc.logs import Logger, Logs

BASIC, TOKEN, CERTIFICATE, TICKET, KEY = "Basic", "JWT", "mTLS", "Ticket", "Key"
"""Strategies; another is `verifier.LOGIN`: a password that is not in a header."""

TAG = "auth-event"
MAX_TEXT = 250  # characters of what a client sent
MAX_FAILURES = 10_000  # remembered at a time; the oldest is forgotten first


class AuthEvents:
    """Writes the events that the configuration asks for."""

    def __init__(self, logger: Logger, clock: Clock, *, failed: bool, successful: bool, period: float) -> None:
        """`period`: seconds in which a repeated failure is not logged again."""
        self._logger = logger
        self._now = clock.monotonic
        self._failed = failed
        self._successful = successful
        self._period = period
        self._logged: dict[bytes, float] = {}  # digest of a failure's line -> when it may be logged again; oldest first

    @classmethod
    def from_config(cls, config: Config, logs: Logs, clock: Clock) -> AuthEvents:
        return cls(
            logs.get_logger(TAG, section="authentication"),
            clock,
            failed=config.logging.audit_auth_events.log_failed,
            successful=config.logging.audit_auth_events.log_successful,
            period=config.authentication.cache_ttl,
        )

    @property
    def enabled(self) -> bool:
        return self._failed or self._successful

    def outcome(self, request: Request | None, strategy: str, username: str | None) -> Callable[[Any], None]:
        """A function that logs the outcome of a `Pending`."""

        def log(outcome: Any) -> None:
            if not isinstance(outcome, Problem):
                self.success(request, strategy, username if outcome is None else outcome.username)
            elif outcome.status_code == 401:
                self.failure(request, strategy, username)

        return log

    def success(self, request: Request | None, strategy: str, username: str | None) -> None:
        if self._successful:
            self._logger.notify(_text(request, "success", strategy, username))

    def failure(self, request: Request | None, strategy: str, username: str | None) -> None:
        """`username` None: the credential does not name one."""
        if not self._failed:
            return
        text = _text(request, "failure", strategy, username)
        digest = blake2b(text.encode(), digest_size=16).digest()
        now = self._now()
        if self._logged.get(digest, now) > now:
            return
        self._logged.pop(digest, None)
        if self._period > 0:
            if len(self._logged) >= MAX_FAILURES:
                del self._logged[next(iter(self._logged))]
            self._logged[digest] = now + self._period
        self._logger.error(text)


def _text(request: Request | None, status: str, strategy: str, username: str | None) -> str:
    event: dict[str, Any] = {"username": None if username is None else username[:MAX_TEXT], "status": status, "type": "authentication"}
    if request is not None:
        fields = request.block.fields
        event["originating_ip"] = request.peer
        if request.proxy:
            event["peer_ip"] = request.proxy
        elif "x-forwarded-for" in fields:
            event["unverified_ip"] = fields["x-forwarded-for"][:MAX_TEXT]
        event["request_method"] = request.method[:MAX_TEXT]
        event["path"] = request.pathname[:MAX_TEXT]
    event["auth_strategy"] = strategy
    if request is not None:
        session_id = cookie_id(request.block, HOST_COOKIE) or cookie_id(request.block, COOKIE)
        if session_id is not None:
            event["session_id"] = session_id[:SHOWN_ID]
        for name in ("referer", "origin"):
            if name in fields:
                event[name] = fields[name].partition("?")[0][:MAX_TEXT]
    return json.dumps(event)
