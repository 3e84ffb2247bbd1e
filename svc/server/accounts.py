"""The users of an instance, and what checks who asks (spec: security §1 to §4, rows §2.7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from svc.auth.events import AuthEvents
from svc.auth.first_super_user import FirstSuperUser, ensure_first_super_user
from svc.auth.identify import Admission, Credentials, Identifier
from svc.auth.logins import LoginWatches
from svc.auth.origin_policy import OriginPolicy
from svc.auth.sessions import Sessions
from svc.auth.tickets import Tickets
from svc.auth.tokens import Tokens
from svc.auth.users import UserDirectory
from svc.auth.verifier import Verifier
from svc.config import Config
from svc.logs import Logger, Logs
from svc.reactor import Reactor
from svc.realtime.realtime import Realtime
from svc.root.administrator import PASSWORD_FILE, Administrator
from svc.root.installation import make_keys
from svc.store import Store
from svc.store.system import SYSTEM
from svc.tls.mtls import ClientCertificates

if TYPE_CHECKING:
    from svc.auth.api_keys import ApiKeys

NOBODY_GIVEN: Administrator = Administrator(None, None)


class Accounts:
    """`directory`: the users and roles. `origins`: of the pages that may use the application's ports."""

    def __init__(
        self,
        config: Config,
        store: Store,
        reactor: Reactor,
        logs: Logs,
        administrator: Administrator = NOBODY_GIVEN,
        on_first_super_user: Callable[[FirstSuperUser], None] | None = None,
    ) -> None:
        """`administrator`: the first super user, if one has to be created. `on_first_super_user`: called with it then."""
        self._config = config
        self._store = store
        self._reactor = reactor
        self._logger = logs.logger
        self._create_first_super_user(administrator, on_first_super_user)
        clock = reactor.clock
        self.directory = UserDirectory(store)
        self.verifier = Verifier(
            self.directory,
            cache_ttl=config.authentication.cache_ttl,
            clock=clock,
            hash_function=config.authentication.hash_function,
            failure_delay=config.authentication.failure_delay,
        )
        warning = make_keys(config, clock=clock)
        if warning is not None:
            self._logger.warn(warning)
        self.tokens = Tokens.from_config(config, self.directory, clock, executor=reactor.executor)
        reactor.executor.submit(self.tokens.make_keys)  # beside the rest of the start
        self.origins = self._application_origins()
        self.sessions = Sessions.from_config(
            config,
            store,
            self.directory,
            clock,
            verifier=self.verifier,
            executor=reactor.executor,
        )
        self.sessions.has_other_sites = self.origins.has_other_sites
        self.tickets = Tickets(self.directory, clock)
        self._keys: ApiKeys | None = None
        self._events = AuthEvents.from_config(config, logs, clock)
        self._logins: LoginWatches | None = None

    def _create_first_super_user(self, administrator: Administrator, on_created: Callable[[FirstSuperUser], None] | None) -> None:
        """Create one if the store has none."""
        settings = self._config.authentication
        created = ensure_first_super_user(
            self._store,
            administrator.username,
            administrator.password,
            password_file=self._config.root / PASSWORD_FILE,
            hash_function=settings.hash_function,
            min_length=settings.password_min_length,
        )
        if created is not None and on_created is not None:
            on_created(created)

    def watch_logins(self, realtime: Realtime) -> None:
        """From now on the streams of all ports end with what let their callers in."""
        feed, system = realtime.feed, self._store.databases[SYSTEM]
        self._logins = LoginWatches(
            self.directory, self._reactor.loop, self._reactor.clock, partial(feed.add, system), partial(feed.remove, system)
        )

    def close(self) -> None:
        if self._logins is not None:
            self._logins.close()

    def keys(self) -> ApiKeys:
        """What checks API keys. Few servers are ever shown one."""
        if self._keys is None:
            from svc.auth.api_keys import ApiKeys

            self._keys = ApiKeys(self.directory, self._reactor.clock)
        return self._keys

    # --- who asks --------------------------------------------------------------------------------------------------------------------

    def application_identifier(self, certificates: ClientCertificates | None) -> Identifier:
        """Of the application's ports. `certificates`: of the clients of TLS."""
        config = self._config
        return Identifier(
            self.directory,
            Credentials(self.verifier, self.tokens, self.sessions, self.tickets, certificates, self.keys),
            Admission(local=config.authentication.authorize_local, host_name=config.node.hostname),
            clock=self._reactor.clock,
            origins=self.origins,
            events=self._events,
            logins=self._logins,
        )

    def operations_identifier(self, certificates: ClientCertificates | None, origins: OriginPolicy) -> Identifier:
        """The same of the operations ports. `origins`: `operations_origins()`."""
        return Identifier(
            self.directory,
            Credentials(self.verifier, self.tokens, self.sessions, certificates=certificates, keys=self.keys),
            Admission(unix_socket=True, refresh_tokens=True),
            clock=self._reactor.clock,
            origins=origins,
            events=self._events,
            logins=self._logins,
        )

    def _application_origins(self) -> OriginPolicy:
        network = self._config.operations_api.network
        origins = OriginPolicy(
            self._config.http.cors_access_list,
            enabled=self._config.http.cors,
            page_ports={"http": network.port, "https": network.secure_port},
        )
        return _checked(origins, self._logger)

    def operations_origins(self) -> OriginPolicy:
        """The origins whose pages may use the operations ports."""
        network = self._config.operations_api.network
        origins = OriginPolicy(network.cors_access_list, enabled=network.cors, setting="operationsApi.network.corsAccessList")
        return _checked(origins, self._logger)


def _checked(origins: OriginPolicy, logger: Logger) -> OriginPolicy:
    for entry in origins.invalid:
        text = f"{origins.setting}: {entry!r} is not an origin such as https://shop.example or http://localhost:*, and lists nothing"
        logger.warn(text)
    return origins
