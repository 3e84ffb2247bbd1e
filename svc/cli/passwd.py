"""`svc passwd`: another password for a user of the server of this root, or the own one at another server (spec: configuration §6.1)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svc.cli.arguments import Arguments, UsageError
from svc.cli.client import AuthenticationRefused, Client, Unreachable
from svc.cli.credentials import SavedLogin, SavedLogins
from svc.cli.operation_arguments import OperationArguments, parse_value
from svc.cli.operations import local_client, remote_client
from svc.cli.output import printable, refuse
from svc.cli.secret_input import read_secret
from svc.cli.target import cli_environment, target_text

NO_TERMINAL = "svc passwd asks on a terminal; elsewhere password_file=FILE has the new password, where - is standard input"
NO_TERMINAL_CURRENT = "svc passwd asks for the current password on a terminal; elsewhere current_password_file=FILE has it"
_GIVEN = frozenset(
    (
        "target", "auth_username", "auth_password", "auth_password_file", "rejectUnauthorized", "password_file", "current_password_file",
    )
)  # fmt: skip


def passwd(arguments: Arguments) -> int:
    """Ask for a new password, and for the current one where the server does not know the caller by its socket; set it."""
    user, given = _words(arguments)
    environment = cli_environment(os.environ, Path.cwd())
    address = target_text(given.get("target"), environment)
    client = remote_client(address, arguments, _parameters(given), environment) if address else local_client(arguments)
    try:
        caller = _caller(client)
        name = user or caller
        body = {"operation": "alter_user", "username": name}
        if address and name == caller:
            body["current_password"] = _current_password(given)
        password = body["password"] = _new_password(name, given)
        answer = client.send(body)
        if answer.status != 200:
            return refuse(answer.error_text())
        answer.close()
        print(f"The password of {printable(name)} is changed. Other sessions and tokens of the user have ended.")
        if address and name == caller:
            _keep_login(client, name, password)
    except _RefusedByServer as refused:
        return refuse(str(refused))
    except (Unreachable, AuthenticationRefused) as error:
        return refuse(str(error))
    return 0


class _RefusedByServer(Exception):
    """The server refused; the message is its own."""


def _caller(client: Client) -> str:
    answer = client.send({"operation": "user_info"})
    if answer.status != 200:
        raise _RefusedByServer(answer.error_text())
    found = answer.value()
    if not isinstance(found, dict) or not isinstance(found.get("username"), str):
        raise _RefusedByServer("The server does not say who asks: is it the operations port of a server of this kind?")
    return str(found["username"])


def _keep_login(client: Client, username: str, password: str) -> None:
    """The tokens that `svc login` has kept for this user have ended: get others."""
    logins = SavedLogins.of_user(os.environ)
    known = logins.read().get(client.target.url)
    if known is None or known.username != username:
        return
    answer = client.send({"operation": "create_authentication_tokens", "username": username, "password": password}, "")
    if answer.status != 200:
        raise _RefusedByServer(f"The login at {client.target.url} could not be renewed: {answer.error_text()}")
    tokens = answer.value()
    logins.keep(client.target.url, SavedLogin(tokens["operation_token"], tokens["refresh_token"], username))


def _words(arguments: Arguments) -> tuple[str, dict[str, str]]:
    """The user, empty if none is named, and the `name=value` arguments."""
    user, given = "", {}
    for word in arguments.words:
        name, separator, value = word.partition("=")
        if separator and name in _GIVEN:
            given[name] = value
        elif name == "password":
            raise UsageError("A password on the command line can be read by others: use password_file=FILE, where - is standard input.")
        elif not user:
            user = word
        else:
            raise UsageError(f'The command "passwd" takes one user, "{word}" is too much.')
    return user, given


def _parameters(given: Mapping[str, str]) -> OperationArguments:
    parameters: dict[str, Any] = {name: parse_value(name, value) for name, value in given.items()}
    if "auth_password_file" in given:
        parameters["auth_password"] = read_secret("auth_password", given["auth_password_file"])
    return OperationArguments(parameters=parameters)


def _current_password(given: Mapping[str, str]) -> str:
    if "current_password_file" in given:
        return read_secret("current_password", given["current_password_file"])
    return _asked("Current password: ", NO_TERMINAL_CURRENT)


def _new_password(user: str, given: Mapping[str, str]) -> str:
    if "password_file" in given:
        return read_secret("password", given["password_file"])
    password = _asked(f"New password for {printable(user)}: ", NO_TERMINAL)
    if _asked("Once more: ", NO_TERMINAL) != password:
        raise UsageError("The two passwords differ; nothing was changed.")
    return password


def _asked(question: str, without_terminal: str) -> str:
    import getpass

    if not sys.stdin.isatty():
        raise UsageError(without_terminal)
    return getpass.getpass(question)
