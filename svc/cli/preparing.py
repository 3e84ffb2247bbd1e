"""The first steps of commands that work on a root directory: read the configuration, install, lock the root (spec: configuration §4)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from svc.cli.arguments import FAILED, RUNNING, Arguments, UsageError

if TYPE_CHECKING:
    from svc.config import Config
    from svc.root.administrator import Terminal
    from svc.root.location import Installation


def read_config(installation: Installation, arguments: Arguments) -> Config:
    """The configuration with the overrides of this call, which are not written. Raises UsageError."""
    from svc.config.overrides import examine
    from svc.errors import ConfigError

    try:
        return examine(installation.root, environ=os.environ, options=arguments.options, file=installation.file).config
    except ConfigError as error:
        raise UsageError(f"svc config file validation error: {error}") from error


def update_config(installation: Installation, arguments: Arguments, *, dev: bool = False) -> Config:
    """The configuration with all overrides, which are written into the file. Raises UsageError."""
    from svc.config import load_config
    from svc.errors import ConfigError

    try:
        return load_config(installation.root, environ=os.environ, options=arguments.options, dev=dev, file=installation.file)
    except ConfigError as error:
        raise UsageError(f"svc config file validation error: {error}") from error


@contextmanager
def locked_root(installation: Installation, arguments: Arguments, *, is_server: bool, dev: bool = False) -> Iterator[Config]:
    """The configuration of a root that is installed if it was not, has a system database or may get one, and is locked.

    Raises AlreadyRunning, WrongUser, ConfigError and UsageError.
    """
    from svc.root.installation import check_user, install, make_directories, require_database
    from svc.root.lock import RootLock

    check_user(installation)
    installation = install(installation, os.environ, arguments.options)
    with RootLock(installation.root, is_server=is_server):
        config = update_config(installation, arguments, dev=dev)
        require_database(config)
        make_directories(installation.root, config)
        yield config


def report_failed_start(error: Exception, terminal: Terminal) -> int:
    """Print why a root cannot be used. Returns the exit status."""
    from svc.root.lock import AlreadyRunning

    print(f"Error: {error}", file=terminal)
    return RUNNING if isinstance(error, AlreadyRunning) else FAILED
