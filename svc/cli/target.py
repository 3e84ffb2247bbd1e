"""Which server an operation is sent to: the local one, or what `target=` or SVC_CLI_TARGET names (spec: configuration §6.2, §6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from svc.cli.arguments import UsageError
from svc.cli.client import ServerAddress

if TYPE_CHECKING:
    from svc.root.location import Installation

OPERATIONS_PORT = 9925
TARGET_VARIABLES = ("SVC_CLI_TARGET", "CLI_TARGET")
DOT_ENV = ".env"

_DEFAULT_PORTS = {"http": 80, "https": 443}


def read_dot_env(directory: Path) -> dict[str, str]:
    """The variables in `.env` of a directory: `NAME=value` lines, also with `export` and quotes; empty if there is no such file."""
    try:
        lines = (directory / DOT_ENV).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found = {}
    for line in lines:
        name, separator, value = line.strip().removeprefix("export ").partition("=")
        if separator and not name.startswith("#"):
            found[name.strip()] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    if value[:1] in ("'", '"') and value.find(value[0], 1) > 0:
        return value[1 : value.index(value[0], 1)]
    return value.partition(" #")[0].rstrip()


def cli_environment(environ: Mapping[str, str], directory: Path) -> dict[str, str]:
    """The variables of the command line itself (`SVC_CLI_...`, `CLI_TARGET...`): from `.env`, the real environment wins."""
    both = {**read_dot_env(directory), **environ}
    return {name: value for name, value in both.items() if name.startswith(("SVC_CLI_", "CLI_TARGET")) and value}


def target_text(given: str | None, environment: Mapping[str, str]) -> str:
    """The address of this call, empty for the local server. `target=` without a value asks for the local one whatever the environment says."""
    if given is not None:
        return given.strip()
    return next((environment[name].strip() for name in TARGET_VARIABLES if name in environment), "")


def parse_target(text: str, *, verified: bool = True) -> ServerAddress:
    """An address -> ServerAddress. A bare host is `https` on port 9925; a URL keeps its scheme and the port that belongs to it. Raises UsageError.

    >>> parse_target("db.example").url, parse_target("http://localhost:9925/").url, parse_target("https://ann:x@db.example").url
    ('https://db.example:9925', 'http://localhost:9925', 'https://db.example:443')
    """
    bare = "://" not in text
    try:
        parts = urlsplit(f"https://{text}" if bare else text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f'target "{_without_password(text)}" is not a URL: {error}') from error
    if parts.scheme not in _DEFAULT_PORTS or not host or any(character.isspace() for character in text):
        raise UsageError(f'target "{_without_password(text)}" must be a host, or a URL that begins with https:// or http://')
    if port is None:
        port = OPERATIONS_PORT if bare else _DEFAULT_PORTS[parts.scheme]
    path = parts.path or "/"
    shown = f"[{host}]" if ":" in host else host
    return ServerAddress(
        url=f"{parts.scheme}://{shown}:{port}{path.rstrip('/')}",
        scheme=parts.scheme,
        host=host,
        port=port,
        path=path,
        verified=verified,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
    )


def _without_password(text: str) -> str:
    return text.rpartition("@")[2]


def local_target(installation: Installation, environ: Mapping[str, str]) -> ServerAddress | None:
    """The Unix socket of the server of a root, whether it runs or not; None if its configuration opens none. Raises ConfigError."""
    from svc.config.document import read_document
    from svc.config.relocation import relocated
    from svc.config.values import is_given, lookup
    from svc.root.known_roots import recorded_socket
    from svc.root.socket_path import socket_path

    name = ("operationsApi", "network", "domainSocket")
    document = relocated(read_document(installation.file), installation.root)
    stated = lookup(document, name)
    if stated is None and is_given(document, name):
        return None
    usual = socket_path(installation.root / Path(str(stated or "operations-server")).expanduser())
    return ServerAddress(socket=recorded_socket(environ, usual))
