"""`/dev/mail`: the mails that `svc dev` keeps instead of sending them (spec: rows §2.5).

    GET /dev/mail                  the last ones: a page, or JSON
    GET /dev/mail?id=ID            one with its text and HTML: a page, or JSON
    GET /dev/mail?id=ID&part=html  its HTML, as it is

It is for the developer: a super user, as a program or a browser on this machine is under `svc dev`, and nobody from elsewhere, whoever that is. The HTML of a
mail is shown in a frame that runs no script, loads nothing, sends no form and has no address in common with the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svc.auth.identify import is_loopback
from svc.content.json_type import encode_json
from svc.errors import AccessViolation, MethodNotAllowed, NotFound, Problem
from svc.http.page_files import security_pairs
from svc.http.query_fields import query_fields
from svc.mail.outbox import KEPT
from svc.mail.sealing import SealBroken
from svc.messages import HeaderPairs, Request, Response
from svc.pages.frame import SECURITY, frame_of
from svc.reactor import Reactor

if TYPE_CHECKING:
    from jinja2 import Environment

    from svc.mail.outbox import Outbox, OutgoingMail

PATH = "/dev/mail"
METHODS = ("GET", "HEAD")
MOST = 200  # mails of the list

_PAGES = Path(__file__).parent / "pages"
_FRAME = Path(__file__).parent.parent / "pages" / "templates"
_LINK = re.compile(r"(https?://[^\s<>\"']+[^\s<>\"'.,;:!?)\]])")
_NO_STORE = ("Cache-Control", "no-store")
_SHOWN: HeaderPairs = [
    ("Content-Type", "text/html; charset=utf-8"),
    _NO_STORE,
    *[(name, value.replace("default-src 'none';", "default-src 'none'; frame-src 'self';")) for name, value in SECURITY],
]
_MAIL: HeaderPairs = [
    ("Content-Type", "text/html; charset=utf-8"),
    _NO_STORE,
    *security_pairs(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox"
    ),
]


class KeptMails:
    """The endpoint."""

    methods = METHODS

    def __init__(self, outbox: Outbox, reactor: Reactor) -> None:
        self._outbox = outbox
        self._reactor = reactor
        self._environment: Environment | None = None

    @staticmethod
    def may_use(user: Any) -> bool:
        """Whether the page of what there is shows it to this user."""
        return user is not None and user.super_user

    async def handle(self, request: Request) -> Response:
        """Raises Problem."""
        if not is_loopback(request.peer) or request.proxy or not self.may_use(request.user):
            raise AccessViolation(request.user)
        if request.method not in METHODS:
            raise MethodNotAllowed(f"{request.method[:40]} is no method of {PATH}", METHODS)
        if self._environment is None:
            self._environment = await self._reactor.loop.run_in_executor(self._reactor.executor, _load)
        asked = query_fields(request.query)
        wants_page = "text/html" in request.block.fields.get("accept", "")
        row = asked.get("id", "")
        if not row:
            mails = list(self._mails())
            return self._page(request, "mails.html", "Mails", mails=mails) if wants_page else _json(mails)
        shown, mail = self._find(row)
        if asked.get("part") == "html":
            if mail.html is None:
                raise NotFound("The mail has no HTML")
            return Response(mail.html.encode("utf-8", "replace"), 200, pairs=list(_MAIL))
        if not wants_page:
            return _json({**shown, "text": mail.text, "html": mail.html})
        parts = [(text, bool(number % 2)) for number, text in enumerate(_LINK.split(mail.text)) if text]
        return self._page(request, "mail.html", mail.subject, mail=shown, parts=parts, has_html=mail.html is not None)

    def _mails(self) -> Iterator[dict[str, Any]]:
        for row in [record["id"] for record in islice(self._outbox.iter_with(KEPT, newest_first=True), MOST)]:
            try:
                yield self._find(row)[0]
            except NotFound:
                continue

    def _find(self, row: str) -> tuple[dict[str, Any], OutgoingMail]:
        try:
            record = self._outbox.record(row)
            if record is not None and record["status"] == KEPT:
                mail = self._outbox.mail_of(record)
                return _shown(record, mail), mail
        except (SealBroken, Problem):  # the latter: no key can be that
            pass
        raise NotFound("There is no such mail: they are kept for a day")

    def _page(self, request: Request, name: str, title: str, **values: Any) -> Response:
        assert self._environment is not None
        frame = frame_of(request, has_login=False)
        text = self._environment.get_template(name).render(frame=frame, title=title, trail=[], **values)
        return Response(text.encode("utf-8", "replace"), 200, pairs=list(_SHOWN))


def _shown(record: dict[str, Any], mail: OutgoingMail) -> dict[str, Any]:
    return {
        "id": record["id"],
        "to": record["to"],
        "subject": mail.subject,
        "application": record.get("application"),
        "template": record.get("template"),
        "time": datetime.fromtimestamp(record["created"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "message_id": record["message_id"],
    }


def _json(value: Any) -> Response:
    return Response(encode_json(value), 200, pairs=[("Content-Type", "application/json"), _NO_STORE, ("X-Content-Type-Options", "nosniff")])


def _load() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader([_PAGES, _FRAME]), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
