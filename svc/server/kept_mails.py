"""The address of the mails that `svc dev` keeps. What answers there is loaded when it is asked (`mail.kept_page`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from svc.errors import Problem
from svc.messages import Request, Response

if TYPE_CHECKING:
    from svc.mail.kept_page import KeptMails
    from svc.mail.service import MailService
    from svc.reactor import Reactor

KEPT_MAILS = "/dev/mail"


class KeptMailsEndpoint:
    """`find_mail`: mail of the instance, made by the first call."""

    methods = ("GET", "HEAD")

    def __init__(self, find_mail: Callable[[], MailService | None], reactor: Reactor) -> None:
        self._find_mail = find_mail
        self._reactor = reactor
        self._page: KeptMails | None = None

    @staticmethod
    def may_use(user: Any) -> bool:
        """Whether the page of what there is shows it to this user."""
        return user is not None and bool(user.super_user)

    def handle(self, request: Request) -> Any:
        if self._page is None:
            from svc.mail.kept_page import KeptMails

            service = self._find_mail()
            assert service is not None
            self._page = KeptMails(service.outbox, self._reactor)
        return self._page.handle(request)

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        raise NotImplementedError  # errors have the form of all others
