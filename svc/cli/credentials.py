"""Credentials for a remote server: the order of configuration §6.3, and the tokens that `svc login` keeps in `~/.svc/credentials.json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svc.cli.arguments import UsageError
from svc.cli.client import Answer, AuthenticationRefused, Client, ServerAddress, basic, bearer

CREDENTIALS_FILE = "credentials.json"

VARIABLES = (("SVC_CLI_USERNAME", "SVC_CLI_PASSWORD"), ("CLI_TARGET_USERNAME", "CLI_TARGET_PASSWORD"))
"""Name and password in the environment, today's names before the former ones."""

KEY_VARIABLE = "SVC_CLI_KEY"
"""An API key in the environment: it goes before names and passwords there."""

TOKEN_EXPIRED = "token expired"

Warn = Callable[[str], None]


@dataclass(frozen=True)
class SavedLogin:
    """The tokens that `svc login` saved for one address."""

    operation_token: str
    refresh_token: str
    username: str

    def __repr__(self) -> str:
        return f"SavedLogin({self.username!r})"  # no token


class SavedLogins:
    """The file of tokens: `{url: {operation_token, refresh_token, username}}`, readable for its owner only."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> SavedLogins:
        from svc.root.known_roots import boot_file

        return cls(boot_file(environ).with_name(CREDENTIALS_FILE))

    def read(self) -> dict[str, SavedLogin]:
        """All logins; unusable entries are left out. Raises UsageError for a file that cannot be read."""
        try:
            content = json.loads(self.file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise UsageError(f"{self.file} cannot be read ({error}); svc logout removes it") from error
        entries = content.items() if isinstance(content, dict) else ()
        return {url: login for url, entry in entries if (login := _login_of(entry)) is not None}

    def write(self, logins: Mapping[str, SavedLogin]) -> None:
        from svc.config.document import write_private

        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = {url: vars(login) for url, login in logins.items()}
        write_private(self.file, json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")

    def keep(self, url: str, login: SavedLogin) -> None:
        self.write({**self.read(), url: login})

    def remove_all(self) -> None:
        self.file.unlink(missing_ok=True)


def _login_of(entry: Any) -> SavedLogin | None:
    if not isinstance(entry, dict):
        return None
    operation, refresh, username = (entry.get(name) for name in ("operation_token", "refresh_token", "username"))
    if isinstance(operation, str) and isinstance(refresh, str) and isinstance(username, str):
        return SavedLogin(operation, refresh, username)
    return None


@dataclass(frozen=True)
class RequestCredentials:
    """Credentials of a request: the `Authorization` field, None without credentials. `login`: the saved login it comes from, which can be renewed."""

    authorization: str | None
    login: SavedLogin | None = None

    def __repr__(self) -> str:
        return f"RequestCredentials({self.login!r})"


def find_credentials(
    target: ServerAddress, parameters: Mapping[str, Any], environment: Mapping[str, str], logins: SavedLogins, warn: Warn
) -> RequestCredentials:
    """The first complete pair, or an API key; pairs are never mixed (spec: configuration §6.3). Raises UsageError for half a pair that was typed."""
    pair = _typed_pair(parameters.get("auth_username"), parameters.get("auth_password"), "auth_username and auth_password")
    pair = pair or _typed_pair(target.user, target.password, "user and password inside the URL")
    key = environment.get(KEY_VARIABLE, "").strip()
    if pair is None and key:
        return RequestCredentials(bearer(key))
    for names in VARIABLES:
        pair = pair or _variables(environment, names, warn)
    if pair is not None:
        return RequestCredentials(basic(*pair))
    login = logins.read().get(target.url)
    if login is not None:
        return RequestCredentials(bearer(login.operation_token), login)
    username, password = parameters.get("username"), parameters.get("password")
    if isinstance(username, str) and isinstance(password, str):
        return RequestCredentials(basic(username, password))
    return RequestCredentials(None)


def _typed_pair(user: Any, password: Any, what: str) -> tuple[str, str] | None:
    if not user and not password:
        return None
    if not user or not password:
        raise UsageError(f"{what} belong together, only one of them is given")
    return str(user), str(password)


def _variables(environment: Mapping[str, str], names: tuple[str, str], warn: Warn) -> tuple[str, str] | None:
    user, password = (environment.get(name) for name in names)
    if user and password:
        return user, password
    if user or password:
        warn(f"{names[0] if user else names[1]} is ignored, for {names[1] if user else names[0]} is missing")
    return None


class RemoteClient(Client):
    """A client that renews the saved token it works with when that has expired (spec: security §2), without a word."""

    def __init__(self, target: ServerAddress, credentials: RequestCredentials, logins: SavedLogins) -> None:
        super().__init__(target, credentials.authorization)
        self._login = credentials.login
        self._logins = logins

    def send(self, body: Mapping[str, Any], authorization: str | None = None) -> Answer:
        """As `Client.send`. Raises AuthenticationRefused too."""
        answer = super().send(body, authorization)
        if answer.status != 401 or self._login is None or authorization is not None:
            return answer
        text = answer.error_text()
        if text != TOKEN_EXPIRED and "invalid token" not in text:
            raise AuthenticationRefused(text)
        if not self._renew(self._login):
            raise AuthenticationRefused(f"the login at {self.target.url} has expired; svc login {self.target.url}")
        return super().send(body)

    def _renew(self, login: SavedLogin) -> bool:
        refresh = {"operation": "refresh_operation_token", "refresh_token": login.refresh_token}
        answer = super().send(refresh, "")
        if answer.status != 200:
            answer.close()
            return False
        token = answer.value().get("operation_token")
        if not isinstance(token, str):
            return False
        self._login = SavedLogin(token, login.refresh_token, login.username)
        self.authorization = bearer(token)
        self._logins.keep(self.target.url, self._login)
        return True
