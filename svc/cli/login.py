"""`svc login` and `svc logout`: tokens of other servers (spec: configuration §6.3)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from svc.cli.arguments import Arguments, UsageError
from svc.cli.client import Client, Unreachable
from svc.cli.credentials import SavedLogin, SavedLogins
from svc.cli.operation_arguments import parse_value
from svc.cli.output import refuse, warn
from svc.cli.secret_input import read_secret
from svc.cli.target import DOT_ENV, TARGET_VARIABLES, cli_environment, parse_target, read_dot_env, target_text

NO_TERMINAL = (
    "svc login needs a terminal to ask for missing values: svc login URL username=NAME password_file=FILE, where - is standard input"
)
_GIVEN = frozenset(
    ("username", "password", "password_file", "auth_username", "auth_password", "auth_password_file", "rejectUnauthorized", "target")
)


def login(arguments: Arguments) -> int:
    """Ask for address, user and password where they are not given, and keep the tokens that the server gives for them."""
    address, given = _words(arguments)
    environment = cli_environment(os.environ, Path.cwd())
    address = address or _asked_address(target_text(None, environment))
    verified = "insecure" not in arguments.flags and given.get("rejectUnauthorized") != "false"
    target = parse_target(address, verified=verified)
    if not verified and target.scheme == "https":
        warn(f"the certificate of {target.host} is not verified")
    username = given.get("username") or given.get("auth_username") or target.user or _asked("User: ")
    password = given.get("password") or given.get("auth_password") or _from_file(given) or target.password or _asked_password()
    body = {"operation": "create_authentication_tokens", "username": username, "password": password}
    try:
        answer = Client(target).send(body)
        if answer.status != 200:
            return refuse(answer.error_text())
        tokens = answer.value()
    except Unreachable as error:
        return refuse(str(error))
    if not isinstance(tokens, dict) or not all(isinstance(tokens.get(name), str) for name in ("operation_token", "refresh_token")):
        return refuse(f"{target.url} gave no tokens: is it the operations port of a server of this kind?")
    SavedLogins.of_user(os.environ).keep(target.url, SavedLogin(tokens["operation_token"], tokens["refresh_token"], username))
    print(f"Logged in at {target.url} as {username}.")
    if set_dot_env(Path.cwd(), TARGET_VARIABLES[0], target.url):
        print(f"{TARGET_VARIABLES[0]} is set in {DOT_ENV}: operations go there when they are called in this directory.")
    return 0


def logout(arguments: Arguments) -> int:
    """Forget the tokens of one server, or all."""
    address, _ = _words(arguments)
    logins = SavedLogins.of_user(os.environ)
    if not address:
        logins.remove_all()
        print("Logged out everywhere.")
        return 0
    url = parse_target(address).url
    known = logins.read()
    if url not in known:
        raise UsageError(f"Not logged in to {url}." + (f" There are logins to: {', '.join(known)}" if known else ""))
    del known[url]
    logins.write(known)
    print(f"Logged out at {url}.")
    return 0


def _words(arguments: Arguments) -> tuple[str, Mapping[str, str]]:
    """The address and the `name=value` arguments."""
    address, given = "", {}
    for word in arguments.words:
        name, separator, value = word.partition("=")
        if separator and name in _GIVEN:
            given[name] = str(parse_value("password", value))
        elif not address:
            address = word
        else:
            raise UsageError(f'The command "{arguments.command}" takes one address, "{word}" is too much.')
    return address or given.get("target", ""), given


def _from_file(given: Mapping[str, str]) -> str | None:
    file = given.get("password_file") or given.get("auth_password_file")
    return read_secret("password", file) if file else None


def _require_terminal() -> None:
    if not sys.stdin.isatty():
        raise UsageError(NO_TERMINAL)


def _asked(question: str) -> str:
    _require_terminal()
    while not (answer := input(question).strip()):
        pass
    return answer


def _asked_address(known: str) -> str:
    if not known:
        return _asked("Address (host, or https://host:port): ")
    if not sys.stdin.isatty():
        return known
    return input(f"Address [{known}]: ").strip() or known


def _asked_password() -> str:
    import getpass

    _require_terminal()
    return getpass.getpass("Password: ")


def set_dot_env(directory: Path, name: str, value: str) -> bool:
    """Set a variable in an existing `.env`, keeping its other lines. False if there is no such file, or it cannot be written."""
    file = directory / DOT_ENV
    if not file.is_file():
        return False
    if read_dot_env(directory).get(name) == value:
        return True
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if line.strip().removeprefix("export ").partition("=")[0].strip() != name]
        part = file.with_name(f"{DOT_ENV}.{os.getpid()}.part")
        part.write_text("".join(f"{line}\n" for line in [*kept, f"{name}={value}"]), encoding="utf-8")
        part.chmod(file.stat().st_mode & 0o777)
        part.replace(file)
    except (OSError, UnicodeDecodeError) as error:
        warn(f"{file} cannot be changed: {error}")
        return False
    return True
