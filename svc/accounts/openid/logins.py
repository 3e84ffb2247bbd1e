"""The providers of one application while they are in effect: their endpoints, and the buttons of the login page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from svc.accounts.openid.attempts import KEY_FILE, Attempts
from svc.accounts.openid.endpoint import LoginPages, ProviderEndpoint
from svc.accounts.openid.fetching import SECONDS, Fetch, HttpFetch
from svc.accounts.openid.identities import Identities
from svc.accounts.openid.provider import Provider
from svc.accounts.openid.settings import ProviderSettings
from svc.accounts.openid.signing_in import AccountsOfApplication, SigningIn
from svc.auth.sessions import Sessions
from svc.auth.users import UserDirectory
from svc.mail.sealing import Seal
from svc.reactor import Reactor

CLOSE_SECONDS = 4 * SECONDS  # a login asks its provider for no more than four documents


@dataclass(frozen=True, slots=True)
class LoginParts:
    """What logins with providers work with. `local_path`: as of `ProviderEndpoint`."""

    directory: UserDirectory
    sessions: Sessions
    reactor: Reactor
    pages: LoginPages
    local_path: Callable[[object], str | None]


@dataclass(frozen=True, slots=True)
class ProviderOptions:
    """What an application says of providers, and what the cookies of its logins are sealed with (`open_seal`)."""

    providers: tuple[ProviderSettings, ...]
    seal: Seal


class ProviderLogins:
    """`endpoints`: address -> what answers there. `providers`: of the buttons, in the order of config.yaml. `identities`: who is linked to what."""

    def __init__(
        self,
        options: ProviderOptions,
        accounts: AccountsOfApplication,
        parts: LoginParts,
        make_fetch: Callable[[str, Reactor], Fetch] | None = None,
    ) -> None:
        """`make_fetch(provider, reactor)`: None is HTTP."""
        make_fetch = make_fetch or HttpFetch
        self._reactor = parts.reactor
        self._closing: asyncio.Task[None] | None = None
        self.providers = options.providers
        self.identities = Identities(parts.directory)
        self.endpoints: dict[str, ProviderEndpoint] = {}
        attempts = Attempts(parts.directory.store, parts.reactor.clock, options.seal)
        for settings in options.providers:
            provider = Provider(settings, make_fetch(settings.shown_name, parts.reactor), parts.reactor)
            people = SigningIn(settings, accounts, self.identities, parts.directory)
            endpoint = ProviderEndpoint(provider, people, attempts, parts.sessions, parts.pages, parts.local_path, accounts.settings.url)
            self.endpoints |= {settings.login_path: endpoint, settings.callback_path: endpoint}

    def close_soon(self) -> None:
        """They are not in effect any more: logins that are being finished are, then connections end."""
        self._reactor.loop.call_later(CLOSE_SECONDS, self._begin_close)

    def _begin_close(self) -> None:
        self._closing = self._reactor.loop.create_task(self.close())

    async def close(self) -> None:
        """What a provider is asked just now ends."""
        for endpoint in dict.fromkeys(self.endpoints.values()):
            await endpoint.provider.close()


def open_seal(keys: Path) -> Seal:
    """What the cookies of logins are sealed with; the key is made if there is none. Blocks. Raises OSError, ValueError."""
    return Seal.from_directory(keys, KEY_FILE)
