"""What waits in the outbox, and what was given up (spec: rows §2.5). Nothing here shows texts of mails: they may let in whoever reads them."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from svc.api.mail import NOT_CONFIGURED
from svc.errors import NotFound, ServerError
from svc.operations.call import Call
from svc.operations.fields import Field
from svc.operations.operation import SUPER_USER, Operation

if TYPE_CHECKING:
    from svc.mail.service import MailService

STATUSES = ("waiting", "given_up", "sent", "kept")
_SHOWN = ("id", "status", "to", "application", "template", "created", "due", "ended", "attempts", "error", "message_id")
_DEFAULT_LIMIT, _MOST = 100, 1000


def _service(call: Call) -> MailService:
    found = call.node.find_mail()
    if found is None:
        raise ServerError(NOT_CONFIGURED, 501)
    return found


def list_mails(call: Call) -> list[dict[str, Any]]:
    outbox, status = _service(call).outbox, call["status"]
    rows = chain.from_iterable(outbox.iter_with(each, newest_first=True) for each in (STATUSES if status is None else (status,)))
    return [{name: row.get(name) for name in _SHOWN} for row in islice(rows, call["limit"])]


async def retry_mails(call: Call) -> dict[str, Any]:
    service, ids = _service(call), call["ids"]
    if ids is None:
        ids = [row["id"] for row in islice(service.outbox.iter_with("given_up"), _MOST)]
    retried = await service.retry(ids[:_MOST])
    if call["ids"] is not None and not retried:
        raise NotFound("None of these mails waits or was given up")
    return {"message": f"{len(retried)} {'mail is' if len(retried) == 1 else 'mails are'} tried again", "retried": retried}


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="list_mails",
        category="system",
        summary="List the mails that wait to be sent and those that were given up, with what the server said of them.",
        permission=SUPER_USER,
        handler=list_mails,
        fields=(
            Field("status", "choice", f"Only mails of this status: `{'`, `'.join(STATUSES)}`. `kept`: of `svc dev`.", choices=STATUSES),
            Field("limit", "integer", "The number of mails.", default=_DEFAULT_LIMIT, low=1, high=_MOST),
        ),
        returns=(
            "For each mail `id`, `status`, `to`, `application`, `template`, `created`, `due` (when it is tried next), `ended` (ms), `attempts`, `error` (what "
            "the server said last) and `message_id`; those that wait first, newest first."
        ),
        notes="Subjects and texts are not shown: they may have links and codes that let in whoever reads them. Mails that were sent stay for an hour, "
        "those that were given up for 30 days. 501 where mail is not configured.",
        example={"status": "given_up"},
        example_answer=[
            {
                "id": "019b7756-2c04-7f10-a0b5-3f6f2a0d9a57",
                "status": "given_up",
                "to": "ann@example.org",
                "application": "shop",
                "template": "welcome",
                "created": 1767576600000,
                "due": None,
                "ended": 1767576601311,
                "attempts": 1,
                "error": "550 no such user",
                "message_id": "<019b7756-2c04-7f10-a0b5-3f6f2a0d9a57@example.org>",
            }
        ],
    ),
    Operation(
        name="retry_mails",
        category="system",
        summary="Try mails again now: those that were given up for another day, those that wait at once.",
        permission=SUPER_USER,
        handler=retry_mails,
        fields=(Field("ids", "strings", f"Ids of mails; default: all that were given up, {_MOST} at most."),),
        returns="A message, and in `retried` the ids of the mails that are tried again. 404 if none of `ids` waits or was given up.",
        notes="A mail that was sent is not sent again. 501 where mail is not configured.",
        example={"ids": ["019b7756-2c04-7f10-a0b5-3f6f2a0d9a57"]},
        example_answer={"message": "1 mail is tried again", "retried": ["019b7756-2c04-7f10-a0b5-3f6f2a0d9a57"]},
    ),
)
