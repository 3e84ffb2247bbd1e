"""The root of a hosted instance: found, installed if it was not, locked (spec: asgi §2.1, configuration §4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from svc.config import Config, load_config
from svc.root.installation import check_user, install, make_directories, require_database
from svc.root.location import find_installation
from svc.root.lock import RootLock
from svc.root.secrets import erase_secrets


@contextmanager
def locked_config(environ: Mapping[str, str], options: Mapping[str, str]) -> Iterator[Config]:
    """The configuration of the root, which is locked until the end. Raises AlreadyRunning, WrongUser, ConfigError."""
    erase_secrets()
    installation = find_installation(environ, options)
    check_user(installation)
    installation = install(installation, environ, options)
    with RootLock(installation.root):
        config = load_config(installation.root, environ=environ, options=options, file=installation.file)
        require_database(config)
        make_directories(installation.root, config)
        yield config
