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
    from svc.root.lock import RootLock


def read_config(installation: Installation, arguments: Arguments) -> Config:
    """The configuration with the overrides of this call; nothing is written. Raises UsageError."""
    from svc.config.overrides import examine
    from svc.errors import ConfigError

    try:
        return examine(installation.root, environ=os.environ, options=arguments.options, file=installation.file).config
    except ConfigError as error:
        raise UsageError(f"svc config file validation error: {error}") from error


def update_config(installation: Installation, arguments: Arguments, *, dev: bool = False) -> Config:
    """The configuration with all overrides; whole objects of the environment are written into the file. Raises UsageError."""
    from svc.config import load_config
    from svc.errors import ConfigError

    try:
        return load_config(installation.root, environ=os.environ, options=arguments.options, dev=dev, file=installation.file)
    except ConfigError as error:
        raise UsageError(f"svc config file validation error: {error}") from error


def installed_root(installation: Installation, arguments: Arguments, *, keeps_options: bool = False) -> Installation:
    """The root, installed if it was not. `keeps_options`: the first configuration file has the options and variables of this call.

    Raises UsageError if a start with them would fail, WrongUser and ConfigError; then nothing has been made.
    """
    from svc.config.overrides import with_singles
    from svc.errors import ConfigError
    from svc.root.installation import check_user, first_document, install

    check_user(installation)
    if installation.installed:
        return installation
    document = first_document(installation.root, os.environ, arguments.options, installation.template)
    try:
        complete = with_singles(document, installation.root, os.environ, arguments.options)
    except ConfigError as error:
        raise UsageError(f"svc config file validation error: {error}") from error
    return install(installation, os.environ, arguments.options, complete if keeps_options else document)


@contextmanager
def locked_root(
    installation: Installation, arguments: Arguments, *, is_server: bool, dev: bool = False, keeps_options: bool = False, kept: int = -1
) -> Iterator[tuple[Config, RootLock]]:
    """The configuration of a root that is installed if it was not, has a system database or may get one, and is locked. `kept`: as of `RootLock`.

    Raises AlreadyRunning, WrongUser, ConfigError and UsageError.
    """
    from svc.root.installation import make_directories, require_database
    from svc.root.lock import RootLock

    installation = installed_root(installation, arguments, keeps_options=keeps_options)
    with RootLock(installation.root, is_server=is_server, kept=kept) as lock:
        config = update_config(installation, arguments, dev=dev)
        require_database(config)
        make_directories(installation.root, config)
        yield config, lock


def report_failed_start(error: Exception, terminal: Terminal) -> int:
    """Print why a root cannot be used. Returns the exit status."""
    from svc.root.lock import AlreadyRunning

    print(f"Error: {error}", file=terminal)
    if isinstance(error, AlreadyRunning):
        print("svc stop ends it; --ROOTPATH DIRECTORY starts one with a root of its own.", file=terminal)
        return RUNNING
    return FAILED
