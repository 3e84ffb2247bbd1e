"""Mail of one instance: the outbox, its templates, and the sender if there is a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

from svc.auth.token_keys import SHARED_DIRECTORY
from svc.config import Config
from svc.errors import ConfigError
from svc.mail.outbox import KEPT, Outbox, OutgoingMail
from svc.mail.sealing import Seal
from svc.reactor import Reactor
from svc.store import Store

if TYPE_CHECKING:
    from svc.mail.sender import Processes, Sender
    from svc.mail.templates import RenderedMail

NOBODY = ("", "svc@localhost")
"""The sender of mails that are kept, where none is configured."""


class MailService:
    """`outbox`: of the node. `sender`: None if mails are kept instead of sent. `hourly_limit`: of mails to one address, None: there is none."""

    def __init__(
        self,
        config: Config,
        store: Store,
        siblings: Processes,
        reactor: Reactor,
        make_executor: Callable[[str, int], Executor],
        *,
        is_sent: bool = True,
    ) -> None:
        """`is_sent`: whether this process may talk to a server. Raises ConfigError."""
        settings = config.mail
        self._reactor = reactor
        self.hourly_limit = 20 if settings is None else settings.hourly_limit
        self.mailbox = NOBODY if settings is None or settings.sender is None else settings.sender
        self.sender: Sender | None = None
        self._compiled: set[tuple[str, tuple[Path | None, ...]]] = set()  # as many as there are templates
        try:
            seal = Seal.from_directory(config.storage.path / SHARED_DIRECTORY)  # where all find it who have the rows
        except (OSError, ValueError) as error:
            raise ConfigError(f"'mail': the key of the outbox cannot be used: {error}") from error
        has_server = is_sent and settings is not None and settings.host is not None
        if (
            has_server
            and settings is not None
            and settings.certificate_authority is not None
            and not settings.certificate_authority.is_file()
        ):
            raise ConfigError(f"'mail.certificateAuthority' names no file: {settings.certificate_authority}")
        domain = self.mailbox[1].rpartition("@")[2]
        self.outbox = Outbox(store, seal, reactor.clock, domain=domain, is_sent=has_server)
        if has_server and settings is not None:
            from svc.mail.sender import Sender
            from svc.mail.smtp import SmtpServer

            name = domain if config.node_name == "localhost" else config.node_name
            server = SmtpServer(settings, name)
            executor = make_executor("mail", 1)
            self._executor: Executor | None = executor
            self.sender = Sender(self.outbox, server, self.mailbox, siblings, reactor.loop, reactor.clock, executor)

    def begin(self) -> None:
        """From now on mails are sent."""
        if self.sender is not None:
            self.sender.begin()

    async def end(self) -> None:
        """Nothing is sent any more."""
        if self.sender is not None:
            await self.sender.end()
            if self._executor is not None:
                self._executor.shutdown(wait=False, cancel_futures=True)

    def kept(self) -> list[OutgoingMail]:
        """The mails that were kept instead of sent, oldest first."""
        rows = [self.outbox.record(shown["id"]) for shown in self.outbox.iter_with(KEPT)]
        return [self.outbox.mail_of(row) for row in rows if row is not None]

    async def retry(self, rows: Sequence[str]) -> list[str]:
        """Try mails again now. Returns the ids of those that wait, or were given up. Raises the Problem that prevents it."""
        retried = [row for row in dict.fromkeys(rows) if await self.outbox.retry(row)]
        if self.sender is not None and retried:
            self.sender.try_now()
        return retried

    async def render(self, template: str, values: Mapping[str, object], *directories: Path | None) -> RenderedMail:
        """As `templates.render`. Jinja is imported, and a template compiled, on a helper thread: that takes up to a tenth of a second."""
        if (template, directories) not in self._compiled:
            await self._reactor.loop.run_in_executor(self._reactor.executor, _compile, template, directories)
            self._compiled.add((template, directories))
        from svc.mail.templates import render

        return render(template, values, *directories)


def _compile(template: str, directories: tuple[Path | None, ...]) -> None:
    from svc.mail.templates import compile_template

    compile_template(template, *directories)
