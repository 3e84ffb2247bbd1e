"""`mail` of application code: mails from templates (spec: rows §2.5)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from svc.api.context import current_context
from svc.api.transactions import open_transaction
from svc.auth.writes import write
from svc.errors import ServerError

if TYPE_CHECKING:
    from svc.api.current import CurrentInterface

DIRECTORY = "mails"  # of an application

NOT_CONFIGURED = "Mail is not configured: set mail.host, the SMTP server, and mail.from, the sender, in svc-config.yaml"


class Mail:
    """Mails from the templates of the application, in its directory `mails`: `welcome.txt`, whose first line is `Subject: ...`, and if there is one
    `welcome.html`."""

    def __init__(self, interface: CurrentInterface, application: str, directory: Path | None) -> None:
        self._interface = interface
        self._application = application
        self._directory = None if directory is None else directory / DIRECTORY

    async def send(self, to: str, template: str, /, **values: object) -> str:
        """Send a mail to the address `to`, made from the template of the name `template` with these values. Returns its Message-ID.

        Within a transaction it is part of that: the mail is sent when it is committed, and not at all if it is undone. Elsewhere it is in the outbox, on
        disk, when this returns. It is sent afterwards, and again until the server takes it, for a day at most."""
        service = self._interface.find_mail()
        if service is None:
            raise ServerError(NOT_CONFIGURED, 501)
        context = current_context()
        open_transaction(context)  # raises on a helper thread
        made = (await service.render(template, values, self._directory)).to(to)
        transaction = open_transaction(context)
        user = None if context is None or context.user is None else context.user.username
        writes = service.outbox.begin(user) if transaction is None else transaction.writes
        if service.hourly_limit is not None:
            service.outbox.check_rate(to, service.hourly_limit, writes)
        message_id: str = service.outbox.add(made, writes, application=self._application, template=template)
        if transaction is None:
            await write(writes)
        return message_id

    def __repr__(self) -> str:
        return "<mail>"
