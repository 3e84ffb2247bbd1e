"""How an exception ends a WebSocket: codes and reasons of the close frame (spec: realtime §2)."""

from __future__ import annotations

from svc.errors import Problem

NORMAL = 1000
GOING_AWAY = 1001
INTERNAL_ERROR = 1011
SERVICE_RESTART = 1012  # the peer may connect again at once
TRY_AGAIN_LATER = 1013  # also: too slow
NOT_LOGGED_IN = 3000
FORBIDDEN = 3003

_CODES = {401: NOT_LOGGED_IN, 403: FORBIDDEN}


class WebSocketClosed(ConnectionError):
    """Nothing can be sent: the WebSocket is closed, or being closed. Services need not catch this."""


def close_frame_for(error: BaseException) -> tuple[int, str] | None:
    """(code, reason) of a close frame for an error of the caller: a `Problem`, or any exception with a status. None: it is a defect.

    >>> from svc.errors import AccessViolation
    >>> close_frame_for(AccessViolation()), close_frame_for(ValueError("x"))
    ((3000, 'Must login'), None)
    """
    if isinstance(error, Problem):
        return _CODES.get(error.status_code, INTERNAL_ERROR), error.message
    for name in ("status_code", "statusCode", "status"):
        status = getattr(error, name, None)
        if isinstance(status, int) and 400 <= status <= 599:
            return _CODES.get(status, INTERNAL_ERROR), str(error)
    return None
