"""`svc renew-certs`, `svc copy-db`, `svc upgrade` (spec: configuration §6.1)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from svc import __version__
from svc.cli.arguments import RUNNING, Arguments, UsageError, complete_installation, fail
from svc.cli.preparing import read_config, update_config

if TYPE_CHECKING:
    pass


def renew_certs(arguments: Arguments) -> int:
    """A new server certificate, signed by the authority of this installation; a running server takes it without a restart."""
    from svc.errors import Problem
    from svc.root.installation import WrongUser, check_user
    from svc.tls.certificates import renew_certificates

    arguments.no_words()
    installation = complete_installation(arguments)
    config = read_config(installation, arguments)
    try:
        check_user(installation)
        renew_certificates(installation.root, config.node_name, also=(config.node.hostname,))
    except (OSError, Problem, WrongUser) as error:
        return fail(error)
    print("Successfully renewed self-signed certificates")
    return 0


def copy_db(arguments: Arguments) -> int:
    """A compacted copy of a database in one file, consistent also while the server writes."""
    from svc.errors import Problem
    from svc.store.backup import copy_database

    if len(arguments.words) != 2:
        raise UsageError("svc copy-db needs the name of a database and a file: svc copy-db data copy.mdb")
    name, file = arguments.words[0], Path(arguments.words[1])
    if "/" in name or name in (".", ".."):
        raise UsageError(f'"{name}" is not a valid database name')
    config = read_config(complete_installation(arguments), arguments)
    path = config.database_path(name) / name
    if not (path / "data.mdb").is_file():
        return fail(f"database '{name}' does not exist")
    try:
        size = copy_database(path, file)
    except FileExistsError:
        return fail(f"{file} exists already")
    except Problem as error:
        return fail(error.message)
    except OSError as error:
        return fail(f"{file} cannot be written: {error.strerror}")
    print(f"{file}: {size} bytes")
    if any((directory / name).is_dir() and any((directory / name).iterdir()) for directory in config.storage.blob_paths):
        print("Note: the files of large blobs are not in the copy; svc create_backup takes them too.", file=sys.stderr)
    return 0


def upgrade(arguments: Arguments) -> int:
    """Only what a start does first with data of an older version."""
    from svc.clock import SYSTEM_CLOCK
    from svc.errors import ConfigError, Problem
    from svc.root.data_version import ensure_version
    from svc.root.installation import WrongUser, check_user, require_database
    from svc.root.lock import AlreadyRunning, RootLock
    from svc.store import Store

    arguments.no_words()
    installation = complete_installation(arguments)
    try:
        check_user(installation)
        with RootLock(installation.root, is_server=False):
            config = update_config(installation, arguments)
            require_database(config)
            store = Store(config.storage.path, node=config.node_name)
            try:
                before = ensure_version(store, SYSTEM_CLOCK)
            finally:
                store.close()
    except AlreadyRunning as error:
        fail(error)
        return RUNNING
    except (ConfigError, WrongUser, Problem) as error:
        return fail(error)
    print(f"The data is of svc {__version__}" + (f" now, it was of {before}." if before else " already."))
    return 0
