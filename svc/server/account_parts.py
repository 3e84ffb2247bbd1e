"""What accounts of applications have of an instance (spec: rows §2). Imported when the first application has some."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from svc.accounts.directory import LIMIT_TOPIC
from svc.accounts.endpoint import AccountsApi, endpoints
from svc.accounts.forms import DIRECTORY, AccountForms
from svc.accounts.parts import AccountParts
from svc.accounts.settings import EMAIL
from svc.auth.token_keys import keys_directory
from svc.config import Config
from svc.http.bodies import Bodies
from svc.http.responses import ResponseBuilder
from svc.logs import Logger
from svc.pages import Pages
from svc.pages.pages import NAME_LABEL
from svc.pages.templates import Templates
from svc.reactor import Reactor
from svc.rest.login import LoginChoice, LoginEndpoint, local_path
from svc.server.accounts import Accounts as InstanceAccounts
from svc.siblings import Siblings
from svc.store import Store

if TYPE_CHECKING:
    from svc.accounts.directory import Accounts
    from svc.accounts.openid.logins import ProviderLogins
    from svc.mail.service import MailService


def make_account_parts(
    config: Config,
    store: Store,
    reactor: Reactor,
    instance: InstanceAccounts,
    siblings: Siblings,
    mail: MailService | None,
    logger: Logger,
) -> AccountParts:
    """`mail`: None where none is configured."""
    parts = AccountParts(
        store,
        instance.directory,
        instance.verifier,
        instance.sessions,
        reactor.clock,
        reactor.loop,
        reactor.executor,
        outbox=None if mail is None else mail.outbox,
        minimum_length=config.authentication.password_min_length,
        address=address_of(config),
        failure_delay=config.authentication.failure_delay,
        token_id=instance.tokens.token_id,
        identity=siblings.identity,
        is_alive=siblings.is_alive,
        tell=siblings.tell,
        warn=logger.warn,
        keys=keys_directory(config),
    )
    siblings.answer(LIMIT_TOPIC, partial(_hear, parts))
    siblings.on_left.append(partial(_left, parts))
    return parts


def _hear(parts: AccountParts, value: Any) -> None:
    if parts.current is not None:
        parts.current.hear(*value)


def _left(parts: AccountParts, identity: str) -> None:
    """Another process has ended, perhaps in the middle of a change."""
    if parts.current is not None:
        parts.start(parts.current.pairs.repair())


def address_of(config: Config) -> str:
    """What links begin with where the application does not say it: the address of this server in the network."""
    scheme, port = ("https", config.http.secure_port) if config.http.secure_port is not None else ("http", config.http.port)
    return f"{scheme}://{config.node.hostname}" if port is None else f"{scheme}://{config.node.hostname}:{port}"


def account_endpoints(
    accounts: Accounts, pages_directory: Any, reactor: Reactor, logins: ProviderLogins | None
) -> Callable[[Bodies, ResponseBuilder, Pages], dict[str, Any]]:
    """For `Rest.serve_accounts`. `pages_directory`: with templates of the application. `logins`: with providers, None: there are none."""

    def make(bodies: Bodies, responses: ResponseBuilder, pages: Pages) -> dict[str, Any]:
        api = AccountsApi(lambda: accounts.parts.current, bodies, responses, reactor.clock, failure_delay=accounts.parts.failure_delay)
        templates = Templates(reactor.clock.monotonic, reactor.executor, (pages_directory, DIRECTORY))
        api.forms = AccountForms(api, pages, templates)
        links = [("Sign up", "accounts")] if accounts.settings.sign_up else []
        if accounts.mails is not None and accounts.has_addresses:
            links.append(("Forgot your password?", "accounts/forgot"))
        pages.account_links = tuple(links)
        pages.name_label = "Email address" if accounts.settings.identity == EMAIL else NAME_LABEL
        found: dict[str, Any] = dict(endpoints(api))
        if logins is not None:
            from svc.accounts.openid.member_logins import MemberLogins
            from svc.accounts.openid.settings import LOGINS_PATH

            own = MemberLogins(logins.identities, logins.providers, accounts.parts.directory, bodies, responses, pages, templates)
            found |= {**logins.endpoints, LOGINS_PATH: own}
        return found

    return make


def provider_logins(accounts: Accounts, instance: InstanceAccounts, reactor: Reactor, pages: LoginEndpoint) -> ProviderLogins | None:
    """Logins with the providers of an application, which the login page then offers; None: it has none."""
    if accounts.providers is None:
        pages.choices = ()
        return None
    from svc.accounts.openid.logins import LoginParts, ProviderLogins

    logins = ProviderLogins(accounts.providers, accounts, LoginParts(instance.directory, instance.sessions, reactor, pages, local_path))
    accounts.forgetting.append(logins.identities.unlink_all)
    accounts.find_logins = logins.identities.of_user
    pages.choices = [LoginChoice(provider.login_path, provider.shown_name) for provider in logins.providers]
    return logins
