"""The mails of accounts, from templates that an application may replace (spec: rows §2.3, §2.5).

Templates have these values: `application`, `address`, `username`, `url` (what links begin with), and where there is a code `code`, `link` and `minutes`, for
which it is valid. Links never begin with what a request has in its `Host`: who asks for a mail to another one's address could write anything there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from svc.accounts.settings import AccountSettings
from svc.mail.outbox import Outbox, OutgoingMail
from svc.mail.templates import DIRECTORY, compile_template, render
from svc.store import Transaction

TEMPLATES = Path(__file__).parent / "mail_templates"
NAMES = ("confirm", "known", "reset", "new_address", "address_changed", "password_changed")
_IN_DIRECTORY = "accounts"  # of an application: mails/accounts/confirm.txt


class AccountMails:
    """Those of one application."""

    def __init__(self, outbox: Outbox, settings: AccountSettings, application: str, directory: Path, address: str) -> None:
        """`directory`: of the application. `address`: what links begin with."""
        self._outbox = outbox
        self._settings = settings
        self._application = application
        self._directories = (directory / DIRECTORY / _IN_DIRECTORY, TEMPLATES)
        self._address = address

    def compile(self) -> None:
        """Compile the templates: on a thread, before the first mail. Raises TemplateFault, and Jinja's errors of syntax."""
        for name in NAMES:
            compile_template(name, *self._directories)

    def confirm(self, address: str, code: str) -> OutgoingMail:
        """To the address of a sign-up."""
        return self._with_code("confirm", address, code, "confirm", self._settings.lifetimes.confirm)

    def known(self, address: str, username: str) -> OutgoingMail:
        """To the address of an account with which somebody has tried to sign up, or to change to."""
        return self._mail("known", address, username, {})

    def reset(self, address: str, code: str, username: str) -> OutgoingMail:
        return self._with_code("reset", address, code, "reset", self._settings.lifetimes.reset, username)

    def new_address(self, address: str, code: str, username: str) -> OutgoingMail:
        """To the address that an account is to get."""
        return self._with_code("new_address", address, code, "confirm", self._settings.lifetimes.email, username)

    def address_changed(self, address: str, username: str) -> OutgoingMail:
        """To the former address."""
        return self._mail("address_changed", address, username, {})

    def password_changed(self, address: str, username: str) -> OutgoingMail:
        return self._mail("password_changed", address, username, {})

    def add(self, mail: OutgoingMail, transaction: Transaction) -> None:
        """Send it when the transaction is committed."""
        self._outbox.add(mail, transaction, application=self._application, template="accounts")

    def require_room(self) -> None:
        """Raise Overloaded when too many mails wait to be sent: asked where a mail may or may not be added, for an answer must not tell which it is."""
        self._outbox.require_room()

    def _with_code(self, name: str, address: str, code: str, path: str, life: float, username: str = "") -> OutgoingMail:
        values = {"code": code, "link": f"{self._address}/accounts/{path}?code={code}", "minutes": max(1, int(life // 60))}
        return self._mail(name, address, username, values)

    def _mail(self, name: str, address: str, username: str, values: Mapping[str, object]) -> OutgoingMail:
        shown = {"application": self._application, "address": address, "username": username, "url": self._address, **values}
        return render(name, shown, *self._directories).to(address)
