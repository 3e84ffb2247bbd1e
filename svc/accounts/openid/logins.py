"""The providers of one application while they are in effect: their endpoints, and the buttons of the login page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from svc.accounts.openid.attempts import KEY_FILE, Attempts
from svc.accounts.openid.endpoint import LoginPages, ProviderEndpoint
from svc.accounts.openid.fetching import Fetch, HttpFetch
from svc.accounts.openid.identities import Identities
from svc.accounts.openid.provider import Provider
from svc.accounts.openid.settings import ProviderSettings
from svc.accounts.openid.signing_in import AccountsOfApplication, SigningIn
from svc.auth.sessions import Sessions
from svc.auth.users import UserDirectory
from svc.mail.sealing import Seal
from svc.reactor import Reactor


@dataclass(frozen=True, slots=True)
class LoginParts:
    """What logins with providers work with. `keys`: the directory with the keys of the node. `local_path`: as of `ProviderEndpoint`."""

    directory: UserDirectory
    sessions: Sessions
    reactor: Reactor
    keys: Path
    pages: LoginPages
    local_path: Callable[[object], str | None]


class ProviderLogins:
    """`endpoints`: address -> what answers there. `providers`: of the buttons, in the order of config.yaml. `identities`: who is linked to what."""

    def __init__(
        self,
        providers: Sequence[ProviderSettings],
        accounts: AccountsOfApplication,
        parts: LoginParts,
        seal: Seal,
        make_fetch: Callable[[str, Reactor], Fetch] = HttpFetch,
    ) -> None:
        """`seal`: see `open_seal`."""
        self.providers = tuple(providers)
        self.identities = Identities(parts.directory)
        self.endpoints: dict[str, ProviderEndpoint] = {}
        attempts = Attempts(parts.directory.store, parts.reactor.clock, seal)
        for settings in providers:
            provider = Provider(settings, make_fetch(settings.shown_name, parts.reactor), parts.reactor)
            people = SigningIn(settings, accounts, self.identities, parts.directory)
            endpoint = ProviderEndpoint(provider, people, attempts, parts.sessions, parts.pages, parts.local_path, accounts.settings.url)
            self.endpoints |= {settings.login_path: endpoint, settings.callback_path: endpoint}

    async def close(self) -> None:
        """They are not in effect any more: what a provider is asked just now ends."""
        for endpoint in dict.fromkeys(self.endpoints.values()):
            await endpoint.provider.close()


def open_seal(keys: Path) -> Seal:
    """What the cookies of logins are sealed with; the key is made if there is none. Blocks. Raises OSError, ValueError."""
    return Seal.from_directory(keys, KEY_FILE)
