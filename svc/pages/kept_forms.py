"""Forms that were sent when the login had ended: whether they are kept, and done after the login (spec: console §2, http §7.8)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from svc.auth.origin_policy import parse_origin
from svc.logs.redact import is_secret
from svc.messages import Request
from svc.pages.sent_form import SentForm
from svc.pages.tokens import FIELD

LONGEST = 1 << 20  # characters
_TYPED_AGAIN = frozenset(("again", "current"))  # passwords, too
_TEXTS = frozenset((".body", "sql", "parameters"))  # in which names tell what is secret
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_of_own_page(request: Request) -> bool:
    """Whether nothing says that a form is of another page than ours. Browsers name the origin of whatever is posted."""
    fields = request.block.fields
    origin, site = fields.get("origin"), fields.get("sec-fetch-site", "same-origin").lower()
    if site not in ("same-origin", "none"):
        return False
    return origin is None or parse_origin(origin) == parse_origin(f"{request.scheme}://{request.host}")


def lost_by_login(form: SentForm, kept: Mapping[str, str], path: str) -> str:
    """Why a form is not kept while somebody logs in; "" if it is. `kept`: the fields that would be. What is secret must not be in a page, and what is left
    without it must not be done."""
    if form.files or sum(map(len, kept.values())) > LONGEST:
        return "What was sent has files, or is too long to be kept: send it again after the login."
    if is_secret(path.rpartition("/")[2]) or any(_is_secret(name, text) for name, text in form.fields.items() if text):
        return "What was sent has a password, or something else that is secret, so it is not kept: enter it again after the login."
    return ""


def _is_secret(name: str, text: str) -> bool:
    if name in _TEXTS:
        return any(map(is_secret, _WORD.findall(text)))
    return name in _TYPED_AGAIN or (name != FIELD and is_secret(name))
