"""What tells a form of ours from one that a page of another site sends in the name of its visitor, besides the origin that the browser names.

A form carries a token that only a page of this server could read: made from what identifies the caller (the id of the session, the credentials of the
browser), so that nothing is stored, every process of the server knows it, and it ends with the session.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest

from svc.auth.form_secret import SECRET
from svc.auth.session_cookie import COOKIE, HOST_COOKIE
from svc.errors import Problem
from svc.messages import Request

FIELD = "_token"
_LENGTH = 32  # characters
_COOKIES = (HOST_COOKIE, COOKIE)


def form_token(request: Request) -> str:
    """Of the forms that are shown to this caller."""
    return sha256(f"a form of svc\n{_secret(request)}".encode(errors="replace")).hexdigest()[:_LENGTH]


def check_token(request: Request, sent: str) -> None:
    """Raise Problem 403 unless the form was made for this caller. `sent`: its field."""
    if not compare_digest(sent.encode(errors="replace"), form_token(request).encode()):
        raise Problem(
            "This form was made for another login, or by another site. Go back, load the page again, and send it once more",
            403,
            "FORM_TOKEN",
        )


def _secret(request: Request) -> str:
    session = request.session
    if session is not None and session.user is not None:
        return f"session {session.id}"
    authorization = request.block.fields.get("authorization")
    if authorization is not None:
        return f"credentials {authorization}"
    user = request.user
    return f"server {SECRET} {'' if user is None else user.username}"
