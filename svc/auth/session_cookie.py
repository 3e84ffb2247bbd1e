"""The cookie of a session: its names, and the id in it (spec: security §3)."""

from __future__ import annotations

import re

from svc.messages import HeaderBlock

SHOWN_ID = 8  # characters of an id that a log may show: the whole is a credential
COOKIE = "svc-session"
HOST_COOKIE = "__Host-svc-session"

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MEMOS = {COOKIE: "auth.session", HOST_COOKIE: "auth.host_session"}


def cookie_id(block: HeaderBlock, name: str) -> str | None:
    """The session id in the cookie of this name, COOKIE or HOST_COOKIE. The result is kept with the block: header blocks repeat."""
    if "cookie" not in block.fields:
        return None
    memo, key = block.memo, _MEMOS[name]
    if key not in memo:
        memo[key] = _find_id(block.fields["cookie"], name)
    found: str | None = memo[key]
    return found


def _find_id(cookies: str, name: str) -> str | None:
    for pair in cookies.split(";"):
        key, _, value = pair.partition("=")
        if key.strip() == name and _ID.fullmatch(value.strip()):
            return value.strip()
    return None
